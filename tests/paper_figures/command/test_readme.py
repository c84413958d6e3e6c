"""The block of results in README.md."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from reproduction_support import MEASURED

from paper_figures.command.readme import BEGIN, END, results_block, update_readme
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibits import choose_exhibits
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import Report


def test_the_readmes_block_is_rewritten_and_nothing_else(report: Report, written: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"# Title\n\n{BEGIN}\nof an older run\n{END}\n\nThe end.\n")
    update_readme(report, written, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text.startswith(f"# Title\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\nThe end.\n")
    assert "of an older run" not in text
    shown = [exhibit.id for exhibit in MEASURED if exhibit.in_readme]
    assert shown == ["fig7_gemm", "fig8_attention"]
    for name in shown:
        assert f"](docs/figures/{name}.svg)" in text
        assert (tmp_path / "docs" / "figures" / f"{name}.svg").read_bytes().startswith(b"<?xml")
    assert all(result.claim.sentence in text for result in report.results)
    update_readme(report, written, tmp_path)
    assert (tmp_path / "README.md").read_text() == text


def test_the_readme_names_what_is_not_measured_yet(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(tmp_path / "c", "table1_stages")
    block = results_block(make_report(tmp_path / "c", choose_exhibits(["table1", "fig6", "fig8_attention"])))
    assert "hold" in block
    assert "Not measured yet in this campaign: Fig 6 (Occupancy), Fig 8 (Attention)" in block
    assert "20 claims are not judged yet." in block
    without_claims = choose_exhibits(["table1", "rotary_cuda_graph"])
    block = results_block(make_report(tmp_path / "c", without_claims))
    assert "Not measured yet in this campaign: Beyond the paper (Rotary embedding, launches left out)." in block
    assert "docs/figures" not in block


def test_a_readme_without_the_block_is_said(report: Report, written: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n")
    with pytest.raises(PaperFiguresError, match="needs the lines"):
        update_readme(report, written, tmp_path)
