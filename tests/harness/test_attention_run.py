"""Runs of the attention workload on the fake GPU: both directions of a problem in one folder, and who takes which."""

import pytest
from harness_support import FAST, contestant, main, only_run

from harness.runs import load_run

ENTRIES = [
    "workload=attention",
    *FAST,
    "+workload.implementations.plain._target_=harness_fakes.attention",
    *contestant("forward_only", "ForwardOnly"),
    "implementations=[plain,forward_only]",
    "problems=[{grid: {direction: [fwd, bwd], B: [1], H: [2], N: [24, 48], D: [16], causal: [1]}}]",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    results = tmp_path_factory.mktemp("attention")
    assert main([*ENTRIES, f"results_dir={results}"]) == 0
    return only_run(results)


def test_each_direction_is_a_case_of_its_own(folder):
    rows = load_run(folder).measurements
    assert len(rows) == rows["case_id"].nunique() == 8
    assert set(rows["problem"]) == {"B=1;H=2;N=24;D=16;causal=1", "B=1;H=2;N=48;D=16;causal=1"}
    plain = rows[rows["implementation"] == "plain"]
    assert set(plain["status"]) == {"passed"}
    assert set(plain[plain["direction"] == "bwd"]["worst_output"]) <= {"dq", "dk", "dv"}
    assert set(plain[plain["direction"] == "fwd"]["worst_output"]) == {"out"}
    other = rows[rows["implementation"] == "forward_only"].set_index("direction")
    assert set(other.loc["fwd", "status"]) == {"passed"}
    assert set(other.loc["bwd", "status"]) == {"unsupported"}
    assert set(other.loc["bwd", "reason"]) == {"forward_only: got direction bwd, it takes fwd"}


def test_the_command_of_a_row_runs_that_direction(folder):
    rows = load_run(folder).measurements
    row = rows[(rows["direction"] == "bwd") & (rows["implementation"] == "plain")].iloc[0]
    assert "direction=bwd" in row["repro_command"]
    assert "problem.Hkv=2 problem.N=24 problem.Nkv=24 problem.D=16 problem.causal=1" in row["repro_command"]


def test_a_resumed_run_has_nothing_left_to_do(folder, capsys):
    before = load_run(folder).measurements
    assert main([f"resume={folder}"]) == 0
    out = capsys.readouterr().out
    assert out.count("already measured in this run, kept") == 4
    assert "B=1;H=2;N=24;D=16;causal=1 bwd: already measured" in out
    assert load_run(folder).measurements.equals(before)


def test_the_plan_tells_the_directions_apart(tmp_path, capsys):
    assert main([*ENTRIES, f"results_dir={tmp_path}", "plan=true"]) == 0
    out = capsys.readouterr().out
    assert "6 cases" in out
    backward = [f"B=1;H=2;N={length};D=16;causal=1 bwd" for length in (24, 48)]
    assert f"unsupported forward_only at {', '.join(backward)}: forward_only: got direction bwd" in out
    assert "causal=1: forward_only" not in out
