"""A token of a Llama as a workload: its costs and bounds, who is right, and that what is wrong is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from baselines.common.compiled import compile_alone
from baselines.models import llama
from harness import workloads
from harness.measure.verification import Check, check_outputs
from harness.records.errors import HarnessError
from harness.workloads import llama_decode
from tk_kernels.implementations import LlamaDecode

TINY = {"L": 3, "W": 256, "H": 8, "Hkv": 2, "D": 64, "F": 384, "V": 512, "B": 1, "position": 160}
LLAMA_1B = {"L": 16, "W": 2048, "H": 32, "Hkv": 8, "D": 64, "F": 8192, "V": 128256, "B": 1, "position": 160}
QWEN = {"H": 4, "D": 128, "B": 2, "position": 33, "bias": 1, "head_norms": 1, "L": 2}


def problem(**keys: Any) -> Any:
    return workloads.parse_problem("llama_decode", TINY | keys, dtype="bf16", direction="fwd")


def drawn(one: Any, seed: int = 1) -> dict[str, Tensor]:
    return llama_decode.make_inputs(one, torch.Generator().manual_seed(seed), "normal")


def check(one: Any, outputs: Any, inputs: dict[str, Tensor], expected: Any, ours: bool) -> Check:
    return check_outputs(workloads.load("llama_decode"), one, outputs, expected, inputs, ours=ours)


@pytest.fixture(scope="module")
def case() -> tuple[Any, dict[str, Tensor], Any]:
    one = problem()
    inputs = drawn(one)
    return one, inputs, llama_decode.reference(one, inputs, 0)


def test_costs_are_those_of_the_models_sheet() -> None:
    """Llama-3.2-1B: 121.63 MB a layer, 525.34 MB of the head, and 32 KB of keys and values a position."""
    one = problem(**LLAMA_1B)
    read = llama_decode.traffic(one).read
    weights = 16 * 121_634_816 + 2 * 128256 * 2048 + 33 * 2 * 2048
    assert read == weights + 160 * 32768 + 2 * 2048 + 4 * 64 + 8
    assert llama_decode.traffic(one).written == 4 * 128256 + 32768
    assert llama_decode.flops(one) == weights - 33 * 2 * 2048 + 16 * 4 * 32 * 64 * 161
    eight = problem(**LLAMA_1B | {"B": 8})
    assert llama_decode.traffic(eight).read - read == 7 * (160 * 32768 + 2 * 2048 + 4 * 64 + 8)
    assert llama_decode.flops(eight) == 8 * llama_decode.flops(one)


@pytest.mark.parametrize("keys", [{}, QWEN], ids=["llama", "qwen"])
@pytest.mark.parametrize("who", [LlamaDecode, llama.LlamaDecode], ids=["tk", "torch"])
def test_ours_and_torch_are_right_repeat_themselves_and_follow_the_tokens(who: Any, keys: dict[str, Any]) -> None:
    one = problem(**keys)
    inputs = drawn(one)
    before = {name: tensor.clone() for name, tensor in inputs.items()}
    call = who().prepare(one, inputs)
    first = [output.clone() for output in call()]
    result = check(one, first, inputs, llama_decode.reference(one, inputs, 0), who is LlamaDecode)
    assert result.passed, result.reason
    assert all(torch.equal(inputs[name], tensor) for name, tensor in before.items())
    for output in (again := call()):
        output.fill_(torch.nan)
    assert all(torch.equal(left, right) for left, right in zip(first, call(), strict=True))
    assert llama_decode.followed(one) == ("tokens",)
    inputs["tokens"].copy_((inputs["tokens"] + 1) % one.V)
    other = check(one, call(), inputs, llama_decode.reference(one, inputs, 0), who is LlamaDecode)
    assert other.passed, other.reason
    assert not torch.equal(first[0], again[0])


def test_inputs_of_one_seed_are_the_same_and_each_key_is_large_somewhere() -> None:
    """Guard: of needles that were drawn twice a GPU took either, so that input sets had different caches."""
    one = problem(position=130, L=16, Hkv=8)
    first, again = drawn(one), drawn(one)
    assert all(torch.equal(first[name], tensor) for name, tensor in again.items())
    large = first["v_cache"].float().square().mean(-1).sqrt() > 10
    assert bool(large.flatten(0, 2).any(0)[[0, 63, 64, 127, 128, 129]].all())
    assert 2 <= int(large.sum(-1).min()) <= int(large.sum(-1).max()) <= 5


def changed(name: str, change: Callable[[Tensor], object]) -> Callable[[dict[str, Tensor]], None]:
    def apply(inputs: dict[str, Tensor]) -> None:
        inputs[name] = inputs[name].clone()
        change(inputs[name])

    return apply


def lost(*keys: int) -> Callable[[dict[str, Tensor]], None]:
    """A softmax without these keys."""

    def apply(inputs: dict[str, Tensor]) -> None:
        kept = [key for key in range(inputs["k_cache"].shape[3]) if key not in keys]
        inputs.update({name: inputs[name][:, :, :, kept] for name in ("k_cache", "v_cache")})

    return apply


WRONG = {
    "the newest key before is lost": lost(159),
    "the first key is lost": lost(0),
    "a tile of keys is lost": lost(*range(64, 128)),
    "cosines are 1 % too large": changed("cos", lambda cos: cos.mul_(1.01)),
    "angles of the position before": changed("cos", lambda cos: cos.copy_(cos.roll(1, 0))),
    "a norm has no weights": changed("norms", lambda norms: norms[3].fill_(1)),
    "columns of a projection are lost": changed("qkv", lambda qkv: qkv[1, :, -64:].zero_()),
    "values are 1 % too large": changed("qkv", lambda qkv: qkv[0, -128:].mul_(1.01)),
    "columns of the output projection are lost": changed("out", lambda out: out[1, :, -64:].zero_()),
    "columns of up are lost": changed("up", lambda up: up[1, :, -64:].zero_()),
    "a row block of down is lost": changed("down", lambda down: down[1, 32:48].zero_()),
    "a row of the head is lost": changed("head", lambda head: head[7].zero_()),
    "logits are 1 % too large": changed("head", lambda head: head.mul_(1.01)),
}


@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_what_is_wrong_in_one_layer_is_found(case: tuple[Any, dict[str, Tensor], Any], wrong: str | None) -> None:
    one, inputs, expected = case
    given = dict(inputs)
    if wrong:
        WRONG[wrong](given)
    logits, *appended = llama_decode.step(one, given, torch.bfloat16, torch.float32)
    result = check(one, (logits.float(), *appended), inputs, expected, ours=True)
    assert result.passed is (wrong is None), result.reason


@pytest.mark.parametrize("position", [33, 160, 2048])
def test_a_token_that_does_not_see_itself_is_found(position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: among thousands of keys with equal scores one is lost in the rounding."""
    one = problem(L=2, position=position)
    inputs = drawn(one)
    expected, softmax = llama_decode.reference(one, inputs, 0), Tensor.softmax

    def blind(scores: Tensor, dim: int) -> Tensor:
        scores[..., -1] = -torch.inf
        return softmax(scores, dim)

    monkeypatch.setattr(Tensor, "softmax", blind)
    logits, *appended = llama_decode.step(one, inputs, torch.bfloat16, torch.float32)
    assert not check(one, (logits.float(), *appended), inputs, expected, ours=False).passed


def test_all_layers_and_input_sets_run_what_was_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(llama, "compile_alone", lambda f, name, **_: compile_alone(f, name, backend=counter))
    one, plain = problem(L=4, W=64, H=2, Hkv=1, F=64, V=64, position=5), llama.LlamaDecode()
    for seed, frames in ((1, 3), (2, 3)):
        inputs = drawn(one, seed)
        outputs = llama.LlamaDecode(compiled="descent").prepare(one, inputs)()
        assert counter.frame_count == frames  # before the first attention, between two, behind the last
        expected = plain.prepare(one, inputs)()
        assert all(torch.equal(left, right) for left, right in zip(outputs, expected, strict=True))
    llama.LlamaDecode(compiled=1).prepare(one, inputs)
    assert counter.frame_count == 6


def test_inductor_takes_the_settings_of_each_form() -> None:
    assert [made.mode for made in (llama.LlamaDecode(compiled=form) for form in llama.TUNED)] == [
        None, "max-autotune-no-cudagraphs", "default with coordinate descent",
    ]  # fmt: skip
    known = torch._inductor.list_options()  # type: ignore[no-untyped-call]
    assert all(option in known for _, own in llama.TUNED.values() for option in own.get("options", {}))


def test_problems_that_are_none_are_refused() -> None:
    for keys, words in (({"Hkv": 3}, "H is 8, needs a multiple of Hkv, 3"), ({"D": 63}, "D is 63, needs a multiple")):
        with pytest.raises(HarnessError, match=words):
            problem(**keys)
    with pytest.raises(ValueError, match="distribution: got 'zeros'"):
        llama_decode.make_inputs(problem(), torch.Generator(), "zeros")


def test_ours_refuses_in_words_what_no_kernel_takes() -> None:
    made = LlamaDecode()
    for keys, words in (
        ({"D": 96}, "tk llama_decode takes head dims 64 and 128, not 96"),
        ({"W": 520}, "tk llama_decode takes widths of multiples of 64 up to 4096, not 520"),
        ({"V": 1000}, "takes vocabularies of multiples of 16 up to"),
        ({"H": 18}, "tk llama_decode takes up to 8 query heads a key head, not 9"),
        ({"B": 9}, "tk llama_decode takes a batch of up to 8 at a width of 256, not 9"),
        ({"W": 4096, "B": 5}, "tk llama_decode takes a batch of up to 4 at a width of 4096, not 5"),
    ):
        assert words in (made.supports(problem(**keys), "cpu") or "")
    with pytest.raises(TypeError, match="got the option 'pages'"):
        LlamaDecode(pages=4)
