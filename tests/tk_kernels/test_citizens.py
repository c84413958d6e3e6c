"""Every operator as a citizen of PyTorch: fakes, tangents, gradients, CUDA graphs, streams; and flags that are none."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest
import torch
from operator_examples import Example, examples
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

EXAMPLES = {name: one for name, one in examples().items() if name != "scaled_dot_product_attention"}
UNPLANNED = [name for name in EXAMPLES if "decode" not in name]
"""Those that need no plan, which is made of lengths that are known."""
RECORDED = {"attention", "based", "gemm", "linear_attention", "mamba2", "rotary"}
"""Those with a backward."""


def parameters(kind: str) -> list[tuple[str, str]]:
    """(operator, keyword) of every parameter with this annotation."""
    signatures = {name: inspect.signature(one.operator).parameters for name, one in EXAMPLES.items()}
    return [(name, own) for name, all_of in signatures.items() for own, one in all_of.items() if one.annotation == kind]


def returns(example: Example) -> dict[str, bool]:
    """The flags that make an operator return all that it can."""
    return {name: True for name in inspect.signature(example.operator).parameters if name.startswith("return_")}


def everything(example: Example, *operands: Tensor, **options: Any) -> list[Any]:
    """Whatever an operator returns, flat."""
    return tree_leaves(
        example.operator(**dict(zip(example.names, operands, strict=True)), **returns(example), **options)
    )


FLOATING = [(name, own) for name, one in EXAMPLES.items() for own, x in one.operands().items() if x.is_floating_point()]


@pytest.mark.parametrize(("operator", "name"), parameters("bool"))
def test_a_flag_is_true_or_false(operator: str, name: str) -> None:
    for wrong in ("yes", 2):
        with pytest.raises(ValueError, match=f"^{name}: got {wrong!r}, needs True or False"):
            EXAMPLES[operator].operator(**EXAMPLES[operator].operands(), **{name: wrong})


@pytest.mark.parametrize(("operator", "name"), [one for one in parameters("float | None") if one[0] in UNPLANNED])
def test_a_scale_is_a_number(operator: str, name: str) -> None:
    for wrong in (math.nan, math.inf, -math.inf, 1e39, 10**400, True, "1"):
        with pytest.raises(ValueError, match=f"^{name}: got .*, needs a"):
            EXAMPLES[operator].operator(**EXAMPLES[operator].operands(), **{name: wrong})


@pytest.mark.parametrize("operator", [operator for operator, name in parameters("int | None") if name == "segments"])
def test_segments_are_a_number(operator: str) -> None:
    registered = getattr(torch.ops.tk_kernels, operator)
    for wrong in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match=f"^segments: got {wrong}, needs an integer from 1 to"):
            EXAMPLES[operator].operator(**EXAMPLES[operator].operands(), segments=wrong)
    with pytest.raises(ValueError, match="^segments: got -1, needs an integer"):
        registered(**EXAMPLES[operator].operands(), segments=-1)


@pytest.mark.parametrize("name", UNPLANNED)
def test_fake_tensors_need_no_kernel(name: str) -> None:
    example = EXAMPLES[name]
    operands = example.make()
    wanted = everything(example, *operands)
    with FakeTensorMode():
        fakes = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda") for x in operands]
        found = everything(example, *fakes)
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert [x for x, size in zip(one.stride(), one.shape, strict=True) if size > 1] == [
            x for x, size in zip(other.stride(), one.shape, strict=True) if size > 1
        ]
        assert one.device.type == "cuda"


@pytest.mark.parametrize(("operator", "name"), FLOATING)
def test_a_tangent_is_not_lost_in_silence(operator: str, name: str, device: str) -> None:
    operands = {own: x.to(device) for own, x in EXAMPLES[operator].operands().items()}
    with torch.autograd.forward_ad.dual_level():
        operands[name] = torch.autograd.forward_ad.make_dual(operands[name], torch.ones_like(operands[name]))
        with pytest.raises(NotImplementedError, match=f"{name}: has a tangent"):
            EXAMPLES[operator].operator(**operands)


@pytest.mark.parametrize(("operator", "name"), FLOATING)
def test_a_gradient_is_recorded_or_refused_in_words(operator: str, name: str, device: str) -> None:
    example = EXAMPLES[operator]
    operands = {own: x.to(device) for own, x in example.operands().items()}
    operands[name].requires_grad_()
    if operator in RECORDED and (operator, name) not in (("rotary", "cos"), ("rotary", "sin")):
        assert tree_leaves(example.operator(**operands))[0].requires_grad
    else:
        with pytest.raises(RuntimeError, match="has no backward|requires a gradient"):
            example.operator(**operands)
        registered = getattr(torch.ops.tk_kernels, operator.replace(" with an ", "_"))
        if operator in UNPLANNED and operator not in RECORDED:
            with pytest.raises(RuntimeError, match="has no backward|requires a gradient"):
                tree_leaves(registered(**operands))[0].float().sum().backward()
    with torch.no_grad():
        assert not tree_leaves(example.operator(**operands))[0].requires_grad


@pytest.mark.parametrize("name", EXAMPLES)
def test_same_inputs_give_the_same_bits(name: str, device: str) -> None:
    operands = [x.to(device) for x in EXAMPLES[name].make()]
    first = everything(EXAMPLES[name], *operands)
    for _ in range(3):
        assert all(map(torch.equal, first, everything(EXAMPLES[name], *operands)))


LARGER = [name for name, one in EXAMPLES.items() if one.larger is not None]


@pytest.mark.gpu
@pytest.mark.parametrize("name", LARGER)
def test_a_cuda_graph_replays_on_new_inputs(name: str) -> None:
    example = EXAMPLES[name]
    inputs, fresh = ([x.cuda() for x in example.larger(seed)] for seed in (0, 1))
    for options in example.options:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            everything(example, *inputs, **options)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = everything(example, *inputs, **options)
        for tensor, other in zip(inputs, fresh, strict=True):
            tensor.copy_(other)
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
        assert all(map(torch.equal, captured, everything(example, *inputs, **options)))


@pytest.mark.gpu
@pytest.mark.parametrize("name", LARGER)
def test_it_runs_on_the_callers_stream(name: str) -> None:
    first, *others = (x.cuda() for x in EXAMPLES[name].larger(0))
    expected = everything(EXAMPLES[name], first, *others)
    torch.cuda.synchronize()
    stream, late = torch.cuda.Stream(), torch.zeros_like(first)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(first)
        result = everything(EXAMPLES[name], late, *others)
    stream.synchronize()
    assert all(map(torch.equal, result, expected))
