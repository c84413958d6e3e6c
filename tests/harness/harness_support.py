"""Helpers of the harness's tests: overrides for the fakes, and the command as a process."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

FAST = [
    "device._target_=harness_fakes.FakeGpu",
    "timer.warmup_seconds=0.01",
    "timer.budget_seconds=0.3",
    "timer.min_rounds=20",
    "timer.max_rounds=60",
    "wandb=disabled",
]
"""A fake GPU and short timing."""


def contestant(name, fake, **options):
    """The overrides that enter a fake as a contestant."""
    base = f"+workload.implementations.{name}"
    return [f"{base}._target_=harness_fakes.{fake}", *(f"{base}.{key}={value}" for key, value in options.items())]


def small(m=64, n=48, k=64):
    return [f"problem.M={m}", f"problem.N={n}", f"problem.K={k}"]


def bench(arguments, **kwargs):
    """The command as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def only_run(results_dir):
    """The one run folder under a results folder."""
    folders = [manifest.parent for manifest in Path(results_dir).glob("*/*/*/manifest.json")]
    assert len(folders) == 1, folders
    return folders[0]
