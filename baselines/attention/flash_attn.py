"""FlashAttention-2 as its authors publish it: the flash-attn package, where its CUDA build is present.

PyTorch's SDPA contains the same kernels (`baselines.attention.sdpa_flash`); this row measures the package itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.attention import names
from baselines.attention.problem import AttentionProblem, refuse, refuse_head_dim, scale
from baselines.common.gpu import AMPERE, refuse_other_gpus
from baselines.common.layouts import head_major, token_major
from baselines.common.options import chosen
from baselines.common.sites import distribution_version, find, holds, use_site

if TYPE_CHECKING:
    import torch

INSTALL = "pip install --no-build-isolation flash-attn==2.8.3"
MAX_HEAD_DIM = 256

# The namespace `flash`, demangled or mangled; `pytorch_flash` is PyTorch's copy.
FORWARD = r"(?<!pytorch_)flash(::|\d+)flash_fwd"
BACKWARD = r"(?<!pytorch_)flash(::|\d+)flash_bwd"


class Attention:
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    The library reads and writes (B, N, H, D); the copies of the inputs are made in `prepare`.

    Options:
        deterministic: 1 asks for gradients that are equal bit by bit from run to run.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("flash_attn", options, {"deterministic": (0, 1)}, {"deterministic": 0})

    def available(self) -> str | None:
        """None, or how to install the library with its CUDA kernels."""
        reason = find("flash_attn", ["torch", "flash_attn", "flash_attn_2_cuda"], INSTALL)
        if reason is None and not holds("flash_attn", "flash_attn_interface.py"):
            reason = f"flash_attn here is another package's, which a process keeps; flash-attn: {INSTALL}"
        return reason

    def version(self) -> str:
        """Version of the library."""
        use_site("flash_attn")
        return f"flash-attn {distribution_version('flash-attn')}"

    def supports(self, problem: AttentionProblem, device: str) -> str | None:
        """Any bf16 problem; its causal mask is aligned to the bottom right."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_attn")
        reason = reason or refuse_head_dim(problem, multiple=8, largest=MAX_HEAD_DIM, name="flash_attn")
        return reason or refuse_other_gpus("flash_attn", least=AMPERE)

    def kernel_names(self, problem: AttentionProblem) -> tuple[str, ...]:
        """The kernels of FlashAttention-2 in their own namespace."""
        return (FORWARD,) if problem.direction == "fwd" else (BACKWARD,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Attention kernels of everyone else."""
        return names.others(names.FLASH_ATTN)

    def prepare(self, problem: AttentionProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """The library's forward function, or its backward function on what one forward pass has left."""
        use_site("flash_attn")
        import torch
        from flash_attn import flash_attn_interface as library

        q, k, v = (token_major(inputs[name]) for name in "qkv")
        causal, deterministic = problem.causal, bool(self._options["deterministic"])
        if problem.direction == "fwd":
            return lambda: library.flash_attn_func(q, k, v, causal=causal).transpose(1, 2)
        dout = token_major(inputs["dout"])
        out, lse, *_ = library.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)
        rest = (0.0, scale(problem), causal, -1, -1, 0.0, None, deterministic)  # no dropout, window, cap or slopes

        def call() -> tuple[torch.Tensor, ...]:
            dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
            library._flash_attn_backward(dout, q, k, v, out, lse, dq, dk, dv, *rest)
            return head_major(dq, dk, dv)

        return call
