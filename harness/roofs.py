"""Roofs of the machine, measured in the run: what a plain copy and the vendor's matrix product reach here and now."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

from harness.timing.rounds import Stopwatch

COPY_BYTES = 2**30
MATMUL_SIZES = (4096, 8192)
SAMPLES = 15


def measure_roofs(stopwatch: Stopwatch) -> dict[str, float]:
    """`copy_gbps` (read plus write of 1 GiB) and `matmul_bf16_tflops` (best of the sizes, random normal inputs).

    Medians, with the same stopwatch as everything else.  The matrix roof is what the library reaches under this
    board's power cap, so a better kernel may exceed it.
    """
    return {"copy_gbps": _copy_gbps(stopwatch), "matmul_bf16_tflops": _matmul_tflops(stopwatch, torch.bfloat16)}


def _copy_gbps(stopwatch: Stopwatch) -> float:
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / (_median_us(stopwatch, lambda: target.copy_(source)) * 1e3)


def _matmul_tflops(stopwatch: Stopwatch, dtype: torch.dtype) -> float:
    best = 0.0
    for size in MATMUL_SIZES:
        a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
        latency_us = _median_us(stopwatch, lambda a=a, b=b: torch.matmul(a, b))  # type: ignore[misc]
        best = max(best, 2 * size**3 / (latency_us * 1e6))
    return best


def _median_us(stopwatch: Stopwatch, call: Callable[[], Any]) -> float:
    samples = [stopwatch.sample(call, lambda: None).latency_us for _ in range(SAMPLES + 3)]
    return statistics.median(samples[3:])  # the first three warm up
