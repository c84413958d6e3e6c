"""The options of tk.gemm as a user writes them."""

from __future__ import annotations

from typing import Any

import pytest

from tk_kernels.kernels.gemm.options import AUTOMATIC, encode_options


def test_nothing_given_is_automatic() -> None:
    assert encode_options() == AUTOMATIC


def test_every_option_has_its_place() -> None:
    encoded = encode_options(
        stages=3, persistent=0, order="hilbert", tile="128x256", cluster=(2, 1), schedule="pingpong"
    )  # fmt: skip
    assert encoded == (3, 0, 2, 128, 256, 2, 1, 2, 0)
    assert encode_options(persistent=True, order="supergroup", schedule="cooperative") == (0, 1, 0, 0, 0, 0, 0, 1, 0)
    assert encode_options(schedule="swapped", split=4) == (0, -1, -1, 0, 0, 0, 0, 3, 4)
    assert encode_options(schedule="by_warps") == (0, -1, -1, 0, 0, 0, 0, 4, 0)
    assert encode_options(tile="auto", cluster="auto") == AUTOMATIC


@pytest.mark.parametrize(
    ("option", "value", "needs"),
    [
        ("stages", 5, "an integer from 1 to 4"),
        ("stages", True, "an integer from 1 to 4"),
        ("persistent", 2, "an integer from 0 to 1"),
        ("order", "column_major", "one of supergroup, row_major, hilbert"),
        ("schedule", "fast", "one of cooperative, pingpong, swapped, by_warps"),
        ("split", 9, "an integer from 1 to 8"),
        ("tile", "128", "two positive integers"),
        ("tile", "0x128", "two positive integers"),
        ("cluster", (True, True), "two positive integers"),
        ("cluster", "2x1x1", "two positive integers"),
    ],
)
def test_mistakes_name_the_option(option: str, value: Any, needs: str) -> None:
    with pytest.raises(ValueError, match=f"^{option}: got .*needs {needs}"):
        encode_options(**{option: value})
