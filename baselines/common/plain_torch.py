"""What the baselines that are plain PyTorch have in common: a function, eager or under `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from baselines.common.baseline import TORCH, TORCH_COMPILE, Baseline, Call, options
from baselines.common.compiled import INDUCTOR, compile_alone, leave_room
from baselines.common.sites import labelled_version

EAGER = "at::native|at6native"
"""PyTorch's own kernels, demangled or mangled; the libraries that it calls have other names."""

ROOM = 8
"""Memory for the trials of a compiled function, in sizes of its arguments."""

# A process keeps what it compiled: a problem is asked for once per set of inputs.
_compiled: dict[tuple[object, ...], Callable[..., Any]] = {}


class PlainTorch(Baseline):
    """A PyTorch function of a problem's tensors. A baseline adds `prepare`, which says what is computed.

    Options:
        compiled: 1 compiles it for exactly the problem's shape, 0 runs it eagerly.
    """

    library = TORCH
    choices = options(compiled=(0, 1))
    devices: tuple[str, ...] = ("cuda", "cpu")

    algorithm: str = ""
    """What `version` says of the algorithm."""

    mode: str | None = None
    """Mode of `torch.compile`; None is Inductor's default settings."""

    strangers: tuple[str, ...] = ()
    """Kernels of other libraries and of this project, none of which may run in its place."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.compiled = bool(self.options["compiled"])
        if self.compiled:
            self.library = TORCH_COMPILE if self.library is TORCH else replace(TORCH_COMPILE, name=self.library.name)
            self.devices = ("cuda",)

    def version(self) -> str:
        """PyTorch's version, and whether the code is compiled."""
        parts = [labelled_version("torch"), self.algorithm]
        if self.compiled:
            parts += ["torch.compile", labelled_version("triton"), f"mode {self.mode}" if self.mode else ""]
        else:
            parts.append("eager")
        return ", ".join(part for part in parts if part)

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """Inductor's fused kernels, or PyTorch's own; matrix products are cuBLAS's in both."""
        return (INDUCTOR if self.compiled else EAGER,)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels; eager, Inductor's too."""
        return (*self.strangers, *(() if self.compiled else (INDUCTOR,)))

    def bind(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
        """A call of `function`; compiled, for these shapes and options unless that was done, and run once.

        Of each argument that is not a tensor, and of each option, the value is compiled in.
        """
        if not self.compiled:
            return lambda: function(*arguments, **options)
        shapes = [tuple(value.shape) if hasattr(value, "shape") else value for value in arguments]
        key = (function, self.mode, *shapes, *sorted(options.items()))
        if key not in _compiled:
            settings = {"mode": self.mode} if self.mode else {}
            _compiled[key] = compile_alone(function, f"{function.__name__}_{len(_compiled)}", **settings)
            leave_room(ROOM * sum(value.nbytes for value in arguments if hasattr(value, "nbytes")))
        compiled = _compiled[key]
        compiled(*arguments, **options)
        return lambda: compiled(*arguments, **options)
