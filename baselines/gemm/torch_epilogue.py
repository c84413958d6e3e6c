"""Plain PyTorch for a matrix product and what follows it, eager or under `torch.compile`."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from baselines.common.baseline import Call, Inputs
from baselines.common.compiled import MAX_AUTOTUNE
from baselines.common.plain_torch import PlainTorch
from baselines.gemm.names import CUBLAS_KERNELS


class EpilogueProblem(Protocol):
    """C (M, N) = epilogue(A (M, K) B (K, N)), `epilogue` bias_gelu, bias_gelu_tanh or gate_residual."""

    M: int
    N: int
    K: int
    epilogue: str


class GemmEpilogue(PlainTorch):
    """`addmm` and `gelu`, or a product, a multiplication and an addition.

    Eager, cuBLAS multiplies (and adds the bias) and PyTorch's kernels do the rest. Compiled with max-autotune, Inductor
    fuses the rest into one kernel, or into a Triton template of the product where that is faster.

    Options:
        compiled: 1 compiles it for exactly this shape, with max-autotune.
    """

    mode = MAX_AUTOTUNE

    def kernel_names(self, problem: EpilogueProblem) -> tuple[str, ...]:
        """One of cuBLAS's families; compiled, a Triton template may take its place."""
        return (f"triton|{CUBLAS_KERNELS}" if self.compiled else CUBLAS_KERNELS,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """This project's kernels; eager, all of Triton's too."""
        return ("kittens", *(() if self.compiled else ("triton",)))

    def prepare(self, problem: EpilogueProblem, inputs: Inputs) -> Call:
        """Bind a, b and the epilogue's tensors; compiled, compile and run once."""
        if problem.epilogue == "gate_residual":
            return self.bind(_gate_residual, *(inputs[name] for name in ("a", "b", "gate", "residual")))
        approximate = {"bias_gelu": "none", "bias_gelu_tanh": "tanh"}[problem.epilogue]
        return self.bind(_bias_gelu, *(inputs[name] for name in ("a", "b", "bias")), approximate=approximate)


def _bias_gelu(a: Tensor, b: Tensor, bias: Tensor, *, approximate: str) -> Tensor:
    return torch.nn.functional.gelu(torch.addmm(bias, a, b), approximate=approximate)


def _gate_residual(a: Tensor, b: Tensor, gate: Tensor, residual: Tensor) -> Tensor:
    return torch.addcmul(residual, gate, a @ b)
