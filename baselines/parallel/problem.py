"""What baselines of several ranks read of a problem, and the group that they find."""

from __future__ import annotations

from typing import Any, Protocol

from torch import distributed

NCCL, CUBLAS = "nccl", "nvjet|gemm"
"""Kernels as the profiler names them."""


class CollectiveProblem(Protocol):
    """`op` of W ranks on an (M, N) matrix, or on the products of their (M, K) and (K, N) ones."""

    op: str
    W: int
    M: int
    N: int
    K: int


def group() -> Any:
    """The default process group, which has the problem's W ranks; raises `RuntimeError` without one."""
    if not distributed.is_initialized():
        raise RuntimeError("torch.distributed is not initialised: a problem of W > 1 ranks has it")
    return distributed.group.WORLD
