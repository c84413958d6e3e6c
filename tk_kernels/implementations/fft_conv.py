"""The long convolution as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .. import fft_conv, fft_conv_filter, toolchain
from ..ops.fft_conv import TRANSFORMS
from .kernel import TARGET_OF_DEVICE, Kernel


class FftConv(Kernel):
    """`tk.fft_conv`; the filter is transformed in `prepare`, or in the call where the problem's `filter` is inside.

    Raises TypeError for an option: there is none.
    """

    name = "fft_conv"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        for option in options:
            raise TypeError(f"tk fft_conv: got the option {option!r}, it takes none")

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "bf16":
            return f"tk fft_conv takes bf16, not {problem.dtype}"
        if problem.direction != "fwd":
            return f"tk fft_conv has no kernel of its own for direction {problem.direction}"
        if problem.causal and 2 * problem.N > TRANSFORMS[-1]:
            return f"tk fft_conv takes N up to {TRANSFORMS[-1] // 2} where it is causal, not {problem.N}"
        if not problem.causal and problem.N not in TRANSFORMS:
            return f"tk fft_conv takes N of {', '.join(map(str, TRANSFORMS))}, not {problem.N}"
        return super().supports(problem, device)

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Tensor]:
        """The call that is timed, with the kernel loaded (and built, if need be). u (B, D, N), k (D, N) fp32 -> y."""
        u, k, causal = inputs["u"], inputs["k"], bool(problem.causal)
        self._target = TARGET_OF_DEVICE[u.device.type]
        toolchain.load(self.name, self._target)
        if problem.filter == "inside":
            return lambda: fft_conv(u, fft_conv_filter(k, causal=causal), causal=causal)
        k_f = fft_conv_filter(k, causal=causal)
        return lambda: fft_conv(u, k_f, causal=causal)
