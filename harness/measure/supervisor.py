"""The parent's side of the worker: starts it, watches its time limits, and finds which contestant killed it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, NoReturn, Self

import numpy as np

from harness.devices.rounds import NOBODY
from harness.measure import child
from harness.measure.messages import (
    Broken,
    CaseOutcome,
    Describe,
    Done,
    Inspect,
    Machine,
    Measure,
    Phase,
    Refused,
    Stop,
    Timing,
)
from harness.plan.planning import Candidate, Group, Limits, TimerSettings
from harness.plan.said import Inspected
from harness.plan.seeds import derived
from harness.records.errors import HarnessError
from harness.records.rows import Status
from harness.workloads import ranks_of

START_SECONDS = 180.0
"""Starting a process, importing torch and, for a description, measuring the roofs may take this long."""


class WorkerDeathError(Exception):
    """The worker died or was killed. index: the contestant whose code ran, -1 for none; sudden: without a message."""

    def __init__(self, index: int, reason: str, status: Status = Status.ERROR, *, sudden: bool = False) -> None:
        super().__init__(reason)
        self.index, self.reason, self.status, self.sudden = index, reason, status, sudden


@dataclass(frozen=True)
class GroupResult:
    """Outcomes in the order of the group's contestants; energy_j over the timed rounds, where the board counts.

    seconds: of the worker that finished the group, by activity; what others lost before it is not in them.
    """

    outcomes: tuple[CaseOutcome, ...]
    energy_j: float | None
    seconds: Mapping[str, float] = field(default_factory=dict)


class Supervisor:
    """One worker at a time, started when needed and again after it died.  Use as a context manager."""

    def __init__(self, device: Mapping[str, Any], on_event: Callable[[object], None] = lambda event: None) -> None:
        self.device = dict(device)
        self.on_event = on_event
        self._context = multiprocessing.get_context("spawn")
        self._running = self._context.Value("i", -1, lock=False)
        self._process: Any = None
        self._pipe: Connection | None = None
        self._seeds: Seeds | None = None
        self._joined = 0
        """The ranks that the worker is one of; 0 as long as it has measured nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def begin(self) -> None:
        """Starts the worker if there is none, ahead of the first request."""
        if self._process is None or not self._process.is_alive():
            self._start()

    def describe(self, roofs: int) -> Machine:
        """The machine; the roofs, for so many ranks, are measured there and then."""
        try:
            self._send(Describe(roofs))
            return self._receive(Machine, START_SECONDS)
        except WorkerDeathError as death:
            raise HarnessError(f"the worker could not describe the device: {death.reason}", exit_code=1) from None

    def inspect(self, contestants: Sequence[Candidate], problems: Sequence[Any]) -> list[Inspected]:
        """What can be said of each contestant before it runs; one whose import kills the worker is missing."""
        found: list[Inspected] = []
        while len(found) < len(contestants):
            rest = tuple(contestants[len(found) :])
            try:
                self._send(Inspect(rest, tuple(problems)))
                for _ in rest:
                    found.append(self._receive(Inspected, START_SECONDS))
                self._receive(Done, START_SECONDS)
            except WorkerDeathError as death:  # the first that did not answer
                if len(found) < len(contestants):
                    found.append(Inspected(contestants[len(found)], missing=death.reason))
        return found

    def measure(
        self, group: Group, timer: TimerSettings, limits: Limits, meanwhile: Callable[[], None] = lambda: None
    ) -> GroupResult:
        """Verifies and times a group. A contestant that kills the worker fails alone; the others are timed without it.

        A worker that is killed while no contestant's code runs is nobody's fault: it gets a second chance, once.
        meanwhile: runs in this process while the worker makes inputs and references.
        """
        lost: dict[int, CaseOutcome] = {}
        second_chance = True
        while len(lost) < len(group.contestants):
            alive = [index for index in range(len(group.contestants)) if index not in lost]
            rest = replace(group, contestants=tuple(group.contestants[index] for index in alive))
            try:
                now, meanwhile = meanwhile, lambda: None
                got, done = self._measure_once(rest, timer, limits, now)
            except WorkerDeathError as death:
                if death.index < 0 and death.sudden and second_chance:
                    second_chance = False
                    continue
                blamed = [death.index] if death.index >= 0 else list(range(len(alive)))
                for position in blamed:
                    lost[alive[position]] = CaseOutcome(alive[position], death.status, death.reason)
                continue
            for position, outcome in got.items():
                lost[alive[position]] = _renumbered(outcome, alive)
            whole = tuple(lost[index] for index in range(len(group.contestants)))
            return GroupResult(whole, done.energy_j, done.seconds)
        return GroupResult(tuple(lost[index] for index in range(len(group.contestants))), None)

    def stop(self) -> None:
        """Ends the worker, gracefully if it responds."""
        if self._process is None:
            return
        assert self._pipe is not None
        with contextlib.suppress(OSError):
            self._pipe.send(Stop())
            self._process.join(2.0)
        self.kill()

    def _measure_once(
        self, group: Group, timer: TimerSettings, limits: Limits, meanwhile: Callable[[], None]
    ) -> tuple[dict[int, CaseOutcome], Done]:
        if self._joined not in (0, ranks := ranks_of(group.problem)):
            self.stop()  # a process stays in the group of ranks that it has joined
        self.begin()
        self._joined = ranks
        assert self._seeds is not None
        self._seeds.of_group(group.seed)
        self._send(Measure(replace(group, seed=0), timer, limits))
        meanwhile()
        outcomes: dict[int, CaseOutcome] = {}
        allowance, phase = START_SECONDS, Phase("start", -1, START_SECONDS)
        while True:
            message = self._next(allowance, phase)
            self.on_event(message)
            match message:
                case Phase():
                    allowance, phase = message.seconds, message
                case Timing():
                    allowance = limits.call_seconds
                case CaseOutcome():
                    outcomes[message.index] = message
                case Done():
                    missing = [index for index in range(len(group.contestants)) if index not in outcomes]
                    if missing:
                        raise WorkerDeathError(missing[0], "the worker ended the group without reporting it")
                    return outcomes, message

    def _send(self, request: object) -> None:
        self.begin()
        assert self._pipe is not None
        self._running.value = -1
        with contextlib.suppress(OSError):  # died since: its own message, if it left one, says why
            self._pipe.send(request)

    def _receive(self, kind: type, seconds: float) -> Any:
        message = self._next(seconds, Phase("answer", -1, seconds))
        assert isinstance(message, kind)
        return message

    def _next(self, seconds: float, phase: Phase) -> object:
        """The next message; raises `WorkerDeathError` on silence for `seconds` or the end of the process."""
        assert self._pipe is not None
        deadline = time.monotonic() + seconds
        while not self._pipe.poll(max(0.0, min(0.2, deadline - time.monotonic()))):
            if not self._process.is_alive() and not self._pipe.poll(0):  # its children may hold the pipe open
                self._die(phase)
            if time.monotonic() >= deadline:
                self.kill()
                reason = f"no answer for {seconds:g} s during '{phase.name}'; killed"
                raise WorkerDeathError(int(self._running.value), reason, Status.TIMEOUT)
        try:
            message = self._pipe.recv()
        except (EOFError, OSError):
            self._die(phase)
        if isinstance(message, Refused):
            raise HarnessError(message.sentence)
        if isinstance(message, Broken):
            self.kill()
            raise WorkerDeathError(message.index, message.reason, message.status)
        return message

    def _die(self, phase: Phase) -> NoReturn:
        reason = f"the worker {self._epitaph()} during '{phase.name}'"
        self.kill()
        raise WorkerDeathError(int(self._running.value), reason, sudden=True) from None

    def _start(self) -> None:
        self.kill()
        self._pipe, theirs = self._context.Pipe()
        ours, asked = self._context.Pipe()
        arguments = (theirs, asked, self._running, self.device)
        process = self._context.Process(target=child.main, args=arguments, name="tk-bench worker", daemon=False)
        resource_tracker.ensure_running()  # which unblocks what is blocked here
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the child ignores it once it is loaded
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._process, self._joined = process, 0
        theirs.close()  # so that its end is seen here as the end of the pipe
        asked.close()
        self._seeds = Seeds(ours)

    def _epitaph(self) -> str:
        """How the process ended, as text."""
        self._process.join(10.0)
        code = self._process.exitcode
        if code is None:
            self.kill()
            return "closed its pipe and was killed"
        if code >= 0:
            return f"ended by itself with exit code {code}"
        name = signal.Signals(-code).name
        hint = ", which is often the system running out of memory" if name == "SIGKILL" else ""
        return f"was ended by {name}{hint}"

    def kill(self) -> None:
        """Ends the worker at once."""
        if self._process is not None:
            with contextlib.suppress(OSError):  # it leads a group of its own, with whatever it has started
                os.killpg(self._process.pid, signal.SIGKILL)
            if self._process.is_alive():
                self._process.kill()
            self._process.join(10.0)
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


class Seeds:
    """Derives seeds for a worker, which does not know the group's: each once, when it is asked for.

    In a thread, since this process may be storing the group before.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._seed = pipe, -1
        self._given: set[tuple[str, int]] = set()
        threading.Thread(target=self._answer, daemon=True).start()

    def of_group(self, seed: int) -> None:
        """What is derived from now on is derived from this seed."""
        self._seed, self._given = seed, set()

    def _answer(self) -> None:
        with contextlib.suppress(EOFError, OSError):  # the worker is gone
            while True:
                use = self._pipe.recv()
                self._pipe.send(None if self._seed < 0 or use in self._given else derived(self._seed, *use))
                self._given.add(use)


def _renumbered(outcome: CaseOutcome, numbers: Sequence[int]) -> CaseOutcome:
    """An outcome of a smaller group with the numbers that its contestants have in the whole one."""
    table = np.array([*numbers, NOBODY], dtype=np.int32)  # NOBODY, -1, is the last
    blocks = tuple(block.after(table.tolist()) for block in outcome.settled)
    index = numbers[outcome.index]
    return replace(outcome, index=index, predecessors=table[outcome.predecessors], settled=blocks)


class Worker:
    """The worker of a command, or with `keep` of all commands that follow one another in this process."""

    def __init__(self, keep: bool = False) -> None:
        self._keep = keep
        self._supervisor: Supervisor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._keep = False
        self.leave()

    def on(self, device: Mapping[str, Any], on_event: Callable[[object], None]) -> Supervisor:
        """The one for this device; one for another device ends first."""
        if self._supervisor is None or self._supervisor.device != device:
            self._end(Supervisor.stop)
            self._supervisor = Supervisor(device)
        self._supervisor.on_event = on_event
        return self._supervisor

    def leave(self, at_once: bool = False) -> None:
        """A command has ended; `at_once` does not wait for what the worker is doing."""
        if at_once:
            self._end(Supervisor.kill)
        elif not self._keep:
            self._end(Supervisor.stop)

    def _end(self, how: Callable[[Supervisor], None]) -> None:
        if self._supervisor is not None:
            how(self._supervisor)
            self._supervisor = None
