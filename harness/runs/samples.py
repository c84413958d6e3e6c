"""The samples of a case as a run stores them: `samples.parquet`, one row a timed call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

COLUMNS = {
    "case_id": str,
    "round": np.int32,
    "latency_us": np.float64,
    "position": np.int32,
    "predecessor": str,
    "placement": np.int32,
}
"""Columns of `samples.parquet`, with their types."""

FIRST_COLUMNS = ("case_id", "round", "latency_us")
"""Columns that the oldest runs have."""

UNKNOWN = {"position": -1, "predecessor": "", "placement": 0}
"""Values of the other columns where nothing is known."""


@dataclass(frozen=True)
class Samples:
    """One case's samples, in the order of the rounds.  latency_us, rounds: (n,).

    positions: (n,) places in the round, -1 where not known; predecessors: (n,) ids of the cases that ran right before,
    "" where not known; placements: (n,) where the buffers lay, 0 and up.  All three may be left out.
    """

    latency_us: np.ndarray
    rounds: np.ndarray
    positions: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    predecessors: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=object))

    placements: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def __post_init__(self) -> None:
        n = len(self.latency_us)
        if not len(self.positions):
            object.__setattr__(self, "positions", np.full(n, UNKNOWN["position"], dtype=np.int32))
        if not len(self.predecessors):
            object.__setattr__(self, "predecessors", np.full(n, UNKNOWN["predecessor"], dtype=object))
        if not len(self.placements):
            object.__setattr__(self, "placements", np.full(n, UNKNOWN["placement"], dtype=np.int32))
        names = ("latency_us", "rounds", "positions", "predecessors", "placements")
        lengths = [len(getattr(self, name)) for name in names]
        if len(set(lengths)) > 1:
            raise ValueError(f"{', '.join(names)} have the lengths {lengths}, need the same")

    def __len__(self) -> int:
        return len(self.latency_us)

    @property
    def seated(self) -> bool:
        """Whether the predecessor of every sample is known."""
        return len(self) > 0 and bool((self.predecessors != UNKNOWN["predecessor"]).all())


def table(case_id: str, samples: Samples) -> pd.DataFrame:
    """The rows of one case."""
    columns = (case_id, samples.rounds, samples.latency_us, samples.positions, samples.predecessors, samples.placements)
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True))).astype(COLUMNS)


def empty() -> pd.DataFrame:
    """No rows."""
    return pd.DataFrame(columns=list(COLUMNS)).astype(COLUMNS)


def completed(rows: pd.DataFrame) -> pd.DataFrame:
    """Stored rows with all columns; those that an older run lacks are filled with the values for unknown."""
    return rows.assign(**{name: value for name, value in UNKNOWN.items() if name not in rows}).astype(COLUMNS)


def of_rows(rows: pd.DataFrame) -> Samples:
    """The samples of one case from its stored rows."""
    columns = {name: rows[name].to_numpy() for name in COLUMNS if name != "case_id"}
    return Samples(
        columns["latency_us"].astype(np.float64),
        columns["round"].astype(np.int64),
        columns["position"].astype(np.int32),
        columns["predecessor"].astype(object),
        columns["placement"].astype(np.int32),
    )


def readable(columns: Sequence[str]) -> bool:
    """Whether a file with these columns is one that is read."""
    return tuple(columns) in (FIRST_COLUMNS, tuple(COLUMNS))
