"""Whole language models as workloads: shapes, costs, bounds, and that a wrong operator is found."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import tk_kernels as tk
from baselines.models import sdpa
from harness import workloads
from harness.measure.verification import Check, check_outputs
from harness.records.errors import HarnessError
from harness.workloads._models import bound, decoder
from harness.workloads._models.text import pieces, text
from tk_kernels import implementations as ours
from tk_kernels import toolchain

GPT = {"L": 2, "H": 2, "D": 64, "V": 256, "B": 2, "T": 40, "steps": 2}
PROMPT = {"L": 2, "H": 4, "Hkv": 2, "D": 64, "F": 128, "V": 128, "B": 1, "N": 40, "bias": 1}
SMALL: dict[str, dict[str, Any]] = {"gpt_training": GPT, "prefill": PROMPT}
CLASSES = {"gpt_training": "GptTraining", "prefill": "Prefill"}


def problem(workload: str, **keys: Any) -> Any:
    return workloads.parse_problem(workload, SMALL[workload] | keys, dtype="bf16", direction="fwd")


@pytest.fixture(scope="module", params=sorted(SMALL))
def case(request: pytest.FixtureRequest) -> tuple[str, Any, dict[str, torch.Tensor], Any]:
    """A workload, a problem of it, inputs and their reference."""
    module, one = workloads.load(request.param), problem(request.param)
    inputs = module.make_inputs(one, torch.Generator().manual_seed(1), "normal")
    return request.param, one, inputs, module.reference(one, inputs, 0)


def check(case: tuple[str, Any, dict[str, torch.Tensor], Any], call: Any) -> Check:
    workload, one, inputs, expected = case
    return check_outputs(workloads.load(workload), one, call(), expected, inputs)


@pytest.mark.parametrize("workload", sorted(SMALL))
def test_all_layers_run_one_compiled_block(workload: str) -> None:
    """Guard: a whole model in one graph took minutes to compile, for each contestant and input set again."""
    module, one = workloads.load(workload), problem(workload, L=3)
    inputs = module.make_inputs(one, torch.Generator().manual_seed(1), "normal")
    counter = CompileCounterWithBackend("aot_eager")
    plain, compiled = (
        one.call_of(inputs, attend, rotate, part)
        for part in (decoder.as_it_is, lambda function: decoder.compiled(function, counter))
    )
    expected, got = plain(), compiled()
    assert counter.frame_count == 3  # before the blocks, a block, behind them
    assert all(torch.equal(first, second) for first, second in zip(expected, got, strict=True))


@pytest.mark.parametrize("who", ["tk", "sdpa"])
@pytest.mark.parametrize("workload", sorted(SMALL))
def test_a_contestants_model_is_compiled_once_for_all_input_sets(
    monkeypatch: pytest.MonkeyPatch, workload: str, who: str
) -> None:
    """Guard: it was for each set, and again in the audit. Another problem has a model of its own."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = decoder.compiled
    monkeypatch.setattr(decoder, "as_it_is", lambda function: compiled(function, counter))
    module, made = workloads.load(workload), getattr(ours if who == "tk" else sdpa, CLASSES[workload])
    frames, held = [], []
    for seed, keys in enumerate(({}, {}, {"L": 1})):
        one = problem(workload, **keys)
        inputs = module.make_inputs(one, torch.Generator().manual_seed(seed), "normal")
        call = made(**({} if who == "tk" else {"backend": "math"})).prepare(one, inputs)
        held.append((inputs, call, call()))
        frames.append(counter.frame_count)
    assert frames == [3, 3, 6]  # before the blocks, a block, behind them
    first, second = (outputs for _, _, outputs in held[:2])
    assert not torch.equal(first[0], second[0]), "each set is its own"


@pytest.mark.parametrize("who", ["tk", "sdpa"])
def test_ours_and_sdpa_are_right_and_repeat_themselves(case: Any, who: str) -> None:
    workload, one, inputs, _ = case
    made = getattr(ours, CLASSES[workload])() if who == "tk" else getattr(sdpa, CLASSES[workload])(backend="math")
    call = made.prepare(one, inputs)
    before = {name: tensor.clone() for name, tensor in inputs.items()}
    result = check(case, call)
    assert result.passed, result.reason
    assert all(torch.equal(inputs[name], tensor) for name, tensor in before.items())
    assert all(torch.equal(first, again) for first, again in zip(call(), call(), strict=True))


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return decoder.attend_plainly(q, k, v)


def all_see_all(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def other_scale(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return decoder.attend_plainly(1.1 * q, k, v)


def unturned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x


def turned_back(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return decoder.rotate_plainly(x, cos, -sin)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return decoder.rotate_plainly(x, cos, sin)


@pytest.mark.parametrize(
    ("attention", "rotary"),
    [(all_see_all, rotate), (other_scale, rotate), (attend, unturned)],
    ids=["no mask", "other scale", "no rotation"],
)
def test_a_wrong_operator_is_found(case: Any, attention: Any, rotary: Any) -> None:
    _, one, inputs, _ = case
    assert not check(case, one.bind(inputs, attend=attention, rotate=rotary)).passed


def test_angles_that_turn_back_are_the_same_to_attention_and_not_to_the_gradients() -> None:
    """Scores see differences of angles alone, so that outputs agree only where both signs do."""
    one = problem("gpt_training")
    module = workloads.load("gpt_training")
    inputs = module.make_inputs(one, torch.Generator().manual_seed(2), "normal")
    result = check_outputs(
        module, one, one.bind(inputs, attend=attend, rotate=turned_back)(), module.reference(one, inputs, 0), inputs
    )
    assert not result.passed


@pytest.mark.parametrize(("kept", "output"), [("q", "gradient_q"), ("k", "gradient_k"), ("v", "gradient_v")])
def test_a_backward_pass_that_forgets_a_gradient_is_found(kept: str, output: str) -> None:
    """The first loss is right: only gradients tell."""
    one, module = problem("gpt_training", steps=1), workloads.load("gpt_training")
    inputs = module.make_inputs(one, torch.Generator().manual_seed(3), "normal")

    def forgets(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        given = {"q": q, "k": k, "v": v}
        given[kept] = given[kept].detach()
        return decoder.attend_plainly(**given)

    result = check_outputs(
        module, one, one.bind(inputs, attend=forgets, rotate=rotate)(), module.reference(one, inputs, 0), inputs
    )
    assert not result.passed
    assert result.worst_output == output


def test_the_model_learns() -> None:
    one, module = problem("gpt_training", steps=4), workloads.load("gpt_training")
    inputs = module.make_inputs(one, torch.Generator().manual_seed(4), "normal")
    inputs["tokens"] = inputs["tokens"][:1].repeat(4, 1, 1)  # one batch, four times
    losses = one.bind(inputs, attend=attend, rotate=rotate)()[0]
    assert losses[0] < 6  # bytes drawn evenly have 5.5
    assert bool((losses.diff() < 0).all())


def test_the_definition_is_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of rows and of heads too."""
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, heads, 21, 8, dtype=torch.float64, generator=generator) for heads in (4, 2, 2))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    for scores in (2**28, 5 * 3 * 21, 2 * 21):  # all heads, 5 and 3 of them, one with fewer rows
        monkeypatch.setattr(decoder, "SCORES_AT_ONCE", scores)
        torch.testing.assert_close(decoder.attend_plainly(q, k, v), wanted)


def test_rotated_scores_depend_on_the_distance_alone() -> None:
    shape = problem("gpt_training").shape
    cos, sin = decoder.tables(shape, 9, torch.device("cpu"), torch.float64)
    x = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(6)).expand(1, 1, 9, 64)
    turned = decoder.rotate_plainly(x, cos, sin)[0, 0]
    scores = turned @ turned.T
    assert torch.allclose(scores.diagonal(3), scores[0, 3].expand(6))


@pytest.mark.parametrize(
    ("workload", "keys", "billions"),
    [
        ("gpt_training", {"L": 12, "H": 12, "D": 64, "V": 50304}, 0.124),
        ("gpt_training", {"L": 18, "H": 16, "D": 128, "V": 50304}, 1.0),
        ("prefill", {"L": 32, "H": 32, "Hkv": 8, "D": 128, "F": 14336, "V": 128256}, 8.03),
        ("prefill", {"L": 28, "H": 28, "Hkv": 4, "D": 128, "F": 18944, "V": 152064, "bias": 1}, 7.62),
    ],
    ids=["124M", "1B", "Llama-3.1-8B", "Qwen2.5-7B"],
)
def test_shapes_have_the_weights_of_their_names(workload: str, keys: dict[str, int], billions: float) -> None:
    shape = problem(workload, **keys).shape
    assert sum(map(math.prod, shape.matrices.values())) / 1e9 == pytest.approx(billions, rel=0.01)


def test_costs_are_the_formulas() -> None:
    """Counted by hand: 4 matrices a layer, twelve times the width squared, and the head."""
    gpt, module = problem("gpt_training"), workloads.load("gpt_training")
    weights = 2 * 12 * 128**2 + 256 * 128
    assert module.flops(gpt) == 6 * weights * 2 * 2 * 40 + 2 * 2 * 7 * 2 * 2 * 40**2 * 64
    assert module.traffic(gpt).read == 4 * weights + 8 * 2 * 2 * 41
    prompt, module = problem("prefill"), workloads.load("prefill")
    blocks = 2 * (256 * 512 + 256 * 256 + 3 * 256 * 128)
    assert module.flops(prompt) == 2 * blocks * 40 + 2 * 128 * 256 + 2 * 2 * 4 * 40**2 * 64


def test_text_is_pieces_of_the_standard_library() -> None:
    generator = torch.Generator().manual_seed(7)
    rows = pieces(text(), 3, 50, generator)
    whole = text().tobytes()
    assert rows.shape == (3, 50)
    assert all(bytes(row.tolist()) in whole for row in rows)
    with pytest.raises(ValueError, match="text: got 5 bytes, needs 6"):
        pieces(text()[:5], 1, 6, generator)


def test_bounds_are_twice_what_was_measured() -> None:
    exact = torch.full((4,), 2.0, dtype=torch.float64)
    part = bound.bounded("out", exact, torch.tensor([2.0, 2.0, 2.0, 2.5]))
    assert part.rel_l2 == 0.125
    assert bound.tolerance(part).rel_l2 == 0.25
    assert bound.tolerance(part).max_abs == 2.0
    assert bound.tolerance(bound.bounded("out", exact, exact, least=0.01)).rel_l2 == 0.01


@pytest.mark.parametrize(
    ("workload", "keys", "words"),
    [
        ("gpt_training", {"V": 100}, "V is 100, needs 256 at least"),
        ("gpt_training", {"D": 63}, "D is 63, needs a multiple of 2"),
        ("prefill", {"Hkv": 3}, "H is 4, needs a multiple of Hkv, 3"),
        ("prefill", {"D": 63}, "D is 63, needs a multiple of 2"),
    ],
)
def test_problems_that_are_none_are_refused(workload: str, keys: dict[str, int], words: str) -> None:
    with pytest.raises(HarnessError, match=words):
        problem(workload, **keys)


def test_ours_names_both_kernels_and_refuses_other_heads() -> None:
    made = ours.GptTraining()
    patterns = made.kernel_names(problem("gpt_training"))
    assert [pattern.rpartition(".*")[2] for pattern in patterns] == ["attention", "rotary"]
    assert "not 32" in (made.supports(problem("gpt_training", D=32), "cpu") or "")


@pytest.mark.parametrize(
    ("workload", "target", "folders"),
    [
        ("gpt_training", "cpu", ["attention", "rotary"]),
        ("gpt_training", "sm_90a", ["attention", "rotary"]),
        ("gpt_training", "sm_80", ["attention_warps", "attention_warps_backward", "rotary"]),
        ("prefill", "sm_90a", ["attention", "rotary"]),
        ("prefill", "sm_80", ["attention_warps", "rotary"]),
    ],
)
def test_ours_loads_and_needs_the_kernels_of_its_passes(
    monkeypatch: pytest.MonkeyPatch, workload: str, target: str, folders: list[str]
) -> None:
    """Training has both passes, which have a folder each where there is no copy engine."""
    one, made, loaded = problem(workload), getattr(ours, CLASSES[workload])(), []
    monkeypatch.setattr(toolchain, "load", lambda name, on: loaded.append((name, on)))
    monkeypatch.setattr(made, "_on", lambda device: target)
    monkeypatch.setattr(type(one), "bind", lambda *_, **__: lambda: None)
    made.prepare(one, {"x": torch.zeros(1)})
    assert list(dict.fromkeys(loaded)) == [(name, target) for name in folders]
    for missing in folders:
        monkeypatch.setattr(toolchain, "obstacle", lambda name, on, it=missing: f"no {it}" if name == it else None)
        assert made.supports(one, "cuda") == f"no {missing}"
    monkeypatch.setattr(toolchain, "obstacle", lambda name, on: None)
    assert made.supports(one, "cuda") is None


def test_flash_attention_is_called_by_its_own_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: under torch.compile SDPA forgot which backend was asked for."""
    given: dict[str, Any] = {}
    one = problem("prefill")
    monkeypatch.setattr(type(one), "bind", lambda _, inputs, **operators: given.update(operators) or (lambda: None))
    graphs: list[list[str]] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return graph.forward

    for backend in ("flash", "cudnn"):
        sdpa.Prefill(backend=backend).prepare(one, {})
        torch._dynamo.reset()
        q, k = (torch.empty(1, heads, 40, 64, dtype=torch.bfloat16, device="meta") for heads in (4, 2))
        out = torch.compile(given["attend"], backend=keep, fullgraph=True)(q, k, k)
        assert out.shape == q.shape
    assert any("_scaled_dot_product_flash_attention" in name for name in graphs[0])
    assert not any("_scaled_dot_product_flash_attention" in name for name in graphs[1])


def test_ours_calls_both_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: a model that attends with something else would pass as ours."""
    from tk_kernels.implementations import models

    seen = []
    monkeypatch.setattr(models, "attention", lambda *t, **o: (seen.append("attention"), tk.attention(*t, **o))[1])
    monkeypatch.setattr(models, "rotary", lambda *t: (seen.append("rotary"), tk.rotary(*t))[1])
    one, module = problem("prefill", L=1), workloads.load("prefill")
    inputs = module.make_inputs(one, torch.Generator().manual_seed(8), "normal")
    ours.Prefill().prepare(one, inputs)()
    assert seen == ["rotary", "rotary", "attention"]
