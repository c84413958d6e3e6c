"""Claims on the time of a call and on the share of a roof, judged on a made-up run of a Llama's token."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.records.naming import Contestant
from paper_figures.intervals import Measured
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import Missing, Verdict

Evaluate = Callable[..., dict[str, ClaimResult]]
H100 = {"gpu": {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}}


def rate(ours: float | str) -> Callable[[str, Contestant], float | str]:
    """The TFLOPS of a call of ours that takes so many milliseconds at position 160, or how it ended; others take 1."""

    def of(problem: str, contestant: Contestant) -> float | str:
        takes = ours if contestant.implementation == "tk" else 1.0
        return takes if isinstance(takes, str) else 2.492596224 / takes

    return of


@pytest.mark.parametrize(("takes", "verdict"), [(0.85, Verdict.HOLDS), (1.1, Verdict.SHORT)])
def test_a_time_is_judged_in_milliseconds(results: Evaluate, takes: float, verdict: Verdict) -> None:
    found = results("llama_decode", rate=rate(takes), manifest=H100)["llama-under-1-ms"]
    measured = found.points[0].measured
    assert isinstance(measured, Measured)
    assert measured.value == pytest.approx(takes, rel=5e-3)
    assert measured.low < measured.value < measured.high
    assert found.points[0].unit == "ms"
    assert found.verdict is verdict


def test_calls_back_to_back_are_the_time_where_there_are_some(results: Evaluate) -> None:
    found = results("llama_decode", rate=rate(0.85), manifest=H100, settled=1.25)["llama-under-1-ms"]
    assert isinstance(found.points[0].measured, Measured)
    assert found.points[0].measured.value == pytest.approx(1.25 * 0.85, rel=5e-3)


def test_a_time_on_another_gpu_is_not_comparable(results: Evaluate) -> None:
    found = results("llama_decode", rate=rate(0.5))["llama-under-1-ms"]
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == "an absolute time on SYNTHETIC H200, not on H100 80GB SXM"


def test_a_share_is_of_the_datasheets_roof_or_of_the_measured_one(results: Evaluate) -> None:
    found = results("llama_decode", rate=rate(0.9))
    sheet, floor = (found[one].points[0].measured for one in ("llama-share-of-bandwidth", "llama-share-of-the-floor"))
    assert isinstance(sheet, Measured)
    assert isinstance(floor, Measured)
    assert sheet.value == pytest.approx(100 * 2.477421832 / 4.8 / 0.9, rel=5e-3)  # of an H200's 4.8 TB/s
    assert floor.value == pytest.approx(80.0, rel=5e-3)
    assert [one.accept.low for one in found["llama-share-of-the-floor"].points] == [91, 93, 93, 57]


def test_without_a_time_the_reason_is_said(results: Evaluate) -> None:
    found = results("llama_decode", rate=rate("failed_verification: wrong by 0.1"), manifest=H100)
    for claim in ("llama-under-1-ms", "llama-share-of-bandwidth"):
        assert found[claim].verdict is Verdict.SHORT
        assert found[claim].reason == "TK (ours) failed verification: wrong by 0.1"
    for claim in ("llama-over-sglang", "llama-over-vllm"):
        assert found[claim].verdict is Verdict.NOT_TESTED
        assert "needs a serving engine" in found[claim].reason


def test_a_run_without_a_datasheet_has_no_share(results: Evaluate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paper_figures.judged.comparisons.roof_share", lambda cell, roof="": None)
    found = results("llama_decode", rate=rate(0.9))["llama-share-of-bandwidth"]
    assert isinstance(found.points[0].measured, Missing)
    assert found.reason == "the run has no roof_pct_datasheet"
