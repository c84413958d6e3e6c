"""Checks of a contestant: before it is timed, the audit of the timed call, and the verification afterwards."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from harness import workloads
from harness.devices.rounds import Series, Stopwatch
from harness.devices.visits import Audits, Seen
from harness.measure.audit import SLOW, Audit, Subject, digest, same_bytes
from harness.measure.messages import CaseOutcome
from harness.measure.session import Entrant, Session, join
from harness.measure.verification import TORCH_DTYPES, check_outputs
from harness.plan.implementations import Call, Implementation, load
from harness.plan.planning import Candidate
from harness.records.rows import Status
from harness.workloads.spec import Reference

PLANS = 21
"""Plans that are timed, of which the median counts."""

TAMPERED = "wrote into the reference that outputs are held against"


def verify(
    session: Session,
    index: int,
    contestant: Candidate,
    inputs: dict[str, torch.Tensor],
    expected: Reference,
) -> Entrant | CaseOutcome:
    """An `Entrant` if the output is right and the kernels are the promised ones, else how the case ended."""
    device, problem = session.device, session.group.problem
    version = ""
    try:
        with session.during("prepare"):
            implementation = load(contestant)
            missing = implementation.available()
            if missing:
                return CaseOutcome(index, Status.UNAVAILABLE, missing)
            version = implementation.version()
            refusal = implementation.supports(problem, device.kind)
            if refusal:
                return CaseOutcome(index, Status.UNSUPPORTED, refusal, version)
            call = implementation.prepare(problem, inputs)
        output = device.poisoned(lambda: _first(session, call), output_bytes(session))
        check = check_outputs(session.workload, problem, output, expected, inputs, implementation.tolerance(problem))
        del output
        outcome = CaseOutcome(
            index,
            Status.PASSED if check.passed else Status.FAILED_VERIFICATION,
            join(_verified_on(session), check.reason) if check.passed else check.reason,
            version,
            check.rel_l2_error,
            check.max_abs_error,
            check.worst_output,
            check.tolerance,
            build=implementation.build_manifest(),
        )
        if not check.passed:
            return outcome
        peaks: list[float | None] = []  # of the call whose kernels are seen, one for both
        outcome = _check_kernels(session, implementation, lambda: peaks.append(device.peak_memory_mib(call)), outcome)
        outcome = replace(outcome, peak_memory_mib=peaks[0] if peaks else device.peak_memory_mib(call))
        if outcome.status is Status.PASSED:
            outcome = replace(outcome, reason=join(outcome.reason, _planning(session, implementation, inputs)))
        return Entrant(index, implementation, outcome) if outcome.status is Status.PASSED else outcome
    except Exception as error:  # an implementation's own code: whatever it raises is its row's reason
        return session.failure(index, error, version)


def _planning(session: Session, implementation: Implementation, inputs: dict[str, torch.Tensor]) -> str:
    """A remark on what planning takes, the copy of a plan to the device included; none without a plan or a clock."""
    plan = implementation.planning(session.group.problem, inputs) if session.device.timed else None
    if plan is None:
        return ""
    seconds = []
    with session.during("prepare"):
        for _ in range(PLANS):
            session.device.wait()
            began = time.perf_counter()
            plan()
            session.device.wait()
            seconds.append(time.perf_counter() - began)
    return f"planning takes {1e6 * float(np.median(seconds)):.0f} us, which is not in the time"


def _first(session: Session, call: Call) -> Any:
    """The first call, in which libraries compile what they have not compiled yet."""
    with session.during("prepare"):
        return call()


def _check_kernels(
    session: Session, implementation: Implementation, call: Callable[[], Any], outcome: CaseOutcome
) -> CaseOutcome:
    """The outcome with the kernels that ran; failed if a promised kernel did not run or a foreign one did."""
    names = session.device.kernel_names(call)
    if names is None:
        if session.device.kind != "cuda":
            return outcome
        return replace(outcome, reason=join(outcome.reason, "kernel names not checked: the profiler saw no kernel"))
    if not names:
        reason = "one call runs no kernel at all: the result was there before it"
        return replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason)
    outcome = replace(outcome, kernel_names=names)
    seen = " | ".join(names)
    for pattern in implementation.kernel_names(session.group.problem):
        if not any(re.search(pattern, name) for name in names):
            reason = f"no kernel that ran matches {pattern!r}, which it says it runs; seen: {seen}"
            return replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason)
    for pattern in implementation.foreign_kernel_names():
        if any(re.search(pattern, name) for name in names):
            reason = f"a kernel matches {pattern!r}, which is another implementation's; seen: {seen}"
            return replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason)
    return outcome


def audited(
    session: Session,
    entrants: list[Entrant],
    series: list[Series],
    buffers: dict[str, torch.Tensor],
    expected: Reference,
    stopwatch: Stopwatch,
    audits: Audits | None,
) -> tuple[list[CaseOutcome], list[bool]]:
    """Each entrant's outcome after its audit, and whether its call follows inputs that change under it.

    buffers: the inputs of the last round; they are overwritten.
    """
    session.enter(-1)
    last = series[0].last_set
    pristine = session.inputs(1 + last)
    changed = [name for name, tensor in pristine.items() if not same_bytes(tensor, buffers[name])]
    del pristine
    audit = Audit(
        session.workload,
        session.group.problem,
        session.device,
        stopwatch,
        lambda number: session.followed_inputs(number, "audit"),
        expected,
        output_bytes(session),
        session.timer.kind != "cuda_graph" and workloads.draws(session.workload, session.group.problem),
        lambda activity, seconds: session.ledger.move("audit", activity, seconds),
    )
    sound = digest(expected)
    judged, follows = [], []
    for position, (entrant, mine) in enumerate(zip(entrants, series, strict=True)):
        session.begin("audit", entrant.index, session.limits.case_seconds)
        call = mine.calls[last]
        typical, slow = np.quantile(mine.latency_us, [0.5, SLOW])
        inside = audits.seen[position] if audits else Seen()
        subject = Subject(entrant.implementation, call, buffers, float(typical), float(slow), mine.late, inside)
        follows.append(False)
        try:
            finding = audit.examine(subject)
            follows[-1] = finding.follows
            outcome = entrant.outcome
            complaint = finding.complaint if digest(expected) == sound else TAMPERED
            if complaint:
                outcome = replace(outcome, status=Status.FAILED_VERIFICATION, reason=complaint)
            else:
                outcome = replace(outcome, reason=join(outcome.reason, finding.remark))
                outcome = _check_kernels(session, entrant.implementation, call, outcome)
        except Exception as error:  # an implementation's own code: whatever it raises is its row's reason
            outcome = session.failure(entrant.index, error, entrant.outcome.version)
        judged.append(outcome)
        if digest(expected) != sound:
            expected = session.reference(session.inputs(0))
            audit = replace(audit, expected=expected)
    session.enter(-1)
    if changed and all(outcome.status is Status.PASSED for outcome in judged):
        reason = f"the input {changed[0]} was changed while it was timed, by whom cannot be told"
        judged = [replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason) for outcome in judged]
    return judged, follows


def verified_again(
    session: Session,
    entrants: list[Entrant],
    series: list[Series],
    inputs: dict[str, torch.Tensor],
    judged: list[CaseOutcome],
) -> list[CaseOutcome]:
    """The outcomes after a look at the last timed output of each entrant, on inputs other than those verified."""
    session.begin("verify again", -1, session.limits.case_seconds)
    expected = session.reference(inputs, look=1)
    results = []
    for entrant, mine, outcome in zip(entrants, series, judged, strict=True):
        session.enter(entrant.index)
        own = entrant.implementation.tolerance(session.group.problem)
        check = check_outputs(session.workload, session.group.problem, mine.last_output, expected, own=own)
        mine.last_output = None
        if not check.passed:
            outcome = replace(
                outcome,
                status=Status.FAILED_VERIFICATION,
                reason=f"the last timed output is wrong, the first was right: {check.reason}",
                rel_l2_error=check.rel_l2_error,
                max_abs_error=check.max_abs_error,
            )
        results.append(outcome)
    session.enter(-1)
    return results


def verified_inside(
    session: Session,
    entrants: list[Entrant],
    seen: list[Seen],
    follows: list[bool],
    verified: Callable[[], Reference],
    judged: list[CaseOutcome],
) -> list[CaseOutcome]:
    """The outcomes after a look at what each entrant gave back in a round at random, on inputs that changed under it.

    Entrants that keep what they derive from their inputs cannot be checked so.  verified: the reference of input set 0.
    """
    if not any(one.held and follow for one, follow in zip(seen, follows, strict=False)):
        return judged
    session.begin("verify inside", -1, session.limits.case_seconds)
    number = max(one.number for one in seen)
    expected = session.reference(session.inputs(number, "inside"), look=2) if number else verified()
    results = []
    for entrant, mine, follow, outcome in zip(entrants, seen, follows, judged, strict=True):
        session.enter(entrant.index)
        if follow and mine.held and outcome.status is Status.PASSED:
            own = entrant.implementation.tolerance(session.group.problem)
            check = check_outputs(session.workload, session.group.problem, mine.held, expected, own=own)
            if not check.passed:
                reason = (
                    f"wrong in a round at random, its inputs changed right before the clock started: {check.reason}"
                )
                outcome = replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason)
        mine.held = ()
        results.append(outcome)
    session.enter(-1)
    return results


def output_bytes(session: Session) -> tuple[int, ...]:
    """Length of each output of the group's problem."""
    outputs = session.workload.outputs(session.group.problem).values()
    return tuple(math.prod(output.shape) * TORCH_DTYPES[output.dtype].itemsize for output in outputs)


def _verified_on(session: Session) -> str:
    """A remark where the verified inputs are drawn from another distribution than the timed ones."""
    verified, timed = session.verified_distribution, session.group.distribution
    return "" if verified == timed else f"verified on {verified} inputs, since on {timed} nearly anything is right"
