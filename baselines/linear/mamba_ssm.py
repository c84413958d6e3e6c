"""mamba_ssm: the Triton kernels of Mamba-2's authors, without the CUDA extension of the package.

`import mamba_ssm` needs that extension; its Triton modules do not. They are imported under a bare parent module that
has the package's folder and has not run its `__init__`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from torch import Tensor

from baselines.common.autograd import gradient_call
from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits, options
from baselines.common.gpu import FROM_AMPERE
from baselines.linear import names
from baselines.linear.problem import DIRECTIONS, Mamba2Problem
from baselines.linear.triton_autotune import shorten, sizes, tuned_call

LIBRARY = Library(
    "mamba_ssm",
    "MAMBA_SKIP_CUDA_BUILD=TRUE MAMBA_FORCE_BUILD=TRUE "
    "pip install --no-deps --no-build-isolation mamba-ssm==2.3.2.post1",
    modules=("torch", "triton", "einops", "mamba_ssm"),
    packages=("mamba-ssm", "triton"),
    file="mamba_ssm/ops/triton/ssd_combined.py",
    complaint="has no Triton kernels of Mamba-2",
    gpus=FROM_AMPERE,
    # In the order in which they run.
    kernels=tuple(
        f"_{kernel}_fwd_kernel"
        for kernel in ("chunk_cumsum", "chunk_state", "state_passing", "bmm_chunk", "chunk_scan")
    ),
    backward=(
        *("_chunk_scan_bwd_dstates", "_state_passing_bwd", "_chunk_scan_chunk_state_bwd_dx", "_chunk_state_bwd_db"),
        *("_chunk_scan_bwd_dc", "_chunk_scan_bwd_dcb", "_bmm_chunk_bwd", "_chunk_cumsum_bwd"),
    ),
    foreign=names.others(names.MAMBA_SSM),
)
CHUNKS = (64, 128, 256)
"""Chunk sizes tried for "auto"."""

TILES = ((128, 64), (64, 128), (64, 64), (64, 32))
"""Tiles (rows, columns) kept of the library's lists: heads and states of 64 leave larger ones half empty."""


class Mamba2(Baseline):
    """`mamba_chunk_scan_combined` on its own layouts, which are those of the raw boundary.

    It computes A dt and its sums itself, so a problem whose decays and values are prepared has no counterpart.
    Backward through its own autograd function.

    Options:
        chunk: chunk size, or "auto" for the fastest of `CHUNKS`.
    """

    library = LIBRARY
    choices = options(chunk=("auto", 32, 64, 128, 256))
    directions = DIRECTIONS

    def limits(self, problem: Mamba2Problem) -> Limits:
        got = f"got boundary={problem.boundary}"
        yield problem.boundary != "raw", f"{got}, it prepares decays and values itself: boundary=raw"

    def prepare(self, problem: Mamba2Problem, inputs: Inputs) -> Call:
        """Tune for this shape unless that was done, then bind the inputs as they are."""
        library = import_kernels()
        state = bool(problem.return_final_state)

        def scan(given: Inputs, chunk: int) -> Tensor:
            x, dt, a, b, c = (given[name] for name in ("x", "dt", "A", "B", "C"))
            out: Tensor = library.mamba_chunk_scan_combined(x, dt, a, b, c, chunk, return_final_states=state)
            return out

        def make(chunk: int) -> Call:
            if problem.direction == "bwd":
                return gradient_call(lambda given: scan(given, chunk), inputs)
            return lambda: scan(inputs, chunk)

        key = (problem.direction, problem.B, problem.H, problem.N, problem.P, problem.S, problem.G)
        return tuned_call(self, key, short_kernels(), make, sizes(self.options["chunk"], CHUNKS))


class Mamba2Prefill(Baseline):
    """The same scan inside a whole model, which the problem brings, compiled around it; it tunes itself at first.

    Options:
        chunk: chunk size; released models have 256.
    """

    library = replace(LIBRARY, foreign=names.others(names.MAMBA_SSM, names.INDUCTOR))
    choices = options(chunk=(256, 64, 128))

    def prepare(self, problem: Any, inputs: Inputs) -> Call:
        """The problem's call with the library's scan."""
        call: Call = problem.bind(inputs, scan=_scan_of(self.options["chunk"]))
        return call


@cache
def _scan_of(chunk: int) -> Callable[..., Any]:
    """The library's scan, one function for all calls, so that a model with it in is compiled once."""
    library = import_kernels()
    short_kernels()

    def scan(*operands: Any) -> Any:
        *given, skip, bias = operands
        return library.mamba_chunk_scan_combined(*given, chunk, D=skip, dt_bias=bias, dt_softplus=True)

    return scan


_CHUNK_STATE_BACKWARD = ("_chunk_cumsum_bwd_kernel", "_chunk_state_bwd_db_kernel")
_CHUNK_SCAN_BACKWARD = tuple(f"_chunk_scan_bwd_{what}_kernel" for what in ("dstates", "dc", "dcb", "ddAcs_stable"))


def import_kernels() -> Any:
    """The module of the combined kernels, without running the package's own `__init__`."""
    return LIBRARY.load("mamba_ssm.ops.triton.ssd_combined", "mamba_ssm")


def short_kernels() -> tuple[Any, ...]:
    """The library's kernels that are tuned, lists of tiles cut to `TILES`."""
    names = {
        "ssd_chunk_state": ("_chunk_cumsum_fwd_kernel", "_chunk_state_fwd_kernel", *_CHUNK_STATE_BACKWARD),
        "ssd_state_passing": ("_state_passing_fwd_kernel", "_state_passing_bwd_kernel"),
        "ssd_bmm": ("_bmm_chunk_fwd_kernel", "_bmm_chunk_bwd_kernel"),
        "ssd_chunk_scan": ("_chunk_scan_fwd_kernel", *_CHUNK_SCAN_BACKWARD),
        "ssd_combined": ("_chunk_scan_chunk_state_bwd_dx_kernel",),
    }
    kernels = []
    for module, own in names.items():
        loaded = importlib.import_module(f"mamba_ssm.ops.triton.{module}")
        kernels += [getattr(loaded, name) for name in own]
    for kernel in kernels:
        shorten(kernel, _is_short)
    return tuple(kernels)


def _is_short(config: Any) -> bool:
    sizes = config.kwargs
    if "BLOCK_SIZE_M" in sizes:
        return (sizes["BLOCK_SIZE_M"], sizes["BLOCK_SIZE_N"]) in TILES
    return sizes.get("BLOCK_SIZE_H", 4) in (4, 8, 16) and sizes.get("BLOCK_SIZE", 512) in (256, 512, 1024)
