"""Tensors that are not what a kernel reads: batched by vmap, fake, with a pending minus sign, or none at all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from operator_examples import bf16, e4m3, examples, sequences
from torch._subclasses.fake_tensor import FakeTensorMode

import tk_kernels as tk

EXAMPLES = examples()
VMAPPED = [name for name in EXAMPLES if name not in ("gemm_fp8", "mla_decode", "paged_attention_decode")]
"""A batch of transposed matrices has to be made as one, and lengths have to be known for a plan; see below, and
test_paged_decode.py."""


def first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", VMAPPED)
def test_vmap_is_a_launch_for_each(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Guard: operators with a list of results had no rule, and the others asked to file an issue with PyTorch."""
    function = EXAMPLES[name]
    calls = [function.make(), function.make()]
    batched = [torch.stack(pair) for pair in zip(*calls, strict=True)]
    result = first(torch.func.vmap(function)(*batched))
    for number, operands in enumerate(calls):
        assert torch.equal(result[number], first(function(*operands)))
    assert "batching rule" not in capfd.readouterr().err


def test_vmap_over_a_part_of_the_operands() -> None:
    a, weights, one = bf16(64, 64), e4m3(3, 64, 64), torch.ones(())
    results = torch.func.vmap(tk.gemm, in_dims=(None, 2))(a, torch.stack([a, 2 * a], dim=2))
    assert torch.equal(results[1], tk.gemm(a, 2 * a))
    forced = torch.func.vmap(lambda one: tk.gemm(a, one, stages=2))(torch.stack([a, 2 * a]))
    assert torch.equal(forced[1], results[1])
    left = e4m3(64, 64)
    product = torch.func.vmap(lambda w: tk.gemm_fp8(left, w.t(), scale_a=one, scale_b=one))(weights)
    assert torch.equal(product[2], tk.gemm_fp8(left, weights[2].t(), scale_a=one, scale_b=one))


def test_vmap_of_what_is_written() -> None:
    x, cos, sin = bf16(3, 1, 1, 64, 64), torch.rand(64, 32), torch.rand(64, 32)
    wanted = tk.rotary(x[1], cos, sin)
    written = x.clone()
    torch.func.vmap(lambda one: tk.rotary(one, cos, sin, inplace=True))(written)
    assert torch.equal(written[1], wanted)
    with pytest.raises(ValueError, match="batch that too"):
        torch.func.vmap(lambda table: tk.rotary(x[0], table, sin, inplace=True))(torch.stack([cos, cos]))


def test_autograd_through_vmap() -> None:
    q, k, v = (bf16(2, 1, 1, 64, 64).requires_grad_() for _ in range(3))
    torch.func.vmap(tk.attention)(q, k, v).float().sum().backward()
    batched = [tensor.grad for tensor in (q, k, v)]
    singles = [tensor[1].detach().clone().requires_grad_() for tensor in (q, k, v)]
    tk.attention(*singles).float().sum().backward()
    for whole, single in zip(batched, singles, strict=True):
        assert whole is not None
        assert torch.equal(whole[1], single.grad)


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if len(example.names) > 1])
def test_a_fake_tensor_among_real_ones_is_refused(name: str) -> None:
    """Guard: PyTorch's AssertionError named an internal of its tracing."""
    operands = EXAMPLES[name].make()
    with FakeTensorMode() as mode:
        operands[0] = mode.from_tensor(operands[0])
    with pytest.raises(ValueError, match=r"is a fake tensor and \w+ is a real one; give either kind alone"):
        EXAMPLES[name](*operands)


def test_a_fake_tensor_among_real_ones_is_taken_where_the_mode_allows_it() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        a = mode.from_tensor(bf16(64, 64))
        assert tk.gemm(a, bf16(64, 64)).shape == (64, 64)


@pytest.mark.parametrize("wrong", [None, "text", [1.0]])
@pytest.mark.parametrize("position", range(3))
def test_what_is_no_tensor_is_refused_by_name(wrong: object, position: int) -> None:
    operands: list[Any] = list(sequences().values())
    operands[position] = wrong
    name = ("query", "key", "value")[position]
    with pytest.raises(ValueError, match=f"{name}: got a {type(wrong).__name__}, needs a torch.Tensor"):
        tk.scaled_dot_product_attention(*operands)


@pytest.mark.parametrize("position", range(3))
def test_rotary_in_place_with_a_pending_minus_sign(position: int) -> None:
    """Guard: PyTorch carried the sign out on a copy, and expected a result."""
    operands = [bf16(1, 1, 64, 64), torch.rand(64, 32), torch.rand(64, 32)]
    plain = [tensor.clone() for tensor in operands]
    plain[position].neg_()
    wanted = tk.rotary(*plain)
    view = torch._neg_view(operands[position])
    given = [view if number == position else tensor for number, tensor in enumerate(operands)]
    assert tk.rotary(*given, inplace=True) is given[0]
    assert torch.equal(given[0], wanted)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if "decode" not in name])
def test_it_compiles_on_sizes_that_only_data_decide(name: str) -> None:
    """As where tokens are routed to experts. A decode's plan is for a number of sequences, which has to be known."""
    example = EXAMPLES[name]
    operands = example.make()
    first = operands[0].shape
    chosen = [one is operands[0] or (len(first) > 2 and one.shape[0] == first[0]) for one in operands]

    def of_the_chosen(mask: torch.Tensor, *operands: torch.Tensor) -> Any:
        kept = mask.nonzero()[:, 0]
        return example(*(one[kept] if also else one for one, also in zip(operands, chosen, strict=True)))

    torch._dynamo.reset()
    mask = torch.ones(first[0]).bool()
    compiled = torch.compile(of_the_chosen, fullgraph=True, backend="aot_eager")
    with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.testing.assert_close(compiled(mask, *operands), example(*operands), rtol=0, atol=0)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
@pytest.mark.parametrize("name", ["attention", "gemm", "rotary"])
def test_transforms_that_pytorch_does_not_have_are_named(name: str, transform: Any) -> None:
    """Guard: PyTorch's sentence was of a method of a class of its own."""
    one, *others = EXAMPLES[name].make()
    with pytest.raises(NotImplementedError, match=rf"^{name}: torch.func.grad, vjp and jacrev .*issue 170834"):
        transform(lambda x: first(EXAMPLES[name](x, *others)).float().sum())(one)


def test_an_inference_tensor_is_written_in_inference_mode_alone() -> None:
    """Guard: what PyTorch's operators refuse, since autograd knows nothing of such a tensor's versions, was written."""
    cos, sin, a = torch.rand(64, 32), torch.rand(64, 32), bf16(64, 64)
    with torch.inference_mode():
        x, out = bf16(1, 1, 64, 64), bf16(64, 64)
        assert tk.rotary(x, cos, sin, inplace=True) is x
        assert tk.gemm(a, a, out=out) is out
    with pytest.raises(ValueError, match="^x: is an inference tensor"):
        tk.rotary(x, cos, sin, inplace=True)
    with pytest.raises(ValueError, match="^out: is an inference tensor"):
        tk.gemm(a, a, out=out)


@pytest.mark.parametrize("name", EXAMPLES)
def test_defaults_of_pytorch_change_nothing(name: str) -> None:
    """A default device that is not the operands', and a default dtype."""
    operands = EXAMPLES[name].make()
    wanted = first(EXAMPLES[name](*operands))
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            result = first(EXAMPLES[name](*operands))
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(result, wanted, rtol=0, atol=0)
