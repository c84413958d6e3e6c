"""FlashAttention-4 as a library: how it is found, and its functions. It is Python in CuTe DSL."""

from __future__ import annotations

from typing import Any

from baselines.common.baseline import Baseline, Library
from baselines.common.gpu import HOPPER
from baselines.common.sites import holds, missing

INSTALL = "pip install 'flash-attn-4[cu13]==4.0.0b36'"
LIBRARY = Library(
    "flash_attn_4",
    INSTALL,
    modules=("torch", "flash_attn", "nvidia_cutlass_dsl", "quack", "einops", "tvm_ffi"),
    packages=("flash-attn-4", "nvidia-cutlass-dsl"),
    file="flash_attn/cute/interface.py",
    complaint="is the flash-attn package, without flash-attn-4's flash_attn.cute",
    gpus=HOPPER,
    # CuTe DSL names a kernel after the module and class that it was traced from.
    kernels=("(?i)kernel_cutlass.*FlashAttentionForwardSm",),
    backward=("(?i)kernel_cutlass.*FlashAttentionBackwardSm",),
)


class FlashAttention4(Baseline):
    """A baseline of the library, which compiles a kernel a variant in `prepare`."""

    def available(self) -> str | None:
        """None, or how to install the library, which a flash-attn without its CUDA build would hide."""
        reason = super().available()
        if reason is None and holds("flash_attn", "__init__.py") and missing(["flash_attn_2_cuda"], "") is not None:
            reason = f"flash-attn without its CUDA build lies over flash-attn-4; remove it and: {INSTALL}"
        return reason


def interface() -> Any:
    """The module of its functions."""
    return LIBRARY.load("flash_attn.cute.interface")
