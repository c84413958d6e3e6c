"""FlashAttention-2 as its authors publish it: the flash-attn package, where its CUDA build is present.

PyTorch's SDPA contains the same kernels (`baselines.attention.sdpa_flash`); this row measures the package itself.
"""

from __future__ import annotations

import torch

from baselines.attention import names
from baselines.attention.problem import DIRECTIONS, AttentionProblem, head_dim, scale, window_size
from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits, options
from baselines.common.gpu import FROM_AMPERE
from baselines.common.layouts import head_major, token_major


class Attention(Baseline):
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    The library reads and writes (B, N, H, D); the copies of the inputs are made in `prepare`. Its causal mask is
    aligned to the bottom right.

    Options:
        deterministic: 1 asks for gradients that are equal bit by bit from run to run.
    """

    library = Library(
        "flash_attn",
        "pip install --no-build-isolation flash-attn==2.8.3",
        modules=("torch", "flash_attn", "flash_attn_2_cuda"),
        packages=("flash-attn",),
        file="flash_attn/flash_attn_interface.py",
        complaint="is another package's, which a process keeps; flash-attn",
        gpus=FROM_AMPERE,
        # The namespace `flash`, demangled or mangled; `pytorch_flash` is PyTorch's copy.
        kernels=(r"(?<!pytorch_)flash(::|\d+)flash_fwd",),
        backward=(r"(?<!pytorch_)flash(::|\d+)flash_bwd",),
        foreign=names.others(names.FLASH_ATTN),
    )
    choices = options(deterministic=(0, 1))
    directions = DIRECTIONS

    def limits(self, problem: AttentionProblem) -> Limits:
        yield head_dim(problem, 256)

    def prepare(self, problem: AttentionProblem, inputs: Inputs) -> Call:
        """The library's forward function, or its backward function on what one forward pass has left."""
        library = self.library.load("flash_attn.flash_attn_interface")
        q, k, v = (token_major(inputs[name]) for name in "qkv")
        causal, deterministic = problem.causal, bool(self.options["deterministic"])
        window = window_size(problem)
        if problem.direction == "fwd":
            return lambda: library.flash_attn_func(q, k, v, causal=causal, window_size=window).transpose(1, 2)
        dout = token_major(inputs["dout"])
        out, lse, *_ = library.flash_attn_func(q, k, v, causal=causal, window_size=window, return_attn_probs=True)
        rest = (0.0, scale(problem), causal, *window, 0.0, None, deterministic)  # no dropout, cap or slopes

        def call() -> tuple[torch.Tensor, ...]:
            dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
            library._flash_attn_backward(dout, q, k, v, out, lse, dq, dk, dv, *rest)
            return head_major(dq, dk, dv)

        return call
