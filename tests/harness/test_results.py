"""Readers of run folders: damaged files, campaigns."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from harness_support import MANIFEST, NO_TIME, ROOT, edit, group

from harness.records.errors import HarnessError
from harness.records.rows import ProfileMetric, Status
from harness.runs import ResultsError, load_campaign, load_run
from harness.runs.store import Store

FILE = "group-0001.json.gz"


def damage_manifest(folder, drop="", **changes):
    path = folder / "manifest.json"
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key != drop}
    path.write_text(json.dumps({**kept, **changes}))


def change_row(**cells):
    """Damage: other cells in the first row of the measurements."""
    return lambda folder: edit(folder / FILE, lambda held: held["measurements"][0].update(cells))


def change_ratio(**cells):
    return lambda folder: edit(folder / FILE, lambda held: held["ratios"][0].update(cells))


def without(folder, *names):
    """Damage: no such cell in the first row of the measurements."""
    edit(folder / FILE, lambda held: [held["measurements"][0].pop(name) for name in names])


def last_row_twice(folder):
    edit(folder / FILE, lambda held: held["measurements"].append(held["measurements"][-1]))
    damage_manifest(folder, groups=[{"case_ids": ["a", "b", "b"], "passed": ["a", "b"], "file": FILE}])


DAMAGES = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "is not a run folder"),
    "half a manifest": (lambda f: (f / "manifest.json").write_text('{"run_id": '), "truncated or damaged"),
    "a list": (
        lambda f: (f / "manifest.json").write_text("[]"),
        r"manifest.json: it is \[\], needs to be {KEY: value}",
    ),
    "other schema": (
        lambda f: damage_manifest(f, schema_version=99),
        "schema_version: 99, this program reads up to 2",
    ),
    "binary": (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe\x00"), "truncated or damaged"),
    "no run id": (lambda f: (f / "manifest.json").write_text('{"schema_version": 1}'), "run_id is missing"),
    "no config": (lambda f: damage_manifest(f, drop="config"), "manifest.json: config is missing: restore"),
    "groups": (lambda f: damage_manifest(f, groups=3), "groups is 3, needs to be a list"),
    "a group": (lambda f: damage_manifest(f, groups=[{"case_ids": ["a"]}]), "groups.0.passed is missing"),
    "no list of groups": (lambda f: damage_manifest(f, groups=[3]), "groups.0 is 3, needs to be {KEY: value}"),
    "no file": (lambda f: damage_manifest(f, groups=[{"case_ids": [], "passed": []}]), "groups that name no file"),
    "a build": (lambda f: damage_manifest(f, kernel_builds={"tk": 3}), "kernel_builds.tk is 3, needs"),
    "begin": (
        lambda f: damage_manifest(f, started_utc="today"),
        "started_utc: Invalid isoformat string: 'today'",
    ),
    "roofs": (lambda f: damage_manifest(f, roofs={"copy_gbps": "x"}), "roofs.copy_gbps is 'x', needs"),
    "no group": (lambda f: (f / FILE).unlink(), "group-0001.json.gz is missing: resume"),
    "empty": (lambda f: (f / FILE).write_text(""), "group-0001.json.gz is truncated"),
    "half a group": (lambda f: (f / FILE).write_bytes((f / FILE).read_bytes()[:-20]), "gz is truncated or was changed"),
    "a group that is no JSON": (lambda f: (f / FILE).write_bytes(gzip.compress(b"{")), "Invalid JSON"),
    "a column gone": (lambda f: without(f, "tflops"), "30 samples, but no tflops"),
    "a column more": (change_row(x=1), "measurements.0.x is unknown"),
    "a row twice": (last_row_twice, "case b is there for a second time in its group"),
    "status": (change_row(status="Passed"), "status is 'Passed', needs to be 'passed', 'failed_"),
    "a failure with samples": (
        change_row(status="error", reason="it broke"),
        "30 samples of a case with status error",
    ),
    "a time of nothing": (change_row(n_samples=0), "no samples, but latency_us_p10, .*, timer, cache set"),
    "samples without a time": (change_row(latency_us_p50=None), r"30 samples beside .*\[9.0, None, 11.0\]"),
    "another time": (change_row(latency_us_p50=9.5), r"case a has the latencies .* 9.5 .*, its samples make them"),
    "a command that no shell reads": (
        change_row(repro_command="echo '" + "x" * 40),
        "no shell reads the repro_c",
    ),
    "bad number": (change_ratio(ratio_p50="fast"), "ratios.0.ratio_p50 is 'fast', needs to be a number"),
    "no interval": (change_ratio(ci_low=1.2), r"the interval \[1.2, 1.01\] is empty"),
    "a seed beyond int64": (
        change_row(seed=2**63),
        "seed is 9223372036854775808, needs to be below",
    ),
    "no samples": (
        lambda f: edit(f / FILE, lambda held: held["samples"].pop("a")),
        "case a has 0 samples, its row says 30",
    ),
    "fewer samples": (
        lambda f: edit(f / FILE, lambda held: held["samples"]["a"]["rounds"].pop()),
        r"have the lengths \[30, 29, 30, 30, 30\]",
    ),
    "other samples": (
        lambda f: edit(f / FILE, lambda held: held["samples"].update(a={"x": [1]})),
        "samples.a.latency_us is missing",
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
        with pytest.raises(HarnessError) as refused:
            Store.reopen(folder)
        assert str(refused.value) == str(caught.value)
    else:
        with Store.reopen(folder) as again:
            assert not again.covered(["a", "b"])
            again.append(group())
        assert len(load_run(folder).ratios) == 2


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
    """Guard: `paired` and `passed` in harness.runs.stored; the rows of the first time stay in their file."""
    with Store.create(folder, MANIFEST) as made:
        made.append(failing(group(cases=("a", "b", "c")), "b"))
        made.append(failing(group(cases=("a", "b", "c")), "a"))
    run = load_run(folder)
    assert run.measurements["n_samples"].tolist() == [0, 30, 30]
    pairs = zip(run.ratios["case_id"], run.ratios["baseline_case_id"], strict=True)
    assert sorted(pairs) == [("b", "c"), ("c", "b")]
    assert run.profile["case_id"].tolist() == ["b", "c"]


def test_ratios_are_of_cases_of_one_group(folder):
    """Guard: `home` in harness.runs.stored; a case that was timed again without another is not paired with it."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group(cases=("a", "b", "c")))
        made.append(group(cases=("a", "b"), median=9.0))
    run = load_run(folder)
    assert run.measurements["n_samples"].tolist() == [30, 30, 30]
    assert set(zip(run.ratios["case_id"], run.ratios["baseline_case_id"], strict=True)) == {("a", "b"), ("b", "a")}


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
    with pytest.raises(ResultsError, match="test_results.py is not a run folder: there is no manifest.json in it"):
        load_run(__file__)
    with pytest.raises(ResultsError, match="nowhere is not a run folder"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match="is a campaign, needs a run: give one of its folders"):  # and not: delete it
        load_run(folder.parent)
    (later / "manifest.json").unlink()
    with pytest.raises(ResultsError, match=f"{later.name} is not a run folder: there is no manifest.json in it"):
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
        ("latency_us_p50", 1.5, "latencies"),
        ("problem", "M=64;N=48;K=65", "by its columns"),
        ("variant", "stages=9", "by its columns"),
        ("problem", "M=;N", "problem is 'M=;N', needs to match pattern"),
    ],
)
def test_a_number_or_a_name_that_was_edited_is_refused(stored_run, tmp_path, column, value, words):
    """Guards: a page from such a table would be wrong, and nothing in it would say so."""
    copy = shutil.copytree(stored_run, tmp_path / "run")
    edit(copy / FILE, lambda held: held["measurements"][0].update({column: value}))
    with pytest.raises(ResultsError, match=re.escape(words)):
        load_run(copy)
    assert load_run(stored_run).run_id
