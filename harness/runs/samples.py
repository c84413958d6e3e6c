"""The samples of a case: its timed calls, each with its place among the others."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from pydantic import PlainSerializer, PlainValidator
from pydantic.dataclasses import dataclass

UNKNOWN = {"positions": -1, "predecessors": "", "placements": 0}
"""Values of the columns that need not be given, where nothing is known."""

_As = PlainSerializer(lambda column: column.tolist())


def _column(kind: Any) -> PlainValidator:
    return PlainValidator(lambda values: np.asarray(values, dtype=kind))


@dataclass(frozen=True)
class Samples:
    """One case's samples, in the order of the rounds.  latency_us, rounds: (n,).

    positions: (n,) places in the round, -1 where not known; predecessors: (n,) ids of the cases that ran right before,
    "" where not known; placements: (n,) where the buffers lay, 0 and up.  All three may be left out.
    """

    latency_us: Annotated[np.ndarray, _column(np.float64), _As]
    rounds: Annotated[np.ndarray, _column(np.int64), _As]
    positions: Annotated[np.ndarray, _column(np.int32), _As] = field(default_factory=lambda: np.empty(0, np.int32))
    predecessors: Annotated[np.ndarray, _column(object), _As] = field(default_factory=lambda: np.empty(0, object))
    placements: Annotated[np.ndarray, _column(np.int32), _As] = field(default_factory=lambda: np.empty(0, np.int32))

    def __post_init__(self) -> None:
        for name, unknown in UNKNOWN.items():
            if not len(column := getattr(self, name)):
                object.__setattr__(self, name, np.full(len(self), unknown, dtype=column.dtype))
        lengths = {name: len(column) for name, column in vars(self).items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{', '.join(lengths)} have the lengths {list(lengths.values())}, need the same")

    def __len__(self) -> int:
        return len(self.latency_us)

    @property
    def seated(self) -> bool:
        """Whether the predecessor of every sample is known."""
        return len(self) > 0 and bool((self.predecessors != UNKNOWN["predecessors"]).all())
