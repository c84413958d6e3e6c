"""The page of what was measured again, with trends and regressions, on the nights that the repository keeps."""

from __future__ import annotations

import html
import shutil
from pathlib import Path

import pandas as pd
import pytest
from report_support import Page
from reproduction_support import TABLE1, run

from paper_figures.recorded.campaign import load_runs
from paper_figures.recorded.history import Rerun, load_history

RESULTS = Path(__file__).resolve().parents[3] / "results" / "h100-sxm"
NIGHTS = ("nightly", "nightly-slowed")
SLOWED_GEMM = "20261126T031445Z-84238f"


def history(results: Path) -> list[Rerun]:
    """Of the nights behind a campaign that has none of their experiments."""
    return load_history([(RESULTS / "none", []), *((results / name, load_runs(results / name)) for name in NIGHTS)])


def test_a_slowed_night_is_a_regression_and_an_equal_one_is_not() -> None:
    nights = history(RESULTS)
    assert [night.outcome for night in nights] == [
        "the first run",
        "the first run",
        "6 cases, none slower",
        "4 cases, none slower",
        "4 slower, seen twice",
        "4 slower, seen twice",
    ], "of attention and of GEMM in turn"


def test_without_its_second_measurement_it_is_a_suspicion(tmp_path: Path) -> None:
    for name in NIGHTS:
        shutil.copytree(RESULTS / name, tmp_path / name)
    *_, slowed = history(tmp_path)
    assert slowed.outcome == "4 slower, seen once"


def test_the_page_says_what_became_slower_and_shows_every_case(place: Path, recorded: Path) -> None:
    nights = [str(RESULTS / name) for name in NIGHTS]
    assert run(place, "report", str(recorded), *nights, "--exhibit", TABLE1.id) == 0
    out = place / "report"
    text = html.unescape((out / "history.html").read_text())
    page = Page((out / "history.html").read_text())
    assert len(page.ids) == len(set(page.ids))
    assert all((out / link).exists() for link in (one.partition("#")[0] for one in page.links) if link)
    assert text.count("regression, seen twice") == 4 + 4
    every = pd.read_parquet(out / "data" / "history.parquet")
    assert every["run"].nunique() == 6
    assert text.count('class="trend"') == len(every.groupby(["problem", "contestant"]))
    assert text.count("<circle") == len(every)
    ours = every[(every["contestant"] == "tk") & (every["run"] == SLOWED_GEMM)]
    assert set(ours["verdict"]) == {"REGRESSION"}
    assert (ours["speed"] < 0.98).all()
    libraries = every[every["contestant"] != "tk"]
    assert "REGRESSION" not in set(libraries["verdict"])
    assert 'href="history.html"' in (out / "index.html").read_text()
    assert run(place, "report", str(recorded), "--exhibit", TABLE1.id) == 0
    assert not (out / "history.html").exists()


def test_a_folder_without_nights_is_refused(place: Path, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, "report", str(recorded), str(place / "nightly-nowhere")) != 0
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "nowhere" in error
