"""`--add`: another machine's results beside the report's, compared or refused in a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from report_support import Page
from reproduction_support import FEW, TABLE1, run

from harness.naming import Contestant
from harness.records import Measurement, Ratio

GPU = "SYNTHETIC H100"


@pytest.fixture
def other(synthetic: ModuleType, tmp_path: Path) -> Path:
    """A small second machine, made up: one figure, and everything takes 1.25 times as long."""
    folder = tmp_path / "elsewhere" / "h100" / "theirs"

    def slower(problem: str, contestant: Contestant) -> float | str:
        found = synthetic.plausible_rate(problem, contestant)
        return found if isinstance(found, str) else 0.8 * found

    machine = {"gpu": {"name": GPU, "driver": "0"}}
    synthetic.write_run(folder, TABLE1.id, "20260301T000000Z-0ff1ce", rate=slower, manifest=machine)
    return folder


def test_two_machines_stand_beside_each_other(place: Path, recorded: Path, other: Path) -> None:
    words = ("--from", str(recorded), "--exhibit", *(one.id for one in FEW))
    assert run(place, *words, "--add", str(other)) == 0
    out = place / "report"
    text = (out / "gpus.html").read_text()
    page = Page(text)
    assert f"{GPU}: campaign theirs, 1 run, ended 2026-03-01." in text
    assert not page.open
    for link in (one.partition("#")[0] for one in page.links):
        assert not link or (out / link).exists(), link
    cases = pd.read_csv(out / "data" / "gpus-cases.csv")
    assert len(cases) == len(TABLE1.load_experiment().problems) * len(TABLE1.load_experiment().contestants)
    assert cases[f"{GPU} / SYNTHETIC H200"].str.removesuffix("×").astype(float).tolist() == pytest.approx(
        [0.8] * len(cases), abs=0.002
    )
    verdicts = pd.read_csv(out / "data" / "gpus-claims.csv")
    assert {"Claim", "SYNTHETIC H200", GPU} == set(verdicts.columns)
    every = pd.read_parquet(out / "data" / "cases.parquet")
    assert set(every["gpu"]) == {"SYNTHETIC H200", GPU}
    assert all((out / one.partition("#")[0]).exists() for one in every["page"])
    assert GPU in (out / "find.html").read_text()
    assert "## GPUs compared" in (out / "report.md").read_text()
    assert 'href="gpus.html"' in (out / "index.html").read_text()

    assert run(place, *words) == 0  # and without it there is no trace of them
    assert not (out / "gpus.html").exists()
    assert "gpus.html" not in (out / "index.html").read_text()


def test_results_with_fewer_columns_are_compared(place: Path, recorded: Path, other: Path) -> None:
    """Columns that came later are no reason to refuse a machine: they are empty there."""
    [folder] = other.iterdir()
    for name, record in (("measurements.csv", Measurement), ("ratios.csv", Ratio)):
        table = pd.read_csv(folder / name, dtype=str, keep_default_na=False)
        assert record.LATER
        table.drop(columns=list(record.LATER)).to_csv(folder / name, index=False)
    assert run(place, "--from", str(recorded), "--exhibit", TABLE1.id, "--add", str(other)) == 0
    assert len(pd.read_csv(place / "report" / "data" / "gpus-cases.csv"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("column", "latency_us_p50"),
        ("twice", "is in the report already: add another machine"),
        ("others", "shares no timed case with campaign paper"),
        ("nothing", "elsewhere"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    place: Path,
    recorded: Path,
    other: Path,
    synthetic: ModuleType,
    capsys: pytest.CaptureFixture[str],
    damage: str,
    said: str,
) -> None:
    [folder] = other.iterdir()
    if damage == "column":
        table = pd.read_csv(folder / "measurements.csv", dtype=str, keep_default_na=False)
        table.drop(columns="latency_us_p50").to_csv(folder / "measurements.csv", index=False)
    elif damage == "twice":
        shutil.rmtree(folder)
        shutil.copytree(next(recorded.glob(f"*/{'manifest.json'}")).parent, folder)
    elif damage == "others":
        shutil.rmtree(folder)
        synthetic.write_run(other, FEW[1].id, folder.name)
    else:
        shutil.rmtree(other)
    words = ("--from", str(recorded), "--exhibit", TABLE1.id, "--add", str(other))
    assert run(place, *words) != 0
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error


def test_digests_are_of_one_machine(
    place: Path, recorded: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place, "--from", str(recorded), "--write-digests", "--add", str(other)) == 2
    assert "--add makes a report of several machines" in capsys.readouterr().err
