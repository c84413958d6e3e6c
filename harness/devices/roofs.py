"""The machine's roofs, measured in the run: rates of copying, reading and the vendor's matrix product."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.devices.rounds import Stopwatch

MEMORY_BYTES = 2**30
MATMUL_SIZES = (4096, 8192)
SAMPLES = 15

FP8_CAPABILITY = (8, 9)
"""Compute capability from which on tensor cores take e4m3; below, there is no such roof."""


def measure_roofs(stopwatch: Stopwatch) -> dict[str, float]:
    """Medians, with the same stopwatch as everything else, by the names under which the manifest keeps them.

    copy_gbps: read plus write of 1 GiB; read_gbps: 1 GiB read and next to nothing written, the best of two ways;
    matmul_<dtype>_tflops: the vendor's library, best of the sizes, random normal inputs; launch_us: a kernel of one
    element, below which no call can be.  A matrix roof is what was reached under this board's power cap, so a better
    kernel may exceed it.
    """
    roofs = {
        "copy_gbps": _copy_gbps(stopwatch),
        "read_gbps": _read_gbps(stopwatch),
        "matmul_bf16_tflops": _best_tflops(stopwatch, bf16_products),
    }
    if torch.cuda.get_device_capability() >= FP8_CAPABILITY:
        roofs["matmul_e4m3_tflops"] = _best_tflops(stopwatch, e4m3_products)
    one = torch.zeros(1, device="cuda")
    return {**roofs, "launch_us": _median_us(stopwatch, lambda: one.add_(1))}


def peer_gbps(stopwatch: Stopwatch) -> dict[str, float]:
    """Rates of copying 1 GiB to the next GPU and from it, by its copy engine, while no other GPU copies."""
    here = torch.empty(MEMORY_BYTES, dtype=torch.uint8, device="cuda:0").random_()
    there = torch.empty_like(here, device="cuda:1")
    ways: dict[str, Callable[[], Any]] = {"write": lambda: there.copy_(here), "read": lambda: here.copy_(there)}
    return {f"peer_{way}_gbps": MEMORY_BYTES / (_median_us(stopwatch, copy) * 1e3) for way, copy in ways.items()}


def bf16_products(size: int, device: str = "cuda") -> Iterator[Callable[[], torch.Tensor]]:
    """The product of two size x size matrices, out in bf16."""
    a, b = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    yield lambda: torch.matmul(a, b)


def e4m3_products(size: int, device: str = "cuda") -> Iterator[Callable[[], torch.Tensor]]:
    """The same in e4m3 with one scale a matrix and bf16 out, with and without the faster accumulation."""
    a, b = (torch.randn(size, size, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)
    for fast in (True, False):
        yield lambda fast=fast: torch._scaled_mm(  # type: ignore[misc]
            a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )


def _copy_gbps(stopwatch: Stopwatch) -> float:
    source = torch.empty(MEMORY_BYTES, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return 2 * MEMORY_BYTES / (_median_us(stopwatch, lambda: target.copy_(source)) * 1e3)


def _read_gbps(stopwatch: Stopwatch) -> float:
    """A sum of all, and a product of two halves: which of them comes nearer to the memory depends on the library."""
    values = torch.empty(MEMORY_BYTES // 4, device="cuda").normal_()
    left, right = values.chunk(2)
    calls: tuple[Callable[[], Any], ...] = (values.sum, lambda: torch.dot(left, right))
    return MEMORY_BYTES / (min(_median_us(stopwatch, call) for call in calls) * 1e3)


def _best_tflops(stopwatch: Stopwatch, products: Callable[[int], Iterator[Callable[[], torch.Tensor]]]) -> float:
    return max(2 * size**3 / (_median_us(stopwatch, call) * 1e6) for size in MATMUL_SIZES for call in products(size))


def _median_us(stopwatch: Stopwatch, call: Callable[[], Any]) -> float:
    samples = [stopwatch.sample(call, lambda: None).latency_us for _ in range(SAMPLES + 3)]
    return statistics.median(samples[3:])  # the first three warm up
