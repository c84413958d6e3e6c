"""Which problems an implementation refuses on this machine, and which kernels it loads, before anything is run."""

from __future__ import annotations

from harness.measure.measure import inspect
from harness.plan.implementations import load
from harness.plan.planning import Plan


def refusals(plan: Plan, implementation: str, device: str) -> tuple[str, ...]:
    """A reason for each problem of the plan that no variant of the implementation takes; empty for one that is taken.

    device: "cuda" or "cpu". Asking needs the device, and this process keeps some of its memory.
    """
    problems = tuple(group.problem for group in plan.groups)
    asked = [inspect(one, problems, device) for one in plan.contestants if one.implementation == implementation]
    found = []
    for problem in problems:
        reasons = [one.missing or one.mistake or one.unsupported.get(problem.title, "") for one in asked]
        found.append(reasons[0] if reasons and all(reasons) else "")
    return tuple(found)


def kernels(plan: Plan, implementation: str, device: str) -> tuple[str, ...]:
    """The kernels that the variants of an implementation load for the plan's problems, by name, as far as it says."""
    directions = dict.fromkeys(group.problem.direction for group in plan.groups)
    variants = [load(one) for one in plan.contestants if one.implementation == implementation]
    return tuple(
        dict.fromkeys(name for one in variants for way in directions for name in one.loaded_kernels(device, way))
    )
