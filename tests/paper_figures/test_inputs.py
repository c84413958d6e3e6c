"""Which files make the kept report of the tests an old one."""

from __future__ import annotations

from pathlib import Path

import pytest
from inputs import digest_of_inputs

INPUTS = ("results/a/manifest.json", "paper_figures/a.py", "harness/a.py", "configs/a.yaml", "tk_kernels/kernels/a.cuh")


@pytest.mark.parametrize("changed", [*INPUTS, "baselines/new.py"])
def test_any_file_of_the_code_or_of_a_run_is_a_change(tmp_path: Path, changed: str) -> None:
    """Guard: an old report that is taken for today's hides what a change has broken."""
    for name in (*INPUTS, "docs/a.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    before = digest_of_inputs([tmp_path / "results"], tmp_path)
    (tmp_path / "docs/a.md").write_text("other")
    assert digest_of_inputs([tmp_path / "results"], tmp_path) == before
    (tmp_path / changed).parent.mkdir(exist_ok=True)
    (tmp_path / changed).write_text("other")
    assert digest_of_inputs([tmp_path / "results"], tmp_path) != before
