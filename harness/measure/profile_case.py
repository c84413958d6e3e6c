"""Runs one case for a profiler: `python -m harness.measure.profile_case FILE`, made by `harness.runs.ncu`.

The call runs a few times unobserved, so that compiling and tuning are over, then once between
cudaProfilerStart and cudaProfilerStop.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import torch
from hydra.utils import instantiate

from harness import workloads
from harness.plan.implementations import load
from harness.plan.seeds import derived

WARMUPS = 3


def main(file: str) -> None:
    """file: the pickled group, the number of its contestant, and the configuration's device."""
    group, index, settings = pickle.loads(Path(file).read_bytes())
    device = instantiate(settings)
    generator = device.generator(derived(group.seed, "inputs"))
    inputs = workloads.load(group.workload).make_inputs(group.problem, generator, group.distribution)
    call = load(group.contestants[index]).prepare(group.problem, inputs)
    for _ in range(WARMUPS):
        call()
    if not any(tensor.is_cuda for tensor in inputs.values()):
        call()
        return
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    main(sys.argv[1])
