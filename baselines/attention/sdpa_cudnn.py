"""NVIDIA's attention: the cuDNN backend of PyTorch's ``scaled_dot_product_attention``."""

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

MAX_HEAD_DIM = 128
FORWARD = r"cudnn.*sdpa.*(fprop|fwd)"
BACKWARD = r"cudnn.*sdpa.*(bprop|bwd)"


class Attention:
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    cuDNN reads any strides; it gets the (B, H, N, D) tensors as they are, and gives outputs of the same layout.

    Options:
        layout: "bhnd", or "bnhd" for (B, N, H, D) memory, as a transformer's projections leave it.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("sdpa_cudnn", options, {"layout": sdpa.LAYOUTS}, {"layout": "bhnd"})

    def available(self) -> str | None:
        """None, or how to install PyTorch."""
        return missing(["torch"], "pip install torch")

    def version(self) -> str:
        """PyTorch's and cuDNN's versions."""
        import torch

        number = torch.backends.cudnn.version()
        if number is None:
            return f"torch {torch.__version__} (a build without cuDNN)"
        return f"torch {torch.__version__}, cudnn {number // 10000}.{number // 100 % 100}.{number % 100}"

    def supports(self, problem: AttentionProblem, device: str) -> str | None:
        """D up to 128; causal problems of as many queries as keys."""
        name = "sdpa_cudnn"
        reason = refuse(problem, device, devices=("cuda",), name=name)
        reason = reason or refuse_head_dim(problem, multiple=8, largest=MAX_HEAD_DIM, name=name)
        if reason is None and problem.causal and problem.N != problem.Nkv:
            reason = (
                f"{name}: got N={problem.N} and Nkv={problem.Nkv}, "
                "PyTorch aligns its causal mask to the top left, which is the same only for N = Nkv"
            )
        return reason or refuse_other_gpus(name, least=AMPERE)

    def kernel_names(self, problem: AttentionProblem) -> tuple[str, ...]:
        """Generated kernels, named after the library, the operation and the direction."""
        return (FORWARD,) if problem.direction == "fwd" else (BACKWARD,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Attention kernels of everyone else."""
        return names.others(names.CUDNN)

    def prepare(self, problem: AttentionProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """``scaled_dot_product_attention``, or its backward operator on what one forward pass has left."""
        from torch.nn.attention import SDPBackend

        q, k, v, *rest = sdpa.arranged(inputs, self._options["layout"])
        if problem.direction == "fwd":
            return sdpa.forward_call(problem, SDPBackend.CUDNN_ATTENTION, q, k, v)
        return backward_call(problem, q, k, v, rest[0])


def backward_call(
    problem: AttentionProblem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor
) -> Callable[[], tuple[torch.Tensor, ...]]:
    """The backward operator; None stands for the bias that there is not."""
    import torch

    aten = torch.ops.aten
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, problem.causal
    )
    arguments = (q, k, v, out, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, problem.causal)
    return lambda: aten._scaled_dot_product_cudnn_attention_backward(dout, *arguments)
