"""What all bindings share: what they refuse and in which words, and what they read in place."""

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


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.zeros(2), r"t: got rank 1, needs rank 2"),
        (
            torch.zeros(2, 2, dtype=torch.float16),
            r"t: got elements of DLPack code 2 and 16 bits x 1, needs bfloat16 or",
        ),
        (bf16(0, 2), r"t: got shape \(0, 2\), needs every size from 1 to 9"),
        (bf16(2, 10), r"t: got shape \(2, 10\), needs every size from 1 to 9"),
    ],
    ids=["rank", "dtype", "empty", "too large"],
)
def test_a_wrong_tensor_is_named_with_what_it_needs(checks: Any, tensor: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checks.tensor(tensor, 2)


def test_either_dtype_and_every_size_pass(checks: Any) -> None:
    checks.tensor(bf16(1, 9), 2)
    checks.tensor(torch.zeros(9, 1), 2)


def test_shapes_are_compared_whole(checks: Any) -> None:
    checks.shape(bf16(2, 3), 2, 3)
    with pytest.raises(ValueError, match=r"t: got shape \(2, 4\), needs \(2, 3\), that of q"):
        checks.shape(bf16(2, 4), 2, 3)
    with pytest.raises(ValueError, match=r"t: got shape \(6,\), needs \(2, 3\), that of q"):
        checks.shape(bf16(6), 2, 3)


def test_a_stride_of_one_element_means_nothing(checks: Any) -> None:
    checks.unit_stride(bf16(2, 16)[:, :1])
    assert checks.stride(bf16(2, 16)[:1], 0) == 16
    assert checks.stride(bf16(2, 16)[:, :8], 0) == 16
    with pytest.raises(ValueError, match="t: got stride 2 along the last dimension, needs 1"):
        checks.unit_stride(bf16(2, 16)[:, ::2])


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


def test_numbers_are_dense_and_may_be_left_out(checks: Any) -> None:
    q = bf16(1)
    assert checks.first_number(None, q) == -1
    assert checks.first_number(torch.full((2, 3), 7.0), q) == 7
    with pytest.raises(ValueError, match="t: needs to be contiguous"):
        checks.first_number(torch.zeros(3, 2).T, q)
    with pytest.raises(ValueError, match="t: got elements of DLPack code .* needs float32"):
        checks.first_number(torch.zeros(2, 3, dtype=torch.float64), q)


@pytest.mark.gpu
def test_another_device_is_named(checks: Any) -> None:
    with pytest.raises(ValueError, match="t: is on cpu, needs to be on cuda:0 as q is"):
        checks.first_number(torch.zeros(2, 3), torch.zeros(1, device="cuda"))


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
