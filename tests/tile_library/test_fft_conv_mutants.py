"""What the cpu target catches in the long convolution, with one line changed."""

from __future__ import annotations

import pytest
from mutation import NUMBERS, Carrier, Mutant, check_reports

KERNEL = "fft_conv.cuh"

UNWRITTEN = r"mma?_AB at fft_conv.cuh:\d+ .* reads \w+.*(nothing has written|without a fence|while store_halves)"
INPUT_REUSED = (
    r"(load_async at fft_conv.cuh:\d+ .* writes input.* while (mma?_\w*|load_halves)"
    r"|(mma?_\w+|load_halves) at fft_conv.cuh:\d+ .* reads input.* while load_async) at fft_conv.cuh"
)
OUTPUT_REUSED = (
    r"(store_halves at fft_conv.cuh:\d+ .* writes output.* while (mma?_\w*|load\w*|store_async)"
    r"|mma?_\w+ at fft_conv.cuh:\d+ .* reads output.* while store_halves) at fft_conv.cuh"
)
REGISTERS = r"a register tile that mma?_\w+ at fft_conv.cuh:\d+ .* may still (write|read)"
BARRIER = r"deadlock.*sync_named at fft_conv.cuh"
DEADLOCK = r"deadlock.*waits for phase \d+ of \w+.*missing"

FENCE = "fence_async(); meet(me);"
AFTER = "meet(me);  // all have read W' before"
LAST_WAIT = "warpgroup::mma_wait(result.real, result.imag);"


WAIT_FOR_Y = "warpgroup::mma_wait(y.real, y.imag);"
OWN = "warpgroup::sync(own_group + me);"
CONJUGATED = "mul_twiddle<conjugate::second>(turned_back, w, f, own);"
SECOND_HALF = "multiply_halves(y.real, y.imag, left, in.u[1].real, in.u[1].imag, 1);"
OTHERS_HALF = "multiply_halves(result.imag, result.real, f.other, other.imag, other.real, 1);"
NEGATED = "if (warpgroup_index() == 1) neg(left.real, left.real), neg(left.imag, left.imag);"
TABLES = "warpgroup::load(left, out.y[0].real);"
SPECTRUM = "if constexpr (!together) warpgroup::load_halves(spectrum, in.spectrum[{}]);"
FIRST_TURN = "if (warpgroup_index() == 1) pass_turn();"


PAIRED, TOGETHER, CAUSAL = range(3)  # the kernels that fft_conv_mutants.cu runs


def of(schedule: int, *changes: tuple[str, ...]) -> list[Mutant]:
    """Mutants of one kernel.  A change: name, old text, new text, and the reports of which one is expected."""
    return [Mutant(name, schedule, KERNEL, old, new, tuple(reports)) for name, old, new, *reports in changes]


MUTANTS = (
    *of(
        PAIRED,
        ("no_fence_before_the_last_multiply", FENCE, "meet(me);", UNWRITTEN),
        ("no_barrier_before_the_last_multiply", FENCE, "fence_async();", UNWRITTEN, OUTPUT_REUSED),
        ("result_over_an_operand_in_use", AFTER, "//", OUTPUT_REUSED),
        ("no_wait_for_the_last_multiply", LAST_WAIT, "", REGISTERS, OUTPUT_REUSED),
        ("turn_not_passed", f"{WAIT_FOR_Y} pass_turn();", WAIT_FOR_Y, BARRIER),
        ("stage_not_released", "stream.release();", "", DEADLOCK),
        (
            "stage_released_before_it_is_read",
            "stream.take()",
            "[&]() -> input& { input& in = stream.take(); stream.release(); return in; }()",
            INPUT_REUSED,
            r"is one arrival too many",
            r"completes phase \d+ of empty.* without being ordered after wait at (lcsf|fft_conv).cuh",
        ),
        ("result_not_handed_over", "stream.hand_over();", "", DEADLOCK),
        (
            "factors_used_before_they_are_there",
            "wait(own.loaded, 0);",
            "",
            r"load(_halves)? at fft_conv.cuh:\d+ .* reads output.*",
        ),
        (
            "factors_waited_for_before_their_semaphore_is_set_up",
            "sync_named(everyone, consumers * warpgroup_warps); wait(own.loaded, 0);",
            "wait(own.loaded, 0);",
            r"uses the semaphore .*, which is not initialised",
            r"(init|wait) at fft_conv.cuh.*may still be under way",
        ),
        ("spectrum_not_loaded", "coord{first.d, 1, 0, first.r}", "coord{first.d, 0, 0, first.r}", NUMBERS),
        ("one_sequence_twice", "zero_beyond(g.u, at)", "coord{at.b & ~1, at.d, 0, at.c}", NUMBERS),
        ("one_spectrum_for_both", SPECTRUM.format("me"), SPECTRUM.format("0"), NUMBERS),
        ("not_conjugated", CONJUGATED, CONJUGATED.replace("<conjugate::second>", ""), NUMBERS),
        ("halves_not_exchanged", "exchange_cols(z.real, z.imag);", "", NUMBERS),
        ("columns_not_added", "butterfly_cols(turned);", "", NUMBERS),
    ),
    Mutant(
        "result_before_the_factors_are_read",
        PAIRED,
        KERNEL,
        TABLES,
        f"{FIRST_TURN} {TABLES}",
        (OUTPUT_REUSED,),
        ((KERNEL, FIRST_TURN, ""),),
    ),
    *of(
        TOGETHER,
        ("together_no_fence_before_the_last_multiply", FENCE, "meet(me);", UNWRITTEN),
        ("together_only_its_own_operand_waited_for", FENCE, f"fence_async(); {OWN}", UNWRITTEN, OUTPUT_REUSED),
        ("together_result_over_the_operand_of_the_other", AFTER, f"{OWN} //", OUTPUT_REUSED),
        ("together_one_half_twice", SECOND_HALF, SECOND_HALF.replace("u[1]", "u[0]"), NUMBERS),
        ("together_sum_for_the_difference", NEGATED, "", NUMBERS),
        ("together_own_factor_for_the_others", OTHERS_HALF, OTHERS_HALF.replace("f.other", "f.left"), NUMBERS),
        ("together_one_twiddle_for_both", "load_twiddle(out.y[1], together)", "load_twiddle(out.y[1], 0)", NUMBERS),
        ("together_one_spectrum_for_both", "coord{first.d, 1, 0, first.r}", "coord{first.d, 1, 0, 0}", NUMBERS),
    ),
    *of(
        CAUSAL,
        ("causal_odd_rows_not_multiplied", "half(in.u[me].real, 1)", "half(in.u[me].real, 0)", NUMBERS),
        ("causal_sequences_counted_in_pairs", "first.b + parts * s", "first.b + 2 * s", NUMBERS),
    ),
    Mutant(
        "causal_bytes_of_a_part_that_is_not_there",
        CAUSAL,
        KERNEL,
        "consumers * (parts + 2)",
        "consumers * 4",
        (DEADLOCK,),
        alone=True,
    ),
)


@pytest.fixture(scope="module")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Carrier:
    return Carrier(tmp_path_factory.mktemp("fft_conv"), "fft_conv", MUTANTS)


@pytest.mark.parametrize("schedule", [PAIRED, TOGETHER, CAUSAL])
def test_the_kernel_itself_has_no_report(carrier: Carrier, schedule: int) -> None:
    run = carrier.itself(schedule)
    for seed in range(10):
        assert run(seed) == (0, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_reported_in_every_seed(carrier: Carrier, mutant: Mutant) -> None:
    check_reports(mutant, carrier.mutant(mutant))
