"""The chart on an exhibit's page, without a browser."""

from __future__ import annotations

import re

from paper_figures.shown.page import bars

TITLE = "Sequence length, at B = 16, 16 query heads on 4 key heads, D = 128"


def test_a_long_title_of_an_axis_is_broken_into_lines() -> None:
    """Guard: four panels side by side had theirs cut off at both ends."""
    text, height = bars._axis_title(TITLE, bars.NARROW)
    lines = re.sub(r"<tspan[^>]*>", "\n", re.sub(r"</?text[^>]*>|</tspan>", "", text)).split("\n")
    assert " ".join(lines) == TITLE
    assert all(len(line) * bars.LETTER < bars.NARROW - bars.LEFT for line in lines)
    assert height == bars.HEIGHT + bars.LINE * (len(lines) - 1) > bars.HEIGHT


def test_a_title_that_fits_is_one_line() -> None:
    text, height = bars._axis_title(TITLE, bars.WIDTHS[1])
    assert (text.count("<tspan"), height) == (0, bars.HEIGHT)
