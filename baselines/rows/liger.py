"""Liger-Kernel's Triton kernel for the rotary embedding, which turns q and k together and in place.

It is imported without the packages above it: ``liger_kernel.ops`` imports every kernel of the library.

Its normalisations are no baselines of dropout-add-layernorm: its layer norm adds no residual, what adds one
(``fused_add_rms_norm``) subtracts no mean and has no bias, and none drops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import AMPERE, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import find, import_bare, use_site, versions_with_triton
from baselines.rows import names
from baselines.rows.problem import RotaryProblem

if TYPE_CHECKING:
    import torch

INSTALL = "pip install liger-kernel==0.8.5"
MODULE = "liger_kernel.ops.rope"


class Rotary:
    """`rope_forward`, on copies: (B, H, N, D) views of (B, N, H, D) memory, which it turns where they are.

    `prepare` makes the tensors of its layout, and tables as wide as a head, whose halves are the same.  The workload
    keeps its inputs, so each call copies q and k first: that is in its time.  It multiplies in the tables' bf16.
    """

    def __init__(self, **options: Any) -> None:
        chosen("liger", options, {}, {})

    def available(self) -> str | None:
        """None, or how to install the library."""
        modules, complaint = ["torch", "triton", "liger_kernel"], "has no rotary embedding"
        return find("liger", modules, INSTALL, "ops/rope.py", complaint)

    def version(self) -> str:
        """Versions of the library and of Triton."""
        return versions_with_triton("liger", "liger-kernel")

    def supports(self, problem: RotaryProblem, device: str) -> str | None:
        """Problems of q and k, with entries half a head apart paired."""
        reason = refuse(problem, device, devices=("cuda",), name="liger")
        if reason is None and problem.tensors != 2:
            reason = f"liger: got tensors={problem.tensors}, it takes q and k together (tensors=2)"
        if reason is None and problem.interleaved:
            reason = "liger: got interleaved=1, it pairs entries half a head apart (interleaved=0)"
        return reason or refuse_other_gpus("liger", least=AMPERE)

    def kernel_names(self, problem: RotaryProblem) -> tuple[str, ...]:
        """The library's kernel."""
        return (names.LIGER_ROPE,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels; PyTorch's, which makes the copies, is none of them."""
        return names.others(names.LIGER_ROPE)

    def prepare(self, problem: RotaryProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs in the library's layout, and compile."""
        import torch

        use_site("liger")
        turn = import_bare(MODULE, ["liger_kernel", "liger_kernel.ops"]).rope_forward
        heads_first = problem.layout == "bhnd"
        q, k = inputs["q"], inputs["k"]
        if heads_first:  # a clone and not contiguous(), which of N = 1 keeps the strides, and the kernel goes by those
            q, k = (tensor.transpose(1, 2).clone(memory_format=torch.contiguous_format) for tensor in (q, k))
        cos, sin = (inputs[name].repeat(1, 2)[None] for name in ("cos", "sin"))

        def call() -> Any:
            turned = turn(q.clone().transpose(1, 2), k.clone().transpose(1, 2), cos, sin)[:2]
            return turned if heads_first else tuple(tensor.transpose(1, 2) for tensor in turned)

        call()
        return call
