"""The example that prefills prompts: tiny, on a CPU; it is a run of the workload."""

from __future__ import annotations

from pathlib import Path

from examples import prefill
from harness.results import frame


def test_both_are_right_and_no_cpu_is_timed(tmp_path: Path) -> None:
    assert prefill.main(["--model", "tiny", "--lengths", "40", "--device", "cpu", "--results", str(tmp_path)]) == 0
    cases = frame(tmp_path / "cpu" / "scratch")
    assert sorted(cases.contestant) == ["sdpa_math", "tk"]
    assert set(cases.status) == {"passed"}
    assert set(cases.n_samples) == {0}
