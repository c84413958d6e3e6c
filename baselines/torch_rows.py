"""Plain PyTorch for the rotary embedding and the fused normalisation, eager or under ``torch.compile``."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines import row_problems
from baselines.gpu import refuse_other_gpus
from baselines.options import chosen
from baselines.row_problems import LayernormProblem, RotaryProblem, refuse
from baselines.sites import distribution_version, missing

if TYPE_CHECKING:
    import torch

MODE = "max-autotune-no-cudagraphs"
EPS = 1e-5

# A process keeps what it compiled: a problem is asked for once per set of inputs.
_compiled: dict[tuple[object, ...], Callable[..., Any]] = {}


class _Functions:
    """What both have in common.

    Options:
        compiled: 1 compiles for exactly this shape, with max-autotune and without CUDA graphs.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("torch", options, {"compiled": (0, 1)}, {"compiled": 0})

    @property
    def _name(self) -> str:
        return "torch_compile" if self._options["compiled"] else "torch"

    def available(self) -> str | None:
        """None, or how to install PyTorch, with Triton where it compiles."""
        modules = ["torch", "triton"] if self._options["compiled"] else ["torch"]
        return missing(modules, f"pip install {' '.join(modules)}")

    def version(self) -> str:
        """PyTorch's version, and whether the code is compiled."""
        import torch

        triton = distribution_version("triton", "pytorch-triton")
        how = f"torch.compile, triton {triton}, mode {MODE}" if self._options["compiled"] else "eager"
        return f"torch {torch.__version__}, {how}"

    def supports(self, problem: Any, device: str) -> str | None:
        """Any bf16 problem; compiled, on a GPU alone."""
        devices = ("cuda",) if self._options["compiled"] else ("cuda", "cpu")
        reason = refuse(problem, device, devices=devices, name=self._name)
        return reason or (refuse_other_gpus(self._name) if device == "cuda" else None)

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """Inductor's fused kernels, or PyTorch's own."""
        return (row_problems.INDUCTOR if self._options["compiled"] else row_problems.EAGER,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels; eager, Inductor's too."""
        return row_problems.others(*([row_problems.INDUCTOR] if self._options["compiled"] else []))

    def _bind(self, problem: Any, name: str, *arguments: Any) -> Callable[[], Any]:
        """The function of that name on these arguments; compiled for them unless that was done, and run once."""
        from baselines import row_functions

        function: Callable[..., Any] = getattr(row_functions, name)
        if not self._options["compiled"]:
            return lambda: function(*arguments)
        key = (name, *(tuple(a.shape) if hasattr(a, "shape") else a for a in arguments))
        if key not in _compiled:
            _compiled[key] = compile_alone(function, f"{name}_{len(_compiled)}")
        compiled = _compiled[key]
        compiled(*arguments)
        return lambda: compiled(*arguments)


def compile_alone(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function compiled with a code object of its own.

    Dynamo keeps compiled versions by code object and gives up after eight, so that shapes which shared one function
    would end in plain eager calls.
    """
    import torch

    assert isinstance(function, types.FunctionType)
    own = types.FunctionType(function.__code__.replace(co_name=name), function.__globals__, name)
    compiled: Callable[..., Any] = torch.compile(own, fullgraph=True, dynamic=False, mode=MODE)
    return compiled


class Rotary(_Functions):
    """Products with cos and sin, and their sums, in the problem's own layout."""

    def prepare(self, problem: RotaryProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs; compiled, compile and run once."""
        flags = (problem.layout == "bnhd", bool(problem.interleaved))
        tables = (inputs["cos"], inputs["sin"])
        if problem.tensors == 1:
            return self._bind(problem, "rotary", inputs["x"], *tables, *flags)
        return self._bind(problem, "rotary_of_two", inputs["q"], inputs["k"], *tables, *flags)


class DropoutAddLayernorm(_Functions):
    """Dropout, an addition and `layer_norm`; eager, three kernels."""

    def prepare(self, problem: LayernormProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Bind the inputs; compiled, compile and run once."""
        tensors = [inputs[name] for name in ("x", "residual", "weight", "bias")]
        return self._bind(problem, "dropout_add_layernorm", *tensors, float(problem.p), EPS)
