"""Nsight Compute metrics of a case, outside the timed pass: the command, its output, and what it says when it fails."""

from __future__ import annotations

import csv
import io
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.plan.planning import Group, Plan
from harness.records.provenance import ROOT
from harness.records.rows import ProfileMetric

_UNITS = {
    "byte/second": ("GB/s", 1e-9),
    "byte/s": ("GB/s", 1e-9),
    "byte": ("MB", 1e-6),
    "nsecond": ("us", 1e-3),
    "ns": ("us", 1e-3),
    "second": ("us", 1e6),
    "s": ("us", 1e6),
}
"""Base unit of Nsight Compute -> (unit stored, factor); other units stay as they are."""

MAX_LAUNCHES = 32
"""Kernels profiled of one call at most."""


@dataclass(frozen=True)
class Profiled:
    """Metrics of one case, or a note that says why there are none."""

    metrics: tuple[ProfileMetric, ...] = ()
    note: str = ""


def find_ncu() -> str | None:
    """The profiler's path: on PATH, in the CUDA toolkit, or in its own folder; None if it is nowhere."""
    places = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    candidates = [shutil.which("ncu"), *(f"{place}/bin/ncu" for place in places if place)]
    candidates += sorted(map(str, Path("/opt/nvidia/nsight-compute").glob("*/ncu")), reverse=True)
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def profile_case(plan: Plan, group: Group, index: int, kernel_names: Sequence[str], run_id: str) -> Profiled:
    """Runs one case under Nsight Compute and reads its metrics; whatever goes wrong is the note."""
    label = f"{group.contestants[index]} at {group.problem.title}"
    ncu = find_ncu()
    if ncu is None:
        return Profiled(note="no Nsight Compute metrics: ncu is not on PATH nor in CUDA_HOME; install nsight-compute")
    with tempfile.TemporaryDirectory(prefix="tk-bench-ncu-") as scratch:
        log, request = Path(scratch) / "metrics.csv", Path(scratch) / "request"
        request.write_bytes(pickle.dumps((group, index, dict(plan.device))))
        try:
            done = subprocess.run(
                command(ncu, log, plan.profile_metrics, request),
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=plan.limits.profile_seconds,
            )
        except subprocess.TimeoutExpired:
            return Profiled(note=f"no Nsight Compute metrics of {label}: not done in {plan.limits.profile_seconds:g} s")
        except OSError as error:
            return Profiled(note=f"no Nsight Compute metrics: {ncu} does not start: {error.strerror}")
        text = log.read_text(errors="replace") if log.exists() else ""
    rows = parse(text, plan.profile_metrics)
    own = [row for row in rows if not kernel_names or any(_same_kernel(row[0], name) for name in kernel_names)]
    if done.returncode != 0 or not own:
        return Profiled(note=f"no Nsight Compute metrics of {label}: {_complaint(text + done.stdout + done.stderr)}")
    case = group.case_id(group.contestants[index])
    return Profiled(
        tuple(
            ProfileMetric(run_id=run_id, case_id=case, kernel_name=kernel, metric=metric, value=value, unit=unit)
            for kernel, metric, value, unit in own
        )
    )


def command(ncu: str, log: Path, metrics: Iterable[str], request: Path) -> list[str]:
    """The command line.  Clocks are left as they are in the timed pass; only what the case marks is profiled."""
    return [
        ncu,
        *("--clock-control", "none"),
        *("--profile-from-start", "off"),
        *("--launch-count", str(MAX_LAUNCHES)),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--metrics", ",".join(metrics)),
        *("--log-file", str(log)),
        *(sys.executable, "-m", "harness.measure.profile_case", str(request)),
    ]


def parse(text: str, metrics: Iterable[str]) -> list[tuple[str, str, float, str]]:
    """(kernel, metric, value, unit) of the raw CSV page; of several launches of a kernel, the last.

    The page is one header line, one line of units, one line a launch; lines that begin with == are the tool's remarks.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    if len(rows) < 3 or "Kernel Name" not in rows[0]:
        return []
    header, units = rows[0], rows[1]
    found: dict[tuple[str, str], tuple[float, str]] = {}
    for row in rows[2:]:
        cells: Mapping[str, str] = dict(zip(header, row, strict=False))
        for metric in metrics:
            try:
                value = float(cells.get(metric, "").replace(",", ""))
            except ValueError:  # absent, or "n/a" on this architecture
                continue
            if not math.isfinite(value):  # "nan" where the counter saw nothing
                continue
            unit, factor = _UNITS.get(units[header.index(metric)], (units[header.index(metric)], 1.0))
            found[cells["Kernel Name"], metric] = (value * factor, unit)
    return [(kernel, metric, value, unit) for (kernel, metric), (value, unit) in found.items()]


def _same_kernel(profiled: str, timed: str) -> bool:
    """Whether two tools mean the same kernel: they print template arguments and parameters differently."""

    def plain(name: str) -> str:
        return re.split(r"[<(]", name.removeprefix("void ").strip())[0].split("::")[-1].strip()

    own = plain(profiled)
    return own == plain(timed) or (timed.startswith("_Z") and f"{len(own)}{own}" in timed)


def _complaint(text: str) -> str:
    """What the tool says went wrong, in its first line that says so."""
    if "ERR_NVGPUCTRPERM" in text:
        return "the driver gives performance counters to administrators only (ERR_NVGPUCTRPERM)"
    wrong = [line.strip("= ") for line in text.splitlines() if "==ERROR==" in line or "Error" in line]
    return wrong[0] if wrong else "it profiled no kernel of this implementation"
