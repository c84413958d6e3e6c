"""One group in the worker: available? supported? -> verify, memory poisoned -> timed rounds -> verify again.

A contestant that fails anywhere gets its status and leaves; the others go on, and are timed without it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from harness import workloads
from harness.devices import Device
from harness.implementations import Call, Implementation, LoadError, OptionError, load
from harness.planning import Contestant, Group, Limits, TimerSettings
from harness.records import Status
from harness.timing.rounds import ContestantError, Progress, Series, time_rounds
from harness.timing.telemetry import median_or_none, throttle_text
from harness.verification import TORCH_DTYPES, check_outputs
from harness.worker.messages import Broken, CaseOutcome, Done, Inspected, Phase, Timing
from harness.workloads.spec import Reference

MAX_INPUT_SETS = 16
"""Input sets that a problem rotates through at most; small problems would otherwise need thousands to pass the L2."""


class ProcessBrokenError(Exception):
    """The device is unusable in this process; carries the `Broken` message."""

    def __init__(self, message: Broken) -> None:
        super().__init__(message.reason)
        self.message = message


@dataclass(frozen=True)
class Entrant:
    """A contestant that passed verification, with what was learned on the way."""

    index: int
    implementation: Implementation
    outcome: CaseOutcome


@dataclass(frozen=True)
class Session:
    """What the steps of one group share."""

    group: Group
    device: Device
    timer: TimerSettings
    limits: Limits
    send: Callable[[object], None]
    enter: Callable[[int], None]
    """Names the contestant that runs now, in memory that outlives this process."""

    @property
    def workload(self) -> workloads.Workload:
        return workloads.load(self.group.workload)

    def begin(self, name: str, index: int, seconds: float) -> None:
        """Tells the parent what starts now and how long it may take."""
        self.enter(index)
        self.send(Phase(name, index, seconds))

    def inputs(self, number: int) -> dict[str, torch.Tensor]:
        """Input set `number`; 0 is verified, 1.. are timed."""
        generator = self.device.generator(self.group.seed + number)
        return self.workload.make_inputs(self.group.problem, generator, self.group.distribution)

    def reference(self, inputs: dict[str, torch.Tensor]) -> Reference:
        """The float64 reference of these inputs."""
        return self.workload.reference(self.group.problem, inputs, self.group.seed)

    def failure(self, index: int, error: BaseException, version: str = "") -> CaseOutcome:
        """The outcome of a case that raised; raises `ProcessBrokenError` if the device did not survive it."""
        outcome = CaseOutcome(index, _status_of(error), one_line(error), version)
        if outcome.status is Status.OUT_OF_MEMORY:
            self.device.release()
        broken = self.device.broken()
        if broken is not None:
            raise ProcessBrokenError(Broken(index, f"{outcome.reason} (the device is unusable after it: {broken})"))
        return outcome


def inspect(contestant: Contestant, problems: Sequence[Any], kind: str) -> Inspected:
    """What can be said of a contestant without running it."""
    try:
        implementation = load(contestant)
        missing = implementation.available()
        if missing:
            return Inspected(contestant, missing=missing)
        refusals = {problem.title: implementation.supports(problem, kind) for problem in problems}
        return Inspected(
            contestant,
            version=implementation.version(),
            unsupported={title: reason for title, reason in refusals.items() if reason},
        )
    except (LoadError, OptionError) as error:
        return Inspected(contestant, mistake=str(error))
    except Exception as error:  # an implementation's own code: whatever it raises is its row's reason
        return Inspected(contestant, missing=one_line(error))


def measure_group(session: Session) -> None:
    """Sends one outcome a contestant and `Done`; raises `ProcessBrokenError` where a case took the device with it."""
    device, group = session.device, session.group
    session.begin("reference", -1, session.limits.case_seconds)
    inputs = session.inputs(0)
    pristine = {name: tensor.clone() for name, tensor in inputs.items()}
    expected = session.reference(inputs)
    entrants = []
    for index, contestant in enumerate(group.contestants):
        session.begin("verify", index, session.limits.case_seconds)
        result = _verify(session, index, contestant, inputs, expected)
        if any(not _same(inputs[name], tensor) for name, tensor in pristine.items()):
            inputs = {name: tensor.clone() for name, tensor in pristine.items()}
            reason = "changed its inputs, which the other implementations share"
            outcome = result.outcome if isinstance(result, Entrant) else result
            result = replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason)
        if isinstance(result, Entrant) and device.timed:
            entrants.append(result)
        else:
            session.send(result.outcome if isinstance(result, Entrant) else result)
    del inputs, pristine, expected
    device.release()
    energy = _time(session, entrants) if entrants else None
    device.release()
    session.send(Done(energy))


def _verify(
    session: Session,
    index: int,
    contestant: Contestant,
    inputs: dict[str, torch.Tensor],
    expected: Reference,
) -> Entrant | CaseOutcome:
    """The gate: an `Entrant` if the output is right and the kernels are the promised ones, else how the case ended."""
    device, problem = session.device, session.group.problem
    version = ""
    try:
        implementation = load(contestant)
        missing = implementation.available()
        if missing:
            return CaseOutcome(index, Status.UNAVAILABLE, missing)
        version = implementation.version()
        refusal = implementation.supports(problem, device.kind)
        if refusal:
            return CaseOutcome(index, Status.UNSUPPORTED, refusal, version)
        call = implementation.prepare(problem, inputs)
        output = device.poisoned(call, _output_bytes(session))
        check = check_outputs(session.workload, problem, output, expected)
        del output
        outcome = CaseOutcome(
            index,
            Status.PASSED if check.passed else Status.FAILED_VERIFICATION,
            check.reason,
            version,
            check.rel_l2_error,
            check.max_abs_error,
            check.worst_output,
            check.tolerance,
            build=implementation.build_manifest(),
        )
        if not check.passed:
            return outcome
        outcome = replace(outcome, peak_memory_mib=device.peak_memory_mib(call))
        outcome = _check_kernels(session, implementation, call, outcome)
        return Entrant(index, implementation, outcome) if outcome.status is Status.PASSED else outcome
    except Exception as error:  # an implementation's own code: whatever it raises is its row's reason
        return session.failure(index, error, version)


def _check_kernels(session: Session, implementation: Implementation, call: Call, outcome: CaseOutcome) -> CaseOutcome:
    """The outcome with the kernels that ran; failed if a promised kernel did not run or a foreign one did."""
    names = session.device.kernel_names(call)
    if names is None:
        if session.device.kind != "cuda":
            return outcome
        return replace(outcome, reason=_join(outcome.reason, "kernel names not checked: the profiler saw no kernel"))
    outcome = replace(outcome, kernel_names=names)
    seen = " | ".join(names) or "none"
    for pattern in implementation.kernel_names(session.group.problem):
        if not any(re.search(pattern, name) for name in names):
            reason = f"no kernel that ran matches {pattern!r}, which it says it runs; seen: {seen}"
            return replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason)
    for pattern in implementation.foreign_kernel_names():
        if any(re.search(pattern, name) for name in names):
            reason = f"a kernel matches {pattern!r}, which is another implementation's; seen: {seen}"
            return replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason)
    return outcome


def _time(session: Session, entrants: list[Entrant]) -> float | None:
    """Times the entrants together, those that fail on the way dropped, and sends their outcomes; gives the energy."""
    count = _input_sets(session)
    sets = [session.inputs(1 + number) for number in range(count)]
    energy: float | None = None
    while entrants:
        before = session.device.energy_j()
        try:
            calls = [_prepared(session, position, entrant, sets) for position, entrant in enumerate(entrants)]
            series = _rounds(session, entrants, calls)
        except ContestantError as error:
            loser = entrants.pop(error.index)
            cause = error.__cause__ or error
            calls = []
            session.send(session.failure(loser.index, cause, loser.outcome.version))
            continue
        after = session.device.energy_j()
        energy = after - before if before is not None and after is not None else None
        inputs = sets[series[0].last_set]  # the last round used one set for all
        calls.clear()
        sets.clear()  # what the calls and the other inputs hold may be half of the device, and the reference needs room
        session.device.release()
        _conclude(session, entrants, series, inputs)
        break
    return energy


def _prepared(session: Session, position: int, entrant: Entrant, sets: list[dict[str, torch.Tensor]]) -> list[Call]:
    session.begin("prepare", entrant.index, session.limits.case_seconds)
    try:
        return [entrant.implementation.prepare(session.group.problem, inputs) for inputs in sets]
    except Exception as error:
        raise ContestantError(position) from error


def _rounds(session: Session, entrants: list[Entrant], calls: list[list[Call]]) -> list[Series]:
    timer, quiet = session.timer, session.limits.call_seconds

    def report(progress: Progress) -> None:
        session.send(Timing(progress.round, progress.seconds, progress.worst_width))

    session.begin("time", -1, timer.warmup_seconds + timer.budget_seconds + quiet)
    return time_rounds(
        calls,
        session.device.stopwatch(timer),
        timer,
        session.device.telemetry(),
        seed=session.group.seed,
        enter=lambda position: session.enter(entrants[position].index),
        report=report,
    )


def _conclude(session: Session, entrants: list[Entrant], series: list[Series], inputs: dict[str, torch.Tensor]) -> None:
    """Verifies the last timed output of each entrant and sends its outcome."""
    session.begin("verify again", -1, session.limits.case_seconds)
    expected = session.reference(inputs)
    for entrant, mine in zip(entrants, series, strict=True):
        session.enter(entrant.index)
        check = check_outputs(session.workload, session.group.problem, mine.last_output, expected)
        mine.last_output = None
        if not check.passed:
            session.send(
                replace(
                    entrant.outcome,
                    status=Status.FAILED_VERIFICATION,
                    reason=f"the last timed output is wrong, the first was right: {check.reason}",
                    rel_l2_error=check.rel_l2_error,
                    max_abs_error=check.max_abs_error,
                )
            )
            continue
        session.send(_timed(entrant.outcome, mine))


def _timed(outcome: CaseOutcome, series: Series) -> CaseOutcome:
    reason = outcome.reason
    if series.late:
        count = len(series.latency_us)
        reason = _join(reason, f"in {series.late} of {count} samples the GPU waited for the host, which is in the time")
    return replace(
        outcome,
        reason=reason,
        latency_us=np.asarray(series.latency_us),
        rounds=np.asarray(series.rounds, dtype=np.int32),
        sm_clock_mhz=median_or_none([reading.sm_clock_mhz for reading in series.readings]),
        power_w=median_or_none([reading.power_w for reading in series.readings]),
        throttled=throttle_text(series.readings),
    )


def _input_sets(session: Session) -> int:
    """Input sets to rotate: together more than the L2, within the share of memory they may take, at least one."""
    traffic = session.workload.traffic(session.group.problem)
    wanted = math.ceil(session.device.l2_bytes / traffic.read) + 1
    affordable = int(session.limits.memory_fraction * session.device.free_bytes() / traffic.read)
    return max(1, min(wanted, affordable, MAX_INPUT_SETS))


def _output_bytes(session: Session) -> int:
    outputs = session.workload.outputs(session.group.problem).values()
    return sum(math.prod(output.shape) * TORCH_DTYPES[output.dtype].itemsize for output in outputs)


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and torch.equal(left, right)


def _status_of(error: BaseException) -> Status:
    return Status.OUT_OF_MEMORY if isinstance(error, torch.OutOfMemoryError | MemoryError) else Status.ERROR


def one_line(error: BaseException) -> str:
    """An error's type and words on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")


def _join(first: str, second: str) -> str:
    return "; ".join(filter(None, (first, second)))
