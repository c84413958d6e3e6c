"""What the baselines that are plain PyTorch have in common: a function, eager or under ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baselines.common.compiled import INDUCTOR, compile_alone, leave_room
from baselines.common.gpu import refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import distribution_version, missing

EAGER = "at::native|at6native"
"""PyTorch's own kernels, demangled or mangled; the libraries that it calls have other names."""

ROOM = 8
"""Memory for the trials of a compiled function, in sizes of its arguments."""

# A process keeps what it compiled: a problem is asked for once per set of inputs.
_compiled: dict[tuple[object, ...], Callable[..., Any]] = {}


class PlainTorch:
    """A PyTorch function of a problem's tensors. A baseline adds `prepare`, which says what is computed.

    Options:
        compiled: 1 compiles it for exactly the problem's shape, 0 runs it eagerly.
    """

    _algorithm: str = ""
    """What `version` says of the algorithm."""

    _mode: str | None = None
    """Mode of ``torch.compile``; None is Inductor's default settings."""

    _strangers: tuple[str, ...] = ()
    """Kernels of other libraries and of this project, none of which may run in its place."""

    def __init__(self, **options: Any) -> None:
        self._options = chosen("torch", options, {"compiled": (0, 1)}, {"compiled": 0})

    @property
    def _is_compiled(self) -> bool:
        return bool(self._options["compiled"])

    @property
    def _name(self) -> str:
        return "torch_compile" if self._is_compiled else "torch"

    def available(self) -> str | None:
        """None, or how to install PyTorch, with Triton where it compiles."""
        modules = ["torch", "triton"] if self._is_compiled else ["torch"]
        return missing(modules, f"pip install {' '.join(modules)}")

    def version(self) -> str:
        """PyTorch's version, and whether the code is compiled."""
        import torch

        parts = [f"torch {torch.__version__}", self._algorithm]
        if self._is_compiled:
            triton = distribution_version("triton", "pytorch-triton")
            parts += ["torch.compile", f"triton {triton}", f"mode {self._mode}" if self._mode else ""]
        else:
            parts.append("eager")
        return ", ".join(part for part in parts if part)

    def supports(self, problem: Any, device: str) -> str | None:
        """Any bf16 forward pass; compiled, on a GPU alone."""
        devices = ("cuda",) if self._is_compiled else ("cuda", "cpu")
        reason = refuse(problem, device, devices=devices, name=self._name)
        return reason or (refuse_other_gpus(self._name) if device == "cuda" else None)

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """Inductor's fused kernels, or PyTorch's own; matrix products are cuBLAS's in both."""
        return (INDUCTOR if self._is_compiled else EAGER,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels; eager, Inductor's too."""
        return (*self._strangers, *(() if self._is_compiled else (INDUCTOR,)))

    def _bind(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], Any]:
        """A call of ``function``; compiled, for these shapes and options unless that was done, and run once.

        Of each argument that is not a tensor, and of each option, the value is compiled in.
        """
        if not self._is_compiled:
            return lambda: function(*arguments, **options)
        shapes = [tuple(value.shape) if hasattr(value, "shape") else value for value in arguments]
        key = (function, self._mode, *shapes, *sorted(options.items()))
        if key not in _compiled:
            settings = {"mode": self._mode} if self._mode else {}
            _compiled[key] = compile_alone(function, f"{function.__name__}_{len(_compiled)}", **settings)
            leave_room(ROOM * sum(value.nbytes for value in arguments if hasattr(value, "nbytes")))
        compiled = _compiled[key]
        compiled(*arguments, **options)
        return lambda: compiled(*arguments, **options)
