"""The chart on an exhibit's page, without a browser."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from types import ModuleType

import numpy as np

from harness.records.naming import problem_keys
from paper_figures.exhibits import choose_exhibits
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.page import bars
from paper_figures.shown.render.html import case_file
from paper_figures.shown.report.making import make_report

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


def test_of_many_problems_as_many_have_a_label_as_fit() -> None:
    """Guard: labels of two hundred lay over one another."""
    assert bars._group_names(["64", "128"] * 5, bars.NARROW).count("<text") == 10
    drawn = bars._group_names([str(1000 + at) for at in range(67)], bars.NARROW)
    places = [float(x) for x in re.findall(r'<text class="tick" x="([\d.]+)"', drawn)]
    assert len(places) > 5
    assert all(right - left > 4 * bars.LETTER for left, right in itertools.pairwise(places))


def test_a_bar_has_its_contestants_colour_where_a_problem_lacks_another(tmp_path: Path, synthetic: ModuleType) -> None:
    """A run of before has no case of a contestant that came later; the chart's script knows bars by their number."""
    synthetic.write_run(tmp_path / "c", "table2_persistent")
    [own] = make_report(tmp_path / "c", choose_exhibits(["table2_persistent"])).exhibits
    assert isinstance(own.exhibit, Exhibit)
    chart = bars.exhibit_bars(own.exhibit, own.lines[1:], "")
    named = dict(re.findall(r'<li data-s="(\d+)"><i class="s\d+"></i>(.*?)</li>', chart))
    drawn = re.findall(r'href="([^"]+)" data-g="\d+" data-s="(\d+)".*?<rect class="s(\d+)"', chart, re.DOTALL)
    assert len(named) == len({line.label for line in own.lines})
    assert {case: (named[place], named[colour]) for case, place, colour in drawn} == {
        case_file(line.cell.key): (line.label, line.label) for line in own.lines[1:]
    }


def test_two_hundred_problems_are_points(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: of two hundred problems as bars one saw a grey wall. A point each of ours, at its size and its ratio."""
    synthetic.write_run(tmp_path / "c", "gemm_random")
    [own] = make_report(tmp_path / "c", choose_exhibits(["gemm_random"])).exhibits
    assert own.draw is not None
    dots = [(float(x), float(y)) for x, y in re.findall(r'<circle class="s0" cx="([\d.]+)" cy="([\d.]+)"', own.draw())]
    ours = [line for line in own.lines if str(line.cell.contestant) == "tk"]
    assert len(dots) == len(ours) > 100
    sizes = [math.log2(int(problem_keys(line.problem)["M"])) for line in ours]
    heights = [line.ratio.value for line in ours if line.ratio is not None]
    for drawn, meant, sign in (([x for x, _ in dots], sizes, 1), ([y for _, y in dots], heights, -1)):
        assert np.corrcoef(drawn, meant)[0, 1] * sign > 0.99
