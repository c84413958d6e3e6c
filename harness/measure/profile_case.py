"""Runs one case for a profiler: `python -m harness.measure.profile_case '<JSON>'`, see `harness.runs.ncu.request`.

The call runs a few times unobserved, so that compiling and tuning are over, then once between
cudaProfilerStart and cudaProfilerStop.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import torch
from hydra.utils import instantiate

from harness import workloads
from harness.plan.implementations import load
from harness.plan.planning import Candidate
from harness.plan.seeds import derived
from harness.records.errors import HarnessError

WARMUPS = 3


def main(argv: Sequence[str]) -> int:
    """Exit code 0 if the case ran; 2 for an invalid request."""
    if len(argv) != 1:
        print("python -m harness.measure.profile_case takes one argument, a request as JSON", file=sys.stderr)
        return 2
    try:
        request = json.loads(argv[0])
        workload = workloads.load(request["workload"])
        problem = workloads.parse_problem(
            request["workload"], request["problem"], dtype=request["dtype"], direction=request["direction"]
        )
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except (ValueError, KeyError, TypeError):
        print("the argument is no request as JSON: `profile=ncu` of python -m harness makes them", file=sys.stderr)
        return 2
    device = instantiate(request["device"])
    implementation = load(Candidate.of(request["implementation"], request["target"]))
    inputs = workload.make_inputs(
        problem, device.generator(derived(request["seed"], "inputs")), request["distribution"]
    )
    call = implementation.prepare(problem, inputs)
    for _ in range(WARMUPS):
        call()
    if not any(tensor.is_cuda for tensor in inputs.values()):
        call()
        return 0
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
