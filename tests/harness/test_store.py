"""The run folder: what is written and read back, and what counts as done."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from harness_support import VERIFIED, group

from harness.records.errors import HarnessError
from harness.records.rows import Measurement, ProfileMetric, Status
from harness.runs import load_run
from harness.runs.group import StoredGroup, read_group
from harness.runs.store import run_folder


def test_a_new_run_is_readable_before_anything_is_measured(opened, folder):
    run = load_run(folder)
    assert run.measurements.empty
    assert list(run.measurements.columns) == list(Measurement.columns())
    assert run.samples("a").size == 0
    assert run.manifest["groups"] == []
    assert run.manifest["schema_version"] == 2


def test_a_group_reads_back(opened, folder):
    metric = ProfileMetric(run_id="r", case_id="a", kernel_name="k", metric="m", value=1.5, unit="GB/s")
    opened.append(replace(group(), profile=(metric,)))
    run = load_run(folder)
    stored = read_group(folder / "group-0001.json.gz", ["a", "b"])
    assert stored.measurements == group().measurements
    assert stored.ratios == group().ratios
    assert stored.profile == (metric,)
    assert run.measurements["case_id"].tolist() == ["a", "b"]
    assert run.measurements["tflops"].dtype == np.float64
    assert len(run.ratios) == 2
    assert run.profile.iloc[0]["value"] == 1.5
    np.testing.assert_allclose(run.samples("a"), np.linspace(8.75, 11.25, 30))
    assert run.rounds("b").tolist() == list(range(30))
    assert run.manifest["groups"][0]["energy_j"] == 12.0


def test_samples_of_other_ranks_read_back(opened, folder):
    """Guard: a group need not be of one worker; recorded runs say nothing of ranks, and their groups are of one."""
    several = replace(group(), ranks={1: group(n=40).samples})
    opened.append(several)
    stored = read_group(folder / "group-0001.json.gz", ["a", "b"])
    assert stored.ranks[1]["a"].rounds.tolist() == list(range(40))
    assert load_run(folder).samples("a").size == 30


def test_timing_again_replaces_what_readers_see(opened, folder):
    opened.append(group())
    opened.append(group(n=40, tflops=800.0))
    run = load_run(folder)
    assert run.measurements["n_samples"].tolist() == [40, 40]
    assert run.measurements["tflops"].tolist() == [800.0, 800.0]
    assert len(run.samples("a")) == 40
    assert len(run.ratios) == 2
    assert read_group(folder / "group-0001.json.gz", ["a", "b"]).measurements[0].n_samples == 30, "never edited"


def test_what_covers_a_group(opened):
    opened.append(group(cases=("a", "b", "c")))
    assert opened.covered(["a", "b"])
    assert opened.covered(["c"])
    assert not opened.covered(["a", "d"])
    opened.append(group(cases=("a", "d")))  # `a` was timed again, apart from `b`
    assert opened.covered(["a", "d"])
    assert not opened.covered(["a", "b"])
    assert opened.covered(["b", "c"])


def test_a_failure_covers_nothing(opened):
    failed = replace(VERIFIED, case_id="b", status=Status.ERROR, reason="x")
    opened.append(StoredGroup((group().measurements[0], failed), (), {"a": group().samples["a"]}))
    assert opened.covered(["a"])
    assert not opened.covered(["a", "b"])


@pytest.mark.parametrize("campaign", ["", "a/b", "..", ".hidden", "/abs"])
def test_campaigns_are_plain_names(campaign):
    with pytest.raises(HarnessError, match="plain folder name"):
        run_folder("results", "h200-sxm", campaign, "r")
    assert str(run_folder("results", "h200-sxm", "2026-11-paper", "r")) == "results/h200-sxm/2026-11-paper/r"


def test_notes_are_kept_once(opened, folder):
    for _ in range(2):
        opened.note("no ncu here")
    assert json.loads((folder / "manifest.json").read_text())["notes"] == ["no ncu here"]


@pytest.mark.parametrize("error", [math.inf, math.nan])
def test_an_error_that_is_no_number_reads_back(opened, folder, error):
    """Guard: `ser_json_inf_nan`; as null, an output of infinities would be one that was not looked at."""
    failed = replace(VERIFIED, status=Status.FAILED_VERIFICATION, reason="x", rel_l2_error=error, max_abs_error=error)
    opened.append(StoredGroup((failed,), (), {}))
    (stored,) = read_group(folder / "group-0001.json.gz", [failed.case_id]).measurements
    assert repr(stored.max_abs_error) == repr(stored.rel_l2_error) == repr(error)
