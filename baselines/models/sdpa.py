"""PyTorch's ``scaled_dot_product_attention`` inside a whole language model, on a backend that is fixed.

The problem brings the model, compiled on a GPU; the rotary embedding is written in PyTorch, so that the compiler may
fuse it. Two backends stand beside each other, and which is the faster is a matter of the measurement. FlashAttention-2
is called by its own operator: under torch.compile the choice of ``sdpa_kernel`` was lost, and cuDNN ran.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import AMPERE, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import distribution_version, missing
from baselines.models import names

if TYPE_CHECKING:
    import torch

BACKENDS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION", "math": "MATH"}
"""By the name of the option; `math` is the definition, for a CPU."""
OWN_KERNELS = {"cudnn": names.CUDNN, "flash": names.FLASH, "math": names.SOFTMAX}


class _Model:
    """A model whose attention is SDPA's.

    Options:
        backend: "cudnn" or "flash", on a GPU; "math", on a CPU.
    """

    def __init__(self, **options: Any) -> None:
        self._backend = chosen("sdpa", options, {"backend": tuple(BACKENDS)}, {"backend": "flash"})["backend"]

    @property
    def _name(self) -> str:
        return f"sdpa_{self._backend}"

    def available(self) -> str | None:
        """None, or how to install PyTorch, with Triton where it compiles."""
        modules = ["torch"] if self._backend == "math" else ["torch", "triton"]
        return missing(modules, f"pip install {' '.join(modules)}")

    def version(self) -> str:
        """PyTorch's version and the backend."""
        import torch

        parts = [f"torch {torch.__version__}", f"SDPA on {self._backend}"]
        if self._backend != "math":
            parts += ["torch.compile", f"triton {distribution_version('triton', 'pytorch-triton')}"]
        return ", ".join(parts)

    def supports(self, problem: Any, device: str) -> str | None:
        """bf16; each backend on its own kind of device."""
        devices = ("cpu",) if self._backend == "math" else ("cuda",)
        reason = refuse(problem, device, devices=devices, name=self._name)
        return reason or (refuse_other_gpus(self._name, least=AMPERE) if device == "cuda" else None)

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """The backend's attention kernels."""
        return (OWN_KERNELS[self._backend],)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Attention kernels of everyone else."""
        return names.others(OWN_KERNELS[self._backend])

    def prepare(self, problem: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """The problem's call, on this backend alone."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend, grouped = getattr(SDPBackend, BACKENDS[self._backend]), problem.shape.heads != problem.shape.heads_kv
        attend, rotate = operators(self._backend == "flash", grouped)
        run = problem.bind(inputs, attend=attend, rotate=rotate)

        def call() -> Any:
            with sdpa_kernel(backend):
                return run()

        return call


@cache
def operators(flash: bool, grouped: bool) -> tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]:
    """Attention and rotary embedding, the same two for all calls, so that a model with them in is compiled once."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)

    def attend_by_flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, is_causal=True)[0]
        return out

    def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1).to(x.dtype)

    return attend_by_flash if flash else attend, rotate


class GptTraining(_Model):
    """Steps of training a GPT."""


class Prefill(_Model):
    """A prompt's prefill."""
