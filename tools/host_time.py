"""`python -m tools.host_time`: host time of a call of `tk.attention` on few queries, by either path.

It is the wall time of a call in a loop that waits for nothing, on the GPU that there is and the problems of the
experiment `few_queries`. `more` is what the decode path costs more, and HOST_MORE_US in
`tk_kernels/kernels/attention/by_decode.py` is its median, which the last line says. Each line also says whether its
problem is then taken by the decode path. `question` is what deciding it costs every call. It takes seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.records.errors import ended
from harness.records.naming import problem_keys
from harness.workloads.attention import Problem, shapes
from paper_figures.recorded.experiments import load_experiment
from tk_kernels.kernels.attention import by_decode as attention_decode
from tk_kernels.kernels.attention.by_decode import decode_us, predicts_faster, whole_us
from tk_kernels.kernels.attention.operator import attention

Call = Callable[[], Any]

CALLS, LOOPS = 100, 15
"""Calls per loop, few enough to be enqueued without a wait, and number of loops, of which the median is taken."""

HEADING = "  B   N causal    D  whole decode   more question  taken at HOST_MORE_US"


@dataclass(frozen=True)
class Calls:
    """What is timed on a problem: a call by either path, and the question which one it should be."""

    whole: Call
    decode: Call
    question: Call


@dataclass(frozen=True)
class Timed:
    """The host's time for them, in us."""

    problem: Problem
    whole_us: float
    decode_us: float
    question_us: float

    @property
    def more_us(self) -> float:
        """How much more the decode path costs; negative if it costs less."""
        return self.decode_us - self.whole_us


def problems() -> list[Problem]:
    """Those of the experiment."""
    texts = load_experiment("few_queries").problems
    return [Problem.from_mapping("attention", problem_keys(text), dtype="bf16", direction="fwd") for text in texts]


def host_us(call: Call, wait: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    """The wall time of a call in a loop, in us; the device is idle when a loop begins, and is not waited for in it."""
    call()
    seconds = []
    for _ in range(LOOPS):
        wait()
        began = clock()
        for _ in range(CALLS):
            call()
        seconds.append(clock() - began)
    wait()
    return 1e6 * statistics.median(seconds) / CALLS


def timed(
    problem: Problem, calls: Calls, wait: Callable[[], None], clock: Callable[[], float] = time.perf_counter
) -> Timed:
    """The host's times on a problem."""
    return Timed(problem, *(host_us(call, wait, clock) for call in (calls.whole, calls.decode, calls.question)))


def on_gpu(problem: Problem) -> Calls:
    """The calls on tensors of this GPU."""
    queries, keys = shapes(problem)
    q, k, v = (torch.randn(size, dtype=torch.bfloat16, device="cuda") for size in (queries, keys, keys))
    return Calls(
        lambda: attention(q, k, v, causal=problem.causal, path="whole"),
        lambda: attention(q, k, v, causal=problem.causal, path="decode"),
        lambda: attention_decode.takes(q, k, problem.causal),
    )


def report(rows: Sequence[Timed], gpu: str, multiprocessors: int) -> str:
    """A line per problem, and the resulting HOST_MORE_US."""
    more = statistics.median(row.more_us for row in rows)
    lines = [f"{gpu}: us that the host takes for a call", HEADING]
    for row in rows:
        one, (q, k) = row.problem, shapes(row.problem)
        answer = "yes" if predicts_faster(q, k, multiprocessors, more) else "no"
        lines.append(
            f"{one.B:3d} {one.N:3d} {'yes' if one.causal else 'no':>6} {one.D:4d} "
            f"{row.whole_us:6.1f} {row.decode_us:6.1f} {row.more_us:6.1f} {row.question_us:8.1f}  "
            f"{answer}, its kernel is predicted to take {decode_us(q, k, multiprocessors):.0f}, "
            f"the other {whole_us(q, k, multiprocessors):.0f}"
        )
    return "\n".join([*lines, f"HOST_MORE_US = {more:.1f}"])


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the report; its exit code is 2 where there is no GPU."""
    argparse.ArgumentParser(prog="python -m tools.host_time", description=__doc__).parse_args(argv)
    if not torch.cuda.is_available():
        print("tools.host_time: needs a CUDA GPU, PyTorch finds none here", file=sys.stderr)
        return 2
    rows = [timed(problem, on_gpu(problem), torch.cuda.synchronize) for problem in problems()]
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    print(report(rows, properties.name, properties.multi_processor_count))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
