"""The operators that stream rows as a harness wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ..kernels.dropout_add_layernorm.operator import DIM_STEP, LARGEST_DIM
from ..kernels.rotary.operator import HEAD_DIMS, rotary
from .kernel import Kernel, Multiples, Outputs

OTHERS = ("rotary_kernel", "layer_norm", "at::native")


class Rotary(Kernel):
    """`tk.rotary`, once for each of the problem's tensors."""

    name = "rotary"
    foreign = OTHERS
    sizes = (("D", "head dims", HEAD_DIMS),)

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call that returns x_out, or (q_out, k_out); (B, H, N, D) or (B, N, H, D) as the problem says."""
        cos, sin = inputs["cos"], inputs["sin"]
        options: dict[str, Any] = {"layout": problem.layout, "interleaved": bool(problem.interleaved)}
        if problem.tensors == 1:
            x = inputs["x"]
            return lambda: rotary(x, cos, sin, **options)
        q, k = inputs["q"], inputs["k"]
        return lambda: (rotary(q, cos, sin, **options), rotary(k, cos, sin, **options))


class DropoutAddLayernorm(Kernel):
    """`tk.dropout_add_layernorm`: x, residual, weight, bias -> (normed, new_residual).

    A variant's option `blocks` is the size of the grid. With dropout each call draws a seed of its own, as a
    model's would. Raises ValueError for a number of blocks that is none.
    """

    name = "dropout_add_layernorm"
    options = ("blocks",)
    foreign = OTHERS
    sizes = (("D", "D", Multiples(DIM_STEP, LARGEST_DIM)),)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        blocks = self._options.get("blocks")
        if blocks is not None and not (isinstance(blocks, int) and 1 <= blocks < 2**31):
            raise ValueError(f"blocks: got {blocks!r}, needs a whole number from 1 to 2147483647, or auto")
