"""`reproduce-paper` again with nothing changed, and what counts as a change."""

from __future__ import annotations

from pathlib import Path

import pytest
from reproduction_support import Processes, run

from paper_figures.command.unchanged import digest_of_inputs

INPUTS = ("results/a/manifest.json", "paper_figures/a.py", "harness/a.py", "configs/a.yaml", "tk_kernels/kernels/a.cuh")


@pytest.mark.parametrize("changed", [*INPUTS, "baselines/new.py"])
def test_any_file_of_the_code_or_of_a_run_is_a_change(tmp_path: Path, changed: str) -> None:
    """Guard: an old report that is taken for today's hides what a change has broken."""
    for name in (*INPUTS, "docs/a.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    before = digest_of_inputs(tmp_path / "results", code=tmp_path)
    (tmp_path / "docs/a.md").write_text("other")
    assert digest_of_inputs(tmp_path / "results", code=tmp_path) == before
    (tmp_path / changed).parent.mkdir(exist_ok=True)
    (tmp_path / changed).write_text("other")
    assert digest_of_inputs(tmp_path / "results", code=tmp_path) != before
    assert digest_of_inputs(tmp_path / "results", ["--exhibit"], code=tmp_path) != before


def test_again_with_nothing_changed_is_at_once(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place) == 0
    steps = len(processes.words)
    said = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("verified here"))
    assert run(place) == 0
    assert len(processes.words) == steps
    assert f"nothing has changed since the last time: {said}" in capsys.readouterr().out


@pytest.mark.parametrize("harm", ["a page", "a run", "arguments", "a failure"])
def test_what_has_changed_or_failed_is_verified_again(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    processes.codes = [0, 0, 1] if harm == "a failure" else []
    assert run(place) == (1 if harm == "a failure" else 0)
    steps = len(processes.words)
    processes.codes = []
    if harm == "a page":
        next((place / "report" / "exhibits").glob("*.html")).write_text("half")
    elif harm == "a run":
        manifest = next(recorded.glob("*/manifest.json"))
        manifest.write_text(manifest.read_text() + "\n")
    assert run(place, *(["--exhibit", "table1"] if harm == "arguments" else [])) == 0
    assert len(processes.words) > steps
    assert "nothing has changed" not in capsys.readouterr().out
