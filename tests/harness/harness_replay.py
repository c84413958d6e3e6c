"""Nights without a GPU: synthetic samples through the real planner, statistics and store, as the worker would send
them.

A night has a seed, and may have a clock, a driver and a kernel of its own.
"""

import functools
from datetime import datetime

import numpy as np
from harness_fake_gpu import GPU
from harness_support import config

from harness.measure.messages import CaseOutcome, Machine
from harness.measure.supervisor import GroupResult
from harness.plan.planning import make_plan
from harness.records.rows import Status
from harness.runs.assemble import assemble
from harness.runs.invocation import Invocation

CLOCK_MHZ = 1755.0
MEDIAN_US = {"tk": 100.0, "cublas": 104.0, "quack": 110.0}


def record(
    results, run_id, *, seed, speed=1.0, quack=1.0, clock=1.0, rounds=250, campaign="nightly", overrides=(), **gpu
):
    """Stores one run and gives its folder.  speed: of the kernel under test; quack: of one of the two controls; clock:
    of the board, relative to the others'."""
    words = [
        "problems=[{grid: {M: [64], N: [48], K: [64, 128]}}]",
        f"implementations=[{','.join(MEDIAN_US)}]",
        "name=nightly_test",
        "seed=0",
        *overrides,
    ]
    settings = {**_composed(*words), "campaign": campaign, "results_dir": str(results)}
    plan = make_plan(settings, words)
    machine = Machine("cuda", True, {**GPU, **gpu}, {"torch": "2.13.0"}, {"copy_gbps": 4250.0})
    invocation = Invocation(run_id, tuple(words))
    store = invocation.open_store(plan, settings, machine)
    random = np.random.default_rng(seed)
    for group in plan.groups:
        outcomes = _outcomes(
            random, [str(one) for one in group.contestants], {"tk": speed, "quack": quack}, clock, rounds
        )
        store.append(assemble(plan, group, GroupResult(outcomes, 10.0), machine, run_id))
    began = datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ")
    store.update(started_utc=f"{began:%Y-%m-%dT%H:%M:%SZ}")
    store.update(kernel_builds={"tk": {"binary_hash": "0123456789", "compiler": "nvcc 13.0.88"}})
    invocation.close("completed")
    return store.folder


_composed = functools.cache(config)
"""Half a second each, and nights have the same configuration."""


def _outcomes(random, names, speeds, clock, rounds):
    """Latency = median over clock x the night's shift x a drift common to all x noise of its own."""
    common = (1 + 0.01 * np.sin(np.arange(rounds) / 50)) * random.lognormal(0, 0.002) / clock
    return tuple(
        CaseOutcome(
            index,
            Status.PASSED,
            version="good 1.0",
            rel_l2_error=1e-3,
            max_abs_error=1e-2,
            worst_output="c",
            tolerance=3e-3,
            latency_us=MEDIAN_US[name] / speeds.get(name, 1.0) * common * random.lognormal(0, 0.004, rounds),
            rounds=np.arange(rounds, dtype=np.int32),
            sm_clock_mhz=15.0 * round(CLOCK_MHZ * clock / 15),
            power_w=640.0,
            throttled="sw_power_cap",
            kernel_names=("fake_gemm_kernel",),
        )
        for index, name in enumerate(names)
    )
