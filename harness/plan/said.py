"""What a plan says before anything runs: who can run what on this machine, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.plan.planning import Candidate, Plan
from harness.records.errors import one_line


@dataclass(frozen=True)
class Inspected:
    """What is known of a contestant before anything runs.

    mistake: the user asked for a target or an option that does not exist.  missing: why it cannot run here.
    unsupported: problem's title -> reason.
    """

    contestant: Candidate
    version: str = ""
    mistake: str | None = None
    missing: str | None = None
    unsupported: dict[str, str] = field(default_factory=dict)

    def runs(self, title: str) -> bool:
        """Whether it takes the problem of that title here."""
        return not self.missing and title not in self.unsupported


def inspect(
    contestant: Candidate,
    problems: Sequence[Any],
    kind: str,
    refuse: Callable[[Any], str | None] = lambda problem: None,
) -> Inspected:
    """What is known of a contestant without running it.  kind: "cuda" or "cpu"; refuse: the device's own refusal."""
    from harness.plan.implementations import LoadError, load  # with torch, which the worker imports meanwhile

    try:
        implementation = load(contestant)
        missing = implementation.available()
        if missing:
            return Inspected(contestant, missing=missing)
        refusals = {one.title: refuse(one) or implementation.supports(one, kind) for one in problems}
        unsupported = {title: reason for title, reason in refusals.items() if reason}
        return Inspected(contestant, version=implementation.version(), unsupported=unsupported)
    except LoadError as error:
        return Inspected(contestant, mistake=str(error))
    except Exception as error:  # an implementation's own code: whatever it raises is its row's reason
        return Inspected(contestant, missing=one_line(error, named=True))


def absences(plan: Plan, inspected: Sequence[Inspected]) -> Iterator[str]:
    """A line for each contestant that is missing, and for each reason for which one takes no problem, or not these."""
    for one in inspected:
        if one.missing:
            yield f"missing {one.contestant}: {one.missing}"
        for reason in dict.fromkeys(one.unsupported.values()):
            problems = [problem for problem, its in one.unsupported.items() if its == reason]
            where = "" if len(problems) == len(plan.groups) else f" at {', '.join(problems)}"
            yield f"unsupported {one.contestant}{where}: {reason}"


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
    from harness.plan.implementations import load

    directions = dict.fromkeys(group.problem.direction for group in plan.groups)
    variants = [load(one) for one in plan.contestants if one.implementation == implementation]
    return tuple(
        dict.fromkeys(name for one in variants for way in directions for name in one.loaded_kernels(device, way))
    )
