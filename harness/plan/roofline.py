"""Roofline: the least time that a problem can take on a machine, and how near a measurement is to it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.records.datasheets import Roof
from harness.workloads.spec import Traffic


def measured_roof(roofs: Mapping[str, float], dtype: str) -> Roof | None:
    """The roof for a dtype from what a run measured; None where it did not measure that dtype, or no bandwidth.

    The bandwidths are the better of copying and reading, of writing to a peer and reading from it.  fp16 is held
    against bf16, which has the same tensor rate on every GPU in `datasheets.yaml`.
    """
    tflops = roofs.get(f"matmul_{'bf16' if dtype == 'fp16' else dtype}_tflops")
    gbps = max(roofs.get("copy_gbps", 0.0), roofs.get("read_gbps", 0.0))
    peer = max(roofs.get("peer_write_gbps", 0.0), roofs.get("peer_read_gbps", 0.0))
    return Roof(tflops, gbps, peer) if tflops and gbps else None


def floor_us(roof: Roof, flops: float, traffic: Traffic) -> float:
    """Least time in microseconds: the slower of computing `flops` and moving the bytes (Williams et al., 2009)."""
    return max(_floors(roof, flops, traffic).values()) * 1e6


def _floors(roof: Roof, flops: float, traffic: Traffic) -> dict[str, float]:
    """Least seconds by what takes them."""
    wire = {"wire": traffic.wire / (roof.peer_gbps * 1e9)} if roof.peer_gbps else {}
    return {"compute": flops / (roof.tflops * 1e12), "memory": traffic.total / (roof.gbps * 1e9), **wire}


def bound(roof: Roof, flops: float, traffic: Traffic, launch_us: float = 0.0) -> str:
    """Which roof sets the floor: `compute`, `memory`, `wire`; `launch` where a kernel that does nothing takes longer.

    launch_us: of such a kernel.  A share of the roof says little of a problem that is bound by its launch.
    """
    if floor_us(roof, flops, traffic) < launch_us:
        return "launch"
    floors = _floors(roof, flops, traffic)
    return max(floors, key=lambda name: floors[name])


def roof_pct(roof: Roof, flops: float, traffic: Traffic, latency_us: float) -> float:
    """Floor over measured time, in percent."""
    return floor_us(roof, flops, traffic) / latency_us * 100


def impossible(
    roof: Roof, flops: float, traffic: Traffic, latency_us: float, l2_bytes: int, warm: bool, what: str = "median"
) -> str | None:
    """Why a latency cannot be true on hardware with this roof, or None.  what: which latency it is.

    Output that fits the L2 may still sit there when the call ends, and with a warm L2 so may the input when it starts.
    So only the bytes that must cross to DRAM within the call count here.
    """
    crossing = max(0, traffic.written - l2_bytes) + max(0, traffic.read - (l2_bytes if warm else 0))
    least = max(flops / (roof.tflops * 1e12), crossing / (roof.gbps * 1e9)) * 1e6
    if latency_us >= least:
        return None
    return (
        f"{what} of {latency_us:.3f} us is below the {least:.3f} us that the hardware allows at the maximum clock "
        f"({roof.tflops:.0f} TFLOPS, {roof.gbps:.0f} GB/s); the call did not do all of its work inside the clock"
    )
