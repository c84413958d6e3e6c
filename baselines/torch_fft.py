"""The long convolution through PyTorch's own transforms, cuFFT on a GPU."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.fft_conv_problems import CUFFT, INDUCTOR, MONARCH, OURS, FftConvProblem, points, refuse
from baselines.gpu import refuse_other_gpus
from baselines.options import chosen
from baselines.sites import distribution_version, missing

if TYPE_CHECKING:
    import torch

Convolution = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]

# A process keeps what it compiled: a problem is asked for once per set of inputs.
_compiled: dict[tuple[Any, ...], Convolution] = {}


class FftConv:
    """Transforms in fp32, as cuFFT needs for bf16 sequences: u is converted, y rounded, both inside the call.

    Where the filter is outside the clock its transform is made in ``prepare`` and kept in fp32.

    Options:
        transform: ``real`` uses rfft and irfft, half the work; ``complex`` fft and ifft, as the convolution is defined.
        compiled: 1 runs it under ``torch.compile``, which fuses what surrounds the transforms.
    """

    def __init__(self, **options: Any) -> None:
        known = {"transform": ("real", "complex"), "compiled": (0, 1)}
        self._options = chosen("torch_fft", options, known, {"transform": "real", "compiled": 0})

    def available(self) -> str | None:
        """None, or how to install PyTorch, with Triton where it compiles."""
        modules = ["torch", "triton"] if self._options["compiled"] else ["torch"]
        return missing(modules, f"pip install {' '.join(modules)}")

    def version(self) -> str:
        """PyTorch's version, that of its cuFFT, and whether the code is compiled."""
        import torch

        cufft = distribution_version("nvidia-cufft", "nvidia-cufft-cu12", "nvidia-cufft-cu13")
        how = "torch.compile" if self._options["compiled"] else "eager"
        return f"torch {torch.__version__}, {how}, cuFFT {cufft or 'of CUDA ' + str(torch.version.cuda)}"

    def supports(self, problem: FftConvProblem, device: str) -> str | None:
        """Any bf16 problem; compiled, on a GPU alone."""
        compiled = self._options["compiled"]
        reason = refuse(problem, device, devices=("cuda",) if compiled else ("cuda", "cpu"), name="torch_fft")
        return reason or (refuse_other_gpus("torch_fft") if device == "cuda" else None)

    def kernel_names(self, problem: FftConvProblem) -> tuple[str, ...]:
        """A transform; compiled, a fused kernel too."""
        return (CUFFT, INDUCTOR) if self._options["compiled"] else (CUFFT,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Monarch convolutions; eager, Inductor's kernels too."""
        return (MONARCH, OURS, "monarch_conv", *(() if self._options["compiled"] else (INDUCTOR,)))

    def prepare(self, problem: FftConvProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Transform the filter where that is outside, compile unless that was done, bind u (B, D, N) and k (D, N)."""
        u, k, of = inputs["u"], inputs["k"], points(problem)
        inside, real = problem.filter == "inside", self._options["transform"] == "real"
        key = (problem.B, problem.D, problem.N, of, inside, real)
        convolve = _convolution(of, inside=inside, real=real)
        if self._options["compiled"]:
            if key not in _compiled:
                _compiled[key] = _compile(convolve, "_".join(map(str, ("fft_conv", *map(int, key)))))
            convolve = _compiled[key]
        taps = k if inside else _transform(k, of, real=real)
        convolve(u, taps)
        return lambda: convolve(u, taps)


def _transform(x: torch.Tensor, of: int, *, real: bool) -> torch.Tensor:
    import torch

    return torch.fft.rfft(x, of) if real else torch.fft.fft(x, of)


def _convolution(of: int, *, inside: bool, real: bool) -> Convolution:
    """The convolution of u (B, D, N) with a filter or, unless it is inside, with the filter's transform."""
    import torch

    forward = torch.fft.rfft if real else torch.fft.fft
    backward = torch.fft.irfft if real else torch.fft.ifft

    def convolve(u: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
        product = forward(u.float(), of) * (forward(taps, of) if inside else taps)
        y = backward(product, of)
        return (y if real else y.real)[..., : u.shape[-1]].to(u.dtype).contiguous()

    return convolve


def _compile(function: Convolution, name: str) -> Convolution:
    """A compiled version with a code object of its own: Dynamo keeps eight by code object, then runs eagerly."""
    import torch

    assert isinstance(function, types.FunctionType)
    code = function.__code__.replace(co_name=name)
    own = types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    return torch.compile(own, fullgraph=True, dynamic=False)
