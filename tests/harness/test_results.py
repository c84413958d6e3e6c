"""Readers of run folders: older files, damaged ones, campaigns."""

import csv
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
from harness_support import MANIFEST, NO_TIME, ROOT, group

from harness.records.errors import HarnessError
from harness.records.rows import Measurement, ProfileMetric, Status
from harness.runs import ResultsError, load_campaign, load_run
from harness.runs.store import Store


def damage_manifest(folder, drop="", **changes):
    path = folder / "manifest.json"
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key != drop}
    path.write_text(json.dumps({**kept, **changes}))


def test_a_file_from_before_the_optional_columns_reads_them_as_empty(folder):
    """Guard: `LATER` in harness/records/rows.py; recorded runs stay readable."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    path = folder / "measurements.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.drop(columns=list(Measurement.LATER)).to_csv(path, index=False)
    run = load_run(folder)
    assert tuple(run.measurements.columns) == Measurement.columns()
    assert run.measurements["settled_blocks"].isna().all()


@pytest.mark.parametrize("name", [name for name in Measurement.columns() if name.startswith("settled_")])
def test_a_file_that_lacks_a_single_later_column_was_changed(folder, name):
    """Guard: such a run's settled rates would be gone, and its headlines those of the rounds."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    path = folder / "measurements.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.drop(columns=[name]).to_csv(path, index=False)
    with pytest.raises(ResultsError, match=rf"measurements.csv has other columns than schema 1 \({name} differ\)"):
        load_run(folder)


def test_an_old_file_is_told_what_it_lacks_of_its_own_columns(folder):
    """Guard: the later columns, which it may be without, were named beside the one that was gone."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    path = folder / "measurements.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.drop(columns=[*Measurement.LATER, "tflops"]).to_csv(path, index=False)
    with pytest.raises(ResultsError, match=r"other columns than schema 1 \(tflops differ\)"):
        load_run(folder)


def drop_column(folder):
    table = pd.read_csv(folder / "measurements.csv")
    table.drop(columns="tflops").to_csv(folder / "measurements.csv", index=False)


def short_row(folder):
    with open(folder / "ratios.csv", "a") as file:
        file.write("only,three,cells\n")


def bad_number(folder):
    path = folder / "ratios.csv"
    path.write_text(path.read_text() + "r,c,b,fast,0.9,1.1,SAME,,,,\n")


def last_row_twice(folder):
    path = folder / "measurements.csv"
    path.write_text(path.read_text() + path.read_text().splitlines(keepends=True)[-1])


def other_status(folder):
    path = folder / "measurements.csv"
    assert ",passed," in path.read_text()
    path.write_text(path.read_text().replace(",passed,", ",Passed,", 1))


def first_row(**cells):
    """Damage: other cells in the first row of the measurements, in a file that is not shorter for it."""

    def damage(folder):
        path = folder / "measurements.csv"
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        table.loc[0, list(cells)] = list(cells.values())
        table.loc[0, "version"] += "0" * 4
        table.to_csv(path, index=False)

    return damage


DAMAGES = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "is not a run folder"),
    "half a manifest": (lambda f: (f / "manifest.json").write_text('{"run_id": '), "truncated or damaged"),
    "a list": (lambda f: (f / "manifest.json").write_text("[]"), "holds a list"),
    "other schema": (
        lambda f: damage_manifest(f, schema_version=99),
        "schema version 99, this program reads version 1",
    ),
    "binary": (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe\x00"), "cannot be read"),
    "no run id": (lambda f: (f / "manifest.json").write_text('{"schema_version": 1}'), "lacks run_id"),
    "no config": (lambda f: damage_manifest(f, drop="config"), "manifest.json lacks config: restore"),
    "no groups": (lambda f: damage_manifest(f, drop="groups"), "manifest.json lacks groups"),
    "groups": (lambda f: damage_manifest(f, groups=3), "has groups = 3, needs a list"),
    "a group": (lambda f: damage_manifest(f, groups=[{"case_ids": ["a"]}]), "has groups without lists of case_ids"),
    "no list of groups": (lambda f: damage_manifest(f, groups=[3]), "has groups without lists of case_ids"),
    "builds": (lambda f: damage_manifest(f, kernel_builds=[]), r"has kernel_builds = \[\], needs an object"),
    "a build": (lambda f: damage_manifest(f, kernel_builds={"tk": 3}), "has kernel_builds that are no objects"),
    "arguments": (lambda f: damage_manifest(f, arguments=[3]), "has arguments that are no texts"),
    "gpu": (lambda f: damage_manifest(f, gpu="H200"), "has gpu = 'H200', needs an object or null"),
    "bytes": (
        lambda f: damage_manifest(f, groups=[{"case_ids": [], "passed": [], "bytes": 3}]),
        "has groups whose bytes are no object",
    ),
    "begin": (
        lambda f: damage_manifest(f, started_utc="today"),
        "has started_utc = 'today', needs a time such as 2026",
    ),
    "seconds": (lambda f: damage_manifest(f, seconds={"calls": "x"}), "has seconds that are no numbers"),
    "roofs": (lambda f: damage_manifest(f, roofs={"copy_gbps": "x"}), "has roofs that are no numbers"),
    "timer": (lambda f: damage_manifest(f, config={"timer": 5}), "has config.timer that is no object"),
    "no measurements": (lambda f: (f / "measurements.csv").unlink(), "measurements.csv is missing"),
    "empty": (lambda f: (f / "measurements.csv").write_text(""), "measurements.csv is truncated"),
    "column gone": (drop_column, "tflops differ"),
    "a row twice": (last_row_twice, "measurements.csv line 4 has case b for a second time in its group"),
    "status": (other_status, "measurements.csv line 2 has the status 'Passed', needs one of error, failed_"),
    "a failure with samples": (
        first_row(status="error", reason="it broke"),
        "measurements.csv line 2 has 30 samples of a case with status error: restore",
    ),
    "a time of nothing": (first_row(n_samples="0"), r"line 2 has 0 samples beside the latencies \[9.0, 10.0, 11.0\]"),
    "samples without a time": (first_row(latency_us_p50=""), r"line 2 has 30 samples beside .*\[9.0, nan, 11.0\]"),
    "a command that no shell reads": (first_row(repro_command="echo '" + "x" * 40), "line 2 has a repro_command"),
    "fewer than none": (first_row(n_samples="-1"), "line 2 has -1 samples beside the latencies"),
    "short row": (short_row, "has 3 cells, needs 11"),
    "bad number": (bad_number, "ratios.csv, column ratio_p50"),
    "a seed beyond int64": (first_row(seed=str(2**63)), "measurements.csv, column seed: Python int too large"),
    "no samples": (lambda f: (f / "samples.parquet").unlink(), "samples.parquet is missing: .* in a new run"),
    "half the samples": (
        lambda f: (f / "samples.parquet").write_bytes((f / "samples.parquet").read_bytes()[:-20]),
        "samples.parquet is truncated or damaged .* in a new run",
    ),
    "other samples": (
        lambda f: pd.DataFrame({"x": [1]}).to_parquet(f / "samples.parquet"),
        r"has columns \['x'\]",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_one_sentence(folder, name):
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    damage, words = DAMAGES[name]
    damage(folder)
    with pytest.raises(ResultsError, match=words) as caught:
        load_run(folder)
    assert "\n" not in str(caught.value)
    if "resume=" not in str(caught.value):  # what resuming does not repair, it refuses
        refusal = ""
        try:
            with Store.reopen(folder) as again:
                assert again.covered(["a", "b"])
            assert len(load_run(folder).ratios) == 2
        except HarnessError as refused:
            refusal = str(refused)
        cut = name in ("short row", "bad number", "a row twice")  # behind the last group
        assert refusal == ("" if cut else str(caught.value))


def test_a_case_may_be_timed_again_in_a_later_group(folder):
    """Guard: what a repetition of the last group appends is no damage."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
        made.append(group(median=9.0))
    assert load_run(folder).measurements["latency_us_p50"].tolist() == [9.0, 9.0]


def failing(stored, loser):
    """A group as it is stored where one of its cases fails: no time, no samples, no ratio."""
    return replace(
        stored,
        measurements=tuple(
            replace(one, status=Status.ERROR, reason="it broke", **NO_TIME) if one.case_id == loser else one
            for one in stored.measurements
        ),
        ratios=tuple(one for one in stored.ratios if loser not in (one.case_id, one.baseline_case_id)),
        samples={case: held for case, held in stored.samples.items() if case != loser},
        profile=tuple(
            ProfileMetric(run_id=one.run_id, case_id=one.case_id, kernel_name="k", metric="m", value=1.0, unit="%")
            for one in stored.measurements
            if one.case_id != loser
        ),
    )


def test_what_failed_when_it_was_timed_again_has_no_ratio_and_no_profile(folder):
    """Guard: `_timed_together` and `_of_passes` in harness.runs; the rows of the first time stay in the files."""
    with Store.create(folder, MANIFEST) as made:
        made.append(failing(group(cases=("a", "b", "c")), "b"))
        made.append(failing(group(cases=("a", "b", "c")), "a"))
    run = load_run(folder)
    assert run.measurements["n_samples"].tolist() == [0, 30, 30]
    pairs = zip(run.ratios["case_id"], run.ratios["baseline_case_id"], strict=True)
    assert sorted(pairs) == [("b", "c"), ("c", "b")]
    assert run.profile["case_id"].tolist() == ["b", "c"]


def test_ratios_are_of_cases_of_one_group(folder):
    """Guard: `home` in `_timed_together`; a case that was timed again without another is not paired with it."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group(cases=("a", "b", "c")))
        made.append(group(cases=("a", "b"), median=9.0))
    run = load_run(folder)
    assert run.measurements["n_samples"].tolist() == [30, 30, 30]
    assert set(zip(run.ratios["case_id"], run.ratios["baseline_case_id"], strict=True)) == {("a", "b"), ("b", "a")}


def test_in_another_folder_the_error_says_where_the_recorded_runs_are(tmp_path, monkeypatch):
    """Guard: of a wheel the README's own line ended without a way on."""
    monkeypatch.chdir(tmp_path)
    recorded = "results/h100-sxm/2026-11-paper"
    with pytest.raises(ResultsError, match=f"{recorded} is not a folder: .*; what is recorded is in {ROOT / recorded}"):
        load_campaign(recorded)


def test_a_campaign_is_its_runs_newest_first(tmp_path, folder):
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    later = folder.with_name("20261121T120000Z-000000")
    shutil.copytree(folder, later)
    damage_manifest(later, run_id=later.name, started_utc="2026-11-21T12:00:00Z")
    (folder.parent / "notes.txt").write_text("not a run")
    assert [run.run_id for run in load_campaign(folder.parent)] == [later.name, MANIFEST["run_id"]]
    with pytest.raises(ResultsError, match="is not a folder"):
        load_campaign(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match="test_results.py is not a run folder: it is a file, give the folder that"):
        load_run(__file__)
    with pytest.raises(ResultsError, match="nowhere is not a run folder: there is nothing of that name"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match="is a campaign, needs a run: give one of its folders"):  # and not: delete it
        load_run(folder.parent)
    (later / "manifest.json").unlink()
    with pytest.raises(ResultsError, match=f"{later.name} is not a run folder: it has no manifest.json"):
        load_campaign(folder.parent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultsError, match="holds no run"):
        load_campaign(tmp_path / "empty")


def test_the_readers_need_neither_torch_nor_hydra_nor_what_plans_a_run():
    heavy = ("torch", "hydra", "wandb", "harness.plan.planning", "harness.workloads")
    code = f"import sys, harness.records.naming, harness.runs; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("latency_us_p50", "1.5", "latency_us_p50 = 1.5 of case"),
        ("latency_us_p10", "0.5", "latency_us_p10 = 0.5 of case"),
        ("problem", "M=64;N=48;K=65", "its columns make it"),
        ("variant", "stages=9", "its columns make it"),
        ("problem", "M=;N", "needs KEY=value;..."),
    ],
)
def test_a_number_or_a_name_that_was_edited_is_refused(stored_run, tmp_path, column, value, words):
    """Guards: a page from such a table would be wrong, and nothing in it would say so."""
    copy = shutil.copytree(stored_run, tmp_path / "run")
    rows = list(csv.DictReader((copy / "measurements.csv").open()))
    rows[0][column] = value
    with (copy / "measurements.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(ResultsError, match=re.escape(words)):
        load_run(copy)
    assert load_run(stored_run).run_id


def test_a_profile_that_is_gone_is_missed(stored_run, tmp_path):
    copy = shutil.copytree(stored_run, tmp_path / "run")
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["groups"][0]["bytes"]["profile.csv"] = 10
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ResultsError, match=r"profile\.csv is missing"):
        load_run(copy)
