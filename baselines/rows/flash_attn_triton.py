"""flash-attn's Triton kernels for the rotary embedding and for dropout, addition and normalisation.

They need no CUDA build of the package, whose ``__init__`` does: they are imported under a bare parent module that has
the package's folder and has not run it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import AMPERE, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import find, import_bare, use_site, versions_with_triton
from baselines.rows import names
from baselines.rows.problem import LayernormProblem, RotaryProblem

if TYPE_CHECKING:
    import torch

INSTALL = "FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE pip install --no-deps --no-build-isolation flash-attn==2.8.3"
LARGEST_ROTARY_DIM = 256
LARGEST_ROW_BYTES = 65536
EPS = 1e-5


class _Library:
    """What both have in common."""

    _module: str

    def __init__(self, **options: Any) -> None:
        chosen("flash_attn_triton", options, {}, {})

    def available(self) -> str | None:
        """None, or how to install the library."""
        modules, complaint = ["torch", "triton", "flash_attn"], "has no Triton kernels"
        return find("flash_attn", modules, INSTALL, f"ops/triton/{self._module}.py", complaint)

    def version(self) -> str:
        """Versions of the library and of Triton."""
        return versions_with_triton("flash_attn", "flash-attn")

    def _import(self) -> Any:
        use_site("flash_attn")
        return import_bare(f"flash_attn.ops.triton.{self._module}", ["flash_attn"])


class Rotary(_Library):
    """`apply_rotary`, which takes (B, N, H, D); of a problem with heads outside rows `prepare` makes a copy."""

    _module = "rotary"

    def supports(self, problem: RotaryProblem, device: str) -> str | None:
        """Any bf16 problem with D up to 256."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_attn_triton")
        if reason is None and problem.D > LARGEST_ROTARY_DIM:
            reason = f"flash_attn_triton: got D={problem.D}, its rotary kernel takes up to {LARGEST_ROTARY_DIM}"
        return reason or refuse_other_gpus("flash_attn_triton", least=AMPERE)

    def kernel_names(self, problem: RotaryProblem) -> tuple[str, ...]:
        """The library's kernel."""
        return (names.FLASH_ATTN_ROTARY,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.FLASH_ATTN_ROTARY)

    def prepare(self, problem: RotaryProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs in the library's layout, and compile."""
        apply = self._import().apply_rotary
        cos, sin, interleaved = inputs["cos"], inputs["sin"], bool(problem.interleaved)
        heads_first = problem.layout == "bhnd"
        tensors = [inputs[name] for name in (("x",) if problem.tensors == 1 else ("q", "k"))]
        if heads_first:
            tensors = [tensor.transpose(1, 2).contiguous() for tensor in tensors]

        def turned(tensor: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = apply(tensor, cos, sin, interleaved=interleaved)
            return out.transpose(1, 2) if heads_first else out

        def call() -> Any:
            return turned(tensors[0]) if len(tensors) == 1 else tuple(turned(tensor) for tensor in tensors)

        call()
        return call


class DropoutAddLayernorm(_Library):
    """`layer_norm_fn` with a residual: its own autotuned kernel, which draws its seeds with a kernel of PyTorch's."""

    _module = "layer_norm"

    def supports(self, problem: LayernormProblem, device: str) -> str | None:
        """Any bf16 problem whose rows have up to 64 KiB."""
        reason = refuse(problem, device, devices=("cuda",), name="flash_attn_triton")
        if reason is None and 2 * problem.D > LARGEST_ROW_BYTES:
            reason = f"flash_attn_triton: got D={problem.D}, it takes rows of up to {LARGEST_ROW_BYTES} bytes"
        return reason or refuse_other_gpus("flash_attn_triton", least=AMPERE)

    def kernel_names(self, problem: LayernormProblem) -> tuple[str, ...]:
        """The library's kernel."""
        return (names.FLASH_ATTN_LAYER_NORM,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels; PyTorch's, which draws the seeds, is none of them."""
        return names.others(names.FLASH_ATTN_LAYER_NORM)

    def prepare(self, problem: LayernormProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs, tune and compile."""
        normalise = self._import().layer_norm_fn
        x, residual, weight, bias = (inputs[name] for name in ("x", "residual", "weight", "bias"))
        p = float(problem.p)

        def call() -> Any:
            return normalise(x, weight, bias, residual=residual, eps=EPS, dropout_p=p, prenorm=True)

        call()
        return call
