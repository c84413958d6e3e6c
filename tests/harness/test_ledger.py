"""Where the time of a run goes: every second is in one account, the contestants' apart from the harness's."""

import contextlib
import itertools
import json
import time
from typing import ClassVar

import pytest
from harness_fake_gpu import FakeGpu
from harness_support import FAST, contestant, line, only_run, small

from harness import workloads
from harness.command.cli import main
from harness.measure import ledger
from harness.measure.data import Data
from harness.measure.ledger import ACTIVITIES, THEIRS, Ledger, added, overhead_pct
from harness.measure.measure import measure_group
from harness.measure.messages import Done
from harness.plan.planning import Candidate, Group, Limits, TimerSettings
from harness.runs import load_run
from harness.runs.store import Store
from harness.workloads import gemm


class Clock:
    """A clock that moves by hand."""

    now = 0.0

    def __call__(self):
        return self.now


def test_every_second_is_in_one_account():
    """Guard: what is begun within an activity is not noted for that one too."""
    clock = Clock()
    account = Ledger(clock=clock)
    clock.now = 1.0
    with account.during("verify"):
        clock.now = 3.0
        with account.during("prepare"):
            clock.now = 7.0
        clock.now = 8.0
    with contextlib.suppress(ZeroDivisionError), account.during("audit"):
        clock.now = 10.0
        clock.now /= 0
    clock.now = 11.0
    assert account.seconds() == {"prepare": 4.0, "verify": 3.0, "audit": 2.0, "other": 2.0}
    assert sum(account.seconds().values()) == clock.now
    account.move("verify", "calls", 2.5)
    account.move("audit", "calls", 99.0)
    assert account.seconds() == {"calls": 4.5, "prepare": 4.0, "verify": 0.5, "other": 2.0}, "no more than there is"
    assert Ledger(since=3.0, clock=clock).seconds() == {"other": 8.0}


def test_the_overhead_is_what_is_not_the_contestants():
    assert overhead_pct({"calls": 6.0, "prepare": 2.0, "clock": 1.0, "start": 1.0}) == 20.0
    assert overhead_pct({"start": 1.0}) == 100.0
    assert overhead_pct({}) is None
    assert added({"calls": 1.0, "start": 2.0}, {"calls": 2.0}) == {"calls": 3.0, "start": 2.0}
    assert set(THEIRS) < set(ACTIVITIES)


def test_an_account_in_words():
    said = ledger.sentence({"calls": 6.0, "prepare": 2.0, "clock": 0.5, "start": 1.5, "inputs": 0.001})
    assert said == "10.0 s, overhead 20 %: calls 6.0, prepare 2.0, start 1.5, clock 0.5"


TIMER = TimerSettings("cuda_events", True, 0.001, 0.1, 0.002, 12, 12, 20)
LIMITS = Limits(case_seconds=240, call_seconds=240, profile_seconds=10, memory_fraction=0.3)


class SlowReference:
    """A workload whose inputs and reference take their time."""

    seeds: ClassVar[list[int]] = []

    def __getattr__(self, name):
        return getattr(gemm, name)

    def make_inputs(self, *arguments):
        time.sleep(0.02)
        return gemm.make_inputs(*arguments)

    def reference(self, problem, inputs, seed):
        time.sleep(0.15)
        self.seeds.append(seed)
        return gemm.reference(problem, inputs, seed)


def test_where_the_time_of_a_group_goes(monkeypatch):
    """Guards: each step of the worker notes its time; device time of the calls is taken out of the rounds'."""
    problem = workloads.parse_problem("gemm", {"M": 32, "N": 32, "K": 32}, dtype="bf16", direction="fwd")
    monkeypatch.setattr(workloads, "load", lambda name: SlowReference())
    drawn = itertools.count()
    real = SlowReference.make_inputs
    monkeypatch.setattr(SlowReference, "make_inputs", lambda *arguments: (next(drawn), real(*arguments))[1])
    entry = Candidate.of("slow", {"_target_": "harness_fakes.SlowToPrepare"})
    sent = []
    begin = time.perf_counter()
    group = Group("gemm", problem, "normal", 0, (entry,))
    measure_group(group, FakeGpu(), TIMER, LIMITS, line(sent))
    wall = time.perf_counter() - begin
    done = sent[-1]
    assert isinstance(done, Done)
    seconds = done.seconds
    assert sum(seconds.values()) == pytest.approx(wall, abs=0.1, rel=0.1), "nothing is left out, nothing is noted twice"
    sets = Data(group, FakeGpu(), line([])).sets(LIMITS.memory_fraction)
    assert seconds["prepare"] >= 0.099 * (1 + sets + 5) + 0.099, "each set of inputs, in the audit, and a first call"
    assert seconds["reference"] >= 0.297, "before and after the rounds"
    assert len(set(SlowReference.seeds)) == 2, "and each of a sample of its own, where a problem is large"
    assert seconds["inputs"] >= 0.0198 * next(drawn)
    assert seconds["calls"] >= 0.00198 * (12 + sets + 6), "warm-up, rounds, and those that are observed in the audit"
    assert {"verify", "audit"} <= set(seconds)


@pytest.fixture(scope="module")
def with_a_death(tmp_path_factory):
    """A run in which one contestant kills its worker."""
    results = tmp_path_factory.mktemp("results")
    words = [*FAST, *small(), *contestant("good", "Slow", seconds=0.002), *contestant("dies", "Segfaults")]
    begin = time.perf_counter()
    assert main([*words, "implementations=[good,dies]", f"results_dir={results}"]) == 1
    return load_run(only_run(results)), time.perf_counter() - begin


def test_a_run_says_what_it_cost(with_a_death):
    """Guards: the manifest has the account of the whole command, and each problem its own."""
    run, wall = with_a_death
    seconds = run.manifest["seconds"]
    assert sum(seconds.values()) == pytest.approx(wall, abs=0.5, rel=0.1), "nothing is left out"
    assert set(seconds) <= set(ACTIVITIES)
    assert {"calls", "prepare", "reference", "start", "lost", "store", "other"} <= set(seconds)
    assert run.manifest["overhead_pct"] == overhead_pct(seconds)
    (group,) = run.manifest["groups"]
    assert {"calls", "prepare", "reference", "verify", "audit"} <= set(group["seconds"]) <= set(seconds)
    assert all(group["seconds"][name] <= seconds[name] + 0.002 for name in group["seconds"])


def test_a_worker_that_dies_is_the_harness_s_cost(with_a_death):
    """Guard: the time of a worker that did not finish is noted as lost, not as the contestants'."""
    run, _ = with_a_death
    (group,) = run.manifest["groups"]
    assert run.manifest["seconds"]["lost"] > 0.5, "a worker was started again"
    assert "lost" not in group["seconds"]


def test_a_resumed_run_adds_up(with_a_death, capsys):
    """Guard: the account of earlier commands is kept when a run is resumed."""
    run, _ = with_a_death
    capsys.readouterr()
    assert main([f"resume={run.path}"]) == 1, "the group is due again, since a contestant failed"
    again = load_run(run.path).manifest
    before = run.manifest["seconds"]
    assert all(again["seconds"][name] >= before[name] for name in before)
    assert again["seconds"]["lost"] > 1.05 * before["lost"]
    (last,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("time: ")]
    assert last == f"time: {ledger.sentence(again['seconds'])}"


def test_the_account_is_written_with_each_group(tmp_path):
    """Guard: a command that is killed has noted what its groups took, not only one that ends."""
    written = []

    class Watched(Store):
        def append(self, stored):
            super().append(stored)
            written.append(json.loads((self.folder / "manifest.json").read_text()))

    words = [
        *FAST,
        *contestant("good", "Good"),
        "implementations=[good]",
        "problems=[{grid: {M: [8], N: [8], K: [8, 16]}}]",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.runs.invocation.Store", Watched)
        assert main([*words, f"results_dir={tmp_path}"]) == 0
    first, second = written
    for manifest in written:
        noted = sum(group["seconds"]["audit"] for group in manifest["groups"])
        assert manifest["seconds"]["audit"] == pytest.approx(noted, abs=0.002)
        assert 0 < manifest["overhead_pct"] <= 100
    assert sum(first["seconds"].values()) < sum(second["seconds"].values())


def _stored_slowly(tmp_path, *words):
    """The account of two problems, the first of which takes a second to store, and how many groups there were then."""
    began = []

    class Slow(Store):
        def append(self, stored):
            began.append(len(self.manifest["groups"]))
            time.sleep(1.0 if len(began) == 1 else 0.0)
            super().append(stored)

    problems = "problems=[{grid: {M: [8], N: [8], K: [8, 16]}}]"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.runs.invocation.Store", Slow)
        assert main([*FAST, *words, "implementations=[good]", problems, f"results_dir={tmp_path}"]) == 0
    return load_run(only_run(tmp_path)).manifest["seconds"], began


def test_a_group_is_stored_while_the_next_is_measured(tmp_path):
    """Guard: the device does not wait for statistics and the disk, but behind the last group, and that is noted."""
    words = [*contestant("good", "Slow", seconds=0.01), "timer.budget_seconds=3"]
    seconds, began = _stored_slowly(tmp_path, *words)
    assert began == [0, 1], "each once, in order"
    assert seconds["store"] < 0.9
    assert seconds.get("lost", 0.0) < 0.5, "the worker was at work meanwhile"


def test_what_storing_takes_beyond_the_next_group_is_storing(tmp_path):
    """Guard: it was noted as lost, where no worker had died."""
    seconds, _ = _stored_slowly(tmp_path, *contestant("good", "Good"))
    assert seconds["store"] > 0.5
    assert seconds.get("lost", 0.0) < 0.3
