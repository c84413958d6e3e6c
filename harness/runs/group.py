"""A group as it is stored: the rows and samples of contestants that were timed together, one file."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from harness.records.errors import ResultsError, objection, one_line
from harness.records.rows import Measurement, ProfileMetric, Ratio, SettledBlock
from harness.runs.samples import Samples

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class StoredGroup:
    """All records of one group.  samples: by case id, of those that were timed.

    The last three are entries of the manifest.
    """

    measurements: tuple[Measurement, ...]
    ratios: tuple[Ratio, ...]
    samples: Mapping[str, Samples]
    settled: tuple[SettledBlock, ...] = ()
    profile: tuple[ProfileMetric, ...] = ()
    ranks: Mapping[int, Mapping[str, Samples]] = Field(default_factory=dict)
    """The samples of each rank of cases on several GPUs, by rank; `samples` and rows tell of the slowest in each."""
    tuning: Mapping[str, tuple[Mapping[str, Any], ...]] = Field(default_factory=dict)
    """What cases have chosen by timing, by case id; those that choose nothing are left out."""
    energy_j: float | None = Field(default=None, exclude=True)
    seconds: Mapping[str, float] = Field(default_factory=dict, exclude=True)
    """Seconds by activity."""
    settings: Mapping[str, Any] = Field(default_factory=dict, exclude=True)
    """Its settings that are not part of a case's name (`harness.plan.settings`)."""

    @property
    def case_ids(self) -> list[str]:
        return [one.case_id for one in self.measurements]

    @model_validator(mode="after")
    def _consistent(self) -> StoredGroup:
        """Each case is there once, and its samples and blocks are those that its row tells of."""
        twice = [case for case, count in Counter(self.case_ids).items() if count > 1]
        if twice:
            raise ValueError(f"case {twice[0]} is there for a second time in its group")
        blocks = Counter(block.case_id for block in self.settled)
        for row in self.measurements:
            samples = self.samples.get(row.case_id)
            for what, there, told in (
                ("samples", 0 if samples is None else len(samples), row.n_samples),
                ("settled blocks", blocks[row.case_id], row.settled_blocks or 0),
            ):
                if there != told:
                    raise ValueError(f"case {row.case_id} has {there} {what}, its row says {told}")
            if samples is not None:
                own = np.array([row.latency_us_p10, row.latency_us_p50, row.latency_us_p90], dtype=float)
                found = np.quantile(samples.latency_us, [0.1, 0.5, 0.9])
                if not (abs(own - found) <= 1e-9 * found).all():
                    raise ValueError(f"case {row.case_id} has the latencies {own}, its samples make them {found}")
        return self


_GROUP = TypeAdapter(StoredGroup)


def encoded(group: StoredGroup) -> bytes:
    """The file of a group: JSON, packed; the same bytes for the same rows and samples."""
    return gzip.compress(_GROUP.dump_json(group), mtime=0)


def read_group(path: Path, case_ids: list[str]) -> StoredGroup:
    """A group that the manifest says holds these cases; raises `ResultsError`."""
    advice = f"resume the run with resume={path.parent}, which measures the problem again, or restore the file"
    try:
        group = _GROUP.validate_json(gzip.decompress(path.read_bytes()))
    except FileNotFoundError:
        raise ResultsError(f"{path} is missing: {advice}") from None
    except (ValidationError, OSError, EOFError, zlib.error) as error:
        said = objection(error) if isinstance(error, ValidationError) else one_line(error)
        raise ResultsError(f"{path} is truncated or was changed ({said}): {advice}") from None
    if group.case_ids != case_ids:
        raise ResultsError(f"{path} holds cases {group.case_ids}, the manifest says {case_ids}: {advice}")
    return group


def newest(rows: Iterable[_Row], key: Callable[[_Row], Any]) -> list[_Row]:
    """Only the last row of each key: a case that was timed again comes a second time."""
    found: dict[Any, _Row] = {}
    for row in rows:
        found.pop(key(row), None)
        found[key(row)] = row
    return list(found.values())
