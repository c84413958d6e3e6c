"""FlashAttention-2 as PyTorch carries it: the flash backend of ``scaled_dot_product_attention``.

The paper's "FA2" is this one. On CPU tensors the same call is PyTorch's own CPU attention. It serves there as a second
implementation to verify against, and `Attention.version` says what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.attention import names, sdpa
from baselines.attention.problem import AttentionProblem, refuse, refuse_head_dim
from baselines.common.gpu import AMPERE, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.sites import missing

if TYPE_CHECKING:
    import torch

MAX_HEAD_DIM = 256
FORWARD = r"pytorch_flash.*flash_fwd"
BACKWARD = r"pytorch_flash.*flash_bwd"


class Attention:
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    The kernels want (B, N, H, D) memory: SDPA hands them transposed views, and its backward copies an incoming
    gradient that lies otherwise. All tensors are given so, as a transformer's projections leave them.

    Options:
        layout: "bnhd" (the memory that the kernels want), or "bhnd", the (B, H, N, D) tensors as they are.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("sdpa_flash", options, {"layout": sdpa.LAYOUTS}, {"layout": "bnhd"})

    def available(self) -> str | None:
        """None, or how to install PyTorch."""
        return missing(["torch"], "pip install torch")

    def version(self) -> str:
        """PyTorch's version, which decides FlashAttention's."""
        import torch

        if torch.version.cuda is None:
            return f"torch {torch.__version__}, its CPU attention (a build without CUDA, no FlashAttention-2)"
        return f"torch {torch.__version__}, SDPA flash backend (FlashAttention-2)"

    def supports(self, problem: AttentionProblem, device: str) -> str | None:
        """Causal problems whose mask PyTorch can align to the bottom right; on the CPU, square ones."""
        name = "sdpa_flash"
        reason = refuse(problem, device, devices=("cuda", "cpu"), name=name)
        reason = reason or refuse_head_dim(problem, multiple=8, largest=MAX_HEAD_DIM, name=name)
        if reason is None and problem.causal and problem.N > problem.Nkv:
            reason = (
                f"{name}: got N={problem.N} queries on Nkv={problem.Nkv} keys, PyTorch's causal mask needs N <= Nkv"
            )
        if reason is None and device == "cpu" and problem.causal and problem.N != problem.Nkv:
            reason = f"{name}: got N={problem.N} and Nkv={problem.Nkv}, PyTorch's CPU attention is causal for N = Nkv"
        if reason is None and device == "cuda":
            reason = refuse_other_gpus(name, least=AMPERE)
        return reason

    def kernel_names(self, problem: AttentionProblem) -> tuple[str, ...]:
        """PyTorch's build of FlashAttention-2 is in a namespace of its own; few blocks of queries take split-KV."""
        return (FORWARD,) if problem.direction == "fwd" else (BACKWARD,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Attention kernels of everyone else."""
        return names.others(names.SDPA_FLASH)

    def prepare(self, problem: AttentionProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """``scaled_dot_product_attention``, or its backward operator on what one forward pass has left."""
        from torch.nn.attention import SDPBackend

        q, k, v, *rest = sdpa.arranged(inputs, self._options["layout"])
        if problem.direction == "fwd":
            return sdpa.forward_call(problem, SDPBackend.FLASH_ATTENTION, q, k, v)
        if not q.is_cuda:  # the CPU's backward operator takes no grouped queries
            leaves = (q.detach().clone(), k.detach().clone(), v.detach().clone())
            backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
            return sdpa.autograd_call(sdpa.forward_call(problem, backends, *leaves), leaves, rest[0])
        return backward_call(problem, q, k, v, rest[0])


def backward_call(
    problem: AttentionProblem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor
) -> Callable[[], tuple[torch.Tensor, ...]]:
    """The backward operator; for it, as for the forward one, causal means aligned to the bottom right."""
    import torch

    aten = torch.ops.aten
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, problem.causal
    )
    arguments = (q, k, v, out, lse, cum_q, cum_k, max_q, max_k, 0.0, problem.causal, seed, offset)
    return lambda: aten._scaled_dot_product_flash_attention_backward(dout, *arguments)
