"""Plain PyTorch for the rotary embedding and the fused normalisation, eager or under ``torch.compile``."""

from __future__ import annotations

from baselines.common.baseline import Call, Inputs
from baselines.common.compiled import MAX_AUTOTUNE
from baselines.common.plain_torch import PlainTorch
from baselines.rows import names
from baselines.rows.problem import LayernormProblem, RotaryProblem

EPS = 1e-5


class Rotary(PlainTorch):
    """Products with cos and sin, and their sums, in the problem's own layout.

    Options:
        compiled: 1 compiles it for exactly this shape, with max-autotune.
    """

    mode, strangers = MAX_AUTOTUNE, names.others(names.INDUCTOR)

    def prepare(self, problem: RotaryProblem, inputs: Inputs) -> Call:
        """Bind x, or q and k, and the tables; compiled, compile and run once."""
        from baselines.rows import row_functions

        flags = (problem.layout == "bnhd", bool(problem.interleaved))
        tables = (inputs["cos"], inputs["sin"])
        if problem.tensors == 1:
            return self.bind(row_functions.rotary, inputs["x"], *tables, *flags)
        return self.bind(row_functions.rotary_of_two, inputs["q"], inputs["k"], *tables, *flags)


class DropoutAddLayernorm(PlainTorch):
    """Dropout, an addition and `layer_norm`; eager, three kernels.

    Options:
        compiled: 1 compiles it for exactly this shape, with max-autotune.
    """

    mode, strangers = MAX_AUTOTUNE, names.others(names.INDUCTOR)

    def prepare(self, problem: LayernormProblem, inputs: Inputs) -> Call:
        """Bind x, residual, weight and bias; compiled, compile and run once."""
        from baselines.rows import row_functions

        tensors = [inputs[name] for name in ("x", "residual", "weight", "bias")]
        return self.bind(row_functions.dropout_add_layernorm, *tensors, float(problem.p), EPS)
