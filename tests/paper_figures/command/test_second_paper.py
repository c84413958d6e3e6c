"""`--paper`: a folder of claims, published numbers and experiments is all that a second paper brings."""

from __future__ import annotations

import html
import shutil
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from report_support import Page, page_files
from reproduction_support import run

from paper_figures.command import reproduce
from paper_figures.exhibits import choose_exhibits
from paper_figures.published.claims import load_claims
from paper_figures.published.paper import THUNDERKITTENS, current, load_paper, reporting_on
from paper_figures.recorded.experiments import load_experiment

PAPER = Path(__file__).resolve().parents[1] / "second_paper"


@pytest.fixture
def runs(place: Path, synthetic: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Made-up runs of its two experiments."""
    monkeypatch.setattr(reproduce, "choose_exhibits", choose_exhibits)  # of which `place` takes a few
    folder = tmp_path / "results" / "h200-sxm" / "tiny"
    with reporting_on(load_paper(PAPER)):
        for number, name in enumerate(("tiny_gemm", "tiny_attention")):
            synthetic.write_run(folder, load_experiment(name), f"20260401T00000{number}Z-7171{number:02}")
    return folder


def test_a_second_paper_is_a_folder(place: Path, runs: Path) -> None:
    out = place / "report"
    assert run(place, "--paper", str(PAPER), "--from", str(runs)) == 0
    assert current() is THUNDERKITTENS  # again
    start = html.unescape((out / "index.html").read_text())
    assert "Tiny Tiles, looked at again" in start
    assert "Tiny Tiles claims" in (out / "badge.svg").read_text()
    assert {path.stem for path in (out / "exhibits").iterdir()} == {"tiny_gemm", "tiny_attention"}
    for path in page_files(out):
        text = path.read_text()
        assert not Page(text).open, path.name
        for foreign in ("Table 6", "make reproduce", "FlashAttention-2 is PyTorch"):
            assert foreign not in text, path.name
    claims = pd.read_csv(out / "data" / "claims.csv")
    verdicts = dict(zip(claims["Claim"].str.partition(" (")[0], claims["Verdict"], strict=True))
    assert len(verdicts) == 2
    fig1 = html.unescape((out / "exhibits" / "tiny_gemm.html").read_text())
    assert "<h1>Tiny GEMM beats cuBLAS, in part" in fig1  # faster, and far from 940 TFLOPS
    assert "paper: 940 TFLOPS on H100 80GB SXM" in fig1
    assert "in the paper 100 calls in a loop" in fig1
    assert "--config-dir second_paper experiment=tiny_gemm" in fig1
    cases = pd.read_parquet(out / "data" / "cases.parquet")
    assert len(cases) == 3 * 3 + 4 * 2
    panels = html.unescape((out / "exhibits" / "tiny_attention.html").read_text())
    assert "mask 1" in panels


def test_what_one_paper_says_is_not_the_others() -> None:
    with reporting_on(load_paper(PAPER)):
        assert [one.id for one in load_claims("tiny_gemm").claims] == ["tiny-gemm-is-faster", "tiny-gemm-rates"]
    assert load_claims("table1_stages").claims


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda paper: (paper / "paper.yaml").unlink(), "paper.yaml cannot be read"),
        (lambda paper: (paper / "paper.yaml").write_text("name: x"), "needs the keys exhibits, lede, name, title"),
        (lambda paper: shutil.rmtree(paper / "claims"), "has no folder claims"),
        (
            lambda paper: (paper / "paper.yaml").write_text("{name: x, title: y, lede: z, exhibits: [{id: e}]}"),
            "exhibit e of x has id: it needs axis, baseline,",
        ),
        (lambda paper: (paper / "experiment" / "tiny_gemm.yaml").unlink(), "tiny_gemm.yaml does not exist"),
    ],
)
def test_what_is_missing_is_said(
    place: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: object, said: str
) -> None:
    paper = shutil.copytree(PAPER, tmp_path / "damaged")
    assert callable(damage)
    damage(paper)
    assert run(place, "--paper", str(paper), "--from", str(runs)) != 0
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error


def test_another_paper_is_reported_on_alone(place: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, "--paper", str(PAPER)) == 2
    assert run(place, "--paper", str(PAPER), "--from", str(runs), "--readme") == 2
    assert "--paper reports on runs" in capsys.readouterr().err
