"""The example that prefills prompts: tiny, on a CPU; it is a run of the workload."""

from __future__ import annotations

from pathlib import Path

from examples import prefill
from harness.runs import frame


def test_both_are_right_and_no_cpu_is_timed(tmp_path: Path) -> None:
    """Guard: without a model's name a CPU was given one of 8 billion weights."""
    assert prefill.main(["--device", "cpu", "--results", str(tmp_path)]) == 0
    cases = frame(tmp_path / "cpu" / "scratch")
    assert sorted(cases.contestant) == ["sdpa_math", "tk"]
    assert set(cases.status) == {"passed"}
    assert set(cases["L"].astype(int)) == {2}
    assert set(cases.n_samples) == {0}
