"""The comparison as a page of Markdown that also reads well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from harness.between.cases import Row
from harness.between.change import Change
from harness.between.comparison import Comparison
from harness.between.environment import Difference

HEADER = ("problem", "implementation", "before, us", "after, us", "speed", "95 % interval", "margin", "time", "cycles",
          "control", "verdict", "remark")  # fmt: skip


LEGEND = (
    "Speed is the earlier median latency over the new one: above 1, the new run is faster. The margin is what runs of "
    "unchanged code differ by. A case is FASTER or SLOWER only if its time, its clock cycles, and its time relative to "
    "the baselines in the same rounds all say so."
)


def render(comparison: Comparison) -> str:
    """The page: what is different first, then the outcome, then the table."""
    new, earlier = comparison.new, comparison.earlier
    runs = f"the last {len(earlier)} runs ({earlier[0].run_id} and later)"
    against = earlier[0].run_id if len(earlier) == 1 else runs
    where = (new.manifest["gpu"] or {}).get("name", new.manifest["device"])
    sections = (
        f"# {new.manifest['experiment']}: {new.run_id} against {against}",
        f"On {where}.",
        _order(comparison),
        _around(comparison),
        _outcome(comparison),
        _machine(comparison),
        table(comparison.rows),
        LEGEND,
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def table(rows: Sequence[Row]) -> str:
    """The cases under test, then the controls."""
    ordered = [row for row in rows if row.subject] + [row for row in rows if not row.subject]
    cells = [HEADER, *(_cells(row) for row in ordered)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])


def _cells(row: Row) -> tuple[str, ...]:
    ratio = row.time.ratio if row.time else None
    return (
        row.problem,
        row.label if row.subject else f"{row.label} (control)",
        _microseconds(row.before_us),
        _microseconds(row.after_us),
        f"{ratio.value:.4f}" if ratio else "",
        f"{ratio.interval.low:.4f} .. {ratio.interval.high:.4f}" if ratio else "",
        f"{row.time.margin_pct:.2f} %" if row.time else "",
        *(_view(view) if row.time else "" for view in (row.time, row.cycles)),
        _view(row.control) if row.time and row.subject else "",
        _verdict(row),
        row.remark.replace("|", "/"),
    )


def _verdict(row: Row) -> str:
    if row.failed:
        return "FAILED"
    if row.verdict is None:
        return ""
    return f"{row.verdict}, {row.again} the second time" if row.again else str(row.verdict)


def _view(view: Change | None) -> str:
    return f"{view.verdict} ({(1 / view.ratio.value - 1) * 100:+.2f} %)" if view else "not known"


def _microseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _order(comparison: Comparison) -> str:
    """A warning if the runs are not in order of time."""
    new, began = comparison.new, comparison.new.manifest["started_utc"]
    later = [run.run_id for run in comparison.earlier if run.manifest["started_utc"] > began]
    if not later:
        return ""
    return f"**The run judged here is the older one**: {new.run_id} began before {', '.join(later)}."


def _around(comparison: Comparison) -> str:
    """What differs beside the times, the reasons to suppress an alarm first."""
    lines = [_line(one) for one in comparison.found]
    for run, reasons in comparison.left_out:
        lines.append(f"- {run.run_id} left out: {'; '.join(str(one) for one in reasons)}")
    if not lines:
        return "Board, driver, libraries, settings and code are the same."
    return "\n".join(["## What is different", "", *lines])


def _line(one: Difference) -> str:
    return f"- **{one}** (no alarm while this differs)" if one.suppresses else f"- {one}"


def _outcome(comparison: Comparison) -> str:
    slower = comparison.slower
    lines = [f"- FAILED: {_name(row)}: {row.remark}" for row in comparison.failures]
    if not comparison.complete:
        lines.append(f"- FAILED: the new run did not complete, it is {comparison.new.manifest['status']}")
    lines += [f"- REGRESSION: {_name(row)} is {_slower(row)}, seen twice" for row in comparison.regressions]
    lines += [
        f"- suspected: {_name(row)} is {_slower(row)}; measure it again, and give that run with --again"
        for row in comparison.suspects
    ]
    lines += [
        f"- suspected: {_name(row)} is {_slower(row)}; {comparison.found[0].what} is not the same, but the controls "
        "are as fast as before: look at it before these times become what later nights are compared with"
        for row in comparison.unexplained
    ]
    if comparison.suppressed and slower and not comparison.unexplained:
        cases = "1 case is" if len(slower) == 1 else f"{len(slower)} cases are"
        lines.append(f"- {cases} slower, and no alarm is raised: {comparison.found[0].what} is not the same")
    if comparison.undecided:
        names = ", ".join(_name(row) for row in comparison.undecided)
        cases = "1 case" if len(comparison.undecided) == 1 else f"{len(comparison.undecided)} cases"
        lines.append(f"- undecided: {cases} took longer, but cycles or controls do not agree: {names}")
    if not comparison.compared:
        lines.append("- Nothing is compared: no case under test was timed alike in both runs.")
    return "\n".join(["## Outcome", "", *(lines or ["No case is slower, none fails or is gone that passed before."])])


def _machine(comparison: Comparison) -> str:
    """How the machine itself changed: the controls, and the roofs that both runs measured."""
    facts = []
    if comparison.controls_speed is not None:
        facts.append(f"the controls' speed is {comparison.controls_speed:.4f} of before")
    before, after = comparison.earlier[-1].manifest["roofs"], comparison.new.manifest["roofs"]
    for name in (name for name in before if name in after and before[name]):
        moved = (after[name] / before[name] - 1) * 100
        facts.append(f"{name} {before[name]:.4g} -> {after[name]:.4g} ({moved:+.0f} %)")
    return f"The machine: {', '.join(facts)}." if facts else ""


def _slower(row: Row) -> str:
    assert row.time is not None
    return f"{(1 / row.time.ratio.value - 1) * 100:.1f} % slower"


def _name(row: Row) -> str:
    return f"{row.problem} {row.label}"
