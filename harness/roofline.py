"""Roofline: the least time that a problem can take on a machine, and how near a measurement is to it.

Pure functions; the datasheets are data in `datasheets.yaml`, each number with its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.workloads.spec import Traffic


@dataclass(frozen=True)
class Roof:
    """What a machine can do: matrix throughput for one dtype, and memory bandwidth (read plus written)."""

    tflops: float
    gbps: float


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
    entries: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "datasheets.yaml").read_text())
    return tuple(
        (
            re.compile(entry["matches"]),
            Datasheet(slug, entry["name"], entry["gbps"], entry["boost_mhz"], dict(entry["tflops"]), entry["source"]),
        )
        for slug, entry in entries.items()
    )


def find_datasheet(gpu_name: str) -> Datasheet | None:
    """The datasheet of a GPU by the name its driver reports; None for one we have none of."""
    return next((sheet for pattern, sheet in datasheets() if pattern.search(gpu_name)), None)


def gpu_slug(gpu_name: str) -> str:
    """Folder name of a GPU: its datasheet's, else its reported name in lower case with dashes."""
    sheet = find_datasheet(gpu_name)
    return sheet.slug if sheet else re.sub(r"[^a-z0-9]+", "-", gpu_name.lower()).strip("-") or "unknown-gpu"


def measured_roof(roofs: Mapping[str, float], dtype: str) -> Roof | None:
    """The roof for a dtype from what a run measured; None where it did not measure that dtype, or no bandwidth.

    The bandwidth is the better of copying and reading.  fp16 is held against bf16, which has the same tensor rate on
    every GPU in `datasheets.yaml`.
    """
    tflops = roofs.get(f"matmul_{'bf16' if dtype == 'fp16' else dtype}_tflops")
    gbps = max(roofs.get("copy_gbps", 0.0), roofs.get("read_gbps", 0.0))
    return Roof(tflops, gbps) if tflops and gbps else None


def floor_us(roof: Roof, flops: float, traffic: Traffic) -> float:
    """Least time in microseconds: the slower of computing `flops` and moving the bytes (Williams et al., 2009)."""
    return max(flops / (roof.tflops * 1e12), traffic.total / (roof.gbps * 1e9)) * 1e6


def bound(roof: Roof, flops: float, traffic: Traffic, launch_us: float = 0.0) -> str:
    """Which roof sets the floor: `compute` or `memory`; `launch` where a kernel that does nothing takes longer.

    launch_us: of such a kernel.  A share of the roof says little of a problem that is bound by its launch.
    """
    if floor_us(roof, flops, traffic) < launch_us:
        return "launch"
    return "compute" if flops / (roof.tflops * 1e12) >= traffic.total / (roof.gbps * 1e9) else "memory"


def roof_pct(roof: Roof, flops: float, traffic: Traffic, latency_us: float) -> float:
    """Floor over measured time, in percent."""
    return floor_us(roof, flops, traffic) / latency_us * 100


def impossible(roof: Roof, flops: float, traffic: Traffic, latency_us: float, l2_bytes: int, warm: bool) -> str | None:
    """Why a latency cannot be true on hardware with this roof, or None.

    Output that fits the L2 may still sit there when the call ends, and with a warm L2 so may the input when it starts,
    so only the bytes that must cross to DRAM within the call count here.
    """
    crossing = max(0, traffic.written - l2_bytes) + max(0, traffic.read - (l2_bytes if warm else 0))
    least = max(flops / (roof.tflops * 1e12), crossing / (roof.gbps * 1e9)) * 1e6
    if latency_us >= least:
        return None
    return (
        f"median of {latency_us:.3f} us is below the {least:.3f} us that the datasheet allows at the maximum clock "
        f"({roof.tflops:.0f} TFLOPS, {roof.gbps:.0f} GB/s): the call did not do all of its work inside the clock"
    )
