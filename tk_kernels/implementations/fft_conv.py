"""The long convolution as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .. import toolchain
from ..kernels.fft_conv.operator import CAUSAL_TRANSFORMS, TRANSFORMS, fft_conv, fft_conv_filter
from .kernel import Kernel, Outputs


class FftConv(Kernel):
    """`tk.fft_conv`; the filter is transformed in `prepare`, or in the call where the problem's `filter` is inside."""

    name = "fft_conv"

    def refuse(self, problem: Any) -> str | None:
        """The lengths of the transforms; causal, up to the longest of theirs."""
        if problem.causal and problem.N > CAUSAL_TRANSFORMS[-1]:
            return f"tk fft_conv takes N up to {CAUSAL_TRANSFORMS[-1]} where it is causal, not {problem.N}"
        if not problem.causal and problem.N not in TRANSFORMS:
            return f"tk fft_conv takes N of {', '.join(map(str, TRANSFORMS))}, not {problem.N}"
        return None

    def supports(self, problem: Any, device: str) -> str | None:
        """The longest transform takes two warpgroups' registers, which Hopper GPUs alone pass on."""
        reason = super().supports(problem, device)
        if reason is None and problem.N == TRANSFORMS[-1] and not toolchain.TARGETS[self._on(device)].copy_engine:
            return f"tk fft_conv takes N of {TRANSFORMS[-1]} on Hopper GPUs alone"
        return reason

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """From u (B, D, N) and k (D, N) fp32 to y."""
        u, k, causal = inputs["u"], inputs["k"], bool(problem.causal)
        if problem.filter == "inside":
            return lambda: fft_conv(u, fft_conv_filter(k, causal=causal), causal=causal)
        k_f = fft_conv_filter(k, causal=causal)
        return lambda: fft_conv(u, k_f, causal=causal)
