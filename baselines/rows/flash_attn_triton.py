"""flash-attn's Triton kernels for the rotary embedding and for dropout, addition and normalisation.

They need no CUDA build of the package, whose `__init__` does: they are imported under a bare parent module that has
the package's folder and has not run it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits
from baselines.common.gpu import FROM_AMPERE
from baselines.rows import names
from baselines.rows.problem import LayernormProblem, RotaryProblem

LIBRARY = Library(
    "flash_attn_triton",
    "FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE pip install --no-deps --no-build-isolation flash-attn==2.8.3",
    modules=("torch", "triton", "flash_attn"),
    packages=("flash-attn", "triton"),
    site="flash_attn",
    complaint="has no Triton kernels",
    gpus=FROM_AMPERE,
)
EPS = 1e-5


class Rotary(Baseline):
    """`apply_rotary`, which takes (B, N, H, D); of a problem with heads outside rows `prepare` makes a copy."""

    library = replace(
        LIBRARY,
        file="flash_attn/ops/triton/rotary.py",
        kernels=(names.FLASH_ATTN_ROTARY,),
        foreign=names.others(names.FLASH_ATTN_ROTARY),
    )

    def limits(self, problem: RotaryProblem) -> Limits:
        yield problem.D > 256, f"got D={problem.D}, its rotary kernel takes up to 256"

    def prepare(self, problem: RotaryProblem, inputs: Inputs) -> Call:
        """Bind the inputs in the library's layout, and compile."""
        apply = self.library.load("flash_attn.ops.triton.rotary", "flash_attn").apply_rotary
        cos, sin, interleaved = inputs["cos"], inputs["sin"], bool(problem.interleaved)
        heads_first = problem.layout == "bhnd"
        tensors = [inputs[name] for name in (("x",) if problem.tensors == 1 else ("q", "k"))]
        if heads_first:
            tensors = [tensor.transpose(1, 2).contiguous() for tensor in tensors]

        def turned(tensor: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = apply(tensor, cos, sin, interleaved=interleaved)
            return out.transpose(1, 2) if heads_first else out

        def call() -> Any:
            return turned(tensors[0]) if len(tensors) == 1 else tuple(turned(tensor) for tensor in tensors)

        call()
        return call


class DropoutAddLayernorm(Baseline):
    """`layer_norm_fn` with a residual: its own autotuned kernel, which draws its seeds with a kernel of PyTorch's."""

    library = replace(
        LIBRARY,
        file="flash_attn/ops/triton/layer_norm.py",
        kernels=(names.FLASH_ATTN_LAYER_NORM,),
        foreign=names.others(names.FLASH_ATTN_LAYER_NORM),
    )

    def limits(self, problem: LayernormProblem) -> Limits:
        yield 2 * problem.D > 65536, f"got D={problem.D}, it takes rows of up to 65536 bytes"

    def prepare(self, problem: LayernormProblem, inputs: Inputs) -> Call:
        """Bind the inputs, tune and compile."""
        normalise = self.library.load("flash_attn.ops.triton.layer_norm", "flash_attn").layer_norm_fn
        x, residual, weight, bias = (inputs[name] for name in ("x", "residual", "weight", "bias"))
        p = float(problem.p)

        def call() -> Any:
            return normalise(x, weight, bias, residual=residual, eps=EPS, dropout_p=p, prenorm=True)

        call()
        return call
