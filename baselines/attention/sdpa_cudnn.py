"""NVIDIA's attention: the cuDNN backend of PyTorch's `scaled_dot_product_attention`."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn.attention import SDPBackend

from baselines.attention import names, sdpa
from baselines.attention.problem import DIRECTIONS, AttentionProblem, head_dim, no_window
from baselines.common.baseline import TORCH, Baseline, Call, Inputs, Limits, options
from baselines.common.gpu import FROM_AMPERE


class Attention(Baseline):
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    cuDNN reads any strides; it gets the (B, H, N, D) tensors as they are, and gives outputs of the same layout.

    Options:
        layout: "bhnd", or "bnhd" for (B, N, H, D) memory, as a transformer's projections leave it.
    """

    # Generated kernels, named after the library, the operation and the direction.
    library = replace(
        TORCH,
        name="sdpa_cudnn",
        gpus=FROM_AMPERE,
        kernels=(r"cudnn.*sdpa.*(fprop|fwd)",),
        backward=(r"cudnn.*sdpa.*(bprop|bwd)",),
        foreign=names.others(names.CUDNN),
    )
    choices = options(layout=("bhnd", "bnhd"))
    directions = DIRECTIONS

    def version(self) -> str:
        """PyTorch's and cuDNN's versions."""
        number = torch.backends.cudnn.version()
        if number is None:
            return f"torch {torch.__version__} (a build without cuDNN)"
        return f"torch {torch.__version__}, cudnn {number // 10000}.{number // 100 % 100}.{number % 100}"

    def limits(self, problem: AttentionProblem) -> Limits:
        yield head_dim(problem, 128)
        yield no_window(problem)
        got = f"got N={problem.N} and Nkv={problem.Nkv}"
        top_left = "PyTorch aligns its causal mask to the top left, which is the same only for N = Nkv"
        yield problem.causal and problem.N != problem.Nkv, f"{got}, {top_left}"

    def prepare(self, problem: AttentionProblem, inputs: Inputs) -> Call:
        """`scaled_dot_product_attention`, or its backward operator on what one forward pass has left."""
        q, k, v, *rest = sdpa.arranged(inputs, self.options["layout"])
        if problem.direction == "fwd":
            return sdpa.forward_call(problem, SDPBackend.CUDNN_ATTENTION, q, k, v)
        return backward_call(problem, q, k, v, rest[0])


def backward_call(
    problem: AttentionProblem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor
) -> Call:
    """The backward operator; None stands for the bias that there is not."""
    aten = torch.ops.aten
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, problem.causal
    )
    arguments = (q, k, v, out, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, problem.causal)
    return lambda: aten._scaled_dot_product_cudnn_attention_backward(dout, *arguments)
