"""mamba_ssm's scan inside a whole Mamba-2 model, which the problem brings, compiled around it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from torch import Tensor

from baselines.common.baseline import Baseline, Call, Inputs, options
from baselines.linear import names
from baselines.linear.mamba_ssm import LIBRARY, import_kernels, short_kernels


class Mamba2Prefill(Baseline):
    """A prompt's prefill; its kernels tune themselves at the first call, their lists cut as for the scan alone.

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
def _scan_of(chunk: int) -> Any:
    """The library's scan, one function for all calls, so that a model with it in is compiled once."""
    library = import_kernels()
    short_kernels()

    def scan(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, bias: Tensor) -> Any:
        return library.mamba_chunk_scan_combined(x, dt, A, B, C, chunk, D=D, dt_bias=bias, dt_softplus=True)

    return scan
