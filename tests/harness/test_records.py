"""A record that contradicts itself cannot be made."""

from dataclasses import replace

import pytest
from harness_support import TIMED, VERIFIED

from harness.records.rows import Measurement, Ratio, RecordError, Status, Verdict, case_id

COLUMNS = (
    "run_id,case_id,workload,direction,implementation,variant,version,problem,dtype,distribution,seed,status,reason,"
    "rel_l2_error,max_abs_error,worst_output,tolerance,n_samples,timer,cache,latency_us_p10,latency_us_p50,"
    "latency_us_p90,tflops,gbps,roof_pct_measured,roof_pct_datasheet,bound,aa_noise_pct,sm_clock_mhz,power_w,energy_mj,"
    "tflops_per_w,throttled,settled_latency_us,settled_clock_mhz,settled_power_w,settled_energy_mj,settled_tflops,"
    "settled_blocks,peak_memory_mib,kernel_names,repro_command"
)


def test_columns_are_those_of_the_schema():
    assert ",".join(Measurement.columns()) == COLUMNS
    assert ",".join(Ratio.columns()) == "run_id,case_id,baseline_case_id,ratio_p50,ci_low,ci_high,verdict," + (
        "settled_ratio,settled_ci_low,settled_ci_high,settled_verdict"
    )


@pytest.mark.parametrize("record", [TIMED, VERIFIED])
def test_rows_round_trip(record):
    assert Measurement.from_row(record.to_row()) == record


def test_a_reason_is_one_line():
    failed = replace(VERIFIED, status=Status.ERROR, reason="first\n  second")
    assert failed.to_row()["reason"] == "first second"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": Status.ERROR, "reason": "x"}, "only a case that passed"),
        ({"status": Status.FAILED_VERIFICATION, "reason": "x"}, "only a case that passed"),
        ({"rel_l2_error": 1.0}, "above the tolerance"),
        ({"tolerance": None}, "needs its error and tolerance"),
        ({"latency_us_p50": None}, "samples without latencies"),
        ({"latency_us_p10": 10.5}, "not positive and ascending"),
        ({"latency_us_p10": 0.0}, "not positive and ascending"),
        ({"latency_us_p90": float("nan")}, "latency_us_p90 is nan"),
        ({"timer": ""}, "without timer"),
        ({"n_samples": 0}, "no samples, but"),
        ({"n_samples": -1}, "n_samples is -1"),
    ],
)
def test_contradictions(changes, words):
    with pytest.raises(RecordError, match=words):
        replace(TIMED, **changes)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_what_did_not_pass_needs_a_reason_and_has_no_time(status):
    with pytest.raises(RecordError, match="needs a reason"):
        replace(VERIFIED, status=status)
    assert replace(VERIFIED, status=status, reason="why").n_samples == 0


@pytest.mark.parametrize("name", ["latency_us_p50", "tflops", "aa_noise_pct", "power_w"])
def test_no_number_without_samples(name):
    with pytest.raises(RecordError, match="no samples"):
        replace(VERIFIED, **{name: 1.0})


def test_unreadable_rows():
    row = TIMED.to_row()
    for changes, words in (
        ({"seed": "x"}, "column seed: 'x'"),
        ({"status": "fine"}, "column status"),
        ({"tflops": "fast"}, "column tflops"),
        ({"extra": ""}, "extra missing or surplus"),
    ):
        with pytest.raises(RecordError, match=words):
            Measurement.from_row({**row, **changes})


def test_ratio_invariants():
    good = {"run_id": "r", "case_id": "a", "baseline_case_id": "b", "ratio_p50": 1.0, "ci_low": 0.9, "ci_high": 1.1}
    assert Ratio(**good, verdict=Verdict.SAME).verdict == "SAME"
    for changes in ({"baseline_case_id": "a"}, {"ci_low": 1.2}, {"ci_low": 0.0}, {"ratio_p50": -1.0}):
        with pytest.raises(RecordError):
            Ratio(**{**good, **changes}, verdict=Verdict.SAME)


def test_case_ids_are_stable_and_tell_everything_apart():
    key = {
        "workload": "gemm",
        "direction": "fwd",
        "problem": "M=1",
        "dtype": "bf16",
        "distribution": "normal",
        "implementation": "tk",
        "variant": "",
    }
    assert case_id(**key) == "61497db57c5f"  # stored runs are found by it: it may never change
    assert len({case_id(**key), *(case_id(**{**key, name: "other"}) for name in key)}) == 8
