"""Numbers of selected cells, each with its interval: rates, ratios, profiler metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from harness.records.naming import Contestant
from harness.records.rows import Status
from harness.runs import Run
from paper_figures.intervals import Measured
from paper_figures.judged.statistics import median_interval
from paper_figures.judged.verdicts import Missing, Verdict
from paper_figures.labels import OURS, contestant_label, words
from paper_figures.published.reference import Gpu
from paper_figures.recorded.headline import headline_latency, headline_ratio, rounds_ratio, settled_tflops
from paper_figures.recorded.selection import EXCUSED, Cell, Selected

ReadRatio = Callable[[Mapping[str, Any]], Measured]
"""What makes a ratio of a row of a run's ratios."""
STANDS_FOR = {"flash_attn": "sdpa_flash"}
"""Libraries that another contestant is a build of: PyTorch's flash backend is FlashAttention-2."""
GIGA = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}


def why_missing(cell: Cell | None, contestant: Contestant) -> Missing:
    """Why a case has no number: never run, or tried and ended otherwise than timed.

    Our own kernel that was tried and failed falls short; any other case without a time leaves a claim untested.
    """
    if cell is None or cell.row is None:
        return Missing(Verdict.NOT_TESTED, f"{contestant_label(contestant)} was not run")
    failed = contestant.implementation == OURS and cell.status not in (*EXCUSED, "passed")
    outcome = Verdict.SHORT if failed else Verdict.NOT_TESTED
    reason = cell.reason.partition(": ")[0] if cell.status in EXCUSED else cell.reason  # how to install it: the table
    return Missing(outcome, f"{contestant_label(contestant)} {words(cell.status)}: {reason}")


def rate(cell: Cell) -> Measured:
    """The rate of a timed cell in TFLOPS: of calls back to back where they were timed, else of the rounds.

    The bounds of the former are those of its slowest and its fastest block, of the latter of the median latency.
    """
    assert cell.run is not None
    assert cell.row is not None
    settled = settled_tflops(cell.row)
    if settled is None:
        return rounds_rate(cell)
    table = cell.run.settled
    blocks = table.loc[table["case_id"] == cell.row["case_id"], "latency_us"].astype(float)
    work = settled * headline_latency(cell.row)
    return Measured(settled, work / max(blocks), work / min(blocks), settled=True)


def roof_share(cell: Cell, roof: str = "roof_pct_datasheet") -> Measured | None:
    """The rate of a timed cell in % of the datasheet's roof, or of another column's; None where there is none."""
    assert cell.row is not None
    percent, tflops = float(cell.row[roof]), float(cell.row["tflops"])
    return rate(cell).scaled(percent / tflops) if math.isfinite(percent) else None


def rounds_rate(cell: Cell) -> Measured:
    """The rate of a timed cell in the interleaved rounds, in TFLOPS, with the interval of its median latency."""
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
    """The fastest timed cell of what ours is compared with; without any, why each contestant has no time.

    Where the fastest of the rounds was timed back to back, it is the fastest of those that were.
    """
    cells = [selected.cell(one) if selected is not None else None for one in contestants]
    timed = [cell for cell in cells if cell is not None and cell.timed and cell.row is not None]
    settled = [cell for cell in timed if settled_tflops(cell.row or {}) is not None]
    if timed:
        quickest = min(timed, key=lambda cell: float((cell.row or {})["latency_us_p50"]))
        return min(settled if quickest in settled else [quickest], key=lambda cell: headline_latency(cell.row or {}))
    missing = [why_missing(cell, one) for cell, one in zip(cells, contestants, strict=True)]
    states = {cell.status if cell is not None else "not_run" for cell in cells} - set(EXCUSED)
    wrong = states == {Status.FAILED_VERIFICATION}
    return Missing(Verdict.NOT_TESTED, "; ".join(dict.fromkeys(one.reason for one in missing)), rival_is_wrong=wrong)


def untimed(selected: Selected | None, contestants: Sequence[Contestant]) -> tuple[str, ...]:
    """The contestants that have no time, each with its status in words: `FlashAttention-3 (unavailable)`.

    One that another contestant is a build of is not missed where that has a time.
    """
    if selected is None:
        return ()
    cells = {one: selected.cell(one) for one in contestants}
    timed = {one.implementation for one, cell in cells.items() if cell is not None and cell.timed}
    return tuple(
        f"{contestant_label(one)} ({words(cell.status) if cell is not None else 'not run'})"
        for one, cell in cells.items()
        if (cell is None or not cell.timed) and STANDS_FOR.get(one.implementation) not in timed
    )


def own_bounds(selected: Selected | None, contestants: Sequence[Contestant]) -> tuple[str, ...]:
    """Says of each that was timed under a wider error bound than the others: `FlashFFTConv is less precise ...`."""
    cells = [(one, selected.cell(one)) for one in contestants] if selected is not None else []
    return tuple(
        f"{contestant_label(one)} is less precise by design: {cell.own_bound}"
        for one, cell in cells
        if cell is not None and cell.own_bound
    )


def speedup(selected: Selected | None, of: Contestant, over: Sequence[Contestant]) -> Measured | Missing:
    """Median latency of the fastest of `over` / that of `of`, from the stored ratio of the two, in either order."""
    mine = selected.cell(of) if selected is not None else None
    if mine is None or not mine.timed:
        return why_missing(mine, of)
    theirs = fastest(selected, over)
    if isinstance(theirs, Missing):
        return theirs
    no_ratio = Missing(Verdict.NOT_TESTED, f"the run stored no ratio of {of} to {theirs.contestant}")
    return cell_ratio(mine, theirs) or no_ratio


def cell_ratio(cell: Cell, baseline: Cell, read: ReadRatio = headline_ratio) -> Measured | None:
    """The ratio of two timed cells of one problem, as `stored_ratio`.

    Its verdict is AMBIGUOUS where another run of the same code says otherwise of the pair.
    """
    assert cell.run is not None
    assert cell.row is not None
    assert baseline.row is not None
    found = stored_ratio(cell.run, str(cell.row["case_id"]), str(baseline.row["case_id"]), read)
    if found is not None and str(baseline.row["case_id"]) in cell.contradicted:
        return replace(found, verdict="AMBIGUOUS")
    return found


def cell_rounds_ratio(cell: Cell, baseline: Cell) -> Measured | None:
    """The ratio of the interleaved rounds, where another one is the headline; else None."""
    headline = cell_ratio(cell, baseline)
    return cell_ratio(cell, baseline, rounds_ratio) if headline is not None and headline.settled else None


def stored_ratio(run: Run, case: str, baseline: str, read: ReadRatio = headline_ratio) -> Measured | None:
    """The ratio of two cases of one run with its verdict, from either order of the pair; None if none was stored."""
    if (row := run.ratio_rows.get((case, baseline))) is not None:
        return read(row)
    row = run.ratio_rows.get((baseline, case))
    return None if row is None else read(row).inverse()


def profile_value(cell: Cell | None, contestant: Contestant, metric: str) -> float | Missing:
    """A profiler metric of a cell, of the kernel that ran longest where there are several; byte rates in GB/s."""
    if cell is None or cell.row is None or cell.run is None or cell.row["status"] != "passed":
        return why_missing(cell, contestant)
    table = cell.run.profile
    rows = table[(table["case_id"] == cell.row["case_id"]) & (table["metric"] == metric)]
    if rows.empty:
        return Missing(Verdict.NOT_TESTED, f"{contestant} was not profiled for {metric}")
    row = rows.iloc[0]
    if len(rows) > 1:
        durations = table[(table["case_id"] == cell.row["case_id"]) & (table["metric"] == "gpu__time_duration.sum")]
        if durations.empty:
            return Missing(Verdict.NOT_TESTED, f"{contestant} has {len(rows)} kernels and no durations to choose by")
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
