"""`reproduce-paper missing`: what a campaign lacks, and the commands that measure it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from reproduction_support import FEW, TABLE1, run

from harness.records.naming import Contestant
from paper_figures.command.missing import missing, missing_text
from paper_figures.recorded.experiments import load_experiment


def test_it_tells_what_is_stale_what_has_no_time_and_what_is_not_measured(
    tmp_path: Path, synthetic: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results" / "h200-sxm" / "paper"
    synthetic.write_run(folder, "table1_stages", "20260101T000000Z-aaaaaa")
    absent = load_experiment("table2_persistent").contestants[-1]
    newer = "20260102T000000Z-bbbbbb"
    synthetic.write_run(folder, "table2_persistent", newer, machine_code="beef", without=(absent,))
    names = ("table1_stages", "table2_persistent", "fig6_occupancy")
    by_name = {one.exhibit.id: one for one in missing(folder, FEW)}
    assert set(names) <= set(by_name)
    assert by_name[names[0]].why == "4 of 5 cases are of a kernel that has changed since"  # the fifth is cuBLAS's
    problems = len(load_experiment(names[1]).problems)
    assert by_name[names[1]].why == f"{problems} of {4 * problems} cases have no time"
    assert by_name[names[2]].why == "not measured"
    assert all(one.minutes > 0 for one in by_name.values())
    assert run(tmp_path, "missing", str(folder), "--exhibit", "table1") == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("Table 1 (table1_stages): 4 of 5 cases are of a kernel that has changed since; about ")
    assert second == "    python -m harness experiment=table1_stages campaign=paper"
    assert last.startswith("1 of 1 experiments of campaign paper are incomplete; about ")
    assert not (tmp_path / "report").exists()


def test_a_complete_campaign_lacks_nothing(tmp_path: Path, synthetic: ModuleType) -> None:
    for number, exhibit in enumerate(FEW):
        synthetic.write_run(tmp_path / "c", exhibit.id, f"2026010{number + 1}T000000Z-aaaaaa")
    assert missing(tmp_path / "c", FEW) == []
    text = missing_text([], "c", len(FEW))
    assert text == f"campaign c has all {len(FEW)} experiments, and no number is of a kernel that has changed since"
    assert missing_text([], "c", 1).startswith("campaign c has the experiment, and no number")


def test_a_kernel_of_others_that_is_wrong_is_not_missing(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: the command was told for released kernels that fail at some problems, which it cannot change."""
    wrong: list[str] = []

    def rate(problem: str, contestant: Contestant) -> float | str:
        if contestant.implementation in wrong:
            return "failed_verification: wrong by 0.1"
        return float(synthetic.plausible_rate(problem, contestant))

    for name, lacks in (("cublas", []), ("tk", ["4 of 5 cases have no time"])):
        wrong[:] = [name]
        synthetic.write_run(tmp_path / name, "table1_stages", rate=rate)
        assert [one.why for one in missing(tmp_path / name, [TABLE1])] == lacks
