"""A tensor whose storage was freed, as FSDP does with parameters, is refused by every operator."""

from __future__ import annotations

import pytest
import torch
from operator_examples import bf16, examples
from torch import Tensor

import tk_kernels as tk

EXAMPLES = examples()
CASES = [(name, operand) for name, example in EXAMPLES.items() for operand in example.names]


def freed(tensor: Tensor) -> Tensor:
    """A view far inside a storage that has no memory any more."""
    offset = 1 << 20
    storage = tensor.new_empty(offset + tensor.numel())
    view = storage[offset:].view(tensor.t().shape if tensor.dim() == 2 and tensor.stride(0) == 1 else tensor.shape)
    view = view.t() if view.shape != tensor.shape or view.stride() != tensor.stride() else view
    storage.untyped_storage().resize_(0)
    return view


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_operands_are_taken_with_their_memory(name: str) -> None:
    EXAMPLES[name](*EXAMPLES[name].make())


@pytest.mark.parametrize(("name", "operand"), CASES)
def test_a_freed_operand_is_refused(name: str, operand: str) -> None:
    """Guard: each of these ended the process, or took an optional operand for one that was not given."""
    operands = EXAMPLES[name].operands()
    operands[operand] = freed(operands[operand])
    with pytest.raises(ValueError, match="its memory was freed"):
        EXAMPLES[name](*operands.values())


def test_the_name_is_in_the_message() -> None:
    a, b = bf16(64, 64), freed(bf16(64, 64))
    with pytest.raises(ValueError, match=r"b: its memory was freed \(shape \(64, 64\)"):
        tk.gemm(a, b)


def test_a_functional_tensor_is_computed() -> None:
    """Guard: its address is 0 too; the kernel was called with it."""
    operands = EXAMPLES["based"].make()
    wanted = tk.based(*operands)
    wrapped = [torch._to_functional_tensor(operand) for operand in operands]
    torch._enable_functionalization(reapply_views=False)
    try:
        result = tk.based(*wrapped)
    finally:
        torch._disable_functionalization()
    torch._sync(result)
    assert torch.equal(torch._from_functional_tensor(result), wanted)
