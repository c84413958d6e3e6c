"""Two verdicts on one claim: when they agree, how many of today's kernels there are, and what is said to differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paper_figures.exhibits import choose_exhibits
from paper_figures.judged.agreement import Agreement, Pair, causes, decided, of_todays_kernels, pairs
from paper_figures.judged.differences import papers_gpu, usual_gpu
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import Verdict
from paper_figures.recorded.campaign import load_runs
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import ExhibitReport, gpu_name
from paper_figures.shown.summary import stale_sentence

NAMES = ("H200 SXM", "H100 SXM")


@pytest.fixture
def part(tmp_path: Path, synthetic: ModuleType) -> ExhibitReport:
    synthetic.write_run(tmp_path / "c", "fig9_mamba2")
    return make_report(tmp_path / "c", choose_exhibits(["fig9_mamba2"])).exhibits[0]


def of(part: ExhibitReport, verdict: Verdict, stale: str = "") -> ClaimResult:
    return replace(part.results[0], verdict=verdict, stale=stale)


@pytest.mark.parametrize(
    ("here", "there", "agreement"),
    [
        (Verdict.SHORT, Verdict.SHORT, Agreement.SAME),
        (Verdict.HOLDS, Verdict.LESS, Agreement.MARGIN),
        (Verdict.MORE, Verdict.HOLDS, Agreement.MARGIN),
        (Verdict.CLOSE, Verdict.SHORT, Agreement.OPEN),
        (Verdict.HOLDS, Verdict.CLOSE, Agreement.OPEN),
        (Verdict.HOLDS, Verdict.SHORT, Agreement.OTHER),
        (Verdict.HOLDS, Verdict.OVERTAKEN, Agreement.OTHER),
        (Verdict.DIFFERS, Verdict.HOLDS, Agreement.OTHER),
    ],
)
def test_what_two_verdicts_come_to(part: ExhibitReport, here: Verdict, there: Verdict, agreement: Agreement) -> None:
    assert Pair(of(part, here), of(part, there)).agreement is agreement


def test_only_what_both_decide_is_a_pair(part: ExhibitReport) -> None:
    holds, untested = of(part, Verdict.HOLDS), of(part, Verdict.NOT_TESTED)
    assert (decided(holds), decided(untested), decided(of(part, Verdict.CLOSE))) == (True, False, True)
    assert len(pairs([holds], [holds])) == 1
    assert pairs([holds], [untested]) == pairs([untested], [holds]) == pairs([holds], part.results[1:]) == ()


def test_a_stale_claim_counts_as_recorded_again_where_the_other_is_of_todays_kernel(part: ExhibitReport) -> None:
    old, fresh = of(part, Verdict.HOLDS, "stale"), of(part, Verdict.SHORT)
    assert of_todays_kernels([old], [fresh]) == 1
    assert of_todays_kernels([old], [old]) == of_todays_kernels([fresh], [fresh]) == 0
    assert of_todays_kernels([old], [of(part, Verdict.NOT_TESTED)]) == 0
    said = stale_sentence([old], {"H100 SXM": [fresh], "H200 SXM": [old]})
    assert said.endswith("is marked stale. 1 of these is decided with today's kernels on H100 SXM.")
    assert stale_sentence([old], {"H100 SXM": [old]}) == stale_sentence([old])
    assert stale_sentence([fresh], {"H100 SXM": [fresh]}) == ""


def test_causes_name_what_is_not_alike(part: ExhibitReport) -> None:
    """Stale numbers, machine code, who was absent, versions; else that all of it is the same."""
    result, selections = part.results[0], part.selections
    alike = "kernels and library versions are the same in both"
    assert causes(Pair(result, result), selections, selections, NAMES) == (f"{alike}; the GPU is not",)
    assert causes(Pair(result, result), selections, selections, NAMES, True) == (f"{alike}, and so is the GPU",)
    old = replace(result, stale="all of 5 numbers stale")
    assert causes(Pair(old, result), selections, selections, NAMES) == ("H200 SXM: all of 5 numbers stale",)

    def changed(**cells: Any) -> tuple[Any, ...]:
        return tuple(
            replace(
                one,
                cells=tuple(
                    cell if cell.row is None or cell.contestant.implementation == "tk" else
                    replace(cell, row={**cell.row, **cells})
                    for cell in one.cells
                ),
            )
            for one in selections
        )  # fmt: skip

    [*said] = causes(Pair(result, result), selections, changed(version="newer"), NAMES)
    assert all(one.startswith("other versions of ") for one in said)
    assert any("(H200 SXM: synthetic; H100 SXM: newer)" in one for one in said)
    assert not any("TK (ours)" in one for one in said)


def test_other_machine_code_is_said(tmp_path: Path, synthetic: ModuleType) -> None:
    made = []
    for name in ("c0de", "beef"):
        synthetic.write_run(tmp_path / name, "table1_stages", machine_code=name)
        made.append(make_report(tmp_path / name, choose_exhibits(["table1_stages"])).exhibits[0])
    here, there = made
    pair = Pair(here.results[0], there.results[0])
    assert causes(pair, here.selections, there.selections, NAMES) == ("our kernels' machine code is not the same",)


def test_the_papers_gpu_is_known_by_its_datasheet(tmp_path: Path, synthetic: ModuleType) -> None:
    found = []
    for number, name in enumerate(("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H200")):
        machine = {"gpu": {"name": name, "driver": "0"}}
        synthetic.write_run(tmp_path / str(number), "table1_stages", manifest=machine)
        found.append(load_runs(tmp_path / str(number)))
    paper = "H100 80GB SXM"
    assert [papers_gpu(runs, [paper]) for runs in found] == [True, False, False]
    assert not papers_gpu(found[0], [paper, "RTX 4090"])
    assert not papers_gpu(found[0], ["H100"])  # which H100 is not said
    assert not papers_gpu([], [paper])
    assert [gpu_name(runs) for runs in found] == ["H100 SXM", "NVIDIA H100 PCIE", "H200 SXM"]
    assert usual_gpu(["a", "b", "", "", "", "b"]) == "b"
    assert usual_gpu([]) == ""
