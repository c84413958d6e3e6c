"""`tune`: the fastest of the kernels of a matrix product, timed once for a problem on a GPU and kept in the cache."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
import os
import random
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...ops.library import target_on
from .options import AUTOMATIC, Encoded, encode_options

SCREENED, TIMED, LEFT, TUNINGS = 5, 21, 6, 3
"""Rounds of all kernels, of the choice by shape and the fastest, how many those are, and how often they are timed."""
NOISE = 0.01
"""By which a kernel has to be faster than the choice by shape."""
FLUSHED, SPIN = 100 << 20, 100_000
"""Bytes that are written before each call, more than an L2 holds, and clocks that a stream waits for the host."""
KERNEL = (
    r"tile ((\d+)x(\d+)) stages \d+ cluster (\dx\d) (cooperative|pingpong|swapped|by_warps)( divided)?( promotion \d+)?"
)

_log = logging.getLogger("tk_kernels")
_chosen: dict[tuple[Any, ...], dict[str, Any]] = {}
latest: dict[str, Any] = {}
"""What is kept of the choice that was asked for last: `options`, `us` of what was left in the end, and `seconds`."""


def tuned(kernel: str, matrices: Mapping[str, Tensor], rest: tuple[Any, ...], run: Callable[[Encoded], Any]) -> Encoded:
    """The options with which `run` is the fastest on these operands; by shape on a CPU, whose kernels nobody times.

    What was found is kept, by the kernel's sources, the GPU's name, and the shapes and strides of all operands. Raises
    RuntimeError where it is not known and the stream is being captured.
    """
    a, b, out = matrices.values()
    device = out.device
    gpu = gpu_name(device)
    if not gpu:
        return AUTOMATIC
    operands = (*((*one.shape, *one.stride()) for one in (a, b)), *map(_described, (out, *rest)))
    known = (kernel, device.index, target_on(device), operands)
    if known not in _chosen:
        key = f"{kernel} {sources(kernel, target_on(device))} {gpu} {operands}"
        _chosen[known] = kept(key) or keep(key, *_measured(a.shape[0], out.shape[1], a.shape[1], device, run))
    latest.clear()
    latest.update(_chosen[known])
    options: Encoded = _chosen[known]["options"]
    return options


@functools.cache
def gpu_name(device: torch.device) -> str:
    """That of a GPU; empty for a CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def _described(argument: Any) -> Any:
    """What a choice depends on of an argument."""
    return (str(argument.dtype), *argument.shape) if isinstance(argument, Tensor) else argument


@functools.cache
def sources(kernel: str, target: str) -> str:
    """The hash of what the kernel is built from: a choice among kernels that have changed since is none."""
    from ... import toolchain

    return toolchain.source_hash(toolchain.find_unit(kernel), toolchain.find_target(target))[:16]


def place(key: str) -> Path:
    """The file in the cache that holds a choice."""
    from ...toolchain.store import cache_root

    return cache_root() / "tuned" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def kept(key: str) -> dict[str, Any] | None:
    """The choice that is kept for a key; None, with a warning unless there is no file, where none can be read."""
    path = place(key)
    try:
        found = dict(json.loads(path.read_text()))
        options, _, _ = (found[part] for part in ("options", "us", "seconds"))
        if found["key"] != key:
            raise ValueError("it is of another problem")
        if len(options) != len(AUTOMATIC) or any(type(one) is not int for one in options):
            raise ValueError(f"options are {options!r}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s: is no choice of a kernel (%s: %s); timing again", path, type(error).__name__, error)
        return None
    return {**found, "options": tuple(options)}


def keep(key: str, options: Encoded, times: Mapping[str, float], seconds: float) -> dict[str, Any]:
    """Write a choice, whole or not at all: processes may do so at once, and the last one's stays."""
    path, choice = place(key), {"key": key, "options": options, "us": times, "seconds": seconds}
    aside = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(choice))
        aside.replace(path)
    except OSError as error:
        _log.warning("%s: cannot be written (%s); the kernel is timed again by the next process", path, error)
    return choice


def _measured(
    M: int, N: int, K: int, device: torch.device, run: Callable[[Encoded], Any]
) -> tuple[Encoded, dict[str, float], float]:
    """The fastest options, the times of what was left in the end, and the seconds that it took."""
    began = time.perf_counter()
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("tune: this problem was never timed, which a CUDA graph cannot record; call it once before")
    given = [{}, *forced(M, N, K, listed(lambda: run(encode_options(tile="1x1"))))]
    encoded = [encode_options(**options) for options in given]
    flush = torch.empty(FLUSHED, dtype=torch.int8, device=device)
    times = timed([functools.partial(run, one) for one in encoded], flush)
    places = list(times)
    chosen = places[fastest(list(times.values()))]
    told = {str(given[at] or "by shape"): us for at, us in times.items()}
    return encoded[chosen], told, round(time.perf_counter() - began, 2)


def fastest(times: Sequence[float]) -> int:
    """The place of the least time; the first, the choice by shape, unless another is faster by more than noise."""
    return min(range(len(times)), key=lambda at: times[at] if at else times[at] * (1 - NOISE))


def listed(refused: Callable[[], Any]) -> list[str]:
    """The names of the kernels that are built, from the refusal of a tile that is not.

    Without those that are there for tables of the paper.
    """
    try:
        refused()
    except ValueError as refusal:
        lines = [line.strip() for line in str(refusal).splitlines()[1:]]
        return [line for line in lines if not re.search(r"128x256 stages [123]|128x128 stages 4", line)]
    raise AssertionError("a tile of 1x1 is built")


def forced(M: int, N: int, K: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Options of each of the named kernels and splits that are no waste on the problem."""
    for kernel in names:
        found = re.fullmatch(KERNEL, kernel)
        if found is None:
            continue
        tile, tile_m, tile_n, cluster, schedule, divided, _ = found.groups()
        rows, tiles = int(tile_m), math.ceil(M / int(tile_m)) * math.ceil(N / int(tile_n))
        options: dict[str, Any] = {"tile": tile, "cluster": cluster, "schedule": schedule}
        if schedule == "swapped":
            if 4 * rows >= M and (rows < 2 * M or rows <= 48):
                yield from ({**options, "split": split} for split in range(1, 9) if split == 1 or tiles * split <= 280)
        elif (rows <= 128 or M > 128) and (rows <= 64 or M > 24):
            splits = (2, 3, 4, 5, 6, 8) if divided else (None,) if schedule == "by_warps" else (1,)
            yield from ({**options, "split": split} for split in splits)


def timed(calls: Sequence[Callable[[], Any]], flush: Tensor) -> dict[int, float]:
    """The times, us, of the first call and of the fastest of the others, by their places among `calls`.

    Each is the least of three medians: what one tuning of short calls finds is partly luck.
    """
    screened = rounds(calls, SCREENED, flush)
    left = [0, *sorted(range(1, len(calls)), key=screened.__getitem__)[:LEFT]]
    tunings = [rounds([calls[at] for at in left], TIMED, flush) for _ in range(TUNINGS)]
    return dict(zip(left, map(min, *tunings), strict=True))


def rounds(calls: Sequence[Callable[[], Any]], count: int, flush: Tensor) -> list[float]:
    """The median time of each call, us, in so many rounds of random order; `flush` is written before each."""
    took: list[list[float]] = [[] for _ in calls]
    draw = random.Random(0)
    for _ in range(count):
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in calls]
        for at in draw.sample(range(len(calls)), len(calls)):
            flush.zero_()
            torch.cuda._sleep(SPIN)  # the host is ahead: operators take it tens of microseconds
            pairs[at][0].record()
            calls[at]()
            pairs[at][1].record()
        torch.cuda.synchronize(flush.device)
        for times, (start, stop) in zip(took, pairs, strict=True):
            times.append(1e3 * start.elapsed_time(stop))
    return [statistics.median(one) for one in took]
