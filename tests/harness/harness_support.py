"""Helpers of the harness's tests: overrides for the fakes, and the command as a process."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from harness.command import cli
from harness.command.cli import CONFIG_DIR
from harness.measure.line import Line
from harness.measure.supervisor import Worker
from harness.plan.seeds import derived
from harness.records import provenance
from harness.records.errors import ended
from harness.records.rows import Measurement, Ratio, Status, Verdict
from harness.runs.group import StoredGroup
from harness.runs.samples import Samples

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

FAST = [
    "device._target_=harness_fakes.FakeGpu",
    "timer.warmup_seconds=0.01",
    "timer.budget_seconds=0.3",
    "timer.min_rounds=20",
    "timer.max_rounds=60",
    "timer.settled=never",
    "limits.call_seconds=240",  # a loaded machine
    "wandb=disabled",
]
"""A fake GPU, short timing, and time limits that a loaded machine keeps."""


WARM = Worker(keep=True)
"""Of the commands that tests give in their own process, one after the other as in a batch: a start takes seconds."""


def main(arguments):
    """The command in this process, with the worker of the commands before; gives its exit code."""
    return cli.main(arguments, WARM)


def ending(command):
    """A command of `python -m harness` as its program ends it: with an exit code."""
    return lambda words: ended(lambda: command(words))


def contestant(name, fake, **options):
    """The overrides that enter a fake as a contestant."""
    base = f"+workload.implementations.{name}"
    return [f"{base}._target_=harness_fakes.{fake}", *(f"{base}.{key}={value}" for key, value in options.items())]


GOOD = [*contestant("mine", "Good", speed=1.2), *contestant("other", "Good"), "implementations=[mine,other]"]
"""Two contestants that are right, one of them faster."""


def line(sent, seed=0):
    """A line to a parent in this process, which hands out what is derived from a seed; `sent` gets what is sent."""
    return Line(sent.append, lambda index: None, lambda purpose, number: derived(seed, purpose, number))


def small(m=64, n=48, k=64):
    return [f"problem.M={m}", f"problem.N={n}", f"problem.K={k}"]


def bench(arguments, **kwargs):
    """The command as a process of its own, its output buffered as Python buffers it unasked."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def running(pid):
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def only_run(results_dir):
    """The one run folder under a results folder."""
    folders = [manifest.parent for manifest in Path(results_dir).glob("*/*/*/manifest.json")]
    assert len(folders) == 1, folders
    return folders[0]


def of_this_commit(folder):
    """Makes a stored run one of the present commit, whatever was committed since it was measured."""
    path = folder / "manifest.json"
    commit = provenance.source().git_commit
    path.write_text(json.dumps({**json.loads(path.read_text()), "git_commit": commit}))
    return folder


def one_line(text):
    """The only line of stderr that is not wandb's, which is no traceback."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("wandb")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def config(*overrides):
    """The composed configuration as plain data."""
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        composed = compose("config", overrides=["run_id=test", *overrides])
    return OmegaConf.to_container(composed, resolve=True)


def records(folder):
    """Every record of an offline run, as wandb's own reader gives them."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    (path,) = Path(folder).glob("*.wandb")
    store = DataStore()
    store.open_for_scan(str(path))
    found = []
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        found.append(record)
    return found


def edit(path, change):
    """Changes a stored group's file: `change` is given what it holds."""
    held = json.loads(gzip.decompress(path.read_bytes()))
    change(held)
    path.write_bytes(gzip.compress(json.dumps(held).encode(), mtime=0))


def renamed(folder):
    """Gives the rows of a run that was copied the name of its folder."""
    for path in folder.glob("group-*"):
        edit(path, lambda held: [row.update(run_id=folder.name) for row in held["measurements"] + held["ratios"]])


def key_of(item):
    return item.key or "/".join(item.nested_key)


TIMED = Measurement(
    run_id="20261120T120000Z-abcdef",
    case_id="tk",
    workload="gemm",
    direction="fwd",
    implementation="tk",
    variant="stages=2",
    version="1.0",
    problem="M=1;N=2;K=3",
    dtype="bf16",
    distribution="normal",
    seed=0,
    status=Status.PASSED,
    reason="",
    rel_l2_error=1.6e-3,
    max_abs_error=0.1,
    worst_output="c",
    tolerance=3.3e-3,
    n_samples=30,
    timer="cuda_events",
    cache="flushed",
    latency_us_p10=9.0,
    latency_us_p50=10.0,
    latency_us_p90=11.0,
    tflops=700.0,
    gbps=100.0,
    roof_pct_measured=90.0,
    roof_pct_datasheet=70.0,
    bound="compute",
    aa_noise_pct=0.1,
    sm_clock_mhz=1755.0,
    power_w=600.0,
    energy_mj=6.0,
    tflops_per_w=1.2,
    throttled="none",
    peak_memory_mib=12.5,
    kernel_names="kernel, with (a) comma | another",
    repro_command='python -m harness "x"',
)

NO_TIME = {**dict.fromkeys(Measurement.timed()), "n_samples": 0, "timer": "", "cache": "", "throttled": ""}
VERIFIED = replace(TIMED, **NO_TIME)

MANIFEST = {
    "run_id": "20261120T120000Z-abcdef",
    "campaign": "c",
    "started_utc": "2026-11-20T12:00:00Z",
    "ended_utc": None,
    "device": "cuda",
    "gpu": None,
    "datasheet": None,
    "experiment": "e",
    "status": "running",
    "git_commit": "0123456789abcdef",
    "git_dirty": False,
    "command": "python -m harness",
    "arguments": [],
    "config": {},
    "libraries": {},
    "kernel_builds": {},
    "roofs": {},
    "claim_files": {},
}
"""A manifest as an invocation begins one."""


def group(problem="M=1;N=2;K=3", cases=("a", "b"), n=30, median=10.0, settled=(), **changes):
    """A group as it is handed to the store."""
    latencies = dict(zip(("p10", "p50", "p90"), (median - 1, median, median + 1), strict=True))
    changes = {f"latency_us_{name}": value for name, value in latencies.items()} | changes
    measurements = tuple(replace(TIMED, case_id=case, problem=problem, n_samples=n, **changes) for case in cases)
    ratios = tuple(
        Ratio(
            run_id=TIMED.run_id,
            case_id=x,
            baseline_case_id=y,
            ratio_p50=1.0,
            ci_low=0.99,
            ci_high=1.01,
            verdict=Verdict.SAME,
        )
        for x in cases
        for y in cases
        if x != y
    )
    samples = {case: Samples(np.linspace(median - 1.25, median + 1.25, n), np.arange(n)) for case in cases}
    return StoredGroup(measurements, ratios, samples, settled, energy_j=12.0)


def replace_columns(run, **values):
    """A run with other values in columns of its measurements."""
    return replace(run, measurements=run.measurements.assign(**values))
