"""What the batch size does: rates and ratios of every kernel that cuts long sequences, and of attention."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from harness.records.naming import problem_keys
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.numbers import ROOF
from paper_figures.shown.case_rows import Line
from paper_figures.shown.charts import SERIES, house_style
from paper_figures.shown.exhibit_parts import Part, Sources
from paper_figures.shown.table import (
    ABSENT,
    BASELINE,
    Column,
    Table,
    Text,
    clock_remarks,
    quantity_text,
    rate_text,
    ratio_text,
    run_text,
)


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a case: batch, rate, share of the roof, speed relative to the fastest library."""
    rows: list[tuple[Text, ...]] = []
    groups: list[int] = []
    problem = ""
    for part in sources.parts:
        for line in (one for one in part.lines if one.cell.run is not None):
            if line.problem != problem:
                groups.append(len(rows))
            problem = line.problem
            rows.append(_row(part, line))
    numeric = ("N", "Batch", "TFLOPS", "% of roof", "× fastest library")
    titles = ("Kernel", "Form", "Implementation", *numeric, "Run")
    return Table(
        caption="Beyond the paper: Batch sizes",
        columns=tuple(Column(title, title in numeric) for title in titles),
        rows=tuple(rows),
        remarks=clock_remarks(sources.lines),
        groups=tuple(groups),
    )


def _row(part: Part, line: Line) -> tuple[Text, ...]:
    keys, key = problem_keys(line.problem), line.cell.key
    return (
        Text(part.exhibit.title),
        Text(line.panel or ABSENT),
        Text(line.label, case=key, note=line.cell.stale),
        Text(keys["N"], kind="number"),
        Text(keys["B"], kind="number"),
        rate_text(line),
        quantity_text(line.rate_pct, ROOF, key),
        Text(BASELINE, kind="number") if line.is_baseline else ratio_text(line),
        run_text(line),
    )


def draw(sources: Sources) -> Figure:
    """A panel a kernel: share of the roof over the batch size, a line each form and length."""
    parts = [part for part in sources.parts if any(line.rate_pct is not None for line in part.ours)]
    with house_style():
        figure = Figure(figsize=(11.5, 3.4 * (1 + (len(parts) - 1) // 3)), layout="constrained")
        axes = figure.subplots(1 + (len(parts) - 1) // 3, min(3, len(parts)), squeeze=False).ravel()
        for axis in axes[len(parts) :]:
            axis.remove()
        for axis, part in zip(axes, parts, strict=False):
            series = _series(part)
            for number, (name, lines) in enumerate(series):
                points = [(int(problem_keys(line.problem)["B"]), line.rate_pct) for line in lines]
                known = sorted((batch, percent) for batch, percent in points if percent is not None)
                axis.plot(*zip(*known, strict=True), "o-", color=SERIES[number % len(SERIES)], label=name, markersize=4)
            axis.set_title(part.exhibit.title)
            axis.set_xscale("log", base=2)
            batches = sorted({int(problem_keys(line.problem)["B"]) for line in part.ours})
            axis.set_xticks(batches, [str(batch) for batch in batches])
            axis.minorticks_off()
            axis.set_ylim(0, axis.get_ylim()[1] * (1 + 0.12 * len(series)))  # room for the legend above the lines
            axis.set_xlabel("batch")
            axis.set_ylabel("% of roof")
            axis.legend(fontsize=7.5, loc="upper left")
        return figure


def _series(part: Part) -> list[tuple[str, list[Line]]]:
    """The lines of one form and length together, in order, those with a number only."""
    series: dict[str, list[Line]] = {}
    for line in (one for one in part.ours if one.rate_pct is not None):
        length = f"N = {problem_keys(line.problem)['N']}"
        series.setdefault(f"{line.panel}, {length}" if line.panel else length, []).append(line)
    return list(series.items())
