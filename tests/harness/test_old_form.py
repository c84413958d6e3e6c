"""Runs from before each group had a file of its own: those in results/, as they were recorded."""

import json
import shutil

import pandas as pd
import pytest

from harness.records.places import DATA, FIRST
from harness.records.rows import Measurement
from harness.runs import MANIFEST, ResultsError, load_run


def recorded(file):
    """A recorded run that has this file, the smallest one."""
    found = [path.parent for path in (DATA / FIRST).glob(f"*/{file}")]
    return min(found, key=lambda run: (run / "samples.parquet").stat().st_size)


@pytest.fixture
def old(tmp_path):
    """A copy of a run with settled blocks."""
    return shutil.copytree(recorded("settled.parquet"), tmp_path / "run")


def csv_without(path, columns):
    pd.read_csv(path, dtype=str, keep_default_na=False).drop(columns=list(columns)).to_csv(path, index=False)


def test_a_recorded_run_is_read_whole(old):
    run = load_run(old)
    table = pd.read_csv(old / "measurements.csv")
    assert run.manifest["schema_version"] == 1
    assert set(run.measurements["case_id"]) == set(table["case_id"])
    samples = pd.read_parquet(old / "samples.parquet")
    case = samples["case_id"].iloc[0]
    own = samples[samples["case_id"] == case].sort_values("round", kind="stable")
    assert run.samples(case).tolist() == own["latency_us"].tolist()
    assert run.seats(case).predecessors.tolist() == own["predecessor"].tolist()
    assert len(run.settled) == len(pd.read_parquet(old / "settled.parquet")) > 0
    assert len(run.ratios) == len(pd.read_csv(old / "ratios.csv"))


def test_a_file_from_before_the_optional_columns_reads_them_as_empty(tmp_path):
    """Guard: `LATER` in harness/records/rows.py."""
    settled = {path.parent for path in (DATA / FIRST).glob("*/settled.parquet")}
    plain = next(path.parent for path in sorted((DATA / FIRST).glob("*/samples.parquet")) if path.parent not in settled)
    copy = shutil.copytree(plain, tmp_path / "run")
    csv_without(copy / "measurements.csv", Measurement.LATER)
    run = load_run(copy)
    assert tuple(run.measurements.columns) == Measurement.columns()
    assert run.measurements["settled_blocks"].isna().all()


@pytest.mark.parametrize("name", [name for name in Measurement.columns() if name.startswith("settled_")])
def test_a_file_that_lacks_a_single_later_column_was_changed(old, name):
    """Guard: such a run's settled rates would be gone, and its headlines those of the rounds."""
    csv_without(old / "measurements.csv", [name])
    with pytest.raises(ResultsError, match=rf"measurements.csv has other columns: {name} differ"):
        load_run(old)


def test_samples_from_before_seats_were_stored(old):
    table = pd.read_parquet(old / "samples.parquet")
    table[["case_id", "round", "latency_us"]].to_parquet(old / "samples.parquet", index=False)
    seats = load_run(old).seats(table["case_id"].iloc[0])
    assert len(seats) > 0
    assert not seats.seated
    assert set(seats.positions) == {-1}


def edited(name, column, value):
    """Damage: another cell in the first row of a table that was timed."""

    def damage(run):
        table = pd.read_csv(run / name, dtype=str, keep_default_na=False)
        row = table.index[table["n_samples"] != "0"][0] if "n_samples" in table else 0
        table.loc[row, column] = value
        table.to_csv(run / name, index=False)

    return damage


def row_twice(run):
    path = run / "measurements.csv"
    path.write_text(path.read_text() + path.read_text().splitlines(keepends=True)[-1].replace(",passed,", ",error,"))


DAMAGES = {
    "no measurements": (lambda run: (run / "measurements.csv").unlink(), "measurements.csv is missing"),
    "no samples": (lambda run: (run / "samples.parquet").unlink(), "samples.parquet is missing"),
    "no blocks": (lambda run: (run / "settled.parquet").unlink(), "has 0 settled blocks, its row says"),
    "torn": (
        lambda run: (run / "ratios.csv").write_text((run / "ratios.csv").read_text()[:-9]),
        "the last line of ratios.csv is incomplete",
    ),
    "empty": (lambda run: (run / "measurements.csv").write_text(""), "the last line of measurements.csv is incomplete"),
    "half the samples": (
        lambda run: (run / "samples.parquet").write_bytes((run / "samples.parquet").read_bytes()[:-20]),
        "is truncated or damaged",
    ),
    "other samples": (
        lambda run: pd.DataFrame({"x": [1]}).to_parquet(run / "samples.parquet"),
        r"samples.parquet has columns \['x'\], needs",
    ),
    "column gone": (lambda run: csv_without(run / "measurements.csv", ["tflops"]), "other columns: tflops differ"),
    "short row": (lambda run: (run / "ratios.csv").open("a").write("only,three,cells\n"), "truncated or damaged"),
    "failed as well": (row_twice, "samples of a case with status error"),
    "status": (edited("measurements.csv", "status", "Passed"), "status is 'Passed', needs to be 'passed'"),
    "number": (edited("ratios.csv", "ratio_p50", "fast"), "ratio_p50 is 'fast', needs to be a number"),
    "latency": (edited("measurements.csv", "latency_us_p50", "1.5"), "latencies"),
    "problem": (edited("measurements.csv", "problem", "M=1;N=1;K=1"), "by its columns"),
    "variant": (edited("measurements.csv", "variant", "stages=9"), "by its columns"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_one_sentence(old, name):
    damage, words = DAMAGES[name]
    damage(old)
    with pytest.raises(ResultsError, match=words) as caught:
        load_run(old)
    assert "\n" not in str(caught.value)
    assert "measure again" in str(caught.value)


def test_a_profile_that_is_gone_is_missed(tmp_path):
    copy = shutil.copytree(recorded("profile.csv"), tmp_path / "run")
    assert len(load_run(copy).profile)
    (copy / "profile.csv").unlink()
    with pytest.raises(ResultsError, match=r"profile\.csv is missing"):
        load_run(copy)


def test_every_recorded_run_is_of_the_old_form_or_of_today_s():
    versions = {json.loads(path.read_text())["schema_version"] for path in DATA.glob(f"results/*/*/*/{MANIFEST}")}
    assert versions <= {1, 2}
