"""NCCL through `torch.distributed`, alone and behind or before cuBLAS. On CPU tensors the same calls are gloo's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, distributed

from baselines.common.baseline import TORCH, Baseline, Call, Inputs, Limits, options
from baselines.common.names import TK
from baselines.parallel.problem import CUBLAS, NCCL, CollectiveProblem, group

GATHER = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
SCATTER = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
"""By their names of later versions and of earlier ones."""
LIBRARY = replace(TORCH, name="nccl", kernels=(NCCL,), foreign=(TK, "all_reduce_kernel"))


class _Nccl(Baseline):
    library = LIBRARY
    devices = ("cuda", "cpu")

    def version(self) -> str:
        """PyTorch's version with NCCL's, or that it is gloo."""
        if not distributed.is_nccl_available():
            return f"torch {torch.__version__}, its gloo"
        return f"torch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}"


class Collective(_Nccl):
    """A collective; all_reduce works in place, on a copy of x that is made in each call.

    Options:
        symmetric: 1 has x copied into registered memory and the result in such, so that NCCL's symmetric kernels run.
    """

    choices = options(symmetric=(0, 1))

    def limits(self, problem: CollectiveProblem) -> Limits:
        symmetric = self.options["symmetric"]
        yield symmetric and not torch.cuda.is_available(), "got symmetric=1, which is of GPUs alone"
        yield symmetric and problem.op == "all_to_all", "got op=all_to_all, NCCL has no symmetric kernel of it"

    def prepare(self, problem: CollectiveProblem, inputs: Inputs) -> Call:
        """Bind x; with symmetric=1, register memory for it and for the result."""
        x, shape = inputs["x"], (problem.M // (problem.W if problem.op == "reduce_scatter" else 1), problem.N)
        run = {
            "all_reduce": lambda out, given: distributed.all_reduce(out),
            "all_gather": GATHER,
            "reduce_scatter": SCATTER,
            "all_to_all": distributed.all_to_all_single,
        }[problem.op]
        group()
        if self.options["symmetric"]:
            return _registered(run, x, shape, problem.op)
        if problem.op == "all_reduce":
            return lambda: _given(run, x.clone(), x)
        return lambda: _given(run, x.new_empty(shape), x)


class GemmCollective(_Nccl):
    """`torch.matmul` and a collective, one after the other."""

    library = replace(LIBRARY, name="nccl_cublas", kernels=(NCCL, CUBLAS), foreign=("triton", TK))

    def prepare(self, problem: CollectiveProblem, inputs: Inputs) -> Call:
        """Bind a and b."""
        a, b = inputs["a"], inputs["b"]
        group()

        def ag_gemm() -> Tensor:
            whole = _given(GATHER, a.new_empty((problem.M, problem.K)), a)
            return torch.matmul(whole, b)

        def gemm_rs() -> Tensor:
            product = torch.matmul(a, b)
            out = product.new_empty((problem.M // problem.W, problem.N))
            return _given(SCATTER, out, product)

        def gemm_ar() -> Tensor:
            product = torch.matmul(a, b)
            distributed.all_reduce(product)
            return product

        return {"ag_gemm": ag_gemm, "gemm_rs": gemm_rs, "gemm_ar": gemm_ar}[problem.op]


def _given(run: Callable[..., Any], out: Tensor, x: Tensor) -> Tensor:
    run(out, x)
    return out


def _registered(run: Callable[..., Any], x: Tensor, shape: tuple[int, ...], op: str) -> Call:
    given, out = _memory(tuple(x.shape), shape)

    def call() -> Tensor:
        (out if op == "all_reduce" else given).copy_(x)
        run(out, given)
        return out

    return call


@cache
def _memory(given: tuple[int, ...], out: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Memory of two bf16 tensors that is registered on all ranks, once a pair of shapes."""
    backend: Any = group()._get_backend(torch.device("cuda"))
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        pair = tuple(torch.empty(shape, dtype=torch.bfloat16, device="cuda") for shape in (given, out))
    backend.register_mem_pool(pool, symm=True)
    _pools.append(pool)
    return pair[0], pair[1]


_pools: list[Any] = []  # which keep their memory registered
