"""Compilers as child processes that can be stopped together."""

from __future__ import annotations

import os
import subprocess
import threading

UNHEARD = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables by which compilers add to our flags; a build is kept under its sources and our flags alone."""


def at_once() -> int:
    """Compilers that a build has at work: one for each core that this process may use, at most MAX_JOBS if that is set.

    A job of a cluster has fewer cores than its machine; extensions of PyTorch hear of MAX_JOBS too.
    """
    cores, asked = len(os.sched_getaffinity(0)), os.environ.get("MAX_JOBS", "")
    return min(cores, int(asked)) if asked.isdecimal() and int(asked) else cores


class Processes:
    """The compilers at work for one build; `stop` ends them and lets no other begin."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False
        self._lock = threading.Lock()

    def run(self, command: list[str]) -> tuple[int, str]:
        """Run a command to its end; returns its exit status and what it said. Raises InterruptedError once stopped."""
        with self._lock:
            if self._stopped:
                raise InterruptedError("the build was stopped")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={name: value for name, value in os.environ.items() if name not in UNHEARD},
            )
            self._running.add(process)
        try:
            said, _ = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        return process.returncode, said

    def stop(self) -> None:
        """End the compilers at work."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()
