"""One group in the worker: available? supported? -> verify, memory poisoned -> timed rounds -> audit, verify again.

A contestant that fails anywhere gets its status and drops out; the others are timed without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from harness.devices.outputs import snapshot
from harness.devices.rounds import NOBODY, ContestantError, Progress, Series, Stopwatch, moved, time_rounds
from harness.devices.seats import few_orders
from harness.devices.selection import less_starved, settled_rounds, who_settles
from harness.devices.settled import Alone, Block, Board, settle
from harness.devices.telemetry import median_or_none, throttle_text
from harness.devices.visits import FRESH_FROM, Audits
from harness.measure.audit import digest, keep, same_bytes
from harness.measure.judging import TAMPERED, audited, output_bytes, verified_again, verified_inside, verify
from harness.measure.messages import CaseOutcome, Done, Inspected, Timing
from harness.measure.session import Entrant, Session, join
from harness.plan.implementations import Call, LoadError, OptionError, load
from harness.plan.planning import Candidate
from harness.plan.seeds import derived
from harness.records.errors import one_line
from harness.records.rows import Status
from harness.workloads.spec import Reference

CHEAP_FLOPS = {"cuda": 2**42, "cpu": 2**33}
"""Up to this size an audit inside the rounds is checked on inputs of its own, the float64 reference of which takes some
tenths of a second; beyond, on those of the verification, whose reference is there."""

MOVED_SETS = 4
"""Input sets when buffers are moved: the L2 is flushed before each call in any case."""

MAX_INPUT_SETS = 16
"""Input sets that a problem rotates through at most; small problems would otherwise need thousands to pass the L2."""


def inspect(contestant: Candidate, problems: Sequence[Any], kind: str) -> Inspected:
    """What is known of a contestant without running it."""
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
    """Sends one outcome a contestant and `Done`; raises `ProcessBrokenError` if a case broke the device."""
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
            result = verify(session, index, contestant, inputs, expected)
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


def _time(
    session: Session, entrants: list[Entrant], held: Callable[[], Reference], sound: tuple[int, ...]
) -> float | None:
    """Times the entrants together and sends their outcomes; gives the energy.

    held: the reference of input set 0, of which `sound` is the digest: it is computed again if someone has written into
    it.

    An entrant that fails in timing, in an audit or at the second verification drops out, and the others are timed
    again: it may have disturbed them.
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
            judged, follows = audited(session, entrants, series, sets[last], expected(), stopwatch, audits)
        for mine in series:
            mine.calls = ()
        seen = audits.seen if audits else []
        audits = None
        sets.clear()  # what the calls and the inputs hold may be half of the device, and the reference needs room
        session.device.release()
        if all(outcome.status is Status.PASSED for outcome in judged):
            with session.ledger.during("verify"):
                judged = verified_again(session, entrants, series, session.inputs(1 + last), judged)
                judged = verified_inside(session, entrants, seen, follows, expected, judged)
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
    session.ledger.move("clock", "late", sum(mine.late_us for mine in series) / 1e6)
    return series


def _elsewhere(
    session: Session,
    entrants: list[Entrant],
    series: list[Series],
    sets: int,
    stopwatch: Stopwatch,
    audits: Audits | None,
) -> None:
    """Adds samples of short calls at other buffer placements, which can change times by several percent.

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
        room = [size + 512 * placement for size in output_bytes(session)]
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
    """The sustained blocks of each entrant; none for those that are not chosen."""
    timer = session.timer
    providers = [session.group.contestants[one.index].implementation for one in entrants]
    chosen = who_settles(timer, providers, series)
    while chosen:
        blocks = _blocks(session, entrants, series, chosen)
        starved = {place for place in chosen if any(block.starved for block in blocks[place])}
        if not starved:
            return blocks
        chosen = less_starved(timer, providers, series, chosen, starved)  # its launches delay its neighbours' too
    return [[] for _ in entrants]


def _blocks(
    session: Session, entrants: list[Entrant], series: list[Series], chosen: Sequence[int]
) -> list[list[Block]]:
    """The blocks of the chosen entrants, none for the others."""
    timer, device = session.timer, session.device
    blocks: list[list[Block]] = [[] for _ in entrants]
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


def _timed(outcome: CaseOutcome, series: Series, blocks: Sequence[Block], indexes: Sequence[int]) -> CaseOutcome:
    """The outcome with what was collected.  indexes: those in the group of the contestants that were timed."""
    numbers = np.array([*indexes, NOBODY], dtype=np.int32)  # NOBODY, -1, is the last
    reason = outcome.reason
    if series.late:
        count = len(series.latency_us)
        reason = join(reason, f"in {series.late} of {count} samples the GPU waited for the host, which is in the time")
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
