"""What a reader sees while a command works: a line a step, which grows at least every eight seconds."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Self

EVERY_SECONDS = 8.0
"""Between two signs of life."""


class Working:
    """A line that begins with what is done, grows while it is, and ends with what came of it and how long it took.

    title: how the line begins.  Use as a context manager; an exception ends the line without an outcome.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.state = ""
        """How far it is, such as `36 of 40 exhibits drawn`; a sign of life says it where it has changed."""
        self.outcome = "done"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        print(f"{self.title}:", end="", flush=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        print("" if kind else f" {self.outcome}, {time.monotonic() - self._started:.0f} s", flush=True)

    def say(self, state: str) -> None:
        """How far it is."""
        self.state = state

    def _live(self) -> None:
        with contextlib.suppress(OSError):  # a stdout that refuses it: the command meets it too, and says so
            self._say_it_lives()

    def _say_it_lives(self) -> None:
        said = ""
        while not self._ended.wait(EVERY_SECONDS):
            state, said = (self.state, self.state) if self.state != said else (".", said)
            print(f" {state}" if state == "." else f" {state} ...", end="", flush=True)
