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
    model's would.
    """

    name = "dropout_add_layernorm"
    options = ("blocks",)
    most = (("blocks", 2**31 - 1),)
    foreign = OTHERS
    sizes = (("D", "D", Multiples(DIM_STEP, LARGEST_DIM)),)
