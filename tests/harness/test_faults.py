"""Implementations that misbehave, all in one sweep: each costs its own row and nothing else."""

import pytest
from harness_support import FAST, contestant, only_run, small

from harness.command.cli import main
from harness.runs import load_run

FAULTS = {
    "segfaults": "Segfaults",
    "exits": "Exits",
    "hangs": "Hangs",
    "raises": "Raises",
    "wrong": "Wrong",
    "element": "OneElement",
    "partial": "Partial",
    "shape": "Shape",
    "memory": "OutOfMemory",
    "mutates": "Mutates",
    "sticky": "Sticky",
    "missing": "Unavailable",
    "refuses": "Unsupported",
    "later": "FailsLater",
    "wronglater": "WrongLater",
    "killed": "KilledLater",
    "toofast": "TooFast",
    "promises": "Promises",
    "foreign": "Foreign",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    results = tmp_path_factory.mktemp("faults")
    arguments = [*FAST, *small(), "limits.case_seconds=8", f"results_dir={results}"]
    for name, fake in FAULTS.items():
        arguments += contestant(name, fake)
    arguments += contestant("first", "Good", speed=1.1) + contestant("last", "Good")
    arguments += contestant("plain", "function") + contestant("adds", "addition")
    names = ["first", *FAULTS, "plain", "'adds[shift=0]'", "last"]
    assert main([*arguments, f"implementations=[{','.join(names)}]"]) == 1
    return load_run(only_run(results))


@pytest.fixture(scope="module")
def rows(run):
    return {row.implementation: row for row in run.measurements.itertuples()}


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("segfaults", "error", "SIGSEGV during 'verify'"),
        ("exits", "error", "ended by itself with exit code 0 during 'verify'"),
        ("hangs", "timeout", "no answer for 8 s during 'verify'; killed"),
        ("raises", "error", "RuntimeError: launch failed: too many resources"),
        ("wrong", "failed_verification", "relative L2 error 0.0"),
        ("element", "failed_verification", "c: "),
        ("partial", "failed_verification", "c has 48 of 3072 elements NaN or infinite"),
        ("shape", "failed_verification", "c has shape (48, 64), needs (64, 48)"),
        ("memory", "out_of_memory", "Tried to allocate 1 TiB"),
        ("mutates", "failed_verification", "changed its inputs"),
        ("sticky", "error", "an illegal memory access was encountered (the device is unusable after it"),
        ("missing", "unavailable", "pip install library==1.2"),
        ("refuses", "unsupported", "K: got 64, supported are multiples of 1000 on cuda"),
        ("later", "error", "failed at last"),
        ("wronglater", "failed_verification", "the timed call is wrong, the verified one was right"),
        ("killed", "error", "SIGKILL"),
        ("toofast", "error", "below the"),
        ("promises", "failed_verification", "no kernel that ran matches '^hopper_gemm'"),
        ("foreign", "failed_verification", "a kernel matches 'fake_gemm', which is another implementation's"),
    ],
)
def test_a_fault_is_its_own_row(rows, name, status, words):
    """Guard of `partial`: memory that a call may get is NaN before it runs, all of the row and nothing else."""
    assert rows[name].status == status
    assert words in rows[name].reason
    assert rows[name].n_samples == 0
    assert rows[name].latency_us_p50 != rows[name].latency_us_p50  # NaN: no time for what did not pass


@pytest.mark.parametrize("name", ["first", "plain", "adds", "last"])
def test_the_others_are_timed(rows, run, name):
    assert rows[name].status == "passed"
    assert rows[name].n_samples == len(run.samples(rows[name].case_id)) >= 20


def test_ratios_join_only_what_was_timed_together(rows, run):
    timed = {rows[name].case_id for name in ("first", "plain", "adds", "last")}
    assert set(run.ratios["case_id"]) == timed
    assert len(run.ratios) == 4 * 3
    pair = run.ratios[
        (run.ratios["case_id"] == rows["first"].case_id) & (run.ratios["baseline_case_id"] == rows["last"].case_id)
    ].iloc[0]
    assert pair.verdict == "FASTER"
    assert pair.ci_low <= 1.1 <= pair.ci_high or abs(pair.ratio_p50 - 1.1) < 0.01


def test_every_row_says_how_to_repeat_it(rows):
    for name, row in rows.items():
        assert row.repro_command.startswith("python -m harness workload=gemm problem.M=64"), name
        assert f"+workload.implementations.{name}._target_=harness_fakes." in row.repro_command
