"""GPU datasheets: the numbers of `datasheets.yaml`, each with its source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Roof:
    """What a machine can do: matrix throughput for one dtype, memory bandwidth (read plus written), the link's rate.

    peer_gbps: what a GPU can receive of others; 0 where that is not known.
    """

    tflops: float
    gbps: float
    peer_gbps: float = 0.0


@dataclass(frozen=True)
class Datasheet:
    """A GPU as its vendor describes it.  tflops: dense matrix throughput a dtype, at `boost_mhz`."""

    slug: str
    name: str
    gbps: float
    boost_mhz: float
    tflops: dict[str, float]
    source: str

    def roof(self, dtype: str) -> Roof | None:
        """The roof for a dtype as printed; None where the datasheet gives none."""
        return Roof(self.tflops[dtype], self.gbps) if dtype in self.tflops else None

    def roof_at(self, dtype: str, sm_clock_max_mhz: float | None) -> Roof | None:
        """The roof with the matrix rate scaled to the highest clock that the card itself allows."""
        roof = self.roof(dtype)
        if roof is None or not sm_clock_max_mhz:
            return roof
        return Roof(roof.tflops * max(1.0, sm_clock_max_mhz / self.boost_mhz), roof.gbps)


@cache
def datasheets() -> tuple[tuple[re.Pattern[str], Datasheet], ...]:
    """Every known GPU with the pattern of the names under which its driver reports it."""
    import yaml  # readers of runs do without

    entries: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "datasheets.yaml").read_text())
    return tuple((re.compile(entry.pop("matches")), Datasheet(slug, **entry)) for slug, entry in entries.items())


def find_datasheet(gpu_name: str) -> Datasheet | None:
    """The datasheet of a GPU by the name that its driver reports; None for an unknown one."""
    return next((sheet for pattern, sheet in datasheets() if pattern.search(gpu_name)), None)
