"""Results of several machines beside each other: kernels by figure, claims, and every case that all of them have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paper_figures.errors import PaperFiguresError
from paper_figures.intervals import Measured
from paper_figures.judged.quantities import speedup
from paper_figures.judged.verdicts import WITHOUT_NUMBER
from paper_figures.numbers import RATIO, ROOF, quantity, with_unit
from paper_figures.recorded.campaign import campaign_end
from paper_figures.shown.page.cases import Record, records
from paper_figures.shown.page.finding import OURS_DEFAULT, Ratios, libraries
from paper_figures.shown.render.html import case_key
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.table import ABSENT, Column, Table, Text, measured_range

SAME_CASE = ("operation", "direction", "dtype", "problem", "contestant")
"""What two machines have to agree in for their rates to stand in one row."""


def added(report: Report, others: Sequence[Report]) -> Report:
    """A report with other machines' beside it; raises `PaperFiguresError` for one that has nothing to compare."""
    own = {run.run_id for run in report.runs}
    for other in others:
        where = f"campaign {other.campaign} of {gpu(other)}"
        if twice := own & {run.run_id for run in other.runs}:
            raise PaperFiguresError(
                f"{where} has run {min(twice)}, which is in the report already: add another machine"
            )
        own |= {run.run_id for run in other.runs}
        if not _shared([report, other]):
            raise PaperFiguresError(
                f"{where} shares no timed case with campaign {report.campaign}: "
                f"to be compared, two machines need the same {', '.join(SAME_CASE[:-1])} and contestant"
            )
    return replace(report, others=tuple(others))


def gpu(report: Report) -> str:
    """The GPUs that a report's runs were measured on."""
    names = dict.fromkeys(str((run.manifest.get("gpu") or {}).get("name", "an unknown GPU")) for run in report.used)
    return " and ".join(names)


def labels(reports: Sequence[Report]) -> list[str]:
    """What each machine is called: its GPU, and its campaign too where GPUs are alike."""
    names = [gpu(one) for one in reports]
    return [
        f"{name} ({one.campaign})" if names.count(name) > 1 else name for name, one in zip(names, reports, strict=True)
    ]


def machine_values(report: Report) -> dict[str, Any]:
    """The values of the page of machines; an empty mapping where there is but one."""
    if not report.others:
        return {}
    reports = [report, *report.others]
    names, rows = labels(reports), _shared(reports)
    return {
        "sources": [
            f"{name}: campaign {one.campaign}, {len(one.used)} run{'s' if len(one.used) > 1 else ''}, "
            f"ended {campaign_end(one.used).date().isoformat()}."
            for name, one in zip(names, reports, strict=True)
        ],
        "figures": figures_table(reports, names),
        "claims": verdicts_table(reports, names),
        "cases": cases_table(rows, names),
    }


def figures_table(reports: Sequence[Report], names: Sequence[str]) -> Table:
    """Ours over the fastest library of each machine, and its share of that machine's roof: means of what all have."""
    rows = []
    for parts in zip(*(one.exhibits for one in reports), strict=True):
        exhibit = parts[0].exhibit
        if not libraries(exhibit):
            continue
        found = [_speeds(part) for part in parts]
        common = [problem for problem in found[0] if all(problem in one for one in found)]
        if not common:
            continue
        cells = [Text(f"{exhibit.where}: {exhibit.title}"), Text(str(len(common)), kind="number")]
        for speeds, part in zip(found, parts, strict=True):
            ratios = Ratios(tuple(speeds[problem] for problem in common))
            cells.append(Text(with_unit(quantity(ratios.mean, RATIO), RATIO), detail=ratios.text, kind="number"))
            cells.append(_share(part, common))
        rows.append(tuple(cells))
    columns = [Column("Figure"), Column("Problems", True)]
    for name in names:
        columns += [Column(f"Ours × fastest library, {name}", True), Column(f"% of roof, {name}", True)]
    remarks = (
        "Geometric means over the problems that every machine has timed. The fastest library may be another on each.",
        "% of roof: ours, of the roof in each GPU's own datasheet.",
    )
    return Table("Our kernels on each GPU, by figure", tuple(columns), tuple(rows), remarks)


def _speeds(part: ExhibitReport) -> dict[str, float]:
    """Ours over the fastest library, by problem."""
    found = ((one.problem, speedup(one, OURS_DEFAULT, libraries(part.exhibit))) for one in part.selections)
    return {problem: value.value for problem, value in found if isinstance(value, Measured)}


def _share(part: ExhibitReport, problems: Sequence[str]) -> Text:
    shares = [
        line.rate_pct
        for line in part.lines
        if line.problem in problems and line.cell.contestant == OURS_DEFAULT and line.rate_pct
    ]
    if not shares:
        return Text(ABSENT, kind="status")
    mean = math.exp(math.fsum(map(math.log, shares)) / len(shares))
    return Text(quantity(mean, ROOF), kind="number")


def verdicts_table(reports: Sequence[Report], names: Sequence[str]) -> Table:
    """The verdict of each claim on each machine; those on which machines differ come first."""
    rows = []
    for results in zip(*(one.results for one in reports), strict=True):
        if all(one.verdict in WITHOUT_NUMBER for one in results):
            continue
        cells = [Text(str(one.verdict), detail=measured_range(one), kind="verdict") for one in results]
        rows.append((len({one.verdict for one in results}) == 1, (Text(results[0].claim.sentence), *cells)))
    differ = sum(not alike for alike, _ in rows)
    return Table(
        caption=f"Verdicts on each GPU: {differ} of {len(rows)} tested claims differ",
        columns=(Column("Claim"), *(Column(name) for name in names)),
        rows=tuple(row for _, row in sorted(rows, key=lambda one: one[0])),
        remarks=(),
    )


def cases_table(rows: Sequence[tuple[Record, ...]], names: Sequence[str]) -> Table:
    """A row a case that every machine has timed."""
    columns = [Column("Operation"), Column("Problem"), Column("Library")]
    for name in names:
        columns += [Column(f"TFLOPS, {name}", True), Column(f"% of roof, {name}", True)]
    columns += [Column(f"{name} / {names[0]}", True) for name in names[1:]]
    cells = []
    for row in rows:
        first = row[0]
        line = [Text(f"{first['operation']} {first['direction']}, {first['dtype']}")]
        line += [Text(first["problem"].replace(";", " ")), Text(first["library"])]
        for one in row:
            star = "*" if one["settled"] else ""
            share = one["roof_pct_datasheet"]
            line.append(Text(f"{quantity(one['tflops'], 'TFLOPS')}{star}", case=case_key(one["page"]), kind="number"))
            line.append(Text(ABSENT if share is None else quantity(share, ROOF), kind="number"))
        line += [Text(with_unit(quantity(one["tflops"] / first["tflops"], RATIO), RATIO)) for one in row[1:]]
        cells.append(tuple(line))
    remarks = ("* is a rate of calls back to back; the others are of the interleaved rounds.",)
    starred = any(one["settled"] for row in rows for one in row)
    return Table("Every case on each GPU", tuple(columns), tuple(cells), remarks if starred else ())


def _shared(reports: Sequence[Report]) -> list[tuple[Record, ...]]:
    """The timed cases that all reports have, a record of each report, in the first one's order."""
    timed = [
        {tuple(one[name] for name in SAME_CASE): one for one in records(report) if one["tflops"] is not None}
        for report in reports
    ]
    return [tuple(own[key] for own in timed) for key in timed[0] if all(key in own for own in timed)]
