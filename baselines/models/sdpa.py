"""PyTorch's `scaled_dot_product_attention` inside a whole language model, on a backend that is fixed.

The problem brings the model, compiled on a GPU; the rotary embedding is written in PyTorch, so that the compiler may
fuse it. Two backends stand beside each other, and which is the faster is a matter of the measurement. FlashAttention-2
is called by its own operator: under torch.compile the choice of `sdpa_kernel` was lost, and cuDNN ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from baselines.common.baseline import TORCH, TORCH_COMPILE, Baseline, Call, Inputs, options
from baselines.common.gpu import FROM_AMPERE
from baselines.common.sites import labelled_version
from baselines.models import names

BACKENDS = {
    "flash": (SDPBackend.FLASH_ATTENTION, names.FLASH),
    "cudnn": (SDPBackend.CUDNN_ATTENTION, names.CUDNN),
    "math": (SDPBackend.MATH, names.SOFTMAX),
}
"""PyTorch's own and its kernels, by the name of the option; `math` is the definition, for a CPU."""


class _Model(Baseline):
    """A model whose attention is SDPA's.

    Options:
        backend: "flash" or "cudnn", on a GPU; "math", on a CPU.
    """

    library = replace(TORCH, name="sdpa")
    choices = options(backend=tuple(BACKENDS))

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._on = self.options["backend"]
        needed, self.devices = (TORCH, ("cpu",)) if self._on == "math" else (TORCH_COMPILE, ("cuda",))
        self._backend, own = BACKENDS[self._on]
        alone = replace(needed, name=f"sdpa_{self._on}", gpus=FROM_AMPERE)
        self.library = replace(alone, kernels=(own,), foreign=names.others(own))

    def version(self) -> str:
        """PyTorch's version and the backend."""
        parts = [labelled_version("torch"), f"SDPA on {self._on}"]
        if self._on != "math":
            parts += ["torch.compile", labelled_version("triton")]
        return ", ".join(parts)

    def prepare(self, problem: Any, inputs: Inputs) -> Call:
        """The problem's call, on this backend alone."""
        attend, rotate = operators(self._on == "flash", problem.shape.heads != problem.shape.heads_kv)
        run = problem.bind(inputs, attend=attend, rotate=rotate)

        def call() -> Any:
            with sdpa_kernel(self._backend):
                return run()

        return call


@cache
def operators(flash: bool, grouped: bool) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Attention and rotary embedding, the same two for all calls, so that a model with them in is compiled once."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)

    def attend_by_flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, is_causal=True)[0]
        return out

    def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1).to(x.dtype)

    return attend_by_flash if flash else attend, rotate


class GptTraining(_Model):
    """Steps of training a GPT."""


class Prefill(_Model):
    """A prompt's prefill."""
