"""Turns what the worker measured into stored rows: statistics, roofline, ratios.

Pure, except that a row's command leaves out the defaults read from `configs/`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness import workloads
from harness.devices.seats import block_rounds
from harness.devices.settled import Block
from harness.devices.telemetry import mean_or_none, median_or_none
from harness.measure.messages import CaseOutcome, Machine
from harness.measure.supervisor import GroupResult
from harness.plan import roofline
from harness.plan.planning import Group, Plan
from harness.plan.repetition import repro_command
from harness.records import stats
from harness.records.datasheets import Roof, find_datasheet
from harness.records.rows import Measurement, Ratio, SettledBlock, Status
from harness.runs.group import StoredGroup
from harness.runs.samples import UNKNOWN, Samples
from harness.workloads.spec import Traffic

LONG_US = 1000.0
"""Calls that take longer than this are compared after the same predecessors.  In recorded attention on an H200 the
predecessor changed nothing for calls under 4 ms, and up to 14 % above 9 ms."""

SETTLED_SHARE, FLUSHED_US = 0.9, 25.0
"""A sustained call takes at least this share of one in the rounds, less what the flush costs that.  Of a thousand
recorded ones, all of which take over 900 us, the least took 0.927: the board was at another clock."""

OVER_MEASURED = 1.5
"""How far a call may be above roofs that were measured here, where there is no datasheet: the vendor's library is not
the fastest."""

VERIFIED = ("rel_l2_error", "max_abs_error", "worst_output", "tolerance", "peak_memory_mib")
"""What is known of a case from its verification, in an outcome and in a row."""

READABLE_US = 1000.0
"""NVML readings refer to the start of a call and take about this long. For longer calls they describe the previous
one."""


def assemble(plan: Plan, group: Group, result: GroupResult, machine: Machine, run_id: str) -> StoredGroup:
    """The rows and samples of a group, in the order of its contestants."""
    outcomes = [_judged(plan, group, outcome, machine) for outcome in result.outcomes]
    noise = _noise_pct(outcomes)
    measurements = tuple(
        _measurement(plan, group, outcome, machine, run_id, noise.get(str(outcome.index), 0.0)) for outcome in outcomes
    )
    samples = {
        measurement.case_id: _samples(group, outcome)
        for measurement, outcome in zip(measurements, outcomes, strict=True)
        if len(outcome.latency_us)
    }
    ratios = _ratios(measurements, outcomes, group.seed, run_id)
    settled = tuple(block for outcome in outcomes for block in _blocks(group, outcome))
    tuning = {group.case_ids[outcome.index]: outcome.tuning for outcome in outcomes if outcome.tuning}
    ranks = {
        rank: {
            group.case_ids[one.index]: replace(samples[group.case_ids[one.index]], latency_us=one.ranks_us[:, rank])
            for one in outcomes
            if one.ranks_us.shape[1]
        }
        for rank in range(max((one.ranks_us.shape[1] for one in outcomes), default=0))
    }
    return StoredGroup(
        measurements,
        ratios,
        samples,
        settled,
        ranks=ranks,
        tuning=tuning,
        energy_j=result.energy_j,
        seconds=result.seconds,
    )


def _blocks(group: Group, outcome: CaseOutcome) -> Iterator[SettledBlock]:
    """The stored blocks of a case."""
    kept = ("position", "calls", "seconds", "latency_us", "sm_clock_mhz", "power_w", "energy_mj")
    for block in outcome.settled:
        yield SettledBlock(
            case_id=group.case_ids[outcome.index],
            block=block.round,
            predecessor=group.case_ids[block.predecessor] if block.predecessor >= 0 else "",
            **{name: getattr(block, name) for name in kept},
        )


def _samples(group: Group, outcome: CaseOutcome) -> Samples:
    """The samples of a case, with the ids of the cases that ran before them."""
    ids = np.array([*group.case_ids, UNKNOWN["predecessors"]], dtype=object)  # NOBODY, -1, is the last
    seats = (outcome.positions, ids[outcome.predecessors], outcome.placements)
    return Samples(outcome.latency_us, outcome.rounds, *seats)


def _judged(plan: Plan, group: Group, outcome: CaseOutcome, machine: Machine) -> CaseOutcome:
    """The outcome, or an error with what its verification told if one of its clocks tells a time that cannot be."""
    complaint = _complain_of_clocks(plan, group, outcome, machine) if len(outcome.latency_us) else None
    if complaint is None:
        return outcome
    untimed = CaseOutcome(outcome.index, Status.ERROR, complaint, outcome.version)
    return replace(untimed, **{name: getattr(outcome, name) for name in (*VERIFIED, "kernel_names", "build", "tuning")})


def _complain_of_clocks(plan: Plan, group: Group, outcome: CaseOutcome, machine: Machine) -> str | None:
    """What is wrong with the rounds at any placement, or with any sustained block: shorter than the hardware allows, or
    than the other clock does.
    """
    places = {int(place) for place in outcome.placements} or {0}
    placements = outcome.placements if len(outcome.placements) else np.zeros(len(outcome.latency_us))
    rounds_us = min(float(np.median(outcome.latency_us[placements == place])) for place in places)
    blocks_us = [block.latency_us for block in outcome.settled]
    clocks = [("median", rounds_us, not plan.timer.flush_l2)]
    clocks += [("sustained time", min(blocks_us), True)] if blocks_us else []
    l2_bytes = int(machine.gpu.get("l2_bytes") or 0)
    roof = _limit(group.problem.dtype, machine)
    if roof is not None:
        flops, traffic = _cost(group)
        for what, microseconds, warm in clocks:
            if complaint := roofline.impossible(roof, flops, traffic, microseconds, l2_bytes, warm, what):
                return complaint
    settled_us = stats.geometric_mean(blocks_us) if blocks_us else math.inf
    if settled_us < SETTLED_SHARE * float(np.median(outcome.latency_us)) - FLUSHED_US:
        return (
            f"sustained calls take {settled_us:.1f} us each, calls in the rounds {np.median(outcome.latency_us):.1f} "
            f"us, of which sustained ones need {SETTLED_SHARE:g}: not all of the work was done in one of them"
        )
    return None


def _limit(dtype: str, machine: Machine) -> Roof | None:
    """The roof that no call can pass: the datasheet's at the highest clock; else well above what was measured here."""
    sheet = find_datasheet(str(machine.gpu.get("name", "")))
    if sheet is not None:
        return sheet.roof_at(dtype, machine.gpu.get("sm_clock_max_mhz"))
    measured = roofline.measured_roof(machine.roofs, dtype)
    return measured and Roof(measured.tflops * OVER_MEASURED, measured.gbps * OVER_MEASURED)


def _seated(outcomes: Sequence[CaseOutcome]) -> dict[str, stats.Seated]:
    """The samples of the timed contestants with block and predecessor, by contestant number."""
    timed = [outcome for outcome in outcomes if len(outcome.latency_us)]
    block = block_rounds(max(1, len(timed)))
    return {
        str(one.index): stats.Seated(one.latency_us, one.rounds // block, one.predecessors.astype(str)) for one in timed
    }


def _by_predecessor(seated: Mapping[str, stats.Seated]) -> bool:
    """Whether cases are compared after the same predecessors: calls are long, and every sample's place is known."""
    return _known(seated) and any(float(np.median(one.latency_us)) >= LONG_US for one in seated.values())


def _known(seated: Mapping[str, stats.Seated]) -> bool:
    """Whether every sample's place and predecessor are known."""
    return all(len(one.predecessors) == len(one.latency_us) > 0 for one in seated.values())


def _noise_pct(outcomes: Sequence[CaseOutcome]) -> dict[str, float]:
    """The A/A noise of each case that was timed, by its number: one tick of the clock at least."""
    seated = _seated(outcomes)
    tick = stats.tick_us([one.latency_us for one in seated.values()])
    noise = (
        stats.same_predecessor_noise_pct(seated)
        if _by_predecessor(seated)
        else {str(one.index): stats.aa_noise_pct(one.latency_us, one.rounds) for one in outcomes if len(one.latency_us)}
    )
    return {case: max(pct, 100 * tick / float(np.median(seated[case].latency_us))) for case, pct in noise.items()}


def _measurement(
    plan: Plan, group: Group, outcome: CaseOutcome, machine: Machine, run_id: str, noise_pct: float
) -> Measurement:
    contestant, problem = group.contestants[outcome.index], group.problem
    timed = _timed(group, outcome, machine, noise_pct)
    return Measurement(
        run_id=run_id,
        case_id=group.case_id(contestant),
        workload=group.workload,
        direction=problem.direction,
        implementation=contestant.implementation,
        variant=contestant.variant,
        problem=problem.text,
        dtype=problem.dtype,
        distribution=group.distribution,
        seed=group.seed,
        n_samples=len(outcome.latency_us),
        timer=plan.timer.kind if timed else "",
        cache=plan.timer.cache if timed else "",
        bound=_bound(group, machine),
        kernel_names=" | ".join(outcome.kernel_names),
        repro_command=repro_command(plan, group, outcome.index),
        **{name: getattr(outcome, name) for name in ("version", "status", "reason", "throttled", *VERIFIED)},
        **timed,
    )


def _timed(group: Group, outcome: CaseOutcome, machine: Machine, noise_pct: float) -> dict[str, Any]:
    """The columns of a case that was timed; empty for any other."""
    if not len(outcome.latency_us):
        return {}
    flops, traffic = _cost(group)
    p10, p50, p90 = (float(value) for value in np.quantile(outcome.latency_us, [0.1, 0.5, 0.9]))
    measured, datasheet = _roofs(group.problem.dtype, machine)
    readable = p50 < READABLE_US
    return {
        "latency_us_p10": p10,
        "latency_us_p50": p50,
        "latency_us_p90": p90,
        "tflops": flops / (p50 * 1e6),
        "gbps": traffic.total / (p50 * 1e3),
        "roof_pct_measured": roofline.roof_pct(measured, flops, traffic, p50) if measured else None,
        "roof_pct_datasheet": roofline.roof_pct(datasheet, flops, traffic, p50) if datasheet else None,
        "aa_noise_pct": noise_pct,
        "sm_clock_mhz": outcome.sm_clock_mhz if readable else None,
        "power_w": outcome.power_w if readable else None,
        **_settled(outcome.settled, flops),
    }


def _settled(blocks: Sequence[Block], flops: float) -> dict[str, Any]:
    """The columns of a case's sustained (back-to-back) blocks; empty for a case without any."""
    if not blocks:
        return {}
    latency_us = stats.geometric_mean([block.latency_us for block in blocks])
    tflops, power = flops / (latency_us * 1e6), mean_or_none([block.power_w for block in blocks])
    energy_mj = mean_or_none([block.energy_mj for block in blocks])
    return {
        "settled_latency_us": latency_us,
        "settled_clock_mhz": median_or_none([block.sm_clock_mhz for block in blocks]),
        "settled_power_w": power,
        "settled_energy_mj": energy_mj,
        "settled_tflops": tflops,
        "settled_blocks": len(blocks),
        "energy_mj": energy_mj,
        "tflops_per_w": tflops / power if power else None,
    }


def _roofs(dtype: str, machine: Machine) -> tuple[Roof | None, Roof | None]:
    """(roof measured in this run, roof of the datasheet); None where there is none for this dtype."""
    sheet = find_datasheet(str(machine.gpu.get("name", "")))
    return roofline.measured_roof(machine.roofs, dtype), sheet.roof(dtype) if sheet else None


def _bound(group: Group, machine: Machine) -> str:
    measured, datasheet = _roofs(group.problem.dtype, machine)
    roof = measured or datasheet
    return "" if roof is None else roofline.bound(roof, *_cost(group), machine.roofs.get("launch_us", 0.0))


def _cost(group: Group) -> tuple[float, Traffic]:
    """FLOPs and bytes of the group's problem."""
    workload = workloads.load(group.workload)
    return workload.flops(group.problem), workload.traffic(group.problem)


def _ratios(
    measurements: Sequence[Measurement], outcomes: Sequence[CaseOutcome], seed: int, run_id: str
) -> tuple[Ratio, ...]:
    """Every ordered pair of cases of the group that were timed together."""
    timed = {m.case_id: o for m, o in zip(measurements, outcomes, strict=True) if len(o.latency_us)}
    noise = {m.case_id: m.aa_noise_pct or 0.0 for m in measurements}
    estimates = _estimates(timed, seed)
    settled = stats.settled_ratios(
        {case: np.array([block.latency_us for block in o.settled]) for case, o in timed.items() if o.settled}
    )
    return tuple(
        Ratio(
            run_id=run_id,
            case_id=case,
            baseline_case_id=baseline,
            ratio_p50=estimate.value,
            ci_low=estimate.interval.low,
            ci_high=estimate.interval.high,
            verdict=stats.verdict(estimate, [noise[case], noise[baseline]]),
            **_settled_ratio(settled.get((case, baseline))),
        )
        for (case, baseline), estimate in estimates.items()
    )


def _estimates(timed: Mapping[str, CaseOutcome], seed: int) -> dict[tuple[str, str], stats.RatioEstimate]:
    """Every ordered pair of cases: paired in rounds, or where calls are long after the same predecessors."""
    if not timed:
        return {}
    names = {str(outcome.index): case for case, outcome in timed.items()}
    seated = {names[number]: one for number, one in _seated(list(timed.values())).items()}
    if _by_predecessor(seated):
        return stats.same_predecessor_ratios(seated, seed=seed)
    estimates = _in_rounds(timed, seed)
    return stats.widened(estimates, seated) if _known(seated) else estimates


def _in_rounds(timed: Mapping[str, CaseOutcome], seed: int) -> dict[tuple[str, str], stats.RatioEstimate]:
    """Every ordered pair of cases, paired in rounds, over placements where there are several."""
    per_round = {case: stats.per_round_medians(one.latency_us, one.rounds)[1] for case, one in timed.items()}
    estimates = stats.paired_ratios(per_round, seed=seed)
    moved = next((one.placements for one in timed.values()), np.empty(0))
    if not moved.any():
        return estimates
    parts = [
        {case: one.latency_us[one.placements == placement] for case, one in timed.items()}
        for placement in np.unique(moved)
    ]
    return stats.over_placements(estimates, parts)


def _settled_ratio(estimate: stats.RatioEstimate | None) -> dict[str, Any]:
    """The columns of a pair if both have sustained (back-to-back) blocks; else empty."""
    if estimate is None:
        return {}
    return {
        "settled_ratio": estimate.value,
        "settled_ci_low": estimate.interval.low,
        "settled_ci_high": estimate.interval.high,
        "settled_verdict": stats.verdict(estimate, ()),
    }
