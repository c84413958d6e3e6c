"""What the cpu target catches in the Based kernels with one line changed."""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

KERNEL, RING, FEATURES = "based.cuh", "ring.cuh", "second_order.cuh"

SHARED = r"(input|workspace|output)"
READS_TOO_EARLY = rf"at based.cuh:\d+ .* reads {SHARED}.*(nothing has written|while|after)"
OVERWRITTEN = rf"(load_async|store) at based.cuh:\d+ .* writes {SHARED}.* (while|after) \w+ at based.cuh"
NO_FENCE = rf"at based.cuh:\d+ .* reads {SHARED}.* after store at based.cuh:\d+ .* without a fence"
WRONG_PHASE = r"wait at (lcsf|based).cuh:\d+ .* for parity . of \w+.*: it knows"
RUNS_AHEAD = r"completes phase \d+ of \w+.* without being ordered after wait at (lcsf|based).cuh:\d+"
SURPLUS = r"is one arrival too many at \w+.*: phase \d+ expects"
DEADLOCK = r"deadlock.*waits for phase \d+ of \w+.*missing"
REGISTERS = r"a register tile that mma?_\w+ at based.cuh:\d+ .* may still (write|read)"
OUT_OF_SCOPE = r"a register tile goes out of scope while mma?_\w+ at based.cuh:\d+ .* may still read it"
EVERY_RACE = (READS_TOO_EARLY, OVERWRITTEN, WRONG_PHASE, RUNS_AHEAD, SURPLUS, DEADLOCK)


def mutant(name: str, old: str, new: str, *reports: str, file: str = KERNEL) -> Mutant:
    return Mutant(name, 0, file, old, new, reports)


RELEASE = "s.hand_over(); sums.wait_for(); s.release();"

MUTANTS = (
    mutant(
        "copy_overwritten_while_it_is_read",
        "warpgroup::sync(1);  // no warp reads the old copy any more",
        "",
        OVERWRITTEN,
        READS_TOO_EARLY,
    ),
    mutant(
        "copy_read_before_it_is_there", "warpgroup::sync(1);  // the copy is there", "", READS_TOO_EARLY, OVERWRITTEN
    ),
    mutant("copy_without_a_fence", "fence_async();", "", NO_FENCE),
    mutant("stage_released_too_early", RELEASE, "s.hand_over(); s.release(); sums.wait_for();", *EVERY_RACE),
    mutant("segments_start_from_nothing", "before < t.segment", "before < 0", NUMBERS),
    mutant("stage_not_released", RELEASE, "s.hand_over(); sums.wait_for();", DEADLOCK),
    mutant("state_read_while_it_is_summed", RELEASE, "s.hand_over(); s.release();", REGISTERS, OUT_OF_SCOPE),
    mutant("no_wait_for_the_scores", "warpgroup::mma_wait(scores);", "", REGISTERS),
    mutant(
        "no_wait_for_the_output",
        "if constexpr (Normalize) warpgroup::mma_wait(o, y); else warpgroup::mma_wait(o);",
        "",
        REGISTERS,
        OUT_OF_SCOPE,
    ),
    mutant("no_wait_for_the_input", "read.take(next, where);", "read.stages[next.stage];", *EVERY_RACE, file=RING),
    mutant(
        "no_wait_for_the_output_stage",
        "written.ask(out, where)",
        "written.stages[out.stage]",
        *EVERY_RACE,
        file=RING,
    ),
    mutant(
        "output_handed_over_without_a_fence",
        "fence_async(); written.hand_over(out, where);",
        "written.hand_over(out, where);",
        NO_FENCE,
        file=RING,
    ),
    mutant("no_causal_mask", "tril(scores, scores, 16 * warp_in_group());", "", NUMBERS),
    mutant(
        "a_diagonal_counted_twice",
        "diagonals.template operator()<0>(2, once);",
        "diagonals.template operator()<0>(2, twice);",
        NUMBERS,
        file=FEATURES,
    ),
    mutant("a_warp_with_anothers_features", "warp == 3 ? 3 : warp + 1", "warp == 3 ? 3 : 1", NUMBERS, file=FEATURES),
    mutant("normaliser_without_the_rows_before", "a + b + rows_before + 1e-6f", "a + b + 1e-6f", NUMBERS),
)


@pytest.fixture(scope="module")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("based"), "based", MUTANTS)


def test_the_kernels_themselves_have_no_report(carrier: Carrier) -> None:
    run = carrier.itself()
    for seed in range(15):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, carrier.mutant(mutant))
