"""Numbers of selected cells, each with its interval: rates, ratios, profiler metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.naming import Contestant
from harness.results import Run
from paper_figures.intervals import Measured
from paper_figures.judged.statistics import median_interval
from paper_figures.judged.verdicts import Missing, Outcome
from paper_figures.labels import contestant_label, words
from paper_figures.published.reference import Gpu
from paper_figures.recorded.selection import EXCUSED, Cell, Selected

GIGA = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}


def why_missing(cell: Cell | None, contestant: Contestant) -> Missing:
    """Why a case has no number: never run, or tried and ended otherwise than timed."""
    if cell is None or cell.row is None:
        return Missing(Outcome.NOT_RUN, f"{contestant_label(contestant)} was not run")
    outcome = Outcome.NOT_RUN if cell.status in EXCUSED else Outcome.BLOCKED
    return Missing(outcome, f"{contestant_label(contestant)} {words(cell.status)}: {cell.reason}")


def rate(cell: Cell) -> Measured:
    """The rate of a timed cell in TFLOPS, with the interval of its median latency."""
    assert cell.run is not None
    assert cell.row is not None
    samples = cell.run.samples(str(cell.row["case_id"]))
    latency = median_interval(samples)
    work = float(cell.row["tflops"]) * float(cell.row["latency_us_p50"])
    return Measured(float(cell.row["tflops"]), work / latency.high, work / latency.low)


def published_share(cell: Cell, gpu: Gpu) -> float | None:
    """What turns a published TFLOPS into % of the roof of the paper's GPU, for the problem of a timed cell.

    The roof is min(matmul, bandwidth x intensity); the intensity is the row's own FLOPs over bytes.  None where the
    row has no bytes.
    """
    assert cell.row is not None
    tflops, gbps = float(cell.row["tflops"]), float(cell.row["gbps"])
    if not (math.isfinite(tflops) and math.isfinite(gbps) and gbps > 0):
        return None
    return 100.0 / gpu.roofline_tflops(str(cell.row["dtype"]), tflops * 1e3 / gbps)


def fastest(selected: Selected | None, contestants: Sequence[Contestant]) -> Cell | Missing:
    """The timed cell with the least median latency; without any, why each contestant has no time."""
    cells = [selected.cell(one) if selected is not None else None for one in contestants]
    timed = [cell for cell in cells if cell is not None and cell.timed and cell.row is not None]
    if timed:
        return min(timed, key=lambda cell: float((cell.row or {})["latency_us_p50"]))
    missing = [why_missing(cell, one) for cell, one in zip(cells, contestants, strict=True)]
    blocked = any(one.outcome is Outcome.BLOCKED for one in missing)
    return Missing(
        Outcome.BLOCKED if blocked else Outcome.NOT_RUN, "; ".join(dict.fromkeys(one.reason for one in missing))
    )


def untimed(selected: Selected | None, contestants: Sequence[Contestant]) -> tuple[str, ...]:
    """The contestants that have no time, each with its status in words: `FlashAttention-3 (unavailable)`."""
    if selected is None:
        return ()
    cells = [(one, selected.cell(one)) for one in contestants]
    return tuple(
        f"{contestant_label(one)} ({words(cell.status) if cell is not None else 'not run'})"
        for one, cell in cells
        if cell is None or not cell.timed
    )


def speedup(selected: Selected | None, of: Contestant, over: Sequence[Contestant]) -> Measured | Missing:
    """Median latency of the fastest of `over` / that of `of`, from the stored ratio of the two, in either order."""
    found = judged_speedup(selected, of, over)
    return found if isinstance(found, Missing) else found[0]


def judged_speedup(
    selected: Selected | None, of: Contestant, over: Sequence[Contestant]
) -> tuple[Measured, str] | Missing:
    """The same with the verdict that was stored with the ratio: `FASTER`, `SAME`, ..."""
    mine = selected.cell(of) if selected is not None else None
    if mine is None or not mine.timed:
        return why_missing(mine, of)
    theirs = fastest(selected, over)
    if isinstance(theirs, Missing):
        return theirs
    found = cell_ratio(mine, theirs)
    if found is None:
        return Missing(Outcome.BLOCKED, f"the run stored no ratio of {of} to {theirs.contestant}")
    return found


def cell_ratio(cell: Cell, baseline: Cell) -> tuple[Measured, str] | None:
    """The ratio of two timed cells of one problem, as `stored_ratio`."""
    assert cell.run is not None
    assert cell.row is not None
    assert baseline.row is not None
    return stored_ratio(cell.run, str(cell.row["case_id"]), str(baseline.row["case_id"]))


def stored_ratio(run: Run, case: str, baseline: str) -> tuple[Measured, str] | None:
    """The ratio of two cases of one run with its verdict, from either order of the pair; None if none was stored."""
    flipped = {"FASTER": "SLOWER", "SLOWER": "FASTER"}
    for left, right in ((case, baseline), (baseline, case)):
        rows = run.ratios[(run.ratios["case_id"] == left) & (run.ratios["baseline_case_id"] == right)]
        if rows.empty:
            continue
        row = rows.iloc[0]
        ratio, verdict = Measured(float(row["ratio_p50"]), float(row["ci_low"]), float(row["ci_high"])), row["verdict"]
        return (ratio, str(verdict)) if left == case else (ratio.inverse(), flipped.get(str(verdict), str(verdict)))
    return None


def profile_value(cell: Cell | None, contestant: Contestant, metric: str) -> float | Missing:
    """A profiler metric of a cell, of the kernel that ran longest where there are several; byte rates in GB/s."""
    if cell is None or cell.row is None or cell.run is None or cell.row["status"] != "passed":
        return why_missing(cell, contestant)
    table = cell.run.profile
    rows = table[(table["case_id"] == cell.row["case_id"]) & (table["metric"] == metric)]
    if rows.empty:
        return Missing(Outcome.NOT_RUN, f"{contestant} was not profiled for {metric}")
    row = rows.iloc[0]
    if len(rows) > 1:
        durations = table[(table["case_id"] == cell.row["case_id"]) & (table["metric"] == "gpu__time_duration.sum")]
        if durations.empty:
            return Missing(Outcome.BLOCKED, f"{contestant} has {len(rows)} kernels and no durations to choose by")
        longest = durations.loc[durations["value"].idxmax(), "kernel_name"]
        named = rows[rows["kernel_name"] == longest]
        row = named.iloc[0] if not named.empty else row
    return in_giga(row)


def in_giga(row: pd.Series | Mapping[str, Any]) -> float:
    """The value of a profile row; a byte rate in any prefix comes back in GB/s."""
    value, unit = float(row["value"]), str(row["unit"]).strip()
    prefix, byte, _ = unit.partition("byte")
    if not byte and unit[-3:] == "B/s":
        prefix, byte = unit[:-3], "B"
    if not byte or "/" not in unit:
        return value
    return value * GIGA[prefix.strip().upper()[:1]]
