"""FlashAttention-4 on Hopper: its authors' kernels in CuTe DSL, published as flash-attn-4."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.attention import names
from baselines.attention.problem import AttentionProblem, refuse, refuse_head_dim
from baselines.common import flash_attn_4
from baselines.common.flash_attn_4 import BACKWARD, FORWARD
from baselines.common.flash_attn_4 import INSTALL as INSTALL
from baselines.common.gpu import HOPPER, refuse_other_gpus
from baselines.common.layouts import head_major, token_major
from baselines.common.options import chosen

if TYPE_CHECKING:
    import torch

MAX_HEAD_DIM = 256


class Attention:
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    The library reads and writes (B, N, H, D); the copies of the inputs are made in `prepare`. It compiles a kernel a
    variant, there too.

    Options:
        deterministic: 1 asks for gradients that are equal bit by bit from run to run.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("flash_attn_4", options, {"deterministic": (0, 1)}, {"deterministic": 0})

    def available(self) -> str | None:
        """None, or how to install the library."""
        return flash_attn_4.absent()

    def version(self) -> str:
        """Versions of the library and of CuTe DSL."""
        return flash_attn_4.version()

    def supports(self, problem: AttentionProblem, device: str) -> str | None:
        """bf16 problems on Hopper; its causal mask is aligned to the bottom right."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_attn_4")
        reason = reason or refuse_head_dim(problem, multiple=8, largest=MAX_HEAD_DIM, name="flash_attn_4")
        return reason or refuse_other_gpus("flash_attn_4", major=HOPPER)

    def kernel_names(self, problem: AttentionProblem) -> tuple[str, ...]:
        """The class of the main kernel; the backward pass has others before and after it."""
        return (FORWARD,) if problem.direction == "fwd" else (BACKWARD,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Attention kernels of everyone else."""
        return names.others(names.FLASH_ATTN_4)

    def prepare(self, problem: AttentionProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Compile; then the library's forward function, or its backward function on what one forward pass has left."""
        library = flash_attn_4.interface()
        q, k, v = (token_major(inputs[name]) for name in "qkv")
        causal, deterministic = problem.causal, bool(self._options["deterministic"])
        call: Callable[[], Any]
        if problem.direction == "fwd":

            def call() -> torch.Tensor:
                out, *_ = library.flash_attn_func(q, k, v, causal=causal)
                (own,) = head_major(out)
                return own

        else:
            dout = token_major(inputs["dout"])
            out, lse, *_ = library._flash_attn_fwd(q, k, v, causal=causal, return_lse=True)

            def call() -> tuple[torch.Tensor, ...]:
                gradients = library._flash_attn_bwd(q, k, v, out, dout, lse, causal=causal, deterministic=deterministic)
                return head_major(*gradients)

        call()
        return call
