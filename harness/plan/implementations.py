"""Implementations as the harness calls them: made from a `_target_`, whatever is behind it.

An implementation is a class with `prepare` (and what else it offers of `Implementation`), or a plain function, which
is called `f(**inputs, **problem.options)` with the variant's options bound by keyword.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from hydra.utils import get_object

from harness.plan.planning import Candidate
from harness.records.errors import HarnessError, one_line
from harness.workloads.spec import OwnBound

Outputs = torch.Tensor | tuple[torch.Tensor, ...]
Call = Callable[[], Outputs]


MAY_WIDEN = ("baselines.",)
"""Packages whose implementations may declare a wider error bound of their own, unlike those under test."""

OURS = "tk_kernels."
"""The package of our own."""


class LoadError(HarnessError):
    """A `_target_` that cannot be imported or is no implementation, or a variant whose option it does not take."""


class Implementation:
    """What the harness asks of an implementation, and what holds where a part is left out; `prepare` may not be."""

    ours = False
    """Whether it is a kernel of ours, whose roundings are known and whose bound is narrower: `load` says so."""

    def available(self) -> str | None:
        """None, or why it cannot run here, with the command that installs it."""
        return None

    def version(self) -> str:
        """Itself and its library, with versions."""
        return type(self).__name__

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why it does not take this problem on `cuda` or `cpu`."""
        return None

    def kernel_names(self, problem: Any) -> Sequence[str]:
        """Regular expressions, each of which must match a CUDA kernel that one call runs."""
        return ()

    def foreign_kernel_names(self) -> Sequence[str]:
        """Regular expressions of which none may match."""
        return ()

    def build_manifest(self) -> Mapping[str, Any] | None:
        """How its kernel was built, where it has one of its own."""
        return None

    def tuning(self) -> Sequence[Mapping[str, Any]]:
        """What it has chosen by timing since it was made: `chosen` of `space`, in `tunings` and `seconds`."""
        return ()

    def loaded_kernels(self, device: str, direction: str) -> Sequence[str]:
        """Names of the kernels that calls load, which can be built beforehand."""
        return ()

    def tolerance(self, problem: Any) -> OwnBound | None:
        """The relative L2 error that a baseline has by design, where that is more than the workload allows."""
        return None

    def prepare(self, problem: Any, inputs: dict[str, torch.Tensor]) -> Call:
        """The call to be timed on these inputs. It works on the current stream and allocates its own outputs."""
        raise NotImplementedError

    def planning(self, problem: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], object] | None:
        """What makes the plan that `prepare` makes and calls then share; None where they need none."""
        return None

    def trace(self, problem: Any, inputs: dict[str, torch.Tensor]) -> tuple[Mapping[str, Any], Outputs] | None:
        """A Chrome trace of what the call's blocks did when, and the call's output; None if it records nothing."""
        return None


class FunctionImplementation(Implementation):
    """A plain function as an implementation."""

    def __init__(self, function: Callable[..., Outputs], **options: Any) -> None:
        self._function = function
        self._options = options
        with contextlib.suppress(ValueError):  # a builtin tells nothing of itself
            inspect.signature(function).bind_partial(**options)

    def version(self) -> str:
        package = (self._function.__module__ or "").partition(".")[0]
        return f"{getattr(self._function, '__qualname__', self._function)} of {package or 'unknown package'}"

    def prepare(self, problem: Any, inputs: dict[str, torch.Tensor]) -> Call:
        arguments = {**inputs, **problem.options, **self._options}
        return lambda: self._function(**arguments)


class _Completed(Implementation):
    """An object of a class that need not know this one: its own methods, and the defaults of those that it lacks."""

    def __init__(self, inner: Any) -> None:
        parts = [name for name in vars(Implementation) if not name.startswith("_")]
        own = {name: getattr(inner, name) for name in parts if getattr(inner, name, None) is not None}
        if ask := own.get("tolerance"):
            own["tolerance"] = lambda problem: None if (bound := ask(problem)) is None else OwnBound(*bound)
        vars(self).update({"version": lambda: type(inner).__name__} | own)


def load(contestant: Candidate) -> Implementation:
    """The implementation of a contestant; raises `LoadError`."""
    name = contestant.implementation
    path = str(contestant.target["_target_"])
    try:
        target = get_object(path)
    except Exception as error:  # an import runs foreign code: anything may come out of it
        cause = error.__cause__ or error
        raise LoadError(f"implementation {name}: {path} cannot be loaded: {one_line(cause)}") from error
    keywords = {key: value for key, value in contestant.target.items() if key != "_target_"}
    keywords.update(contestant.options)
    if not callable(target):
        kind = type(target).__name__
        raise LoadError(f"implementation {name}: {path} is a {kind}, needs a class with prepare() or a function")
    if inspect.isclass(target) and not callable(getattr(target, "prepare", None)):
        raise LoadError(f"implementation {name}: class {path} has no method prepare(problem, inputs)")
    if hasattr(target, "tolerance") and (name == "tk" or not path.startswith(MAY_WIDEN)):
        raise LoadError(
            f"implementation {name}: {path} brings a tolerance of its own, which only a baseline may "
            f"({', '.join(f'{start}*' for start in MAY_WIDEN)}): it is held to the workload's"
        )
    try:
        made = _Completed(target(**keywords)) if inspect.isclass(target) else FunctionImplementation(target, **keywords)
    except (TypeError, ValueError) as error:
        raise LoadError(f"implementation {contestant}: {one_line(error)}") from error
    made.ours = path.startswith(OURS)
    return made
