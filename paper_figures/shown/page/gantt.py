"""A recorded call as a Gantt chart: a row a block, what it attends to and merges, and what it waits for first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from harness.records.naming import parse_contestant
from paper_figures.labels import contestant_label
from paper_figures.numbers import significant
from paper_figures.recorded.machine_code import has_changed
from paper_figures.recorded.traces import RecordedTrace
from paper_figures.shown.exhibit import Exhibit
from paper_figures.words import say

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 640, 34, 34, 4, 20
"""Of the drawing and its margins; at the right there is half of the last tick's number, and the unit."""
TALL = 430
"""Of all rows together, in the drawing's units."""
LEAST, MOST = 2.0, 14.0
"""Height of a row."""
ATTEND, MERGE = "attend", "reduce"
PLOT = WIDTH - LEFT - RIGHT


def gantt_values(trace: RecordedTrace, exhibit: Exhibit) -> dict[str, Any]:
    """What the exhibit's page shows of a trace: a drawing, a caption in sentences, and the file."""
    return {
        "drawing": Markup(gantt_svg(trace)),
        "caption": caption(trace, exhibit),
        "file": f"traces/{trace.path.name}",
    }


def caption(trace: RecordedTrace, exhibit: Exhibit) -> tuple[str, ...]:
    """What is drawn, how much of it is waiting, how exact its times are, and where it is from."""
    about, us = trace.about, trace.us
    ends: dict[int, float] = {}
    for one in trace.instructions:
        ends[one.block] = max(ends.get(one.block, 0.0), one.end)
    waits = sum(one.waited - one.start for one in trace.instructions) / len(ends)
    idle = sum(us - end for end in ends.values()) / len(ends)
    parts, merges = (sum(one.opcode == name for one in trace.instructions) for name in (ATTEND, MERGE))
    residual, kernel = about.get("clock_residual_us"), about.get("kernel")
    library = contestant_label(parse_contestant(about["contestant"]), exhibit.names)
    commit = f"{str(about['git_commit'])[:12]}{' with local changes' if about.get('git_dirty') else ''}"
    fit = significant(residual) if residual else ""
    times = {"us": significant(us), "waits": significant(waits), "idle": significant(idle)}
    changed = kernel is not None and has_changed(kernel)
    return (
        say("trace_rows", library=library, problem=exhibit.name_problem(about["problem"]), residual=fit),
        say("trace_colours", parts=parts, merges=merges),
        say("trace_times", **times),
        say("trace_source", gpu=trace.gpu, commit=commit, id=about["trace_id"], changed=changed),
    )


def gantt_svg(trace: RecordedTrace) -> str:
    """The drawing, in the page's colours."""
    us, high = trace.us, max(LEAST, min(MOST, TALL / trace.blocks))
    bottom = TOP + trace.blocks * high
    scale = PLOT / us

    def strokes(kind: str, spans: Iterable[tuple[int, float, float]]) -> str:
        """Bars of one kind as one path: a stroke is as wide as a bar is high."""
        path = "".join(
            f"M{_text(LEFT + scale * start)} {_text(TOP + (block + 0.5) * high)}"
            f"h{_text(max(0.3, scale * (end - start)))}"
            for block, start, end in spans
        )
        return f'<path class="{kind}" stroke-width="{_text(0.86 * high)}" d="{path}"/>'

    every = trace.instructions
    bars = [
        strokes(name, [(one.block, one.start, one.end) for one in every if one.opcode == name])
        for name in (ATTEND, MERGE)
    ]
    bars.append(strokes("wait", [(one.block, one.start, one.waited) for one in every if one.waited > one.start]))
    step = _step(us)
    ticks = [step * number for number in range(int(us / step) + 1)]
    grid = "".join(f"M{_text(LEFT + scale * one)} {TOP}V{_text(bottom)}" for one in ticks)
    names = "".join(
        f'<text x="{_text(LEFT + scale * one)}" y="{_text(bottom + 14)}" text-anchor="middle">{one:g}</text>'
        for one in ticks
    )
    names += f'<text x="{WIDTH}" y="{_text(bottom + 14)}" text-anchor="end">µs</text>'
    for block in sorted({0, trace.blocks - 1}):
        names += f'<text x="{LEFT - 5}" y="{_text(TOP + (block + 0.5) * high + 4)}" text-anchor="end">{block}</text>'
    label = f"{trace.blocks} blocks over {significant(us)} µs: what it shows is said below"
    return (
        f'<svg class="gantt" viewBox="0 0 {WIDTH} {_text(bottom + BOTTOM)}" role="img" aria-label="{label}">'
        f'<path class="grid" d="{grid}"/>{"".join(bars)}{names}</svg>'
    )


def _step(us: float) -> float:
    """A round distance of four to nine ticks."""
    power = 10.0 ** math.floor(math.log10(us / 4))
    return power * max(factor for factor in (1, 2, 5) if power * factor <= us / 4)


def _text(value: float) -> str:
    """A coordinate to a tenth, less than a screen shows."""
    return f"{value:.1f}".removesuffix(".0")
