"""What all bindings share: what they read in place, and how a launch's exceptions arrive in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tk_kernels import toolchain

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def checks() -> Any:
    return toolchain.load("checks", "cpu", FIXTURES)


def bf16(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def test_a_stride_of_one_element_means_nothing(checks: Any) -> None:
    assert checks.stride(bf16(2, 16)[:1], 0) == 16
    assert checks.stride(bf16(2, 16)[:, :8], 0) == 16


READ_IN_PLACE: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: bf16(2, 3, 5, 64),
    "rows outside heads": lambda: bf16(2, 5, 3, 64).transpose(1, 2),
    "one row of any pitch": lambda: bf16(1, 1, 1, 65)[..., :64],
    "part of a row": lambda: bf16(2, 3, 5, 128)[..., 64:],
    "fp32, rows of 16 bytes": lambda: torch.zeros(5, 4),
}
COPIED: dict[str, Callable[[], Tensor]] = {
    "last dimension": lambda: bf16(2, 3, 64, 5).mT,
    "stride": lambda: bf16(2, 3, 5, 65)[..., :64],
    "base": lambda: bf16(2, 3, 5, 72)[..., 1:65],
    "expanded": lambda: bf16(1, 3, 5, 64).expand(2, -1, -1, -1),
    "fp32, rows of 12 bytes": lambda: torch.zeros(5, 3),
}


@pytest.mark.parametrize("name", READ_IN_PLACE)
def test_read_in_place(checks: Any, name: str) -> None:
    tensor = READ_IN_PLACE[name]()
    assert checks.copies(tensor, tensor) == 0


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_is_asked_for_by_the_operands_bit(checks: Any, name: str) -> None:
    good = bf16(16)
    assert checks.copies(COPIED[name](), good) == 1
    assert checks.copies(good, COPIED[name]()) == 2
    assert checks.copies(COPIED[name]().contiguous().clone(), good) == (1 if "12 bytes" in name else 0)


def test_what_is_written_has_no_element_twice(checks: Any) -> None:
    checks.output(bf16(2, 3, 5, 64))
    checks.output(bf16(2, 5, 3, 64).transpose(1, 2))
    checks.output(bf16(2, 3, 5, 128)[..., :64])
    for wrong in (bf16(1000).as_strided((2, 3, 5, 64), (64, 64, 64, 1)), bf16(2, 3, 5, 65)[..., :64]):
        with pytest.raises(ValueError, match="t: needs a 16-byte aligned base.* and no element twice"):
            checks.output(wrong)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [(0, ValueError, "no such option"), (1, RuntimeError, "no such memory"), (2, TypeError, "no such type")],
)
def test_exceptions_of_a_launch_are_pythons(checks: Any, how: int, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        checks.launch(how)
    checks.launch(3)


def test_options_are_narrowed_without_a_wrap(checks: Any) -> None:
    assert [checks.narrowed(value) for value in (-1, 7, 2**32, -(2**40))] == [-1, 7, 2**31 - 1, -(2**31)]
