"""PyTorch's symmetric memory: `torch.ops.symm_mem`, whose kernels and copies read and write the memory of peers.

No operator that is called here uses NVLink multicast: `fused_all_gather_matmul` has such a way, and does not take it
where it is asked for the gathered rows too, as here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from baselines.common.baseline import TORCH, Baseline, Call, Inputs, Limits, options
from baselines.common.names import TK
from baselines.parallel.problem import CUBLAS, NCCL, CollectiveProblem, group

LIBRARY = replace(TORCH, name="symm_mem", foreign=(TK, NCCL))
TAKES = {
    "one_shot": ("all_reduce",),
    "two_shot": ("all_reduce",),
    "low_contention": ("all_gather", "reduce_scatter"),
}
"""What of the collectives each way has."""


class Collective(Baseline):
    """A collective; x is copied into symmetric memory in each call.

    Options:
        way: two_shot or one_shot, of all_reduce; low_contention, of all_gather and reduce_scatter, by copy engines.
    """

    library = LIBRARY
    choices = options(way=("two_shot", "one_shot", "low_contention"))

    def limits(self, problem: CollectiveProblem) -> Limits:
        way = self.options["way"]
        yield problem.op not in TAKES[way], f"got op={problem.op}, {way} is of {' and '.join(TAKES[way])}"

    def kernel_names(self, problem: CollectiveProblem) -> tuple[str, ...]:
        """The kernel that sums up; copy engines have none but the barrier."""
        way = self.options["way"]
        return ("barrier",) if way == "low_contention" else (f"{way}_all_reduce",)

    def prepare(self, problem: CollectiveProblem, inputs: Inputs) -> Call:
        """Bind x, with symmetric memory for it."""
        x, name, ops = inputs["x"], group().group_name, torch.ops.symm_mem
        if self.options["way"] == "low_contention":
            of = {"all_gather": lambda: ops._low_contention_all_gather(x, name)}
            of["reduce_scatter"] = lambda: ops._low_contention_reduce_scatter(x, "sum", name)
            return _waited(of[problem.op])
        shared = _symmetric(tuple(x.shape), name)
        if self.options["way"] == "one_shot":
            return lambda: ops.one_shot_all_reduce_copy(shared, x, "sum", name)
        return lambda: ops.two_shot_all_reduce_out(shared.copy_(x), "sum", name, torch.empty_like(x))


class GemmCollective(Baseline):
    """The fused operators of PyTorch's asynchronous tensor parallelism; gemm_ar is cuBLAS, then two-shot."""

    library = replace(LIBRARY, kernels=(CUBLAS,), foreign=("triton", TK, NCCL))

    def prepare(self, problem: CollectiveProblem, inputs: Inputs) -> Call:
        """Bind a and b."""
        a, b, name, ops = inputs["a"], inputs["b"], group().group_name, torch.ops.symm_mem
        if problem.op == "ag_gemm":
            return lambda: ops.fused_all_gather_matmul(a, [b], 0, name)[1][0]
        if problem.op == "gemm_rs":
            return lambda: ops.fused_matmul_reduce_scatter(a, b, "sum", 0, name)
        shared = _symmetric((problem.M, problem.N), name)

        def gemm_ar() -> Tensor:
            torch.matmul(a, b, out=shared)
            return ops.two_shot_all_reduce_out(shared, "sum", name, torch.empty_like(shared))

        return gemm_ar


def _waited(run: Callable[[], Tensor]) -> Call:
    """Such an operator works on a stream of its own, which the current one waits for."""
    return lambda: torch.ops._c10d_functional.wait_tensor(run())


@cache
def _symmetric(shape: tuple[int, ...], name: str) -> Tensor:
    """Memory of a bf16 tensor that all ranks of a group share, once a shape."""
    memory: Any = importlib.import_module("torch.distributed._symmetric_memory")
    shared: Tensor = memory.empty(shape, dtype=torch.bfloat16, device="cuda")
    memory.rendezvous(shared, name)
    return shared
