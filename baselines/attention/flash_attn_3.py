"""FlashAttention-3, the paper's opponent, where a build of it is installed. It is not on PyPI."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.attention import names
from baselines.attention.problem import AttentionProblem, refuse, refuse_head_dim, scale
from baselines.common import built
from baselines.common.gpu import HOPPER, refuse_other_gpus
from baselines.common.layouts import head_major, token_major
from baselines.common.options import chosen
from baselines.common.sites import distribution_version, find, use_site

if TYPE_CHECKING:
    import torch

INSTALL = "build it as its authors say (folder hopper), then python -m tools.sources install flash_attn_3 WHEEL"
MAX_HEAD_DIM = 256
FORWARD = "FlashAttnFwdSm90"
BACKWARD = "FlashAttnBwdSm90"


class Attention:
    """softmax(Q K^T / sqrt(D)) V, bf16, forward and backward, grouped queries read in place.

    The library reads and writes (B, N, H, D); the copies of the inputs are made in `prepare`.

    Options:
        deterministic: 1 asks for gradients that are equal bit by bit from run to run.
        num_splits: 0 lets the library choose by how many blocks the keys of a head are shared in the forward pass; 1,
            its function's own default, shares them by none.
    """

    def __init__(self, **options: Any) -> None:
        known = {"deterministic": (0, 1), "num_splits": (0, 1)}
        self._options = chosen("flash_attn_3", options, known, {"deterministic": 0, "num_splits": 1})

    def available(self) -> str | None:
        """None, or how to build the library."""
        return find("flash_attn_3", ["torch", "flash_attn_interface"], INSTALL)

    def version(self) -> str:
        """Version of the library, and the commit of a build from source."""
        use_site("flash_attn_3")
        version = distribution_version("flash-attn-3", "flash_attn_3") or "of unknown version"
        return built.described("flash_attn_3", f"flash-attn-3 {version}")

    def supports(self, problem: AttentionProblem, device: str) -> str | None:
        """bf16 problems on Hopper; its causal mask is aligned to the bottom right."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_attn_3")
        reason = reason or refuse_head_dim(problem, multiple=8, largest=MAX_HEAD_DIM, name="flash_attn_3")
        if reason is None and problem.direction == "bwd" and not self._options["num_splits"]:
            reason = "flash_attn_3: got num_splits=0 and direction bwd, it concerns the forward pass"
        return reason or refuse_other_gpus("flash_attn_3", major=HOPPER)

    def kernel_names(self, problem: AttentionProblem) -> tuple[str, ...]:
        """CUTLASS kernels, named after the library's classes; splits have another kernel that combines."""
        return (FORWARD,) if problem.direction == "fwd" else (BACKWARD,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Attention kernels of everyone else."""
        return names.others(names.FLASH_ATTN_3)

    def prepare(self, problem: AttentionProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """The library's forward function, or its backward function on what one forward pass has left."""
        use_site("flash_attn_3")
        import flash_attn_interface as library
        import torch

        q, k, v = (token_major(inputs[name]) for name in "qkv")
        causal, deterministic = problem.causal, bool(self._options["deterministic"])
        if problem.direction == "fwd":
            splits = {} if self._options["num_splits"] else {"num_splits": 0}  # old versions have no such keyword
            return lambda: _first(library.flash_attn_func(q, k, v, causal=causal, **splits)).transpose(1, 2)
        dout = token_major(inputs["dout"])
        out, lse = forward_with_lse(library.flash_attn_func, q, k, v, causal=causal)

        def call() -> tuple[torch.Tensor, ...]:
            dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
            no_lengths = (None,) * 6  # of sequences of several lengths
            gradients = (dq, dk, dv, scale(problem), causal)
            library._flash_attn_backward(dout, q, k, v, out, lse, *no_lengths, *gradients, deterministic=deterministic)
            return head_major(dq, dk, dv)

        return call


def forward_with_lse(function: Callable[..., Any], *tensors: torch.Tensor, causal: bool) -> tuple[Any, Any]:
    """Output and log-sum-exp; versions before 2025-09 always return both, later ones when asked to."""
    asked = {"return_attn_probs": True} if "return_attn_probs" in inspect.signature(function).parameters else {}
    out, lse, *_ = function(*tensors, causal=causal, **asked)
    return out, lse


def _first(result: Any) -> torch.Tensor:
    """The output, of versions that return the log-sum-exp beside it as well."""
    out: torch.Tensor = result[0] if isinstance(result, tuple) else result
    return out
