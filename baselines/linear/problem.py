"""What the baselines of the linear attentions read of a problem, and what more they ask of it."""

from __future__ import annotations

from typing import Any, Protocol

from baselines.common.baseline import Limits

DIRECTIONS = ("fwd", "bwd")


class LinearProblem(Protocol):
    """What the four problems have in common: B sequences, H heads, N rows; causal.

    Backward there is the output's gradient too, dout, or dy at Mamba-2's raw boundary.
    """

    direction: str
    B: int
    H: int
    N: int


class BasedProblem(LinearProblem, Protocol):
    """q, k (B, H, N, F), v (B, H, N, D); weights 1 + s + s^2 / 2, s = q.k / sqrt(F)."""

    F: int
    D: int
    normalize: bool
    return_state: bool


HEDGEHOG = ("q", "k", "v", "q_map", "k_map", "alpha", "beta")
"""Hedgehog's inputs."""


class HedgehogProblem(LinearProblem, Protocol):
    """q, k, v (B, H, N, D), q_map, k_map (H, D, F), alpha, beta (H,)."""

    D: int
    F: int
    return_state: bool


class LinearAttentionProblem(LinearProblem, Protocol):
    """q, k, v (B, H, N, D); `decay` is none, head or step, and log_decay absent, (H,) or (B, H, N).

    A decay of a head has no gradient.
    """

    D: int
    decay: str
    scale: float
    return_final_state: bool


class Mamba2Problem(LinearProblem, Protocol):
    """`boundary` is raw or prepared.

    raw: x (B, N, H, P), dt (B, N, H), A (H,), B, C (B, N, G, S).
    prepared: q, k (B, G, N, S), v (B, H, N, P), log_decay (B, H, N), scale 1.
    """

    P: int
    S: int
    G: int
    boundary: str
    return_final_state: bool


def no_state(problem: Any, since: str = "") -> Limits:
    """It returns no state."""
    for key in ("return_state", "return_final_state"):
        yield getattr(problem, key, False), f"{since}got {key}=1, it returns no state"
