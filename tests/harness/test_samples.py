"""Samples as they are stored, with the seat of each."""

import harness_fakes
import numpy as np
import pytest
from harness_fake_gpu import FakeGpu
from harness_support import FAST, bench, contestant, line, only_run, small

from harness import workloads
from harness.measure.measure import measure_group
from harness.measure.messages import CaseOutcome
from harness.measure.supervisor import _renumbered
from harness.plan.planning import Candidate, Group, Limits, TimerSettings
from harness.records.rows import Status
from harness.runs import load_run
from harness.runs.samples import Samples


def test_samples_of_one_case_have_one_length():
    with pytest.raises(ValueError, match=r"\[2, 2, 1, 2, 2\], need the same"):
        Samples(np.ones(2), np.arange(2), np.zeros(1, dtype=np.int32))


def test_what_is_not_known_of_samples_is_filled_in():
    seats = Samples(np.ones(3), np.arange(3))
    assert not seats.seated
    assert (seats.positions.tolist(), seats.predecessors.tolist()) == ([-1] * 3, [""] * 3)


def test_a_run_stores_who_ran_before_each_sample(tmp_path):
    """Guard: the way of `predecessors` from the rounds to the file, past a contestant that is not timed."""
    words = [*FAST, *small(), *contestant("bad", "Wrong"), *contestant("one", "Good"), *contestant("two", "Good")]
    process = bench([*words, "implementations=[bad,one,two]", f"results_dir={tmp_path}"])
    process.communicate(timeout=120)
    run = load_run(only_run(tmp_path))
    ids = dict(zip(run.measurements["implementation"], run.measurements["case_id"], strict=True))
    one, two = (run.seats(ids[name]) for name in ("one", "two"))
    assert one.seated
    assert two.seated
    for mine in (one, two):
        names, counts = np.unique(mine.predecessors.astype(str), return_counts=True)
        assert dict(zip(names, counts, strict=True)) == {ids[name]: len(mine) // 2 for name in ("one", "two")}
    assert (one.positions + two.positions == 1).all()
    second = one.positions == 1
    assert (one.predecessors[second] == ids["two"]).all()


def test_a_contestant_that_took_the_worker_down_leaves_the_others_their_numbers():
    """Guard: `_renumbered`: the worker that went on knew a smaller group."""
    seen = CaseOutcome(1, Status.PASSED, predecessors=np.array([0, 1, -1], dtype=np.int32))
    whole = _renumbered(seen, [0, 2])
    assert (whole.index, whole.predecessors.tolist()) == (2, [0, 2, -1])


def test_short_calls_are_timed_with_their_buffers_at_several_places(tmp_path):
    """Guard: `_place` in harness/measure/measure.py; rounds go on counting, in whole blocks."""
    words = [*FAST, *small(), *contestant("one", "Good", speed=20), *contestant("two", "Good", speed=10)]
    process = bench([*words, "implementations=[one,two]", "timer.placements=3", f"results_dir={tmp_path}"])
    process.communicate(timeout=120)
    run = load_run(only_run(tmp_path))
    for case in run.measurements["case_id"]:
        seats = run.seats(case)
        assert set(seats.placements) == {0, 1, 2}
        assert seats.rounds.tolist() == list(range(len(seats)))
        assert (np.diff(seats.placements) >= 0).all()
        assert all(np.sum(seats.placements == place) % 4 == 0 for place in range(3))


def test_inputs_lie_elsewhere_at_each_place(monkeypatch):
    """Guard: `kept` in `_place`.  Memory that is given back is found again, and says nothing of another place."""
    seen = []
    prepare = harness_fakes.Good.prepare

    def noted(self, problem, inputs):
        seen.append(inputs["a"].data_ptr())
        return prepare(self, problem, inputs)

    monkeypatch.setattr(harness_fakes.Good, "prepare", noted)
    problem = workloads.parse_problem("gemm", {"M": 64, "N": 64, "K": 64}, dtype="bf16", direction="fwd")
    quick = Candidate.of("quick", {"_target_": "harness_fakes.Good", "speed": 20})
    timer = TimerSettings("cuda_events", True, 0.001, 0.01, 0.002, 12, 12, 20, placements=6)
    limits = Limits(case_seconds=240, call_seconds=240, profile_seconds=10, memory_fraction=0.3)
    sent = []
    measure_group(Group("gemm", problem, "normal", 0, (quick,)), FakeGpu(), timer, limits, line(sent))
    (outcome,) = (one for one in sent if isinstance(one, CaseOutcome))
    assert outcome.status is Status.PASSED
    assert set(outcome.placements) == set(range(6))
    timed = seen[1:]  # the first was verified
    assert len(set(timed)) == len(timed) == 6 * 2, "two input sets at each place"
