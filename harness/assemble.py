"""From what the worker saw to what is stored: statistics, roofline, ratios.

Pure, but for the defaults in `configs/` that a row's command is told from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness import roofline, stats, workloads
from harness.datasheets import Roof, find_datasheet
from harness.planning import Group, Plan
from harness.records import Measurement, Ratio, Status
from harness.repetition import repro_command
from harness.samples import UNKNOWN, Samples
from harness.store import StoredGroup
from harness.worker.messages import CaseOutcome, Machine
from harness.worker.supervisor import GroupResult


@dataclass(frozen=True)
class Timed:
    """The numbers of a case that was timed; the names are those of the columns."""

    latency_us_p10: float
    latency_us_p50: float
    latency_us_p90: float
    tflops: float
    gbps: float
    roof_pct_measured: float | None
    roof_pct_datasheet: float | None
    aa_noise_pct: float
    energy_mj: float | None
    tflops_per_w: float | None
    settled_latency_us: float | None
    settled_clock_mhz: float | None
    settled_power_w: float | None
    settled_energy_mj: float | None


def assemble(plan: Plan, group: Group, result: GroupResult, machine: Machine, run_id: str) -> StoredGroup:
    """The rows and samples of a group, in the order of its contestants."""
    outcomes = [_judge(plan, group, outcome, machine) for outcome in result.outcomes]
    measurements = tuple(_measurement(plan, group, outcome, machine, run_id) for outcome in outcomes)
    samples = {
        measurement.case_id: _samples(group, outcome)
        for measurement, outcome in zip(measurements, outcomes, strict=True)
        if len(outcome.latency_us)
    }
    ratios = _ratios(measurements, outcomes, group.seed, run_id)
    return StoredGroup(measurements, ratios, samples, energy_j=result.energy_j, seconds=result.seconds)


def _samples(group: Group, outcome: CaseOutcome) -> Samples:
    """The samples of a case, with the ids of the cases that ran before them."""
    ids = np.array([*group.case_ids, UNKNOWN["predecessor"]], dtype=object)  # NOBODY, -1, is the last
    return Samples(outcome.latency_us, outcome.rounds, outcome.positions, ids[outcome.predecessors])


def _judge(plan: Plan, group: Group, outcome: CaseOutcome, machine: Machine) -> CaseOutcome:
    """The outcome, turned into an error if its time is beyond what the hardware can do."""
    if not len(outcome.latency_us):
        return outcome
    sheet = find_datasheet(str(machine.gpu.get("name", "")))
    roof = sheet.roof_at(group.problem.dtype, machine.gpu.get("sm_clock_max_mhz")) if sheet else None
    if roof is None:
        return outcome
    workload = workloads.load(group.workload)
    complaint = roofline.impossible(
        roof,
        workload.flops(group.problem),
        workload.traffic(group.problem),
        float(np.median(outcome.latency_us)),
        int(machine.gpu.get("l2_bytes") or 0),
        warm=not plan.timer.flush_l2,
    )
    return outcome if complaint is None else replace(_without_times(outcome), status=Status.ERROR, reason=complaint)


def _without_times(outcome: CaseOutcome) -> CaseOutcome:
    return replace(
        outcome,
        latency_us=np.empty(0),
        rounds=np.empty(0, dtype=np.int32),
        positions=np.empty(0, dtype=np.int32),
        predecessors=np.empty(0, dtype=np.int32),
        sm_clock_mhz=None,
        power_w=None,
        throttled="",
        settled=None,
    )


def _measurement(plan: Plan, group: Group, outcome: CaseOutcome, machine: Machine, run_id: str) -> Measurement:
    contestant, problem = group.contestants[outcome.index], group.problem
    timed = _timed(group, outcome, machine)
    numbers: dict[str, Any] = vars(timed) if timed else dict.fromkeys(Timed.__dataclass_fields__)
    return Measurement(
        run_id=run_id,
        case_id=group.case_id(contestant),
        workload=group.workload,
        direction=problem.direction,
        implementation=contestant.implementation,
        variant=contestant.variant,
        version=outcome.version,
        problem=problem.text,
        dtype=problem.dtype,
        distribution=group.distribution,
        seed=group.seed,
        status=outcome.status,
        reason=outcome.reason,
        rel_l2_error=outcome.rel_l2_error,
        max_abs_error=outcome.max_abs_error,
        worst_output=outcome.worst_output,
        tolerance=outcome.tolerance,
        n_samples=len(outcome.latency_us),
        timer=plan.timer.kind if timed else "",
        cache=("flushed" if plan.timer.flush_l2 else "warm") if timed else "",
        bound=_bound(group, machine),
        sm_clock_mhz=outcome.sm_clock_mhz,
        power_w=outcome.power_w,
        throttled=outcome.throttled,
        peak_memory_mib=outcome.peak_memory_mib,
        kernel_names=" | ".join(outcome.kernel_names),
        repro_command=repro_command(plan, group, outcome.index),
        **numbers,
    )


def _timed(group: Group, outcome: CaseOutcome, machine: Machine) -> Timed | None:
    if not len(outcome.latency_us):
        return None
    workload, problem = workloads.load(group.workload), group.problem
    flops, traffic = workload.flops(problem), workload.traffic(problem)
    p10, p50, p90 = (float(value) for value in np.quantile(outcome.latency_us, [0.1, 0.5, 0.9]))
    measured, datasheet = _roofs(problem.dtype, machine)
    tflops, power, alone = flops / (p50 * 1e6), outcome.power_w, outcome.settled
    return Timed(
        latency_us_p10=p10,
        latency_us_p50=p50,
        latency_us_p90=p90,
        tflops=tflops,
        gbps=traffic.total / (p50 * 1e3),
        roof_pct_measured=roofline.roof_pct(measured, flops, traffic, p50) if measured else None,
        roof_pct_datasheet=roofline.roof_pct(datasheet, flops, traffic, p50) if datasheet else None,
        aa_noise_pct=stats.aa_noise_pct(outcome.latency_us, outcome.rounds),
        energy_mj=power * p50 / 1e3 if power is not None else None,
        tflops_per_w=tflops / power if power else None,
        settled_latency_us=alone.latency_us if alone else None,
        settled_clock_mhz=alone.sm_clock_mhz if alone else None,
        settled_power_w=alone.power_w if alone else None,
        settled_energy_mj=alone.energy_mj if alone else None,
    )


def _roofs(dtype: str, machine: Machine) -> tuple[Roof | None, Roof | None]:
    """(measured in this run, from the datasheet), each None where there is none for this dtype."""
    sheet = find_datasheet(str(machine.gpu.get("name", "")))
    return roofline.measured_roof(machine.roofs, dtype), sheet.roof(dtype) if sheet else None


def _bound(group: Group, machine: Machine) -> str:
    measured, datasheet = _roofs(group.problem.dtype, machine)
    roof = measured or datasheet
    if roof is None:
        return ""
    workload, launch_us = workloads.load(group.workload), machine.roofs.get("launch_us", 0.0)
    return roofline.bound(roof, workload.flops(group.problem), workload.traffic(group.problem), launch_us)


def _ratios(
    measurements: Sequence[Measurement], outcomes: Sequence[CaseOutcome], seed: int, run_id: str
) -> tuple[Ratio, ...]:
    """Every ordered pair of cases of the group that were timed together."""
    timed = {m.case_id: o for m, o in zip(measurements, outcomes, strict=True) if len(o.latency_us)}
    noise = {m.case_id: m.aa_noise_pct or 0.0 for m in measurements}
    per_round = {case: stats.per_round_medians(o.latency_us, o.rounds)[1] for case, o in timed.items()}
    return tuple(
        Ratio(
            run_id=run_id,
            case_id=case,
            baseline_case_id=baseline,
            ratio_p50=estimate.value,
            ci_low=estimate.interval.low,
            ci_high=estimate.interval.high,
            verdict=stats.verdict(estimate, [noise[case], noise[baseline]]),
        )
        for (case, baseline), estimate in stats.paired_ratios(per_round, seed=seed).items()
    )
