"""Checks of a problem that attention baselines share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from baselines.common import problems

DIRECTIONS = ("fwd", "bwd")


class AttentionProblem(Protocol):
    """The attributes of an attention problem that baselines read.

    q (B, H, N, D), k and v (B, Hkv, Nkv, D); causal: query i sees the keys j <= i + Nkv - N.
    """

    @property
    def B(self) -> int:  # noqa: N802
        """Sequences."""

    @property
    def H(self) -> int:  # noqa: N802
        """Query heads."""

    @property
    def Hkv(self) -> int:  # noqa: N802
        """Key heads."""

    @property
    def N(self) -> int:  # noqa: N802
        """Queries."""

    @property
    def Nkv(self) -> int:  # noqa: N802
        """Keys."""

    @property
    def D(self) -> int:  # noqa: N802
        """Head dimension."""

    @property
    def causal(self) -> bool:
        """Whether a query is kept from later keys."""

    @property
    def dtype(self) -> str:
        """Element type of all tensors."""

    @property
    def direction(self) -> str:
        """``fwd`` or ``bwd``."""


def scale(problem: AttentionProblem) -> float:
    """Factor of Q K^T, the default of every library."""
    return float(problem.D**-0.5)


def refuse(problem: AttentionProblem, device: str, *, devices: Sequence[str], name: str) -> str | None:
    """None if the problem is bf16 attention on one of ``devices``, else why ``name`` does not take it."""
    return problems.refuse(problem, device, devices=devices, name=name, directions=DIRECTIONS)


def refuse_head_dim(problem: AttentionProblem, *, multiple: int, largest: int, name: str) -> str | None:
    """None if D is a multiple of ``multiple`` up to ``largest``, else why ``name`` refuses."""
    if problem.D % multiple or problem.D > largest:
        return f"{name}: got D={problem.D}, it takes multiples of {multiple} up to {largest}"
    return None
