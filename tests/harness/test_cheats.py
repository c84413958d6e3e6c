"""Implementations that would look fast without being so: none gets a time, and whoever competes with them does.

Each test names the guard that it fails without.  They run on the fake GPU and, marked `gpu`, on a real one.
"""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import harness_cheats
import pytest
import torch
from harness_contest import LIMITS, TIMER, assert_caught
from harness_fake_gpu import FakeGpu, FakeStopwatch
from harness_support import line

from harness import workloads
from harness.devices.rounds import Series
from harness.devices.visits import Seen
from harness.measure import measure
from harness.measure.audit import complain_inside
from harness.measure.contestant import ComplaintError
from harness.measure.messages import CaseOutcome
from harness.plan.planning import Candidate, Group
from harness.records.rows import Status

CHANGED = "right before the clock started"
INSIDE = "wrong in a round at random"
LAST = "the last timed output is wrong, the first was right"


@pytest.mark.parametrize("cheat", ["CachedByPointer", "CachedByVersion"])
def test_cached_by_pointer(contest, cheat):
    """Guard: the audit, which writes other inputs into the memory of the timed ones.

    Where the timed inputs have by chance the addresses of the verified ones, the second verification is.
    """
    assert_caught(contest(cheat), CHANGED, LAST)


def test_cached_by_shape(contest):
    """Guard: the second verification, on inputs that are not those of the first."""
    assert_caught(contest("CachedByShape"), LAST)


def test_cached_by_content(contest):
    """Guard: the audit times inputs that nobody has seen, and compares with those that the rounds repeat."""
    assert_caught(contest("CachedByContent"), "the timed calls gave back earlier results")


@pytest.mark.parametrize("device", ["cpu"])  # a GPU's host is late anyway: the cheat waits for what it looks up
def test_cached_by_content_where_the_host_is_late(contest, monkeypatch):
    """Guard: an attempt that is repeated gets inputs of its own, since the first has been seen."""
    once = FakeStopwatch._once
    monkeypatch.setattr(FakeStopwatch, "_once", lambda *given: replace(once(*given), in_time=False))
    assert_caught(contest("CachedByContent"), "the timed calls gave back earlier results")


@pytest.mark.parametrize("cheat", ["KeepsItsOutput", "KeepsWhatItReturned"])
def test_kept_output(contest, cheat):
    """Guard: the audit, which fills returned outputs with NaN before the call is asked again."""
    assert_caught(contest(cheat), "NaN", "no kernel at all")


def test_copied_output(contest):
    """Guard: a call that runs no kernel fails."""
    assert_caught(contest("CopiesItsOutput"), "one call runs no kernel at all")


def test_computed_once(contest):
    """Guard: the audit's comparison of times on changed inputs with times on unchanged ones."""
    assert_caught(contest("ComputesOnce"), "the timed calls gave back earlier results")


def test_other_stream(contest):
    """Guard: outputs are copied in the measured stream where the clock stops, from memory that was NaN."""
    assert_caught(contest("OtherStream"), CHANGED)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"])
@pytest.mark.parametrize("size", [512, 8192])
@pytest.mark.parametrize("cheat", ["EarlyStream", "LateStream"])
def test_other_stream_half_joined(contest, cheat, size):
    """Guards: inputs change in the order of the stream; outputs are copied in the order of the stream."""
    assert_caught(
        contest(cheat, sizes={"M": size, "N": size, "K": size}), CHANGED, "a stream that the clock does not see"
    )


@pytest.mark.parametrize("inside", [True, False], ids=["audited-in-the-rounds", "behind-them-alone"])
@pytest.mark.parametrize("device", ["cpu"])  # the fake GPU's other stream; on a real one, the test before
def test_inputs_read_early(contest, monkeypatch, inside):
    """Guards: inputs are NaN until the clock starts, and become others in the order of the stream."""
    if not inside:  # as where there is no memory for other inputs
        monkeypatch.setattr(measure._Sitting, "_audits", lambda *arguments: None)
    assert_caught(contest("ReadsEarly"), CHANGED)


@pytest.mark.parametrize("device", ["cpu"])  # the times are told
@pytest.mark.parametrize(("honest", "held_us"), [("Good", 200.0), ("SlowToPrepare", 2000.0)])
def test_how_long_the_stream_is_held(contest, monkeypatch, honest, held_us):
    """Guards: twice as long as the call, so that what starts early reads NaN; of long calls 2 ms are enough."""
    held = []
    observed = FakeStopwatch.observed
    monkeypatch.setattr(
        FakeStopwatch,
        "observed",
        lambda self, call, visit, hold_us: held.append(hold_us) or observed(self, call, visit, hold_us),
    )
    assert contest("CopiesItsOutput", honest=f"harness_fakes.{honest}")[1].status is Status.PASSED
    assert held[-1] == pytest.approx(held_us, rel=0.05)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"])
def test_a_stream_that_is_joined_is_timed(contest):
    joined, honest = contest("JoinedStream", sizes={"M": 4096, "N": 4096, "K": 4096})
    assert joined.status is honest.status is Status.PASSED, joined.reason
    assert float(joined.latency_us.mean()) > 0.8 * float(honest.latency_us.mean())


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"])
def test_current_stream_changed(contest):
    """Guard: the stopwatch looks whether the current stream is the one that it times."""
    assert_caught(contest("ChangesTheStream"), "changed the current stream", status=Status.ERROR)


def test_device_left_busy(contest):
    """Guard: the audit waits for the whole device, and compares that with the time from events."""
    assert_caught(contest("KeepsTheDeviceBusy"), "works on a stream that the clock does not see")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("cheat", ["CachedByPointer", "KeepsAThird", "FilledLater", "StartsEarly"])
def test_honest_while_it_is_looked_at(contest, device, cheat, seed):
    """Guard: rounds at random are audited, through the same frames as all others; the audit after them passes it."""
    # A real GPU's clock sees the honest calls of the audit behind the rounds, too, which the fake one is told are late.
    words = (INSIDE, LAST) if device == "cpu" else (INSIDE, LAST, "earlier results")
    assert_caught(contest(f"{cheat}InTheRounds", seed=seed), *words)


@pytest.mark.parametrize("device", ["cpu"])  # the times are told
def test_short_calls_that_are_reused(contest):
    """Guard: the times on changed inputs inside the rounds, with 1 us of slack; 10 us would hide it."""
    assert_caught(contest("ReusesShortCalls"), "in a round at random")


@pytest.mark.parametrize("device", ["cpu"])  # the times are told
def test_longer_calls_of_which_a_part_is_reused(contest):
    """Guard: `INSIDE_FACTOR`; the audit behind the rounds allows for a quarter and 10 us."""
    assert_caught(contest("ReusesAFifth"), "in a round at random")


@pytest.mark.parametrize("device", ["cpu"])  # the times are told
def test_calls_that_are_quicker_in_the_rounds(contest):
    """Guard: `SEEN_FACTOR`; in the rounds nothing of it shows."""
    assert_caught(contest("QuickerInTheRounds"), "takes 140.0 us when its inputs have just changed")


@pytest.mark.parametrize(("late", "said"), [(0, "waits for the device when its inputs have just changed"), (3, "")])
def test_a_call_that_waits_for_the_device_on_changed_inputs_alone(late, said):
    """Guard: the first branch of `complain_inside`.  Who looks at inputs waits; honest ones always do."""
    one = SimpleNamespace(
        seen=Seen(fresh=[(300.0, False), (310.0, False)], same=[(100.0, True)]),
        series=Series(latency_us=[100.0, 101.0], late=late),
    )
    with pytest.raises(ComplaintError, match=said) if said else contextlib.nullcontext():
        complain_inside(one)


def test_the_last_result_given_back(contest):
    """Guard: outputs on inputs that changed, at the same addresses."""
    assert_caught(contest("GivesBackTheLast"), CHANGED)


@pytest.mark.parametrize("device", ["cpu"])
def test_seeds_that_are_known(contest):
    """Guard: a plan draws its seeds; with seed 0 for all, a table of results is found on every call."""
    from harness_support import config

    from harness.plan.planning import make_plan

    drawn = make_plan(config()).groups[0].seed
    own, honest = contest("KnowsTheSeeds", seed=drawn)
    assert own.status is honest.status is Status.PASSED, own.reason
    assert float(own.latency_us.mean()) == pytest.approx(100, rel=0.05)


def test_reference_found(contest, device):
    """Guard: outputs on other inputs than the verified ones. On a GPU the search for the reference takes time, too."""
    slower = ("the timed calls gave back earlier results",) if device == "cuda" else ()
    assert_caught(contest("FindsTheReference"), CHANGED, LAST, *slower)


@pytest.mark.parametrize("cheat", ["WritesIntoTheReference", "WritesIntoTheReferenceLater"])
def test_reference_written_over(contest, cheat):
    """Guards: the reference's digest after each contestant, when it is verified and when it is audited.

    Without it the honest one fails, and is blamed.
    """
    assert_caught(contest(cheat), "wrote into the reference")


@pytest.mark.parametrize("cheat", ["LazyOutput", "LazySequence"])
def test_lazy_output(contest, cheat):
    """Guard: outputs are plain tensors, in a plain tuple if there are several."""
    assert_caught(contest(cheat), "a kind of tensor that may compute when it is read", "needs a tensor")


@pytest.mark.parametrize("cheat", ["PartialWhenTimed", "HalfOfMWritten"])
def test_partial_output(contest, cheat):
    """Guard: outputs that a call returned before are NaN before it runs; `test_a_fault_is_its_own_row` has the memory
    that it may get."""
    assert_caught(contest(cheat), "NaN or infinite")


@pytest.mark.parametrize("cheat", ["ReturnsItsInput", "WritesOverItsInput"])
def test_input_returned(contest, cheat):
    """Guard: an output may not lie in the memory of an input."""
    assert_caught(contest(cheat), "c lies in the memory of the input a", "changed its inputs")


def test_expanded_output(contest):
    """Guard: an output whose elements share memory fails before its values are looked at."""
    assert_caught(contest("Expands"), "share memory")


@pytest.mark.parametrize("cheat", ["Float8", "Bfloat16Sums", "Float8WhenTimed"])
def test_lower_precision(contest, cheat):
    """Guard: the tolerance, twice the rounding of the exact product; before and after the timing."""
    assert_caught(contest(cheat), "relative L2 error")


def test_inputs_changed_when_timed(contest):
    """Guard: the audit compares the inputs with what they were; the others are timed again without the culprit."""
    assert_caught(contest("MutatesWhenTimed"), "changed its input a in a timed call")


@pytest.mark.parametrize("device", ["cpu"])
def test_inputs_changed_in_the_rounds_alone(contest):
    """Guard: the inputs of the last round, drawn again and compared; who changed them cannot be told, so all fail."""
    for outcome in contest("WritesOverItsInputInTheRounds"):
        assert outcome.status is Status.FAILED_VERIFICATION
        assert "the input a was changed while it was timed, by whom cannot be told" in outcome.reason


def test_skipped_in_timing(contest):
    """Guard: the audit looks at the output of the timed call, in memory that holds no earlier result."""
    assert_caught(contest("SleepsThenSkips"), CHANGED)


@pytest.mark.parametrize("device", ["cpu"])  # on a real GPU a repeated attempt may shift which calls are met
@pytest.mark.parametrize("cheat", ["SkipsEveryOther", "SkipsTheOthers"])
def test_every_other_call_skipped(contest, cheat):
    """Guard: the audit checks two calls in a row, whichever of them is computed."""
    assert_caught(contest(cheat), CHANGED, LAST)


@pytest.mark.parametrize("cheat", ["HalfOfK", "OneStepLess", "HalfOfM"])
def test_smaller_problem(contest, cheat):
    """Guard: every element of the output is compared with the reference."""
    assert_caught(contest(cheat), "relative L2 error")


@pytest.mark.parametrize("cheat", ["HalfOfK", "OneStepLess", "HalfOfM"])
def test_smaller_problem_checked_on_slices(contest, cheat, monkeypatch):
    """Guard: where the product is too large for a full reference, sampled rows and columns cross every tile."""
    from harness.workloads import gemm

    monkeypatch.setattr(gemm, "FULL_CHECK_FLOPS", {"cpu": 0, "cuda": 0})
    monkeypatch.setattr(gemm, "SLICE_ROWS", 8)
    assert_caught(contest(cheat), "relative L2 error")


@pytest.mark.parametrize("device", ["cpu"])  # the names are those that the fake profiler is told
def test_other_library_when_timed(contest):
    """Guard: kernel names are those of the timed call, not only of the verified one."""
    assert_caught(contest("OtherLibraryWhenTimed"), "no kernel that ran matches 'fake_gemm_kernel'")


def test_right_for_zeros_only(contest):
    """Guard: a distribution on which nearly anything is right is verified on another."""
    cheat, honest = contest("Zeros", distribution="zeros")
    assert_caught((cheat, honest), "relative L2 error 1 ")
    assert honest.reason == "verified on normal inputs, since on zeros nearly anything is right"


@pytest.mark.parametrize("honest", ["KeepsALayout", "OwnBuffer"])
@pytest.mark.parametrize(
    "kind",
    ["cuda_events", pytest.param("cuda_graph", marks=pytest.mark.gpu)],  # the fake GPU has no graphs
)
def test_honest_habits_are_no_cheats(contest, honest, kind, device):
    if kind == "cuda_graph" and device == "cpu":
        pytest.skip("the fake GPU has no graphs")
    own, other = contest(honest, timer=replace(TIMER, kind=kind))
    assert own.status is other.status is Status.PASSED, own.reason
    assert len(own.latency_us) == len(other.latency_us) >= 12
    assert own.reason == (
        "audited on inputs prepared anew, since prepare() keeps what it derives from them"
        if honest == "KeepsALayout"
        else ""
    )


def test_a_cheat_in_a_graph(contest, device):
    """Guard: the audit replays the graph that was timed."""
    if device == "cpu":
        pytest.skip("the fake GPU has no graphs")
    assert_caught(
        contest("CachedByPointer", timer=replace(TIMER, kind="cuda_graph")), CHANGED, LAST, "no kernel at all"
    )


def test_outputs_are_read_once_they_are_plain():
    """A tensor with a lazy bit, without memory, or without layout is none."""
    from harness.devices.outputs import unusable

    a = torch.ones(4, 4)
    for lazy in (torch._neg_view(a), torch._efficientzerotensor((4, 4)), torch._to_functional_tensor(a), a.to_sparse()):
        assert "needs a plain torch.Tensor" in unusable("c", lazy, {})
    assert unusable("c", a.t(), {}) is None
    assert unusable("c", a[1:, 2:], {}) is None
    assert "is on meta, its inputs are on cpu" in unusable("c", torch.ones(4, 4, device="meta"), {"a": a})


@pytest.mark.parametrize(("fixed", "status"), [(1, Status.FAILED_VERIFICATION), (0, Status.PASSED)])
def test_the_same_mask_in_each_call(fixed, status):
    """Guard: the audit compares what two calls on the same inputs gave; fair masks are others each time."""
    problem = workloads.parse_problem(
        "dropout_add_layernorm", {"B": 2, "N": 64, "D": 128, "p": 0.1}, dtype="bf16", direction="fwd"
    )
    one = Candidate.of("one", {"_target_": "harness_cheats.OneMask", "fixed": fixed})
    sent = []
    group = Group("dropout_add_layernorm", problem, "normal", 0, (one,))
    measure.measure_group(group, FakeGpu(), TIMER, LIMITS, line(sent))
    (outcome,) = [one for one in sent if isinstance(one, CaseOutcome)]
    assert outcome.status is status, outcome.reason
    assert ("draws the same random numbers in each call" in outcome.reason) == bool(fixed)


def less_precise(name, monkeypatch):
    import harness_fakes

    monkeypatch.setattr("harness.plan.implementations.MAY_WIDEN", ("harness_",))
    made = {"by_design": (5e-3, 1.003), "beyond": (5e-3, 1.01), "too_wide": (1.0, 1.003)}[name]

    class LessPrecise(harness_fakes.LessPrecise):
        def __init__(self):
            super().__init__(*made)

    monkeypatch.setattr(harness_cheats, "LessPrecise", LessPrecise, raising=False)


@pytest.mark.parametrize("device", ["cpu"])
def test_a_library_that_is_less_precise_by_design_is_timed_and_says_so(contest, monkeypatch):
    """Guard: without its own bound it fails, and its row says under which one it was timed."""
    less_precise("by_design", monkeypatch)
    own, honest = contest("LessPrecise")
    assert own.status is honest.status is Status.PASSED, own.reason
    assert own.tolerance == 5e-3
    assert 3.4e-3 < own.rel_l2_error < 5e-3
    assert own.reason.startswith("held to 0.005, a bound of its own (others to 0.003")
    assert "it rounds nine times" in own.reason
    assert honest.tolerance < 3.4e-3
    assert honest.reason == ""


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("name", ["beyond", "too_wide"])
def test_a_bound_of_ones_own_is_a_bound(contest, monkeypatch, name):
    """Guards: an error beyond it fails; and it may be twice the workload's at most."""
    less_precise(name, monkeypatch)
    words, status = {
        "beyond": ("its own bound: it rounds nine times", Status.FAILED_VERIFICATION),
        "too_wide": ("a library at most 2 times", Status.ERROR),
    }[name]
    assert_caught(contest("LessPrecise"), words, status=status)
