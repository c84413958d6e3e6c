"""One group in the worker: available? supported? -> verify, memory poisoned -> timed rounds -> audit, verify again.

A contestant that fails anywhere gets its status and leaves; the others go on, and are timed without it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from harness import workloads
from harness.devices import Device
from harness.errors import one_line
from harness.implementations import Call, Implementation, LoadError, OptionError, load
from harness.ledger import Ledger
from harness.outputs import snapshot
from harness.planning import Candidate, Group, Limits, TimerSettings
from harness.records import Status
from harness.seeds import derived
from harness.timing.rounds import NOBODY, ContestantError, Progress, Series, Stopwatch, moved, time_rounds
from harness.timing.seats import few_orders
from harness.timing.selection import settled_rounds, who_settles
from harness.timing.settled import Alone, Block, Board, settle
from harness.timing.telemetry import median_or_none, throttle_text
from harness.timing.visits import FRESH_FROM, Audits, Seen
from harness.verification import TORCH_DTYPES, check_outputs
from harness.worker.audit import SLOW, Audit, Subject, digest, keep, same_bytes
from harness.worker.messages import Broken, CaseOutcome, Done, Inspected, Phase, Timing
from harness.workloads.spec import Reference

DEGENERATE = ("zeros",)
"""Distributions on which nearly anything is right; verification uses the workload's first one instead."""

TAMPERED = "wrote into the reference that outputs are held against"

CHEAP_FLOPS = {"cuda": 2**42, "cpu": 2**33}
"""Up to this size an audit inside the rounds is checked on inputs of its own, the float64 reference of which takes some
tenths of a second; beyond, on those of the verification, whose reference is there."""

MOVED_SETS = 4
"""Input sets when buffers are moved: the L2 is flushed before each call in any case."""

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
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def workload(self) -> workloads.Workload:
        return workloads.load(self.group.workload)

    def begin(self, name: str, index: int, seconds: float) -> None:
        """Tells the parent what starts now and how long it may take."""
        self.enter(index)
        self.send(Phase(name, index, seconds))

    @contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """What is begun inside, on the device too, is noted as this activity."""
        with self.ledger.during(activity):
            yield
            self.device.wait()

    @property
    def verified_distribution(self) -> str:
        """Of the inputs that are verified: the group's, unless that shows nothing."""
        own = self.group.distribution
        return self.workload.DISTRIBUTIONS[0] if own in DEGENERATE else own

    def inputs(self, number: int, purpose: str = "inputs") -> dict[str, torch.Tensor]:
        """Input set `number` for a purpose; of the purpose "inputs" 0 is verified, 1.. are timed.

        What a call need not follow, since `prepare()` may keep what it derives from it, is the same in all sets.
        """
        with self.during("inputs"):
            if not number:
                return self._drawn(0, "inputs", self.verified_distribution)
            inputs = self._drawn(number, purpose, self.group.distribution)
            names = self.followed(inputs)
            if len(names) < len(inputs):
                inputs = {**self._drawn(0, "inputs", self.verified_distribution), **{n: inputs[n] for n in names}}
            return inputs

    def _drawn(self, number: int, purpose: str, distribution: str) -> dict[str, torch.Tensor]:
        generator = self.device.generator(derived(self.group.seed, purpose, number))
        return self.workload.make_inputs(self.group.problem, generator, distribution)

    def followed(self, inputs: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
        """Those of the inputs that change under a call in an audit; all, where the verified ones are others anyway."""
        if self.verified_distribution != self.group.distribution:
            return tuple(inputs)
        return workloads.followed(self.workload, self.group.problem, inputs)

    def followed_inputs(self, number: int, purpose: str) -> dict[str, torch.Tensor]:
        """Of an input set, what changes in an audit."""
        inputs = self.inputs(number, purpose)
        return {name: inputs[name] for name in self.followed(inputs)}

    def reference(self, inputs: dict[str, torch.Tensor], look: int = 0) -> Reference:
        """The float64 reference of these inputs; where it is of a sample, another one at each look."""
        with self.during("reference"):
            return self.workload.reference(self.group.problem, inputs, derived(self.group.seed, "reference", look))

    def failure(self, index: int, error: BaseException, version: str = "") -> CaseOutcome:
        """The outcome of a case that raised; raises `ProcessBrokenError` if the device did not survive it."""
        outcome = CaseOutcome(index, status_of(error), one_line(error, named=True), version)
        if outcome.status is Status.OUT_OF_MEMORY:
            self.device.release()
        broken = self.device.broken()
        if broken is not None:
            raise ProcessBrokenError(Broken(index, f"{outcome.reason} (the device is unusable after it: {broken})"))
        return outcome


def inspect(contestant: Candidate, problems: Sequence[Any], kind: str) -> Inspected:
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
        return Inspected(contestant, missing=one_line(error, named=True))


def measure_group(session: Session) -> None:
    """Sends one outcome a contestant and `Done`; raises `ProcessBrokenError` where a case took the device with it."""
    device, group = session.device, session.group
    session.begin("reference", -1, session.limits.case_seconds)
    inputs = session.inputs(0)
    pristine = {name: tensor.clone() for name, tensor in inputs.items()}
    expected = session.reference(inputs)
    sound = digest(expected)
    entrants = []
    for index, contestant in enumerate(group.contestants):
        session.begin("verify", index, session.limits.case_seconds)
        with session.ledger.during("verify"):
            result = _verify(session, index, contestant, inputs, expected)
        if any(not same_bytes(inputs[name], tensor) for name, tensor in pristine.items()):
            inputs = {name: tensor.clone() for name, tensor in pristine.items()}
            reason = "changed its inputs, which the other implementations share"
            outcome = result.outcome if isinstance(result, Entrant) else result
            result = replace(outcome, status=Status.FAILED_VERIFICATION, reason=reason)
        if digest(expected) != sound:
            expected = session.reference(inputs)
            outcome = result.outcome if isinstance(result, Entrant) else result
            result = replace(outcome, status=Status.FAILED_VERIFICATION, reason=TAMPERED)
        if isinstance(result, Entrant) and device.timed:
            entrants.append(result)
        else:
            session.send(result.outcome if isinstance(result, Entrant) else result)
    del inputs, pristine
    device.release()
    energy = None
    if entrants:
        kept = keep(expected, device.free_bytes())
        del expected
        energy = _time(session, entrants, kept, sound)
    device.release()
    session.send(Done(energy, session.ledger.seconds()))


def _verify(
    session: Session,
    index: int,
    contestant: Candidate,
    inputs: dict[str, torch.Tensor],
    expected: Reference,
) -> Entrant | CaseOutcome:
    """The gate: an `Entrant` if the output is right and the kernels are the promised ones, else how the case ended."""
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
        output = device.poisoned(lambda: _first(session, call), _output_bytes(session))
        check = check_outputs(session.workload, problem, output, expected, inputs, implementation.tolerance(problem))
        del output
        outcome = CaseOutcome(
            index,
            Status.PASSED if check.passed else Status.FAILED_VERIFICATION,
            _join(_verified_on(session), check.reason) if check.passed else check.reason,
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


def _first(session: Session, call: Call) -> Any:
    """The first call, in which libraries compile what they have not compiled yet."""
    with session.during("prepare"):
        return call()


def _check_kernels(session: Session, implementation: Implementation, call: Call, outcome: CaseOutcome) -> CaseOutcome:
    """The outcome with the kernels that ran; failed if a promised kernel did not run or a foreign one did."""
    names = session.device.kernel_names(call)
    if names is None:
        if session.device.kind != "cuda":
            return outcome
        return replace(outcome, reason=_join(outcome.reason, "kernel names not checked: the profiler saw no kernel"))
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


def _time(
    session: Session, entrants: list[Entrant], held: Callable[[], Reference], sound: tuple[int, ...]
) -> float | None:
    """Times the entrants together and sends their outcomes; gives the energy.

    held: the reference of input set 0, of which `sound` is the digest: it is made anew where somebody has written into
    it.

    Whoever fails on the way, in an audit or at the second verification leaves, and the others are timed again without
    it: it may have disturbed them.
    """

    def expected() -> Reference:
        there = held()
        return there if digest(there) == sound else session.reference(session.inputs(0))

    while entrants:
        session.enter(-1)
        sets = [session.inputs(1 + number) for number in range(_input_sets(session))]
        before = session.device.energy_j()
        try:
            calls = [_prepared(session, position, entrant, sets) for position, entrant in enumerate(entrants)]
            stopwatch = session.device.stopwatch(session.timer)
            audits = _audits(session, sets, len(entrants))
            series = _rounds(session, entrants, calls, stopwatch, audits)
            _elsewhere(session, entrants, series, len(sets), stopwatch, audits)
            after = session.device.energy_j()
            for mine in series:
                mine.last_output = snapshot(mine.last_output)  # later calls may write into the same buffers
            settled = _settled(session, entrants, series)
        except ContestantError as error:
            loser = entrants.pop(error.index)
            cause = error.__cause__ or error
            calls, sets = [], []
            session.send(session.failure(loser.index, cause, loser.outcome.version))
            continue
        calls.clear()
        last = series[0].last_set  # the last round used one set for all
        with session.ledger.during("audit"):
            judged, follows = _audited(session, entrants, series, sets[last], expected(), stopwatch, audits)
        for mine in series:
            mine.calls = ()
        seen = audits.seen if audits else []
        audits = None
        sets.clear()  # what the calls and the inputs hold may be half of the device, and the reference needs room
        session.device.release()
        if all(outcome.status is Status.PASSED for outcome in judged):
            with session.ledger.during("verify"):
                judged = _verified_again(session, entrants, series, session.inputs(1 + last), judged)
                judged = _verified_inside(session, entrants, seen, follows, expected, judged)
        losers = [outcome for outcome in judged if outcome.status is not Status.PASSED]
        if not losers:
            for outcome, mine, alone in zip(judged, series, settled, strict=True):
                session.send(_timed(outcome, mine, alone, [one.index for one in entrants]))
            return after - before if before is not None and after is not None else None
        for outcome in losers:
            session.send(outcome)
        entrants = [one for one, outcome in zip(entrants, judged, strict=True) if outcome.status is Status.PASSED]
    return None


def _prepared(session: Session, position: int, entrant: Entrant, sets: list[dict[str, torch.Tensor]]) -> list[Call]:
    session.begin("prepare", entrant.index, session.limits.case_seconds)
    try:
        with session.during("prepare"):
            return [entrant.implementation.prepare(session.group.problem, inputs) for inputs in sets]
    except Exception as error:
        raise ContestantError(position) from error


def _audits(
    session: Session, sets: list[dict[str, torch.Tensor]], contestants: int, placement: int = 0
) -> Audits | None:
    """The audits inside the rounds; None where there is no memory for other inputs.

    What is only timed is new in each placement; what is checked is the same in all.
    """
    flops = session.workload.flops(session.group.problem)
    try:
        return Audits(
            [{name: one[name] for name in session.followed(one)} for one in sets],
            lambda number: session.followed_inputs(
                number, "inside" if number < FRESH_FROM else f"inside, placement {placement}"
            ),
            contestants,
            max(1, session.timer.min_rounds // 2),
            derived(session.group.seed, "audits", placement),
            checked=int(flops <= CHEAP_FLOPS[session.device.kind]),
        )
    except torch.OutOfMemoryError:
        session.device.release()
        return None


def _rounds(
    session: Session,
    entrants: list[Entrant],
    calls: list[list[Call]],
    stopwatch: Stopwatch,
    audits: Audits | None,
    placement: int = 0,
) -> list[Series]:
    timer, quiet = session.timer, session.limits.call_seconds

    def report(progress: Progress) -> None:
        session.send(Timing(progress.round, progress.seconds, progress.worst_width))

    session.begin("time", -1, timer.warmup_seconds + timer.budget_seconds + quiet)
    with session.ledger.during("clock"):
        series = time_rounds(
            calls,
            stopwatch,
            timer,
            session.device.telemetry(),
            seed=derived(session.group.seed, "order", placement),
            enter=lambda position: session.enter(entrants[position].index),
            report=report,
            audits=audits,
        )
    session.ledger.move("clock", "calls", sum(mine.own_us for mine in series) / 1e6)
    return series


def _elsewhere(
    session: Session,
    entrants: list[Entrant],
    series: list[Series],
    sets: int,
    stopwatch: Stopwatch,
    audits: Audits | None,
) -> None:
    """Adds samples of short calls with their buffers elsewhere: where those lie can decide several percent.

    What was prepared before stays where it is, so that inputs and what `prepare()` makes get other memory; free blocks
    of the outputs' sizes are held, so that outputs do.
    """
    timer = session.timer
    held: list[Any] = []
    if min(float(np.median(mine.latency_us)) for mine in series) >= timer.placements_under_us:
        return
    short = replace(timer, warmup_seconds=timer.warmup_seconds / 10, budget_seconds=timer.budget_seconds / 5)
    for placement in range(1, timer.placements):
        fresh = [session.inputs(1 + number) for number in range(min(sets, MOVED_SETS))]
        device = next(iter(fresh[0].values())).device
        room = [size + 512 * placement for size in _output_bytes(session)]
        held.append([torch.empty(size, dtype=torch.uint8, device=device) for size in room])
        calls = [_prepared(session, position, entrant, fresh) for position, entrant in enumerate(entrants)]
        own = _audits(session, fresh, len(entrants), placement) if audits else None
        seen = _rounds(replace(session, timer=short), entrants, calls, stopwatch, own, placement)
        if audits and own:
            audits.join(own)
        for mine, more in zip(series, seen, strict=True):
            moved(mine, more, placement)
        held.append([fresh, calls])


def _settled(session: Session, entrants: list[Entrant], series: list[Series]) -> list[list[Block]]:
    """The blocks of each entrant, none for those that are not settled."""
    timer, device = session.timer, session.device
    providers = [session.group.contestants[one.index].implementation for one in entrants]
    chosen = who_settles(timer, providers, series)
    blocks: list[list[Block]] = [[] for _ in entrants]
    if not chosen:
        return blocks
    rounds = settled_rounds(timer, len(chosen))
    seconds = rounds * len(chosen) * timer.settled_block_seconds
    session.begin("settle", -1, 2 * seconds + session.limits.call_seconds)
    alone = [Alone(series[place].calls, float(np.median(series[place].latency_us))) for place in chosen]
    try:
        with session.ledger.during("calls"):
            seen = settle(
                alone,
                few_orders(len(chosen), rounds, derived(session.group.seed, "settled")),
                timer.settled_block_seconds,
                timer.settled_drop_seconds,
                Board(device.telemetry(), device.energy_j, device.mark),
                lambda number: session.enter(entrants[chosen[number]].index),
            )
    except ContestantError as error:
        raise ContestantError(chosen[error.index]) from error.__cause__
    for place, mine in zip(chosen, seen, strict=True):
        blocks[place] = [
            replace(block, predecessor=NOBODY if block.predecessor < 0 else chosen[block.predecessor]) for block in mine
        ]
    session.enter(-1)
    return blocks


def _audited(
    session: Session,
    entrants: list[Entrant],
    series: list[Series],
    buffers: dict[str, torch.Tensor],
    expected: Reference,
    stopwatch: Stopwatch,
    audits: Audits | None,
) -> tuple[list[CaseOutcome], list[bool]]:
    """The outcome of each entrant after its audit, and whether it follows inputs that change under it.

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
        _output_bytes(session),
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
                outcome = replace(outcome, reason=_join(outcome.reason, finding.remark))
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


def _verified_again(
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


def _verified_inside(
    session: Session,
    entrants: list[Entrant],
    seen: list[Seen],
    follows: list[bool],
    verified: Callable[[], Reference],
    judged: list[CaseOutcome],
) -> list[CaseOutcome]:
    """The outcomes after a look at what each entrant gave back in a round at random, on inputs that changed under it.

    Of those that keep what they derive from their inputs nothing can be said.  verified: the reference of input set 0.
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


def _timed(outcome: CaseOutcome, series: Series, blocks: Sequence[Block], indexes: Sequence[int]) -> CaseOutcome:
    """The outcome with what was collected.  indexes: those in the group of the contestants that were timed."""
    numbers = np.array([*indexes, NOBODY], dtype=np.int32)  # NOBODY, -1, is the last
    reason = outcome.reason
    if series.late:
        count = len(series.latency_us)
        reason = _join(reason, f"in {series.late} of {count} samples the GPU waited for the host, which is in the time")
    return replace(
        outcome,
        reason=reason,
        latency_us=np.asarray(series.latency_us),
        rounds=np.asarray(series.rounds, dtype=np.int32),
        positions=np.asarray(series.positions, dtype=np.int32),
        predecessors=numbers[series.predecessors],
        placements=np.asarray(series.placements, dtype=np.int32),
        settled=tuple(replace(block, predecessor=int(numbers[block.predecessor])) for block in blocks),
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


def _output_bytes(session: Session) -> tuple[int, ...]:
    outputs = session.workload.outputs(session.group.problem).values()
    return tuple(math.prod(output.shape) * TORCH_DTYPES[output.dtype].itemsize for output in outputs)


def _verified_on(session: Session) -> str:
    """A remark where the verified inputs are drawn from another distribution than the timed ones."""
    verified, timed = session.verified_distribution, session.group.distribution
    return "" if verified == timed else f"verified on {verified} inputs, since on {timed} nearly anything is right"


def status_of(error: BaseException) -> Status:
    """How a case ends that raised this."""
    return Status.OUT_OF_MEMORY if isinstance(error, torch.OutOfMemoryError | MemoryError) else Status.ERROR


def _join(first: str, second: str) -> str:
    """Two remarks as one, the second left out where it was made before."""
    return first if second in first else "; ".join(filter(None, (first, second)))
