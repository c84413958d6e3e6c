"""What the cpu target catches in the long convolution, with one line changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from mutation import NUMBERS, Mutant, check_every_seed, runner

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
QUICK = ("no_fence_before_the_last_multiply", "result_over_an_operand_in_use", "stage_not_released")

FENCE = "fence_async(); meet(me);"
AFTER = "meet(me);  // all have read W' before"
LAST_WAIT = "} warpgroup::mma_wait(result.real, result.imag);"


WAIT_FOR_Y = "warpgroup::mma_wait(y.real, y.imag);"
TABLES = """
    rt_bf<16, columns> left;
    warpgroup::load(left, out.y[0].real); warpgroup::load_halves(twiddle, out.y[1]);
    part(f.left.real, left, 0, 0), part(f.left.imag, left, 0, 1);
    } copy(f.twiddle, twiddle);"""
OWN = "warpgroup::sync(own_group + me);"
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
        ("no_wait_for_the_last_multiply", LAST_WAIT, "}", REGISTERS, OUTPUT_REUSED),
        ("turn_not_passed", f"{WAIT_FOR_Y} pass_turn();", WAIT_FOR_Y, BARRIER),
        ("stage_not_released", "stream.release();", "", DEADLOCK),
        (
            "stage_released_before_it_is_read",
            "input& in = stream.take();",
            "input& in = stream.take(); stream.release();",
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
        ("result_before_the_factors_are_read", f"{TABLES} {FIRST_TURN}", f"{FIRST_TURN} {TABLES}", OUTPUT_REUSED),
        (
            "factors_waited_for_before_their_semaphore_is_set_up",
            "sync_named(everyone, consumers * warpgroup_warps); wait(own.loaded, 0);",
            "wait(own.loaded, 0);",
            r"uses the semaphore .*, which is not initialised",
            r"(init|wait) at fft_conv.cuh.*may still be under way",
        ),
        ("spectrum_not_loaded", "coord{first.d, 1, 0, first.r}", "coord{first.d, 0, 0, first.r}", NUMBERS),
        ("one_sequence_twice", "g.u, at, full)", "g.u, coord{at.b & ~1, at.d, 0, at.c}, full)", NUMBERS),
        ("one_spectrum_for_both", SPECTRUM.format("me"), SPECTRUM.format("0"), NUMBERS),
        ("not_conjugated", "mul<conjugate::second>(turned_back,", "mul(turned_back,", NUMBERS),
        ("halves_not_exchanged", "exchange_cols(z.real, z.imag);", "", NUMBERS),
        ("columns_not_added", "butterfly_cols(turned);", "", NUMBERS),
    ),
    *of(
        TOGETHER,
        ("together_no_fence_before_the_last_multiply", FENCE, "meet(me);", UNWRITTEN),
        ("together_only_its_own_operand_waited_for", FENCE, f"fence_async(); {OWN}", UNWRITTEN, OUTPUT_REUSED),
        ("together_result_over_the_operand_of_the_other", AFTER, f"{OWN} //", OUTPUT_REUSED),
        ("together_one_half_twice", "in.u[1].real, in.u[1].imag", "in.u[0].real, in.u[0].imag", NUMBERS),
        ("together_sum_for_the_difference", "if (warpgroup_index() == 1) neg", "if (false) neg", NUMBERS),
        ("together_own_factor_for_the_others", "f.other, other.imag", "f.left, other.imag", NUMBERS),
        ("together_one_twiddle_for_both", "load_twiddle(out.y[1], together)", "load_twiddle(out.y[1], 0)", NUMBERS),
        ("together_one_spectrum_for_both", "coord{first.d, 1, 0, first.r}", "coord{first.d, 1, 0, 0}", NUMBERS),
    ),
    *of(
        CAUSAL,
        ("causal_odd_rows_not_multiplied", "half(in.u[me].real, 1)", "half(in.u[me].real, 0)", NUMBERS),
        ("causal_bytes_of_a_part_that_is_not_there", "consumers * (parts + 2)", "consumers * 4", DEADLOCK),
        ("causal_sequences_counted_in_pairs", "first.b + parts * s", "first.b + 2 * s", NUMBERS),
    ),
)


@pytest.mark.parametrize("schedule", [PAIRED, TOGETHER, CAUSAL])
def test_the_kernel_itself_has_no_report(tmp_path: Path, schedule: int) -> None:
    run = runner(tmp_path, "fft_conv", schedule, None)
    for seed in range(10):
        assert run(seed) == (0, "")


def marked(mutant: Mutant) -> ParameterSet:
    """A parameter of the name of the mutant; most take some ten seconds and are `long`."""
    return pytest.param(mutant, id=mutant.name, marks=() if mutant.name in QUICK else pytest.mark.long)


@pytest.mark.parametrize("mutant", [marked(one) for one in MUTANTS])
def test_mutant_is_reported_in_every_seed(tmp_path: Path, mutant: Mutant) -> None:
    check_every_seed(tmp_path, "fft_conv", mutant)
