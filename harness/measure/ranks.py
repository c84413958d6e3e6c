"""The processes of a case of several ranks: the worker is rank 0 and starts the others, its followers.

All run `measure_group`, each on a device of its own rank.  They meet at each `exchange`: the followers send what they
have to say, rank 0 answers each with what all said.  A thread of rank 0 watches: a follower that dies, a rank that says
nothing for as long as its phase may take, or one that failed while others hang in a call with it, ends the worker with
a sentence that names the rank.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from harness.devices.agreement import Failed, answers
from harness.measure.messages import Broken, Done, Measure, Phase, Timing
from harness.records.rows import IDLE, Status

MULTICAST_OFF = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
"""What is set in every process before PyTorch is imported: nobody uses NVLink multicast."""

BROKEN_EXIT = 70
"""Exit code of a process that ended itself because it could do no more work."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
START_SECONDS = 170.0
"""Starting the followers may take this long, which is less than the parent waits for a worker that starts."""

PLACE = re.compile(r'File ".*?([^/"]+)", (line \d+ in .*)')
"""The innermost call of a stack that faulthandler writes."""

LOOK_SECONDS, SHARE = 0.1, 0.9
"""How often the watch looks, and after which share of a phase's time it speaks: before the parent does."""

GRACE_SECONDS = 5.0
"""Where a rank has failed, the others come to the next exchange within this time, or hang in a call with it."""


def begin_process() -> str | None:
    """What a process of ours needs before PyTorch is imported; gives what is wrong with its environment."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if sys.platform == "linux":  # ends with the parent, however that ends: a hanging kernel would outlive it
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    faulthandler.enable()
    wrong = [name for name, off in MULTICAST_OFF.items() if os.environ.setdefault(name, off) != off]
    if wrong:
        return f"{wrong[0]}={os.environ[wrong[0]]}: NVLink multicast has to be off, leave the variable out"
    return None


@dataclass
class Follower:
    """Another rank as rank 0 sees it.  answers: its part of exchanges; words: why it can do no more work."""

    process: Any
    answers: Connection
    words: Connection


@dataclass
class Ranks:
    """Rank 0's side.  device: its own; settings: what makes one; send: to the parent; running: who is at work."""

    device: Any
    settings: Mapping[str, Any]
    send: Callable[[object], None]
    running: Any
    followers: list[Follower] = field(default_factory=list)
    _steps: Any = None
    _phase: Phase | None = None
    """What goes on now; None while nothing does."""
    _last: float = 0.0
    _call_seconds: float = 0.0
    _failed: tuple[float, int, str, Status] | None = None
    """When a rank failed last, at which of its exchanges, and how."""
    _folder: tempfile.TemporaryDirectory[str] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, request: Measure, ranks: int) -> None:
        """Followers are at the request, too; they are started where there are none."""
        self._call_seconds = request.limits.call_seconds
        self._note(Phase("start", -1, START_SECONDS))
        if not self.followers:
            self._start(ranks)
        for one in self.followers:
            one.answers.send(request)
        if self.device.ranks == 1:
            self.device.join(0, ranks, self._meeting(), self.ask)
            self.ask("joined", None)

    def tell(self, message: object) -> None:
        """Sends a message to the parent."""
        if isinstance(message, Phase | Timing | Done):
            self._note(message)
        with self._lock:
            self.send(message)

    def _note(self, message: Phase | Timing | Done) -> None:
        """From now on the parent waits so long for the next message."""
        self._last = time.monotonic()
        if isinstance(message, Timing):
            message = Phase("time", -1, self._call_seconds)
        self._phase = message if isinstance(message, Phase) else None

    def ask(self, what: str, answer: Any) -> list[Any]:
        """Rank 0's part of an exchange."""
        self._steps[0] += 1
        self._hear(0, self._steps[0], answer)
        with suppress(EOFError, OSError):
            said = [(what, answer), *(one.answers.recv() for one in self.followers)]
            for one in self.followers:
                one.answers.send(said)
            return answers(said)
        while True:  # a follower is gone: the watch says so
            time.sleep(1)

    def _meeting(self) -> str:
        """The file by which the ranks find one another."""
        assert self._folder is not None
        return os.path.join(self._folder.name, "meeting")

    def _start(self, ranks: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="tk-bench-ranks-")
        _tell_places(self._meeting(), 0)
        self._steps = context.Array("q", ranks, lock=False)
        for rank in range(1, ranks):
            (answers, theirs), (words, spoken) = context.Pipe(), context.Pipe(duplex=False)
            arguments = (theirs, spoken, self._steps, rank, ranks, dict(self.settings), self._meeting())
            process = context.Process(target=follow, args=arguments, name=f"tk-bench rank {rank}", daemon=True)
            process.start()
            theirs.close()
            spoken.close()
            self.followers.append(Follower(process, answers, words))
        threading.Thread(target=self._watch, daemon=True).start()

    def _hear(self, rank: int, step: int, answer: object) -> None:
        """Notes a failure that the others may not come to hear of."""
        if isinstance(answer, Failed) and answer.status not in IDLE:
            self._failed = (time.monotonic(), step, f"rank {rank}: {answer.reason}", answer.status)

    def _watch(self) -> NoReturn:
        """Ends the worker where the ranks cannot go on."""
        while True:
            phase, failed, now, steps = self._phase, self._failed, time.monotonic(), list(self._steps)
            during = f" during '{phase.name}'" if phase else ""
            for rank, one in enumerate(self.followers, 1):
                alive = one.process.is_alive()
                while said := _heard(one.words):
                    if isinstance(said, Broken):
                        self._end(f"rank {rank}: {said.reason}", said.status)
                    self._hear(rank, *said)
                if not alive:
                    self._end(f"rank {rank} {_epitaph(one.process.exitcode)}{during}", Status.ERROR)
            if failed and now - failed[0] > GRACE_SECONDS and min(steps) < failed[1]:
                self._end(f"{failed[2]}; the other ranks hang in a call with it", failed[3])
            if phase and now - self._last > SHARE * phase.seconds:
                behind = [str(rank) for rank, step in enumerate(steps) if step < max(steps)]
                who = f"rank {' and '.join(behind)} did not answer" if behind else "no rank answered"
                places = "; ".join(self._places())
                self._end(f"{who} for {now - self._last:.0f} s{during}; {places}; killed", Status.TIMEOUT)
            time.sleep(LOOK_SECONDS)

    def _places(self) -> list[str]:
        """Where the code of each rank is."""
        processes = [os.getpid(), *(one.process.pid for one in self.followers)]
        for process in processes:
            os.kill(process, signal.SIGUSR1)
        time.sleep(LOOK_SECONDS)
        files = [_dump(self._meeting(), rank) for rank in range(len(processes))]
        found = [PLACE.search(file.read_text()) if file.exists() else None for file in files]
        return [f"rank {rank} at {', '.join(place.groups())}" for rank, place in enumerate(found) if place]

    def _end(self, reason: str, status: Status) -> NoReturn:
        with self._lock, suppress(OSError):
            self.send(Broken(int(self.running.value), reason, status))
        os._exit(BROKEN_EXIT)  # its followers end with it


def follow(
    pipe: Connection,
    words: Connection,
    steps: Any,
    rank: int,
    ranks: int,
    settings: Mapping[str, Any],
    meeting: str,
) -> None:
    """A follower: what rank 0 is asked to measure, it measures, too; ends when rank 0 does."""
    begin_process()
    _tell_places(meeting, rank)

    import torch  # after the environment is set
    from hydra.utils import instantiate

    from harness.measure.line import Line, ProcessBrokenError
    from harness.measure.measure import measure_group
    from harness.measure.seal import Seal
    from harness.records.errors import one_line

    def ask(what: str, answer: Any) -> list[Any]:
        steps[rank] += 1
        if isinstance(answer, Failed):
            words.send((steps[rank], answer))
        pipe.send((what, answer))
        return answers(pipe.recv())

    try:
        if rank < torch.cuda.device_count():
            torch.cuda.set_device(rank)
        here = instantiate(dict(settings))
        seal = Seal(here)
        line = Line(lambda message: None, lambda index: None, lambda *use: ask(f"seed {use}", None)[0])
        while True:
            request = pipe.recv()
            seal.learn()
            if here.ranks == 1:
                here.join(rank, ranks, meeting, ask)
                ask("joined", None)
            measure_group(request.group, here, request.timer, request.limits, line, seal)
    except EOFError:  # rank 0 is gone
        os._exit(0)
    except ProcessBrokenError as broken:
        words.send(broken.message)
    except Exception as error:
        words.send(Broken(-1, one_line(error, named=True)))
    os._exit(BROKEN_EXIT)


def _dump(meeting: str, rank: int) -> Path:
    """Where a rank writes its stack when it is asked to by SIGUSR1, also while it hangs."""
    return Path(f"{meeting}.{rank}")


def _tell_places(meeting: str, rank: int) -> None:
    faulthandler.register(signal.SIGUSR1, _dump(meeting, rank).open("w"), all_threads=False)


def _heard(words: Connection) -> Any:
    """What a follower has said, None if it has said nothing more."""
    with suppress(OSError, EOFError):
        return words.recv() if words.poll(0) else None
    return None


def _epitaph(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended by itself with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"
