"""The workloads: one module each, found by name, loaded only when asked for.

A workload module satisfies the `Workload` protocol: a frozen dataclass `Problem`, inputs, a float64 reference, a
cost model and tolerances.  A new workload is a new module in this folder; nothing registers itself.  A module whose
name begins with an underscore is a part of another.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, Protocol, cast

from harness.records.errors import HarnessError
from harness.workloads.spec import Expected, Output, ProblemSpec, Reference, Tolerance, Traffic


class Workload(Protocol):
    """What a module of this folder offers; see `harness.workloads.gemm` for the plainest one."""

    Problem: Any  # the frozen dataclass, a subclass of ProblemSpec
    DTYPES: tuple[str, ...]
    DIRECTIONS: tuple[str, ...]
    DISTRIBUTIONS: tuple[str, ...]

    def make_inputs(self, problem: Any, generator: Any, distribution: str) -> dict[str, Any]:
        """Fresh input tensors on the generator's device."""

    def outputs(self, problem: Any) -> dict[str, Output]:
        """What a call returns, by name, in the order in which it returns them; may depend on the direction."""

    def reference(self, problem: Any, inputs: Mapping[str, Any], seed: int) -> Reference:
        """What the outputs should be, in float64; parts of them where the whole would take too long."""

    def tolerance(self, problem: Any, expected: Expected) -> Tolerance:
        """How far an output may be from `expected`, and why."""

    def flops(self, problem: Any) -> int:
        """Floating-point operations of the problem."""

    def traffic(self, problem: Any) -> Traffic:
        """Bytes in and out, each tensor once."""


OFFERED = tuple(name for name in (*Workload.__annotations__, *vars(Workload)) if not name.startswith("_"))
"""The names of that: what a module has to have."""


def ranks_of(problem: Any) -> int:
    """The ranks that a problem is of: 1 for most, which say nothing of it.

    Of several, each has inputs of its own; `reference` gets those of all, (W, ...), and gives what each should have.
    """
    return int(getattr(problem, "ranks", 1))


def followed(workload: Workload, problem: Any, inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """The inputs that a call has to read anew each time: all, unless the workload says which (`followed(problem)`)."""
    own = getattr(workload, "followed", None)
    return tuple(inputs) if own is None else tuple(own(problem))


def draws(workload: Workload, problem: Any) -> bool:
    """Whether each call draws random numbers of its own (`draws(problem)` of the workload); most do not."""
    own = getattr(workload, "draws", None)
    return own is not None and bool(own(problem))


def names() -> tuple[str, ...]:
    """Every workload there is, sorted."""
    modules = (info.name for info in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in modules if name != "spec" and not name.startswith("_")))


def load(name: str) -> Workload:
    """The workload module of that name; raises `HarnessError` for an unknown one, and for one that lacks something."""
    if name not in names():
        raise HarnessError(f"workload {name!r} is unknown: there is {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    if missing := [one for one in OFFERED if not hasattr(module, one)]:
        raise HarnessError(
            f"workload {name!r} has no {', '.join(missing)}: {module.__file__} needs what harness/workloads/gemm.py has"
        )
    return cast(Workload, module)


def parse_problem(workload: str, values: Mapping[str, object], *, dtype: str, direction: str) -> ProblemSpec:
    """The problem of a workload with the given keys; raises `HarnessError` naming the key that is wrong."""
    module = load(workload)
    for what, value, known in (("dtype", dtype, module.DTYPES), ("direction", direction, module.DIRECTIONS)):
        if value not in known:
            raise HarnessError(f"{workload} has no {what} {value!r}: there is {', '.join(known)}")
    return cast(ProblemSpec, module.Problem.from_mapping(workload, values, dtype=dtype, direction=direction))
