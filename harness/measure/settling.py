"""Measures a group in sustained calls: as graphs, which no contestant's host launches, and with audits among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from harness.devices.outputs import parts
from harness.devices.rounds import NOBODY, Call, ContestantError
from harness.devices.seats import few_orders
from harness.devices.selection import median_us, needed, settled_rounds, who_settles
from harness.devices.settled import Alone, Board, settle
from harness.devices.visits import PLAIN, Written, write
from harness.measure.contestant import Contestant
from harness.measure.data import Inputs
from harness.measure.judging import Judge
from harness.plan.planning import Limits, TimerSettings
from harness.records.errors import one_line


@dataclass
class Distance(Written):
    """Keeps how far outputs are from what was kept in the rounds on the same inputs, then restores the inputs.

    What is kept is a number on the device: the copies of all contestants' outputs would not fit, nor may the board
    wait while somebody looks at them.
    """

    own: Inputs = field(default_factory=dict)
    before_it: Sequence[object] = ()
    apart: list[torch.Tensor] = field(default_factory=list)

    def behind(self, output: object) -> None:
        for found, before in zip(parts(output), self.before_it, strict=True):
            if isinstance(found, torch.Tensor) and isinstance(before, torch.Tensor):
                self.apart.append(distance(found, before))
        write(self.buffers, self.own)


def distance(found: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """||found - before|| / ||before||, a number on their device; NaN or infinite where one of them is."""
    if found.element_size() == 1:
        found, before = found.float(), before.float()
    norm = torch.linalg.vector_norm(before, dtype=torch.float32).clamp_min(1e-30)
    return torch.linalg.vector_norm(found - before, dtype=torch.float32) / norm


def settle_group(
    standing: Sequence[Contestant],
    judge: Judge,
    timer: TimerSettings,
    limits: Limits,
    sets: Sequence[Inputs],
    checked: Callable[[], Inputs],
) -> None:
    """Gives the contestants that are chosen their blocks, or those that qualify a remark on why they have none.

    checked: draws what audits inside the rounds were checked on.
    """
    if judge.device.ranks > 1:  # blocks are as long as a host's own clock says
        return
    providers, series = [one.candidate.implementation for one in standing], [one.series for one in standing]
    chosen = who_settles(timer, providers, series)
    calls = {place: found for place in chosen if (found := _captured(standing[place], judge, timer, limits, sets))}
    must = needed(timer, providers, series)
    lost = [str(standing[place].candidate) for place in chosen if place not in calls and place in must]
    why = f"no sustained times: {', '.join(lost)} has none, beside which they would stand" if lost else ""
    if calls and not why:
        judge.line.begin("settle", -1, _seconds(timer, len(calls)) + limits.call_seconds)
        why = _blocks(standing, judge, timer, calls, _visits(standing, list(calls), sets[0], checked))
        judge.line.enter(-1)
    for place in chosen if why else ():
        standing[place].blocks = ()
        standing[place].outcome.remark(why)


def _seconds(timer: TimerSettings, contestants: int) -> float:
    """What the blocks may take, with as much again for what the host is late."""
    return 2 * settled_rounds(timer, contestants) * contestants * timer.settled_block_seconds


def _captured(
    one: Contestant, judge: Judge, timer: TimerSettings, limits: Limits, sets: Sequence[Inputs]
) -> Sequence[Call]:
    """The calls of a contestant as graphs; none, and a remark, where they cannot be had.

    Each graph keeps its memory: inputs of more than twice the L2 need no other set beside them.
    """
    judge.line.begin("capture", one.index, limits.case_seconds)
    size = sum(tensor.numel() * tensor.element_size() for tensor in sets[0].values())
    count = 1 if size > 2 * judge.device.l2_bytes else len(sets)
    if timer.kind == "cuda_graph":  # as they are timed in the rounds
        return one.calls[:count]
    try:
        with judge.line.ledger.during("prepare", judge.device.wait):
            return [judge.device.captured(call) for call in one.calls[:count]]
    except torch.OutOfMemoryError:
        judge.device.release()
        one.outcome.remark("its sustained calls are launched by its own host: graphs of them do not fit the memory")
        return one.calls
    except Exception as error:
        one.outcome.remark(f"no sustained times: its call cannot be made a graph: {one_line(error, named=True)}")
        return ()


def _visits(
    standing: Sequence[Contestant], places: Sequence[int], buffers: Inputs, checked: Callable[[], Inputs]
) -> dict[int, Distance]:
    """The audits of those whose outputs the rounds' audit kept; none where there is no memory for other inputs."""
    try:
        source = checked()
        own = {name: buffers[name].clone() for name in source}
    except torch.OutOfMemoryError:
        return {}
    followed = {name: buffers[name] for name in source}
    kept = {place: standing[place].seen.held for place in places}
    return {place: Distance(followed, source, own=own, before_it=held) for place, held in kept.items() if held}


def _blocks(
    standing: Sequence[Contestant],
    judge: Judge,
    timer: TimerSettings,
    calls: Mapping[int, Sequence[Call]],
    visits: Mapping[int, Distance],
) -> str:
    """Measures the blocks; gives why they do not count, or nothing."""
    device, places = judge.device, list(calls)
    alone = [
        Alone(
            calls[place],
            median_us(standing[place].series),
            calls[place][0] if place in visits else None,
            visits.get(place, PLAIN),
        )
        for place in places
    ]
    try:
        with judge.line.ledger.during("calls"):
            seen = settle(
                alone,
                few_orders(len(places), settled_rounds(timer, len(places)), judge.data.seed("settled")),
                timer.settled_block_seconds,
                timer.settled_drop_seconds,
                Board(device.telemetry(), device.energy_j, device.mark),
                lambda number: judge.line.enter(standing[places[number]].index),
            )
    except ContestantError as error:
        raise ContestantError(places[error.index]) from error.__cause__
    for place, mine in zip(places, seen, strict=True):
        standing[place].blocks = [block.after([*places, NOBODY]) for block in mine]
        standing[place].apart = visits[place].apart if place in visits else []
    if any(block.starved for mine in seen for block in mine):
        return "no sustained times: the device ran dry between calls, which are shorter than their launches"
    return ""
