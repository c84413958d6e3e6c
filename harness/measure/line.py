"""What the worker says to its parent while it is at a group, and what it asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.measure.ledger import Ledger
from harness.measure.messages import Broken, Phase


@dataclass(frozen=True)
class Line:
    """The worker's line to its parent, and its account of the time.

    enter: names the contestant that runs now, in memory that outlives this process.  ask(purpose, number): a seed that
    the parent derives from the group's and gives once; it is asked for when something is drawn with it.
    """

    send: Callable[[object], None]
    enter: Callable[[int], None]
    ask: Callable[[str, int], int]
    ledger: Ledger = field(default_factory=Ledger)

    def begin(self, name: str, index: int, seconds: float) -> None:
        """Tells the parent what starts now and how long it may take."""
        self.enter(index)
        self.send(Phase(name, index, seconds))


class ProcessBrokenError(Exception):
    """This process can do no more work: its device is unusable, or somebody changed what it works with.

    Carries the `Broken` message.
    """

    def __init__(self, message: Broken) -> None:
        super().__init__(message.reason)
        self.message = message
