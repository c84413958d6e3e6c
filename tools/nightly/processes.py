"""Running a step's command: its output to the terminal and to a log, and an end to it when it takes too long."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

TIMED_OUT = 124
"""Exit code of a step that was ended at its time limit, as of timeout(1)."""


class Runner:
    """Runs commands in `root` and keeps a log of each in `logs`."""

    def __init__(self, root: Path, logs: Path) -> None:
        self._root = root
        self._logs = logs

    def __call__(self, name: str, command: Sequence[str], environment: Mapping[str, str], seconds: float) -> int:
        """The command's exit code; `TIMED_OUT` if it was killed after `seconds`, with whatever it had started."""
        self._logs.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            list(command),
            cwd=self._root,
            env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        late = threading.Event()
        timer = threading.Timer(seconds, _end, (process, late))
        timer.start()
        try:
            with _interruptible(process), (self._logs / f"{name}.log").open("w") as log:
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    log.flush()
                    sys.stdout.write(line)
                    sys.stdout.flush()
                code = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                process.terminate()
                with _interruptible(process):
                    process.wait()
        return TIMED_OUT if late.is_set() else code


def _end(process: subprocess.Popen[str], late: threading.Event) -> None:
    late.set()
    _signal(process, signal.SIGKILL)


@contextlib.contextmanager
def _interruptible(process: subprocess.Popen[str]) -> Iterator[None]:
    """Hands Ctrl-C on, which the terminal sends to its own session only."""
    try:
        yield
    except KeyboardInterrupt:
        _signal(process, signal.SIGINT)
        raise


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """To the process and those that it has started: one of them left would hold its output open."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, number)
