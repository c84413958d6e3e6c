"""A record that contradicts itself cannot be made."""

import math
from dataclasses import replace

import pytest
from harness_support import TIMED, VERIFIED
from pydantic import TypeAdapter, ValidationError

from harness.records.errors import objection
from harness.records.rows import Measurement, Ratio, Status, Verdict, case_id


@pytest.mark.parametrize(
    "record", [TIMED, VERIFIED, replace(VERIFIED, status=Status.ERROR, reason="x", max_abs_error=math.inf)]
)
def test_rows_round_trip(record):
    kind = TypeAdapter(Measurement)
    assert kind.validate_json(kind.dump_json(record)) == record


def test_a_reason_is_one_line():
    assert replace(VERIFIED, status=Status.ERROR, reason="first\n  second").reason == "first second"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": Status.ERROR, "reason": "x"}, "30 samples of a case with status error"),
        ({"status": Status.FAILED_VERIFICATION, "reason": "x"}, "30 samples of a case with status failed_verification"),
        ({"rel_l2_error": 1.0}, "needs an error within its tolerance, has 1.0 and 0.0033"),
        ({"rel_l2_error": math.nan}, "needs an error within its tolerance, has nan"),
        ({"tolerance": None}, "needs an error within its tolerance, has 0.0016 and None"),
        ({"latency_us_p50": None}, r"30 samples beside the latencies \[9.0, None, 11.0\]"),
        ({"latency_us_p10": 10.5}, "needs ascending ones"),
        ({"latency_us_p10": 0.0}, "needs ascending ones"),
        ({"latency_us_p90": math.nan}, "latency_us_p90\n.*finite"),
        ({"tflops": math.inf}, "tflops\n.*finite"),
        ({"timer": ""}, "without timer"),
        ({"n_samples": 0}, "no samples, but"),
        ({"n_samples": -1}, "n_samples\n.*greater than or equal to 0"),
        ({"seed": 2**63}, "seed\n.*less than"),
        ({"problem": "M=;N"}, "problem\n.*match pattern"),
        ({"repro_command": "echo 'x"}, "no shell reads the repro_command echo 'x"),
        ({"settled_tflops": 1.0}, "some of its settled columns are empty"),
        ({"case_id": "0123456789ab"}, "case 0123456789ab is [0-9a-f]{12} by its columns"),
    ],
)
def test_contradictions(changes, words):
    with pytest.raises(ValidationError, match=words):
        replace(TIMED, **changes)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_what_did_not_pass_needs_a_reason_and_has_no_time(status):
    with pytest.raises(ValidationError, match="needs a reason"):
        replace(VERIFIED, status=status)
    assert replace(VERIFIED, status=status, reason="why").n_samples == 0


@pytest.mark.parametrize("name", ["latency_us_p50", "tflops", "aa_noise_pct", "power_w"])
def test_no_number_without_samples(name):
    with pytest.raises(ValidationError, match="no samples"):
        replace(VERIFIED, **{name: 1.0})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": "x"}, "seed is 'x', needs to be an integer"),
        ({"status": "fine"}, "status is 'fine', needs to be 'passed', 'failed_verification'"),
        ({"tflops": "fast"}, "tflops is 'fast', needs to be a number"),
        ({"extra": ""}, "extra is unknown"),
        ({"reason": None}, "reason is None, needs to be a text"),
        ({"rel_l2_error": 1.0}, "gemm M=1;N=2;K=3 tk[stages=2]: a pass needs an error within its tolerance"),
    ],
)
def test_an_objection_is_one_sentence(changes, words):
    with pytest.raises(ValidationError) as caught:
        Measurement(**{**vars(TIMED), **changes})
    said = objection(caught.value)
    assert said.startswith(words)
    assert "\n" not in said


def test_an_objection_names_where_it_is():
    with pytest.raises(ValidationError) as caught:
        Measurement(**{name: value for name, value in vars(TIMED).items() if name != "seed"})
    assert objection(caught.value, "measurements", "3") == "measurements.3.seed is missing"


def test_ratio_invariants():
    good = {"run_id": "r", "case_id": "a", "baseline_case_id": "b", "ratio_p50": 1.0, "ci_low": 0.9, "ci_high": 1.1}
    assert Ratio(**good, verdict=Verdict.SAME).verdict == "SAME"
    for changes in ({"baseline_case_id": "a"}, {"ci_low": 1.2}, {"ci_low": 0.0}, {"ratio_p50": -1.0}):
        with pytest.raises(ValidationError):
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
