"""What the cpu target catches in the linear attention kernel and its part of the template, with one line changed."""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

KERNEL, DECAYS, PIPELINE, CARRIED = "linear_attention.cuh", "decays.cuh", "lcsf.cuh", "decayed_states.cuh"

AT = r"at (linear_attention|factors|decays).cuh:\d+"
READS_TOO_EARLY = rf"{AT} .* reads (input|workspace).*(nothing has written|while|after)"
OVERWRITTEN = rf"(load_async|store) {AT} .* writes (input|workspace).* (while|after) \w+ {AT}"
NO_FENCE = rf"{AT} .* reads workspace.* after store {AT} .* without a fence"
WRONG_PHASE = r"wait at (lcsf|linear_attention).cuh:\d+ .* for parity . of \w+.*: it knows"
RUNS_AHEAD = r"completes phase \d+ of \w+.* without being ordered after wait at (lcsf|linear_attention).cuh:\d+"
SURPLUS = r"is one arrival too many at \w+.*: phase \d+ expects"
DEADLOCK = r"deadlock.*waits for phase \d+ of \w+.*missing"
REGISTERS = rf"a register tile that mma?_\w+ {AT} .* may still (write|read)"
OUT_OF_SCOPE = rf"a register tile goes out of scope while mma?_\w+ {AT} .* may still"
STRIP_REUSED = rf"store {AT} .* writes workspace.* while store_async {AT} .*store_read_wait"
ENDS_TOO_EARLY = r"ends while store_async at .* is in flight and may still read shared memory"
EARLY_READ = (
    r"load at \S+ .* reads global memory that store at decayed_states.cuh:\d+ .* of an earlier kernel may still write"
)
EARLY_WRITE = r"writes global memory while the kernels before this one"
EVERY_RACE = (READS_TOO_EARLY, OVERWRITTEN, WRONG_PHASE, RUNS_AHEAD, SURPLUS, DEADLOCK)

WAITED = "wait_previous_kernel();  // for the states, and to store"
SCORES = "warpgroup::mm_ABt(scores, in.q, in.k);"
SKIP = "if (g.skip.data) add_skip(o, in.v[mine], u, g);"
NEGATED = "if (g.negative) neg(o, o);"
RESULT = f"warpgroup::mma_wait(o); {NEGATED}"
STRIP = "store(out, o); fence_async(); warpgroup::sync(barrier);  // the new state is whole"
PREPARED = "K::prepare(now, s.in.ask(at), t, step, part, g); s.in.hand_over(at);"


WHOLE, SEGMENTS = range(2)  # of a sequence: what linear_attention_mutants.cu runs


def mutant(name: str, file: str, old: str, new: str, *reports: str, schedule: int = WHOLE) -> Mutant:
    return Mutant(name, schedule, file, old, new, reports)


MUTANTS = (
    mutant(
        "states_read_before_they_are_whole",
        KERNEL,
        STRIP,
        "store(out, o); fence_async();",
        READS_TOO_EARLY,
        OVERWRITTEN,
    ),
    mutant("no_fence", KERNEL, STRIP, "store(out, o); warpgroup::sync(barrier);", NO_FENCE),
    mutant("stage_released_too_early", KERNEL, RESULT, f"s.release(); {RESULT}", *EVERY_RACE),
    mutant("factors_not_waited_for", PIPELINE, "1 + preparing_warps", "1", SURPLUS, *EVERY_RACE),
    mutant(
        "state_overwritten_while_it_is_read",
        KERNEL,
        "own.state[(step + 1) % copies]",
        "own.state[step % copies]",
        OVERWRITTEN,
        READS_TOO_EARLY,
    ),
    mutant("no_decay_of_the_state", KERNEL, f"mul_row(state, state, decay); {SCORES}", SCORES, NUMBERS),
    mutant("scores_not_waited_for", KERNEL, "warpgroup::mma_wait<2>(scores);", "", REGISTERS, *EVERY_RACE),
    mutant("state_not_waited_for", KERNEL, "warpgroup::mma_wait<1>(state);", "", REGISTERS, *EVERY_RACE),
    mutant("old_part_of_the_output_not_waited_for", KERNEL, "warpgroup::mma_wait<1>(o);", "", REGISTERS, *EVERY_RACE),
    mutant("output_not_waited_for", KERNEL, RESULT, NEGATED, REGISTERS, OUT_OF_SCOPE, *EVERY_RACE),
    mutant("stage_not_released", KERNEL, f"{SKIP} s.release();", SKIP, DEADLOCK),
    mutant(
        "strip_reused_too_early", KERNEL, "store_read_wait();  // the chunk before has left the strip", "", STRIP_REUSED
    ),
    mutant(
        "no_store_wait_at_the_end",
        KERNEL,
        "store_read_wait();  // the block's shared memory must outlive its stores",
        "",
        ENDS_TOO_EARLY,
        STRIP_REUSED,
    ),
    mutant(
        "factors_written_before_the_stage_is_free",
        PIPELINE,
        PREPARED,
        PREPARED.replace("s.in.ask(at)", "s.in.stages[at.stage]"),
        *EVERY_RACE,
    ),
    mutant("factors_never_announced", PIPELINE, PREPARED, PREPARED.split(" s.in.hand_over")[0], DEADLOCK),
    mutant("no_causal_mask", DECAYS, "make_causal(power, power, -INFINITY);", "", NUMBERS),
    mutant("a_row_before_forgotten", DECAYS, "j < 16 * warp", "j < 16 * warp - 1", NUMBERS),
    mutant("decays_of_the_step_before", DECAYS, "sub(key, sum, log_weight);", "sub(key, sum, a);", NUMBERS),
    Mutant(
        "states_read_before_they_are_carried",
        SEGMENTS,
        KERNEL,
        WAITED,
        "//",
        (EARLY_READ, EARLY_WRITE),
        (
            (
                KERNEL,
                "warpgroup::store(own.state[0], state);",
                "wait_previous_kernel(); warpgroup::store(own.state[0], state);",
            ),
        ),
    ),
    mutant(
        "results_stored_beside_the_kernels_before",
        KERNEL,
        WAITED,
        "if (t.segment > 0) wait_previous_kernel();  //",
        EARLY_WRITE,
        schedule=SEGMENTS,
    ),
    mutant("segments_not_decayed", CARRIED, "mul_row(state, state, totals[i]);", "", NUMBERS, schedule=SEGMENTS),
    mutant("another_head", KERNEL, "g.unit.at(t.unit + c)", "g.unit.at(t.unit)", NUMBERS),
)


@pytest.fixture(scope="module")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("linear_attention"), "linear_attention", MUTANTS)


@pytest.mark.parametrize("schedule", [WHOLE, SEGMENTS])
def test_the_kernel_itself_has_no_report(carrier: Carrier, schedule: int) -> None:
    run = carrier.itself(schedule)
    for seed in range(20):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, carrier.mutant(mutant))
