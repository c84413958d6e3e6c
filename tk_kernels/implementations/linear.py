"""The linear attentions as a harness wants them."""

from __future__ import annotations

from typing import Any

from .. import toolchain
from .kernel import Kernel


class Linear(Kernel):
    """What the four share: the option `segments`, which forces into how many parts each sequence is cut."""

    options = ("segments",)
    most = (("segments", 64),)
    foreign = ("chunk_fwd", "based_fwd", "_chunk_scan", "flash", "fmha")


class Based(Linear):
    """`tk.based`: q, k, v -> out, or (out, s0, s1, s2[, z0, z1, z2])."""

    name = "based"
    sizes = (("F", "feature dim", (16,)), ("D", "value dim", (64,)))


class Hedgehog(Linear):
    """`tk.hedgehog`: q, k, v, maps and factors -> out, or (out, k_state, kv_state)."""

    name = "hedgehog"
    sizes = (("D", "head dim", (128,)), ("F", "feature dim", (64,)))

    def unit(self, target: str, direction: str = "fwd") -> str:
        """Without a copy engine it is a kernel of its own."""
        return self.name if toolchain.TARGETS[target].copy_engine else "hedgehog_warps"


class LinearAttention(Linear):
    """`tk.linear_attention` with no decay, one of each head or one of each step -> out, or (out, final_state)."""

    name = "linear_attention"
    sizes = (("D", "head dims", (64, 128)),)


class Mamba2(Linear):
    """`tk.mamba2` at the raw boundary, `tk.linear_attention` of scale 1 at the prepared one: one kernel."""

    name = "linear_attention"
    workload = "mamba2"
    sizes = (("P", "head dim", (64,)), ("S", "state dims", (64, 128)))

    def operator(self, problem: Any) -> str:
        """By the boundary, which says what the inputs are."""
        return self.name if problem.boundary == "prepared" else self.workload
