"""Every case as a record: which is the fastest of its problem, and the mark behind its rate."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from paper_figures.shown.page.cases import mark_legend, shown_cases


@pytest.fixture(scope="module")
def timed(written: Path) -> list[dict[str, Any]]:
    every = json.loads(gzip.decompress((written / "data" / "cases.json.gz").read_bytes()))
    rows = (dict(zip(every["columns"], row, strict=True)) for row in every["rows"])
    return [one for one in rows if one["tflops"] is not None]


def problem(one: dict[str, Any]) -> tuple[str, ...]:
    return tuple(one[name] for name in ("operation", "direction", "dtype", "problem", "gpu"))


def test_a_problem_has_one_row_of_the_fastest(timed: list[dict[str, Any]]) -> None:
    """Guard: the box that asks for it left one a run, six of one shape."""
    best = [one for one in timed if one["best"]]
    assert len(best) == len({problem(one) for one in best})
    assert {problem(one) for one in best} == {problem(one) for one in timed}
    assert all(one["fastest"] for one in best)
    square = [one for one in timed if one["problem"] == "M=8192;N=8192;K=8192" and one["operation"] == "gemm"]
    assert len({one["run"] for one in square if one["fastest"]}) > 1
    [chosen] = [one for one in square if one["best"]]
    assert "fig7_gemm" in chosen["exhibits"].split(), "its run has the most libraries"


def test_inputs_and_timers_that_are_not_the_usual_are_in_the_problem(timed: list[dict[str, Any]]) -> None:
    """Guard: 871 TFLOPS of zeros stood among those of normal inputs, alike in every word."""
    problems = {one["problem"] for one in timed if "input_distribution" in one["exhibits"].split()}
    square = "M=8192;N=8192;K=8192"
    others = {f"{square};distribution={kind}" for kind in ("uniform", "sparse24", "zeros")}
    assert problems == {square} | others
    clean = {one["problem"] for one in timed if "gemm_clean_l2" in one["exhibits"].split()}
    assert {one.rpartition(";")[2] for one in clean} == {"timer=cuda_events_clean"}
    graphs = {one["problem"] for one in timed if "rotary_cuda_graph" in one["exhibits"].split()}
    assert {one.rpartition(";")[2] for one in graphs} == {"timer=cuda_graph"}


def marks(every: list[dict[str, Any]]) -> list[str]:
    shown = json.loads(shown_cases(every))
    return [row[shown["names"].index("mark")] for row in shown["rows"]]


def test_a_rate_says_how_it_was_timed(timed: list[dict[str, Any]]) -> None:
    """Guard: rates of calls back to back and of the rounds stood side by side without marks."""
    own = [one for one in timed if "unaligned_gemm" in one["exhibits"].split()]
    one, other = [one for one in own if problem(one) == problem(own[0])][:2]
    alone = next(one for one in own if problem(one) != problem(own[0]))
    assert marks([one, other, alone]) == ["", "", ""]
    assert mark_legend([one, other, alone]) == []
    one = {**one, "settled": True}
    assert marks([one, other, alone]) == ["*", "†", ""]
    assert [sentence[0] for sentence in mark_legend([one, other, alone])] == ["*", "†"]
    assert [sentence[0] for sentence in mark_legend([one])] == ["*"]
