"""One group in the worker: contestants are verified, those that pass timed together, and judged by what they did.

A contestant that fails anywhere gets its status and drops out; the others are timed without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from harness.devices.device import Device
from harness.devices.outputs import snapshot
from harness.devices.rounds import Call, ContestantError, RewrittenError, Stopwatch, attributed, sample_turns
from harness.devices.telemetry import Telemetry
from harness.devices.turns import Place, Progress, all_turns
from harness.devices.visits import FRESH_FROM, Audits
from harness.measure.audit import Audit, same_bytes
from harness.measure.contestant import Contestant
from harness.measure.data import Data, Held, Inputs
from harness.measure.judging import UNKNOWN, Judge
from harness.measure.line import Line, ProcessBrokenError
from harness.measure.messages import Broken, Done, Timing
from harness.measure.seal import Seal
from harness.measure.settling import settle_group
from harness.plan.planning import Group, Limits, TimerSettings
from harness.records.rows import Status
from harness.workloads.spec import Reference

MOVED_SETS = 4
"""Input sets when buffers are moved: the L2 is flushed before each call in any case."""


def measure_group(
    group: Group, device: Device, timer: TimerSettings, limits: Limits, line: Line, seal: Seal | None = None
) -> None:
    """Sends one outcome a contestant and `Done`; raises `ProcessBrokenError` if a case broke the device or the judge.

    seal: what there was before any contestant's code ran in this process; what there is now, if not given.
    """
    data = Data(group, device, line)
    contestants = [Contestant(index, one, device, line) for index, one in enumerate(group.contestants)]
    line.begin("reference", -1, limits.case_seconds)
    held = Held(lambda: data.reference(0), device.free_bytes)
    judge = Judge(data, device, line, seal or Seal(device, device.stopwatch(timer) if device.timed else device), held)
    inputs = data.inputs(0)
    pristine = {name: tensor.clone() for name, tensor in inputs.items()}
    for one in contestants:
        line.begin("verify", one.index, limits.case_seconds)
        with line.ledger.during("verify"):
            judge.verify(one, inputs)
            judge.look_for_traces(one, wrong=True)
        if any(not same_bytes(inputs[name], tensor) for name, tensor in pristine.items()):
            inputs = {name: tensor.clone() for name, tensor in pristine.items()}
            one.outcome.fail("changed its inputs, which the other implementations share")
        one.agree()
    del inputs, pristine
    device.release()
    standing = [one for one in contestants if one.outcome.stands] if device.timed else []
    for one in contestants:
        if one not in standing:
            line.send(one.outcome)
    energy, attempt = None, 0
    while standing and energy is None:
        held.leave()
        energy = _Sitting(standing, judge, timer, limits, attempt).time()
        for one in standing:
            if not one.outcome.stands:
                line.send(one.outcome)
        left = [one for one in standing if one.outcome.stands]
        if len(left) == len(standing):
            indexes = [one.index for one in standing]
            for one in standing:
                line.send(one.finish(indexes))
            break
        standing, energy, attempt = left, None, attempt + 1
    device.release()
    line.send(Done(energy, line.ledger.seconds()))


@dataclass
class _Sitting:
    """One attempt to time those that stand together; whoever fails may have disturbed the others, who try again.

    kept: what lies where it is, so that inputs and what is prepared at the next buffer placement get other memory.
    """

    standing: list[Contestant]
    judge: Judge
    timer: TimerSettings
    limits: Limits
    attempt: int
    sets: list[Inputs] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    def time(self) -> float | None:
        """Rounds, sustained calls and audits; gives the energy of the rounds, None where the board does not count."""
        judge, device, line = self.judge, self.judge.device, self.judge.line
        line.enter(-1)
        for one in self.standing:
            one.reset()
        stopwatch = device.stopwatch(self.timer)
        before = device.energy_j()
        try:
            self._sample(stopwatch, device.telemetry())
            after = device.energy_j()
            for one in self.standing:
                one.series.last_output = snapshot(one.series.last_output)  # later calls may write into the same buffers
            settle_group(self.standing, judge, self.timer, self.limits, self.sets, self._checked)
        except ContestantError as error:
            with self.standing[error.index].attempt():
                raise error.__cause__ or error from None
            return None
        except RewrittenError as error:
            self._fail_all(f"{error}, {UNKNOWN}")
            return None
        self._look_for_traces(stopwatch)
        self._audit(stopwatch)
        for one in self.standing:
            one.calls = []
        self.kept.clear()
        self.sets.clear()  # what the calls and the inputs hold may be half of the device, and the reference needs room
        device.release()
        if all(one.outcome.stands for one in self.standing):
            line.begin("verify again", -1, self.limits.case_seconds)
            with line.ledger.during("verify"):
                judge.check_last(self.standing, 1 + self.standing[0].series.last_set)
                line.begin("verify inside", -1, self.limits.case_seconds)
                judge.check_inside(self.standing, self._expected_inside)
            line.enter(-1)
        return after - before if before is not None and after is not None else None

    def _sample(self, stopwatch: Stopwatch, telemetry: Telemetry) -> None:
        """The rounds, warm-up and audits among them."""
        line, series = self.judge.line, [one.series for one in self.standing]

        def report(progress: Progress) -> None:
            line.send(Timing(progress.round, progress.seconds, progress.worst_width))

        place, clock = partial(self._place, stopwatch), self.judge.device.clock
        turns = all_turns(place, series, self.timer, self.judge.data.seed, report, clock)
        with line.ledger.during("clock"):
            sample_turns(
                turns,
                series,
                stopwatch,
                telemetry,
                self.timer.telemetry_interval_ms,
                enter=lambda position: line.enter(self.standing[position].index),
            )
        line.ledger.move("clock", "calls", sum(mine.own_us for mine in series) / 1e6)
        line.ledger.move("clock", "late", sum(mine.late_us for mine in series) / 1e6)

    def _place(self, stopwatch: Stopwatch, placement: int) -> Place:
        """The calls with inputs and whatever they prepare in memory of their own.

        Free blocks of the outputs' sizes are held, so that outputs get other memory, too.
        """
        data, line = self.judge.data, self.judge.line
        self.kept.append([self.sets, [one.calls for one in self.standing]])
        count = min(len(self.sets), MOVED_SETS) if placement else data.sets(self.limits.memory_fraction)
        self.sets = [data.inputs(1 + number) for number in range(count)]
        if placement:
            device = next(iter(self.sets[0].values())).device
            room = [size + 512 * placement for size in data.output_bytes]
            self.kept.append([torch.empty(size, dtype=torch.uint8, device=device) for size in room])
        for position, one in enumerate(self.standing):
            line.begin("prepare", one.index, self.limits.case_seconds)
            with attributed(position):
                one.calls = [stopwatch.wrap(one.prepare(data, inputs)) for inputs in self.sets]
        audits = self._audits(placement)
        seconds = self.timer.warmup_seconds + self.timer.budget_seconds
        line.begin("time", -1, seconds + self.limits.call_seconds)
        by_set: list[Sequence[Call]] = list(zip(*(one.calls for one in self.standing), strict=True))
        return Place(by_set, audits)

    def _audits(self, placement: int) -> Audits | None:
        """The audits inside the rounds; None where there is no memory for other inputs.

        What is only timed is new in each placement; what is checked is the same in all.
        """
        data = self.judge.data

        def draw(number: int) -> Inputs:
            return data.followed_inputs(number, self._inside(placement if number >= FRESH_FROM else 0))

        try:
            return Audits(
                [{name: one[name] for name in data.followed(one)} for one in self.sets],
                draw,
                [one.seen for one in self.standing],
                max(1, self.timer.min_rounds // 2),
                data.checked,
                partial(data.seed, f"chance, {self._inside(placement)}"),
            )
        except torch.OutOfMemoryError:
            self.judge.device.release()
            return None

    def _inside(self, placement: int) -> str:
        """The purpose of what is drawn for audits inside the rounds of this attempt."""
        return f"inside, attempt {self.attempt}, placement {placement}"

    def _checked(self) -> Inputs:
        """What audits inside the rounds are checked on."""
        return self.judge.data.followed_inputs(self.judge.data.checked, self._inside(0))

    def _expected_inside(self) -> Reference:
        data = self.judge.data
        return data.reference(1, self._inside(0), 2) if data.checked else self.judge.held.get()

    def _audit(self, stopwatch: Stopwatch) -> None:
        """Examines the timed call of each; they overwrite the inputs of the last round, which are looked at before."""
        judge, line = self.judge, self.judge.line
        line.enter(-1)
        with line.ledger.during("audit"):
            last = self.standing[0].series.last_set  # the last round used one set for all
            buffers = self.sets[last]
            pristine = judge.data.inputs(1 + last)
            changed = [name for name, tensor in pristine.items() if not same_bytes(tensor, buffers[name])]
            del pristine
            audit = Audit(judge, stopwatch, buffers)
            for one in self.standing:
                line.begin("audit", one.index, self.limits.case_seconds)
                with one.attempt():
                    audit.examine(one)
                    judge.look_at_kernels(one, one.calls[last])
                judge.look_for_traces(one, wrong=False)
                one.agree()
            line.enter(-1)
            if changed and all(one.outcome.stands for one in self.standing):
                self._fail_all(f"the input {changed[0]} was changed while it was timed, {UNKNOWN}")
            for one in self.standing:
                one.agree()

    def _look_for_traces(self, stopwatch: Stopwatch) -> None:
        """Raises `ProcessBrokenError` if somebody changed the judge or the clock while all were timed."""
        complaint = self.judge.seal.complain() or stopwatch.complain()
        if complaint:
            reason = f"somebody {complaint}, {UNKNOWN}"
            raise ProcessBrokenError(Broken(-1, reason, Status.FAILED_VERIFICATION))

    def _fail_all(self, reason: str) -> None:
        for one in self.standing:
            one.outcome.fail(reason)
