"""Plain PyTorch for a matrix product and what follows it, eager or under ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from baselines.cublas import CUBLAS_KERNELS
from baselines.gemm_problems import refuse
from baselines.gpu import refuse_other_gpus
from baselines.options import chosen
from baselines.sites import distribution_version, missing
from baselines.torch_rows import MODE, compile_alone

if TYPE_CHECKING:
    import torch

Function = Callable[..., "torch.Tensor"]


class EpilogueProblem(Protocol):
    """C (M, N) = epilogue(A (M, K) B (K, N)), `epilogue` bias_gelu, bias_gelu_tanh or gate_residual."""

    M: int
    N: int
    K: int
    epilogue: str
    dtype: str
    direction: str


# A process keeps what it compiled: a problem is asked for once per set of inputs.
_compiled: dict[tuple[object, ...], Function] = {}


class GemmEpilogue:
    """``addmm`` and ``gelu``, or a product, a multiplication and an addition.

    Eager, cuBLAS multiplies (and adds the bias) and PyTorch's kernels do the rest. Compiled with max-autotune, Inductor
    fuses the rest into one kernel, or into a Triton template of the product where that is faster.

    Options:
        compiled: 1 compiles for exactly this shape, with max-autotune and without CUDA graphs.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("torch", options, {"compiled": (0, 1)}, {"compiled": 0})

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

    def supports(self, problem: EpilogueProblem, device: str) -> str | None:
        """Any bf16 problem; compiled, on a GPU alone."""
        name = "torch_compile" if self._options["compiled"] else "torch"
        devices = ("cuda",) if self._options["compiled"] else ("cuda", "cpu")
        reason = refuse(problem, device, devices=devices, name=name)
        return reason or (refuse_other_gpus(name) if device == "cuda" else None)

    def kernel_names(self, problem: EpilogueProblem) -> tuple[str, ...]:
        """One of cuBLAS's families; compiled, a Triton template may take its place."""
        return (f"triton|{CUBLAS_KERNELS}" if self._options["compiled"] else CUBLAS_KERNELS,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """This project's kernels; eager, Inductor's too."""
        return ("kittens", *(() if self._options["compiled"] else ("triton",)))

    def prepare(self, problem: EpilogueProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Bind a, b and the epilogue's tensors; compiled, compile and run once."""
        function = _FUNCTIONS[problem.epilogue]
        names = ("gate", "residual") if problem.epilogue == "gate_residual" else ("bias",)
        arguments = [inputs[name] for name in ("a", "b", *names)]
        if self._options["compiled"]:
            key = (problem.epilogue, problem.M, problem.N, problem.K)
            if key not in _compiled:
                _compiled[key] = compile_alone(function, f"{problem.epilogue}_{len(_compiled)}")
            function = _compiled[key]
            function(*arguments)
        return lambda: function(*arguments)


def _bias_gelu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.nn.functional.gelu(torch.addmm(bias, a, b))


def _bias_gelu_tanh(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.nn.functional.gelu(torch.addmm(bias, a, b), approximate="tanh")


def _gate_residual(a: torch.Tensor, b: torch.Tensor, gate: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.addcmul(residual, gate, a @ b)


_FUNCTIONS: dict[str, Function] = {
    "bias_gelu": _bias_gelu,
    "bias_gelu_tanh": _bias_gelu_tanh,
    "gate_residual": _gate_residual,
}
