"""What all bindings share: what they read in place and write where it lies, by rotary's on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tk_kernels import toolchain


@pytest.fixture(scope="module")
def rotary() -> Any:
    """Called with x, cos, sin and out; returns a bit for each operand that needs a copy."""
    function = toolchain.load("rotary", "cpu").rotary
    return lambda *tensors: function(*tensors, False, False, False)


def bf16(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


READ_IN_PLACE: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: bf16(2, 3, 5, 64),
    "rows outside heads": lambda: bf16(2, 5, 3, 64).transpose(1, 2),
    "one row of any pitch": lambda: bf16(1, 1, 1, 65)[..., :64],
    "part of a row": lambda: bf16(2, 3, 5, 128)[..., 64:],
}
COPIED: dict[str, Callable[[], Tensor]] = {
    "last dimension": lambda: bf16(2, 3, 64, 5).mT,
    "stride": lambda: bf16(2, 3, 5, 65)[..., :64],
    "base": lambda: bf16(2, 3, 5, 72)[..., 1:65],
    "expanded": lambda: bf16(1, 3, 5, 64).expand(2, -1, -1, -1),
}


@pytest.mark.parametrize("name", READ_IN_PLACE)
def test_read_in_place(rotary: Any, name: str) -> None:
    x, table = READ_IN_PLACE[name](), torch.zeros(5, 8)
    assert rotary(x, table, table, bf16(*x.shape)) == 0


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_is_asked_for_by_the_operands_bit(rotary: Any, name: str) -> None:
    x, table, odd = COPIED[name](), torch.zeros(5, 8), torch.zeros(5, 11)[:, :8]  # rows of 44 bytes
    assert rotary(x, table, table, bf16(*x.shape)) == 1
    assert rotary(x.contiguous().clone(), table, odd, bf16(*x.shape)) == 4
    assert rotary(x, odd, odd, bf16(*x.shape)) == 7


def test_what_is_written_has_no_element_twice(rotary: Any) -> None:
    x, table = bf16(2, 3, 5, 64), torch.zeros(5, 8)
    for right in (bf16(2, 5, 3, 64).transpose(1, 2), bf16(2, 3, 5, 128)[..., :64]):
        assert rotary(x, table, table, right) == 0
    for wrong in (bf16(1000).as_strided((2, 3, 5, 64), (64, 64, 64, 1)), bf16(2, 3, 5, 65)[..., :64]):
        with pytest.raises(ValueError, match=r"out: needs a 16-byte aligned base.* and no element twice"):
            rotary(x, table, table, wrong)
