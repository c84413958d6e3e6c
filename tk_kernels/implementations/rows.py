"""The operators that stream rows as a harness wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .. import dropout_add_layernorm, rotary, toolchain
from ..ops.dropout_add_layernorm import DIM_STEP, LARGEST_DIM
from ..ops.rotary import HEAD_DIMS
from .kernel import TARGET_OF_DEVICE, Kernel

Outputs = Tensor | tuple[Tensor, ...]


class _Rows(Kernel):
    """What the two share: bf16, the forward pass alone."""

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "bf16":
            return f"tk {self.name} takes bf16, not {problem.dtype}"
        if problem.direction != "fwd":
            return f"tk {self.name} has no kernel of its own for direction {problem.direction}"
        return self.refuse(problem) or super().supports(problem, device)

    def refuse(self, problem: Any) -> str | None:
        """None, or the size that the kernel was not built for."""
        raise NotImplementedError

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Other people's kernels, none of which may run in our place."""
        return (*super().foreign_kernel_names(), "rotary_kernel", "layer_norm", "at::native")

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call that is timed, with the kernel loaded (and built, if need be)."""
        self._target = TARGET_OF_DEVICE[next(iter(inputs.values())).device.type]
        toolchain.load(self.name, self._target)
        return self.bind(problem, inputs)

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The operator on these inputs."""
        raise NotImplementedError


class Rotary(_Rows):
    """`tk.rotary`, once for each of the problem's tensors. Raises TypeError for an option: there is none."""

    name = "rotary"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        for option in options:
            raise TypeError(f"tk rotary: got the option {option!r}, it takes none")

    def refuse(self, problem: Any) -> str | None:
        """Head dims 64 and 128."""
        if problem.D in HEAD_DIMS:
            return None
        return f"tk rotary takes head dims {' and '.join(map(str, HEAD_DIMS))}, not {problem.D}"

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call that returns x_out, or (q_out, k_out); (B, H, N, D) or (B, N, H, D) as the problem says."""
        cos, sin = inputs["cos"], inputs["sin"]
        options: dict[str, Any] = {"layout": problem.layout, "interleaved": bool(problem.interleaved)}
        if problem.tensors == 1:
            x = inputs["x"]
            return lambda: rotary(x, cos, sin, **options)
        q, k = inputs["q"], inputs["k"]
        return lambda: (rotary(q, cos, sin, **options), rotary(k, cos, sin, **options))


class DropoutAddLayernorm(_Rows):
    """`tk.dropout_add_layernorm` with a variant's option `blocks`, the size of the grid.

    With dropout each call draws a seed of its own, as a model's would. Raises TypeError for an option that does not
    exist, ValueError for a number of blocks that is none.
    """

    name = "dropout_add_layernorm"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = self._chosen(options, ("blocks",))
        blocks = self._options.get("blocks")
        if blocks is not None and not (isinstance(blocks, int) and 1 <= blocks < 2**31):
            raise ValueError(f"blocks: got {blocks!r}, needs a whole number from 1 to 2147483647, or auto")

    def refuse(self, problem: Any) -> str | None:
        """D a multiple of 64 up to 8192."""
        if problem.D % DIM_STEP == 0 and problem.D <= LARGEST_DIM:
            return None
        return f"tk dropout_add_layernorm takes D of multiples of {DIM_STEP} up to {LARGEST_DIM}, not {problem.D}"

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """x, residual, weight, bias -> (normed, new_residual)."""
        x, residual, weight, bias = (inputs[name] for name in ("x", "residual", "weight", "bias"))
        p, options = float(problem.p), self._options
        return lambda: dropout_add_layernorm(x, residual, weight, bias, p=p, **options)
