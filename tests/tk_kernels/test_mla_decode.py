"""tk.mla_decode against float64, with memory that no token sees poisoned, and as a citizen of PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from operator_examples import Example, bf16
from torch import Tensor

import tk_kernels as tk
from harness import workloads
from harness.verification import check_outputs
from tests.baselines.problems import small

WORKLOAD = workloads.load("mla_decode")
WIDTH = 576


def short_call(q: Tensor, kv_cache: Tensor) -> Tensor:
    """One sequence of 20 keys in two pages of 16."""
    table, lengths = (torch.tensor(ints, dtype=torch.int32, device=q.device) for ints in ([[1, 0]], [20]))
    result = tk.mla_decode(q, kv_cache, table, lengths)
    assert isinstance(result, Tensor)
    return result


EXAMPLES: dict[str, Example] = {
    "mla_decode": Example(
        short_call, lambda: {"q": bf16(1, 2, 4, WIDTH), "kv_cache": bf16(2, 16, WIDTH)}, copied=("q",)
    ),
}


def problem(lengths: str, Q: int, H: int, page: int) -> Any:
    return small("mla_decode", B=len(lengths.split("+")), lengths=lengths, Q=Q, H=H, page=page)


def poisoned(one: Any, device: str, seed: int = 0) -> dict[str, Tensor]:
    """Inputs with NaN in unused pages and tails of pages, and wild table entries behind the end."""
    inputs = WORKLOAD.make_inputs(one, torch.Generator().manual_seed(seed), "poisoned")
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def plan_for(one: Any, device: str, **options: Any) -> tk.DecodePlan:
    return tk.decode_plan(one.seqlens, new_tokens=one.Q, heads=one.H, kv_heads=1, kind="mla", device=device, **options)


def assert_right(one: Any, inputs: dict[str, Tensor], plan: tk.DecodePlan | None, seed: int = 0) -> None:
    """out as the workload judges it, lse within 1e-4 of float64's, and the same bits again."""
    out, lse = tk.mla_decode(*inputs.values(), plan=plan, return_lse=True)
    check = check_outputs(WORKLOAD, one, out, WORKLOAD.reference(one, inputs, seed), inputs)
    assert check.passed, check.reason
    for sequence, length in enumerate(one.seqlens):
        pages = inputs["block_table"][sequence, : -(-length // one.page)].long()
        keys = inputs["kv_cache"][pages].reshape(-1, WIDTH)[:length].double()
        scores = torch.einsum("rhd,kd->hrk", inputs["q"][sequence].double(), keys) * one.scale
        seen = torch.arange(length)[None] < length - (one.Q - 1) + torch.arange(one.Q)[:, None]
        wanted = torch.logsumexp(scores.masked_fill(~seen.to(scores.device), -math.inf), -1)
        torch.testing.assert_close(lse[sequence].double(), wanted, rtol=0, atol=1e-4)
    again = tk.mla_decode(*inputs.values(), plan=plan, return_lse=True)
    assert torch.equal(out, again[0])
    assert torch.equal(lse, again[1])


@pytest.mark.parametrize("schedule", ["makespan", "static"])
@pytest.mark.parametrize(
    ("lengths", "Q", "H", "page"),
    [
        ("0+1+2", 2, 16, 16),
        ("33+31+32+65", 4, 16, 16),
        ("5+130+64", 2, 4, 64),
        ("1000", 1, 16, 64),
        ("700+0+65", 1, 8, 32),
        ("200+97", 3, 5, 128),
        ("300+17", 4, 128, 256),
        ("700", 17, 16, 64),
    ],
)
def test_every_shape(lengths: str, Q: int, H: int, page: int, schedule: str, device: str) -> None:
    one = problem(lengths, Q, H, page)
    assert_right(one, poisoned(one, device), plan_for(one, device, schedule=schedule))


@pytest.mark.parametrize("seed", range(4))
def test_every_order_of_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows of a long sequence: pieces of all blocks, each row reduced by several warps."""
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    one = problem("450+3", 1, 2, 16)
    assert_right(one, poisoned(one, "cpu", seed), plan_for(one, "cpu"))


def test_scores_of_every_size(device: str) -> None:
    """Maxima that move late, and a scale of zero, which weighs all keys alike."""
    one = problem("150", 2, 4, 64)
    inputs = poisoned(one, device)
    inputs["q"] *= 30
    assert_right(one, inputs, None)
    out = tk.mla_decode(*inputs.values(), scale=0)
    pages = inputs["block_table"][0, :3].long()
    latent = inputs["kv_cache"][pages].reshape(-1, WIDTH)[:, :512].double()
    wanted = torch.stack([latent[:149].mean(0), latent[:150].mean(0)])[None, :, None].expand(1, 2, 4, 512)
    torch.testing.assert_close(out.double(), wanted, rtol=2**-7, atol=1e-3)


def test_a_plan_is_refilled_and_a_cache_may_be_strided(device: str) -> None:
    one, other = problem("100+7", 1, 4, 16), problem("3+260", 1, 4, 16)
    plan = plan_for(one, device)
    assert_right(one, poisoned(one, device), plan)
    inputs = poisoned(other, device)
    wide = torch.full((*inputs["kv_cache"].shape[:2], 640), math.nan, dtype=torch.bfloat16, device=device)
    wide[..., :WIDTH] = inputs["kv_cache"]
    inputs["kv_cache"] = wide[..., :WIDTH]
    assert_right(other, inputs, plan.refill(other.seqlens))
    with pytest.raises(ValueError, match=r"plan: is for \w+ "):
        tk.mla_decode(*poisoned(problem("3+260", 1, 8, 16), device).values(), plan=plan)


def test_the_operator_is_one_of_pytorchs() -> None:
    one = problem("20+40", 1, 4, 16)
    inputs, plan = poisoned(one, "cpu"), plan_for(one, "cpu")
    sizes = (plan.blocks, plan.capacity, plan.counters, plan.slots, plan.rows_per_tile)
    torch.library.opcheck(
        torch.ops.tk_kernels.mla_decode.default,
        (*list(inputs.values())[:3], plan.buffer, plan.words, *sizes, one.scale, True),
    )
    assert not plan.words.any()


def test_it_compiles_as_a_whole() -> None:
    one = problem("20+40", 1, 4, 16)
    inputs, plan = poisoned(one, "cpu"), plan_for(one, "cpu")
    call = torch.compile(lambda *tensors: tk.mla_decode(*tensors, plan=plan), backend="eager", fullgraph=True)
    assert torch.equal(call(*inputs.values()), tk.mla_decode(*inputs.values(), plan=plan))


WRONG = [
    ({"q": bf16(2, 1, 4, 512)}, "q: got rows of 512 numbers, needs 576, 512 latent and 64 rotary ones"),
    ({"q": torch.zeros(2, 1, 4, WIDTH)}, "q: got .*float32"),
    ({"kv_cache": bf16(4, 16, 512)}, "kv_cache: got shape"),
    ({"kv_cache": bf16(4, 24, WIDTH)}, "kv_cache: got pages of 24 keys, needs 16 or a multiple of 32"),
    ({"kv_cache": bf16(4, 16, 1, WIDTH)}, "kv_cache: got rank 4, needs rank 3"),
    ({"block_table": torch.zeros(2, 2, dtype=torch.int64)}, "block_table: got .*int64"),
    ({"block_table": torch.zeros(3, 2, dtype=torch.int32)}, "block_table: got shape"),
    ({"seqlens": torch.tensor([20, 33], dtype=torch.int32)}, "block_table: has 2 pages of 16 keys a sequence"),
    ({"seqlens": torch.tensor([20, -1], dtype=torch.int32)}, "seqlens: sequence 1 has -1 keys, needs 0 to"),
    ({"scale": -1.0}, "scale: got -1.0, needs a finite number of at least 0"),
    ({"scale": math.inf}, "scale: got inf, needs a finite number of at least 0"),
    ({"plan": 3}, "plan: got a int, needs what tk.decode_plan returns"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_named(number: int) -> None:
    different, words = WRONG[number]
    given: dict[str, Any] = {
        "q": bf16(2, 1, 4, WIDTH),
        "kv_cache": bf16(4, 16, WIDTH),
        "block_table": torch.zeros(2, 2, dtype=torch.int32),
        "seqlens": torch.tensor([20, 30], dtype=torch.int32),
    }
    with pytest.raises(ValueError, match=f"^{words}"):
        tk.mla_decode(**{**given, **different})


@pytest.mark.parametrize("options", [{"schedule": "last"}, {"kind": "gqa"}], ids=["last", "gqa"])
def test_plans_of_other_kernels_are_refused(options: dict[str, str]) -> None:
    one = problem("20+40", 1, 4, 16)
    given = {"kind": "mla", **options}
    plan = tk.decode_plan(one.seqlens, new_tokens=1, heads=4, kv_heads=1, device="cpu", **given)
    with pytest.raises(ValueError, match="^plan: "):
        tk.mla_decode(*poisoned(one, "cpu").values(), plan=plan)


@pytest.mark.gpu
def test_a_graph_replays_with_other_lengths() -> None:
    one, other = problem("1000+7", 2, 16, 64), problem("90+870", 2, 16, 64)
    first, second = poisoned(one, "cuda"), poisoned(other, "cuda", 1)
    width = max(inputs["block_table"].shape[1] for inputs in (first, second))
    pages = max(inputs["kv_cache"].shape[0] for inputs in (first, second))
    table = torch.zeros(2, width, dtype=torch.int32, device="cuda")
    cache = torch.full((pages, 64, WIDTH), math.nan, dtype=torch.bfloat16, device="cuda")
    q, lengths, plan = torch.zeros_like(first["q"]), first["seqlens"].clone(), plan_for(one, "cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = tk.mla_decode(q, cache, table, lengths, plan=plan)
    for which, inputs in ((one, first), (other, second), (one, first)):
        q.copy_(inputs["q"])
        cache[: len(inputs["kv_cache"])] = inputs["kv_cache"]
        table[:, : inputs["block_table"].shape[1]] = inputs["block_table"]
        plan.refill(which.seqlens)
        graph.replay()
        assert torch.equal(out, tk.mla_decode(*inputs.values(), plan=plan))
