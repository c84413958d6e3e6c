"""The options of tk.attention as a user writes them."""

from __future__ import annotations

from typing import Any

import pytest

from tk_kernels.kernels.attention.options import AUTOMATIC, encode_options


def test_nothing_given_is_automatic() -> None:
    assert encode_options() == AUTOMATIC


def test_every_option_has_its_place() -> None:
    assert encode_options(order="head_major") == (0, -1, -1, -1)
    assert encode_options(order="row_major", synchronous=True, blocks_per_sm=3) == (1, 1, 3, -1)
    assert encode_options(synchronous=0) == (-1, 0, -1, -1)
    assert encode_options(path="whole") == (-1, -1, -1, 0)
    assert encode_options(path="decode") == (-1, -1, -1, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": "column_major"}, "order: got 'column_major', needs one of head_major, row_major"),
        ({"synchronous": 2}, "synchronous: got 2, needs an integer from 0 to 1"),
        ({"synchronous": 1, "blocks_per_sm": 0}, "blocks_per_sm: got 0, needs an integer from 1 to 4"),
        ({"synchronous": 1, "blocks_per_sm": 5}, "blocks_per_sm: got 5, needs an integer from 1 to 4"),
        ({"blocks_per_sm": 2}, "blocks_per_sm: got 2, needs synchronous=True"),
        ({"path": "paged"}, "path: got 'paged', needs one of whole, decode"),
        ({"path": "decode", "order": "row_major"}, "path: 'decode' takes another kernel"),
    ],
    ids=str,
)
def test_mistakes_name_the_option(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        encode_options(**options)
