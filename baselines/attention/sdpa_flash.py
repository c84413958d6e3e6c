"""FlashAttention-2 as PyTorch carries it: the flash backend of `scaled_dot_product_attention`.

The paper's "FA2" is this one. On CPU tensors the same call is PyTorch's own CPU attention. It serves there as a second
implementation to verify against, and `Attention.version` says what it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from baselines.attention import names, sdpa
from baselines.attention.problem import DIRECTIONS, AttentionProblem, head_dim, no_window
from baselines.common.autograd import autograd_call
from baselines.common.baseline import TORCH, Baseline, Call, Inputs, Limits, options
from baselines.common.gpu import FROM_AMPERE


class Attention(Baseline):
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    The kernels want (B, N, H, D) memory: SDPA hands them transposed views, and its backward copies an incoming
    gradient that lies otherwise. All tensors are given so, as a transformer's projections leave them.

    Options:
        layout: "bnhd" (the memory that the kernels want), or "bhnd", the (B, H, N, D) tensors as they are.
    """

    # PyTorch's build of FlashAttention-2 is in a namespace of its own; few blocks of queries take split-KV.
    library = replace(
        TORCH,
        name="sdpa_flash",
        gpus=FROM_AMPERE,
        kernels=(r"pytorch_flash.*flash_fwd",),
        backward=(r"pytorch_flash.*flash_bwd",),
        foreign=names.others(names.SDPA_FLASH),
    )
    choices = options(layout=("bnhd", "bhnd"))
    devices = ("cuda", "cpu")
    directions = DIRECTIONS

    def version(self) -> str:
        """PyTorch's version, which decides FlashAttention's."""
        if torch.version.cuda is None:
            return f"torch {torch.__version__}, its CPU attention (a build without CUDA, no FlashAttention-2)"
        return f"torch {torch.__version__}, SDPA flash backend (FlashAttention-2)"

    def limits(self, problem: AttentionProblem) -> Limits:
        yield head_dim(problem, 256)
        yield no_window(problem)
        queries = f"got N={problem.N} queries on Nkv={problem.Nkv} keys, PyTorch's causal mask needs N <= Nkv"
        yield problem.causal and problem.N > problem.Nkv, queries

    def supports(self, problem: Any, device: str) -> str | None:
        """Causal problems whose mask PyTorch can align to the bottom right; on the CPU, square ones."""
        reason = super().supports(problem, device)
        if reason is None and device == "cpu" and problem.causal and problem.N != problem.Nkv:
            got = f"got N={problem.N} and Nkv={problem.Nkv}"
            reason = f"{self.name}: {got}, PyTorch's CPU attention is causal for N = Nkv"
        return reason

    def prepare(self, problem: AttentionProblem, inputs: Inputs) -> Call:
        """`scaled_dot_product_attention`, or its backward operator on what one forward pass has left."""
        q, k, v, *rest = sdpa.arranged(inputs, self.options["layout"])
        if problem.direction == "fwd":
            return sdpa.forward_call(problem, SDPBackend.FLASH_ATTENTION, q, k, v)
        if not q.is_cuda:  # the CPU's backward operator takes no grouped queries
            leaves = (q.detach().clone(), k.detach().clone(), v.detach().clone())
            backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
            return autograd_call(sdpa.forward_call(problem, backends, *leaves), leaves, rest[0])
        return backward_call(problem, q, k, v, rest[0])


def backward_call(
    problem: AttentionProblem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor
) -> Call:
    """The backward operator; for it, as for the forward one, causal means aligned to the bottom right."""
    aten = torch.ops.aten
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, problem.causal
    )
    arguments = (q, k, v, out, lse, cum_q, cum_k, max_q, max_k, 0.0, problem.causal, seed, offset)
    return lambda: aten._scaled_dot_product_flash_attention_backward(dout, *arguments)
