"""Checks of a problem that all baselines share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def refuse(
    problem: Any,
    device: str,
    *,
    devices: Sequence[str],
    name: str,
    dtype: str = "bf16",
    directions: Sequence[str] = ("fwd",),
) -> str | None:
    """None if the problem, of ``dtype`` and one of ``directions``, is on one of ``devices``; else why ``name`` refuses.

    Args:
        problem: A problem of any workload: it has a ``dtype`` and a ``direction``.
        device: Where it is to run, ``cuda`` or ``cpu``.
        devices: Where the baseline runs.
        name: The baseline, for the message.
        dtype: The element type that the baseline takes.
        directions: ``fwd``, or ``fwd`` and ``bwd``.
    """
    if device not in devices:
        return f"{name} runs on {' and '.join(devices)}, not on {device}"
    if problem.dtype != dtype:
        return f"{name}: got dtype {problem.dtype}, it takes {dtype}"
    if problem.direction not in directions:
        return f"{name}: got direction {problem.direction}, it is compared in {' and '.join(directions)} alone"
    return None
