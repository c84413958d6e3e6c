"""The supervisor and its worker, where the command's tests do not reach."""

import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from harness_support import running

from harness import workloads
from harness.measure.messages import CaseOutcome, Phase, Timing
from harness.measure.supervisor import Supervisor
from harness.plan.planning import Candidate, Group, Limits, TimerSettings
from harness.records.errors import HarnessError
from harness.records.rows import Status

TIMER = TimerSettings("cuda_events", True, 0.01, 0.2, 0.002, 10, 30, 20)
LIMITS = Limits(case_seconds=240, call_seconds=240, profile_seconds=10, memory_fraction=0.3)
FAKE_GPU = {"_target_": "harness_fakes.FakeGpu"}


def contestants(**targets):
    return tuple(
        Candidate.of(name, target if isinstance(target, dict) else {"_target_": target})
        for name, target in targets.items()
    )


def group(**targets):
    problem = workloads.parse_problem("gemm", {"M": 8, "N": 8, "K": 8}, dtype="bf16", direction="fwd")
    return Group("gemm", problem, "normal", 0, contestants(**targets))


@contextlib.contextmanager
def ended_after(seconds):
    """Fails what takes longer than this, rather than waiting for it."""

    def fail(number, frame):
        raise AssertionError(f"not ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_an_interruption_of_a_worker_that_starts_is_left_to_the_parent():
    """Guard: Ctrl-C reached it among its imports, and its traceback stood before the command's sentence."""
    others = set(multiprocessing.active_children())
    with Supervisor(FAKE_GPU) as supervisor, ended_after(60):
        supervisor.begin()
        (worker,) = set(multiprocessing.active_children()) - others
        for _ in range(20):  # the first second
            os.kill(worker.pid, signal.SIGINT)
            time.sleep(0.05)
        assert supervisor.describe(False).gpu
        assert worker.is_alive()  # it was not started anew
    assert signal.pthread_sigmask(signal.SIG_BLOCK, set()).isdisjoint({signal.SIGINT})


def test_the_parent_starts_the_worker_before_it_imports_torch():
    """Guard: both import it at the same time. One behind the other, a machine that has just started waits longer."""
    code = "import sys, harness.command.batch; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout == "False\n"
    )


def test_an_import_that_kills_the_worker_costs_its_case_only():
    deadly = group(first="harness_fakes.Good", deadly="harness_deadly.Gemm", last="harness_fakes.Good")
    events = []
    with Supervisor(FAKE_GPU, events.append) as supervisor:
        inspected = supervisor.inspect(deadly.contestants, [deadly.problem])
        assert [bool(one.missing) for one in inspected] == [False, True, False]
        assert "exit code 3" in inspected[1].missing
        result = supervisor.measure(deadly, TIMER, LIMITS)
    assert [outcome.status for outcome in result.outcomes] == [Status.PASSED, Status.ERROR, Status.PASSED]
    assert [outcome.index for outcome in result.outcomes] == [0, 1, 2]
    assert "ended by itself with exit code 3 during 'verify'" in result.outcomes[1].reason
    assert len(result.outcomes[0].latency_us) == len(result.outcomes[2].latency_us) >= 10
    assert result.energy_j == 10.0
    assert {Phase, Timing, CaseOutcome} <= {type(event) for event in events}


def test_what_is_done_meanwhile_is_done_once():
    """Guard: a group that is begun again without whoever died stores the one before no second time."""
    done = []
    with Supervisor(FAKE_GPU) as supervisor:
        dies = group(first="harness_fakes.Good", dies="harness_fakes.Segfaults")
        result = supervisor.measure(dies, TIMER, LIMITS, lambda: done.append(supervisor._process.is_alive()))
    assert [outcome.status for outcome in result.outcomes] == [Status.PASSED, Status.ERROR]
    assert done == [True], "and the worker has been told before"


def test_what_planning_takes_is_told_beside_the_time():
    """Guard: nobody can hold a plan against another where only ours is known."""
    with Supervisor(FAKE_GPU) as supervisor:
        result = supervisor.measure(group(plans="harness_fakes.Plans", last="harness_fakes.Good"), TIMER, LIMITS)
    assert [outcome.status for outcome in result.outcomes] == [Status.PASSED] * 2
    (told,) = re.findall(r"planning takes (\d+) us, which is not in the time", result.outcomes[0].reason)
    assert 2000 <= int(told) < 200_000
    assert "planning" not in result.outcomes[1].reason


def test_inputs_that_cannot_be_made_are_every_cases_error(tmp_path):
    impossible = group(first="harness_fakes.Good", last="harness_fakes.Good")
    impossible = Group("gemm", impossible.problem, "cauchy", 0, impossible.contestants)
    with Supervisor(FAKE_GPU) as supervisor:
        result = supervisor.measure(impossible, TIMER, LIMITS)
        assert [outcome.status for outcome in result.outcomes] == [Status.ERROR] * 2
        assert "got 'cauchy'" in result.outcomes[0].reason
        again = supervisor.measure(group(first="harness_fakes.Good"), TIMER, LIMITS)  # a new worker goes on
    assert again.outcomes[0].status is Status.PASSED


def test_a_hang_while_timed_costs_its_case_only():
    """Guard: silence while rounds go on has a limit of its own, and the running contestant is known by then."""
    limits, timer = replace(LIMITS, call_seconds=2), replace(TIMER, warmup_seconds=1e-9, budget_seconds=60)
    hangs = {"_target_": "harness_fakes.HangsLater", "after": 42}  # verified, warmed up, and behind its first report
    with Supervisor(FAKE_GPU) as supervisor, ended_after(60):
        result = supervisor.measure(group(hangs=hangs, last="harness_fakes.Good"), timer, limits)
    assert [outcome.status for outcome in result.outcomes] == [Status.TIMEOUT, Status.PASSED]
    assert "no answer for 2 s during 'time'; killed" in result.outcomes[0].reason
    assert len(result.outcomes[1].latency_us) >= 10


def test_a_death_is_noticed_while_its_children_live_and_they_are_ended(tmp_path):
    """Guard: the parent looks at the process as well as at the pipe, and ends the whole process group."""
    log = tmp_path / "log"
    forks = {"_target_": "harness_fakes.ForksAndDies", "log": str(log)}
    begin, limits = time.monotonic(), replace(LIMITS, case_seconds=400, call_seconds=400)
    with Supervisor(FAKE_GPU) as supervisor:
        result = supervisor.measure(group(forks=forks, last="harness_fakes.Good"), TIMER, limits)
    assert [outcome.status for outcome in result.outcomes] == [Status.ERROR, Status.PASSED]
    assert "SIGSEGV" in result.outcomes[0].reason
    assert time.monotonic() - begin < limits.case_seconds, "not found by a time limit"
    (child,) = [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("child")]
    deadline = time.monotonic() + 60
    while running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(child)


@pytest.mark.parametrize(("deaths", "status"), [(1, Status.PASSED), (2, Status.ERROR)])
def test_a_kill_that_is_nobodys_fault_gets_a_second_chance(tmp_path, deaths, status):
    """Guard: a group is begun again, once, if the worker was killed while no contestant's code ran."""
    lives = tmp_path / "lives"
    lives.write_text("x\n" * deaths)
    with Supervisor({"_target_": "harness_fakes.DyingGpu", "lives": str(lives)}) as supervisor:
        result = supervisor.measure(group(first="harness_fakes.Good"), TIMER, LIMITS)
    assert result.outcomes[0].status is status
    assert (status is Status.PASSED) or "SIGKILL" in result.outcomes[0].reason


def test_a_device_that_does_not_exist():
    with Supervisor({"_target_": "nowhere.Device"}) as supervisor, pytest.raises(HarnessError, match="nowhere"):
        supervisor.describe(roofs=False)


def test_roofs_that_cannot_be_measured_are_said():
    with (
        Supervisor({"_target_": "harness_fakes.BusyGpu"}) as supervisor,
        pytest.raises(HarnessError, match="roofs of this device cannot be measured: .*in use by others"),
    ):
        supervisor.describe(roofs=True)
