"""Problems that take seconds on a CPU, to offer where the ones asked for take minutes."""

from __future__ import annotations

from harness import workloads
from harness.records.errors import HarnessError
from harness.records.naming import problem_keys
from harness.workloads.spec import ProblemSpec

SMALL_LENGTH = 256
"""Sizes are halved down to this, after batches and heads are halved down to one."""
_COUNTS = ("B", "H", "G", "L")
"""First letters of the keys that count batches, heads, groups and layers."""


def smaller(workload: str, problem: ProblemSpec, most_flops: float) -> ProblemSpec | None:
    """This problem, halved until it has at most `most_flops` operations; None if no size can be halved."""
    module = workloads.load(workload)
    values = dict(problem.as_mapping())
    least: set[str] = set()  # keys that the workload takes no smaller
    while module.flops(problem) > most_flops:
        if hasattr(module, "halved"):  # whose sizes are not all numbers
            problem = module.halved(problem)
            if problem is None:
                return None
            continue
        sizes = {key: size for key, size in values.items() if type(size) is int and key not in least}
        counts = {key: size for key, size in sizes.items() if size > 1 and key.startswith(_COUNTS)}
        lengths = {key: size for key, size in sizes.items() if size > SMALL_LENGTH}
        largest = max((counts or lengths).items(), key=lambda item: item[1], default=None)
        if largest is None:
            return None
        key, size = largest
        halved = {name: size // 2 for name in sizes if sizes[name] == size and name[0] == key[0]}  # N with Nkv
        try:
            problem = module.Problem.from_mapping(
                workload, values | halved, dtype=problem.dtype, direction=problem.direction
            )
            values |= halved
        except HarnessError:
            least |= halved.keys()
    return problem


def as_argument(problem: ProblemSpec) -> str:
    """The problem as one word of the command line, quoted for a shell: `'problems=[{M:256,N:256,K:256}]'`."""
    return "'problems=[{" + ",".join(f"{key}:{value}" for key, value in problem_keys(problem.text).items()) + "}]'"
