"""Contestants that touch what they share with the harness and with each other, or that know another clock: none gets a
time.

Each test names the guard that it fails without.  They run on the fake GPU and, marked `gpu`, on a real one.
"""

import multiprocessing
from dataclasses import replace

import harness_cheats
import pytest
import torch
from harness_contest import LIMITS, SIZES, TIMER, assert_caught

from harness import workloads
from harness.measure import verification
from harness.measure.supervisor import Seeds, Supervisor
from harness.measure.verification import check_outputs
from harness.plan.planning import Candidate, Group
from harness.plan.seeds import derived
from harness.records.rows import Status

SETTLED = replace(TIMER, settled="always", settled_block_seconds=0.06, settled_drop_seconds=0.01)


def test_a_graph_that_skips(contest):
    """Guard: audits among the sustained calls.  That they take 0.9 of the rounds at least is for `test_assemble`."""
    assert_caught(contest("SkipsInGraphs", timer=SETTLED), "sustained calls at random")


@pytest.mark.parametrize("device", ["cpu"])  # the times are told
def test_calls_that_are_honest_now_and_then(contest):
    """Guard: `SLOW`, a quarter: a slowest twentieth is cheap to keep honest.

    How many calls the warm-up has is chance, and in about one run of ten the call that is compared is an honest one.
    """
    runs = (contest("HonestNowAndThen") for _ in range(3))
    assert_caught(
        next((both for both in runs if both[0].status is not Status.PASSED), (None, None)), "in a round at random"
    )


def test_work_left_behind_most_calls(contest):
    """Guards: the median of the looks at the whole device, and the look behind each sample."""
    assert_caught(contest("LeavesWorkBehindMostCalls"), "works on a stream that the clock does not see")


@pytest.mark.parametrize(
    ("cheat", "said"),
    [
        ("ReplacesTheNorm", "replaced torch.linalg.vector_norm"),
        ("ReplacesTheJudge", "replaced harness.measure.verification.errors"),
        ("ReplacesTheClock", "replaced time.perf_counter"),
        ("ListensToTheHarness", "a hook that sees every call"),
        ("LeavesASetting", "left torch.backends.cudnn.enabled=False, which the others share"),
        ("RegistersANorm", "a known one of"),
    ],
)
def test_what_all_share_is_touched(contest, cheat, said):
    """Guards: `Seal`, and behind each contestant a known error and an output that is known to be wrong; what it did is
    gone with its process."""
    assert_caught(contest(cheat), said)


@pytest.mark.parametrize("device", ["cpu"])  # the search would be late on a real one
def test_samples_rewritten(contest):
    """Guard: the digest of the samples as they were taken; by whom cannot be told."""
    for outcome in contest("RewritesItsSamples"):
        assert outcome.status is Status.FAILED_VERIFICATION
        assert "samples were changed after they had been taken, by whom cannot be told" in outcome.reason


@pytest.mark.parametrize("device", ["cpu"])  # the times are told
def test_a_rivals_result_taken(contest):
    """Guards: outputs are NaN behind an audited call, and `SAME_FACTOR`."""
    assert_caught(contest("TakesARivalsResult", honest="harness_cheats.LeavesItsBuffer"), "found in memory")


def test_the_seed_stays_with_the_parent(device):
    """Guard: seeds are derived in the parent; whoever finds the group in its process finds no seed in it."""
    if device == "cuda":
        pytest.skip("the search is the same on the fake GPU")
    problem = workloads.parse_problem("gemm", SIZES["cpu"], dtype="bf16", direction="fwd")
    one = Candidate.of("one", {"_target_": "harness_cheats.FindsTheSeed"})
    with Supervisor({"_target_": "harness_fakes.FakeGpu"}) as supervisor:
        (outcome,) = supervisor.measure(Group("gemm", problem, "normal", 77, (one,)), TIMER, LIMITS).outcomes
    assert outcome.status is Status.PASSED, outcome.reason
    assert float(outcome.latency_us.mean()) == pytest.approx(100, rel=0.05)


def test_a_seed_is_given_once():
    """Guard: whoever asks for a seed before it is drawn with is noticed when it is."""
    ours, theirs = multiprocessing.Pipe()
    seeds = Seeds(ours)
    seeds.of_group(5)
    answers = []
    for use in [("audit", 1), ("audit", 2), ("audit", 1)]:
        theirs.send(use)
        answers.append(theirs.recv())
    assert answers == [derived(5, "audit", 1), derived(5, "audit", 2), None]


def test_an_error_of_nothing_is_impossible():
    """Guard: `LEAST`; no output of a dtype is nearer to the reference than the reference rounded to it."""
    gemm = workloads.load("gemm")
    problem = workloads.parse_problem("gemm", SIZES["cpu"], dtype="bf16", direction="fwd")
    inputs = gemm.make_inputs(problem, torch.Generator().manual_seed(0), "normal")
    expected = gemm.reference(problem, inputs, 0)
    output = harness_cheats.function(**inputs)
    assert check_outputs(gemm, problem, output, expected).passed
    rounded = [replace(part, values=part.select(output).double()) for part in expected]
    assert check_outputs(gemm, problem, output, rounded).passed, "a reference that is a number of the dtype"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "errors", lambda output, *rest: (1e-3 if output.dtype.itemsize == 2 else 2e-3, 0.0))
        patch.setattr(verification, "_rounding", lambda *given: 1.6e-3)
        check = check_outputs(gemm, problem, output, expected)
    assert "which rounding alone costs: impossible" in check.reason
