"""What a reader finds behind a cell: the case's row, samples, build and how to run it again.

The cases of a problem share a page, since they share a run, a machine and the rounds that they were timed in.
"""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.records.naming import Contestant
from harness.records.stats import ratio_margin
from harness.runs import Run
from paper_figures.intervals import Measured
from paper_figures.judged.quantities import rate, roof_share, rounds_rate
from paper_figures.judged.statistics import median_interval
from paper_figures.labels import contestant_label, words
from paper_figures.numbers import (
    RATIO,
    decimals,
    fixed,
    interval_text,
    measured_interval,
    quantity,
    significant,
    with_unit,
)
from paper_figures.recorded.selection import Cell, kernel_build
from paper_figures.shown.report.run_machine import machine_facts
from paper_figures.shown.svg import histogram_svg, samples_svg
from paper_figures.shown.table import ABSENT, Column, Table, Text
from paper_figures.words import say

MACHINE = ("experiment", "GPU", "driver", "commit")
"""What a case says of its run: the page of runs has the rest."""
KERNELS, LETTERS = 6, 60
"""How many kernels a case names, and with how many letters each: names of templates have thousands."""
PERCENTILES = {"least": 0, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "greatest": 100}


@dataclass(frozen=True)
class CaseDetails:
    """One case of the report."""

    id: str
    """Its place on the page."""
    title: str
    status: str
    reason: str
    stale: str
    headline: tuple[tuple[str, str, str], ...]
    """What was measured: name, value, and the interval or what else is beside it; empty where nothing was timed."""
    facts: tuple[tuple[str, str], ...]
    """Names and values, as text."""
    percentiles: tuple[tuple[str, str], ...]
    """Of the latency in us; empty where nothing was timed."""
    histogram: str
    """SVG; empty where nothing was timed."""
    dots: str
    """SVG of every sample over its round; empty where nothing was timed."""
    ratios: Table | None
    """Its speed relative to the cases that were timed in the same rounds; None without any."""
    command: str
    """Measures the case alone."""
    samples_file: str
    """Path within the report; empty where nothing was timed."""
    ratio_command: str
    """Measures it with those that shared its rounds; empty without any."""


@dataclass(frozen=True)
class CasePage:
    """The cases of one problem of one run, and what they have in common."""

    workload: str
    """With its pass and its problem."""
    cases: tuple[CaseDetails, ...]
    facts: tuple[tuple[str, str], ...]
    """Names and values that are those of every case, which lack them; empty where there is one case."""
    samples_files: tuple[str, ...]
    ratio_commands: tuple[str, ...]
    """One, unless some cases were timed again without the others."""
    run_id: str
    machine: tuple[tuple[str, str], ...]
    """What the run's manifest says."""


def case_page(cells: Sequence[Cell]) -> CasePage:
    """The page of cells that have a row and share a problem of a run."""
    first = cells[0]
    assert first.row is not None
    assert first.run is not None
    cases = [case_details(cell) for cell in cells]
    common = [fact for fact in cases[0].facts if len(cases) > 1 and all(fact in one.facts for one in cases)]
    row = first.row
    return CasePage(
        workload=f"{row['workload']} {row['direction']}, {row['dtype']}, {row['problem']}",
        cases=tuple(replace(one, facts=tuple(fact for fact in one.facts if fact not in common)) for one in cases),
        facts=tuple(common),
        samples_files=tuple(dict.fromkeys(one.samples_file for one in cases if one.samples_file)),
        ratio_commands=tuple(dict.fromkeys(one.ratio_command for one in cases if one.ratio_command)),
        run_id=first.run.run_id,
        machine=tuple(fact for fact in machine_facts(first.run) if fact[0] in MACHINE),
    )


def case_details(cell: Cell) -> CaseDetails:
    """The details of a cell that has a row."""
    assert cell.row is not None
    assert cell.run is not None
    case_id = str(cell.row["case_id"])
    samples = cell.run.samples(case_id)
    name = contestant_label(cell.contestant)
    percentiles = np.percentile(samples, list(PERCENTILES.values())) if samples.size else []
    return CaseDetails(
        id=cell.key.rpartition("-")[2],
        title=name,
        status=words(cell.status),
        reason=str(cell.row["reason"]),
        stale=cell.stale,
        headline=_headline(cell) if cell.timed and samples.size else (),
        facts=tuple((name, value) for name, value in _facts(cell.run, cell.row, cell) if value),
        percentiles=tuple(
            (name, fixed(float(value), 2)) for name, value in zip(PERCENTILES, percentiles, strict=False)
        ),
        histogram=histogram_svg(samples, f"histogram of {samples.size} latencies") if samples.size else "",
        dots=samples_svg(cell.run.rounds(case_id), samples, f"{samples.size} latencies, round by round")
        if samples.size
        else "",
        ratios=_ratios(cell, case_id, name),
        samples_file=samples_file(cell.run, case_id) if samples.size else "",
        command=str(cell.row["repro_command"]),
        ratio_command=_ratio_command(cell.run, case_id),
    )


def _headline(cell: Cell) -> tuple[tuple[str, str, str], ...]:
    """The median latency, the rate and the share of the roof, the first two with the median's interval.

    A case that was timed back to back too has that rate, and its share, besides; they are its headline.
    """
    assert cell.run is not None
    assert cell.row is not None
    interval = median_interval(cell.run.samples(str(cell.row["case_id"])))
    latency = Measured(float(cell.row["latency_us_p50"]), interval.low, interval.high)
    entries = [("median latency, µs", fixed(latency.value, 2), interval_text(latency, 2))]
    if math.isfinite(float(cell.row["tflops"])):
        measured = rounds_rate(cell)
        entries.append(("TFLOPS", significant(measured.value), interval_text(measured, decimals(measured.value) + 1)))
    if math.isfinite(float(cell.row["roof_pct_datasheet"])):
        entries.append(("% of the datasheet roof", fixed(float(cell.row["roof_pct_datasheet"]), 1), ""))
    settled, share = rate(cell), roof_share(cell)
    if settled.settled:
        bounds = interval_text(settled, decimals(settled.value) + 1)
        entries.append(("TFLOPS, back to back", significant(settled.value), bounds))
        entries += [("% of the datasheet roof, back to back", fixed(share.value, 1), "")] if share is not None else []
    return tuple(entries)


_RATIO = ("baseline_case_id", "ratio_p50", "ci_low", "ci_high", "verdict", "settled_ratio", "settled_verdict")


def _ratios(cell: Cell, case_id: str, name: str) -> Table | None:
    """The stored ratios of a case to every other of its group, and how far other runs have them."""
    run = cell.run
    assert run is not None
    names = (run.measurements[name].tolist() for name in ("case_id", "implementation", "variant"))
    contestants = {str(case): Contestant(str(one), str(variant)) for case, one, variant in zip(*names, strict=True)}
    noise = dict(zip(*(run.measurements[name].tolist() for name in ("case_id", "aa_noise_pct")), strict=True))
    own = (run.ratios["case_id"] == case_id).to_numpy()
    stored = [run.ratios[name].to_numpy()[own].tolist() for name in _RATIO]
    rows = []
    for baseline, value, low, high, verdict, settled, settled_verdict in zip(*stored, strict=True):
        ratio = Measured(float(value), float(low), float(high))
        margin = ratio_margin([noise[case_id], noise[baseline]])
        rows.append(
            (
                Text(contestant_label(contestants[str(baseline)])),
                Text(with_unit(quantity(ratio.value, RATIO), RATIO), kind="number"),
                Text(measured_interval(ratio, RATIO), kind="number"),
                Text(f"±{fixed(margin, 2)} %", kind="number"),
                Text(str(verdict)),
                Text(_spread(cell.again.ratios.get(str(baseline), ()), 3) or ABSENT),
                Text(ABSENT if math.isnan(settled) else f"{quantity(settled, RATIO)}× {settled_verdict}"),
            )
        )
    if not rows:
        return None
    titles = (
        "Over",
        "Speed",
        "95 % interval of this run",
        "Noise of the two",
        "Verdict",
        "All runs",
        "Back to back",
    )
    kept = [place for place in range(len(titles)) if place < 5 or any(row[place].text != ABSENT for row in rows)]
    columns = tuple(Column(titles[place], 0 < place < 4) for place in kept)
    cut = tuple(tuple(row[place] for place in kept) for row in rows)
    return Table(f"Speed of {name} relative to what was timed in the same rounds", columns, cut, ())


_CONTESTANTS = "implementations="
"""The argument of a command that names who is measured, a list in brackets."""


def _ratio_command(run: Run, case_id: str) -> str:
    """The command of a case with those that it has a ratio to, in the run's order; empty where it has none."""
    own = (run.ratios["case_id"] == case_id).to_numpy()
    commands = dict(zip(*(run.measurements[name].tolist() for name in ("case_id", "repro_command")), strict=True))
    together = {case_id, *run.ratios["baseline_case_id"].to_numpy()[own].tolist()}
    group = [str(command) for one, command in commands.items() if one in together]
    words = [word for command in group for word in shlex.split(command) if word.startswith(_CONTESTANTS)]
    if len(group) == 1 or len(words) < len(group):
        return ""
    named = ",".join(word.removeprefix(_CONTESTANTS)[1:-1] for word in words)
    chosen = f"{_CONTESTANTS}[{named}]"
    return shlex.join(chosen if word.startswith(_CONTESTANTS) else word for word in shlex.split(group[0]))


def _together(run: Run, case_id: str) -> list[str]:
    """The timed cases that share the rounds of a case, itself too, in the run's order."""
    groups = (group["case_ids"] for group in run.manifest["groups"] if case_id in group["case_ids"])
    return [one for one in next(groups, [case_id]) if run.samples(one).size]


def samples_file(run: Run, case_id: str) -> str:
    """Where the samples of a case are within the report: with those of the cases that share its rounds."""
    return f"samples/{run.run_id}-{_together(run, case_id)[0]}.csv.gz"


def samples_csv(run: Run, case_id: str) -> str:
    """Every sample of a case and of those that share its rounds: a row a round, a column a contestant.

    In us, to the nanosecond: clocks are read in steps of 32 ns.
    """
    cases = _together(run, case_id)
    names = (run.measurements[name].tolist() for name in ("case_id", "implementation", "variant"))
    contestants = {
        str(case): str(Contestant(str(one), str(variant))) for case, one, variant in zip(*names, strict=True)
    }
    series = [dict(zip(run.rounds(one).tolist(), run.samples(one).tolist(), strict=True)) for one in cases]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["round", *(f"{contestants[one]} us" for one in cases)])
    for number in sorted(set().union(*series)):
        writer.writerow(
            [number, *(f"{own[number]:.3f}".rstrip("0").rstrip(".") if number in own else "" for own in series)]
        )
    return text.getvalue()


def unique_cases(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells that have a row, each case of each run once, in the order given."""
    found: dict[str, Cell] = {}
    for cell in cells:
        if cell.row is not None:
            found.setdefault(cell.key, cell)
    return tuple(found.values())


def _facts(run: Run, row: dict[str, Any], cell: Cell) -> list[tuple[str, str]]:
    build = kernel_build(run, row) or {}
    return [
        ("version", str(row["version"])),
        ("relative L2 error", _scientific(row["rel_l2_error"])),
        ("tolerance", _scientific(row["tolerance"])),
        ("samples", str(int(row["n_samples"])) if row["n_samples"] else ""),
        ("column of the samples", f"{cell.contestant} us" if row["n_samples"] else ""),
        ("median latency in all runs, us", _spread(cell.again.medians_us, 2)),
        ("earlier", cell.faster_before),
        ("tuning", _tuning(run.tuning.get(str(row["case_id"]), ()))),
        ("timer", f"{row['timer']}, L2 {row['cache']}" if row["timer"] else ""),
        ("GB/s", _value(row["gbps"])),
        ("% of the measured roof", _value(row["roof_pct_measured"])),
        ("bound by", str(row["bound"])),
        ("A/A noise, %", _value(row["aa_noise_pct"])),
        ("SM clock, MHz", _value(row["sm_clock_mhz"])),
        ("time a call back to back, us", _value(row["settled_latency_us"])),
        ("SM clock back to back, MHz", _value(row["settled_clock_mhz"])),
        ("power back to back, W", _value(row["settled_power_w"])),
        ("power, W", _value(row["power_w"])),
        ("energy a call, mJ", _value(row["energy_mj"])),
        ("throttled", "" if row["throttled"] == "none" else str(row["throttled"])),
        ("inputs", f"{row['distribution']}, seed {row['seed']}"),
        ("kernels", _kernels(str(row["kernel_names"]))),
        ("registers a thread", _build_text(build, "registers")),
        ("spills, bytes", _build_text(build, "spills")),
        ("compiled by", ", ".join(filter(None, (_build_text(build, "compiler"), _build_text(build, "host_compiler"))))),
        ("sources", str(build.get("source_hash") or "")[:16]),
        ("machine code", str(build.get("binary_hash") or "")[:16]),
    ]


def _spread(values: Sequence[float], digits: int) -> str:
    """`61.20 to 63.05 in 3 runs of the same code`; empty where there is one."""
    if len(values) < 2:
        return ""
    return f"{fixed(min(values), digits)} to {fixed(max(values), digits)} in {len(values)} runs of the same code"


def _tuning(told: Sequence[Mapping[str, Any]]) -> str:
    """What was chosen by timing, of how many, and in which time."""
    return "; ".join(say("tuning", **{"kernels": {}, **one}) for one in told)


def _kernels(names: str) -> str:
    """The first kernels, shortened; the recorded run has all in full."""
    every = names.split(" | ")
    short = [one if len(one) <= LETTERS else f"{one[:LETTERS]}…" for one in every[:KERNELS]]
    more = [f"and {len(every) - KERNELS} more"] if len(every) > KERNELS else []
    return " | ".join([*short, *more])


def _build_text(build: dict[str, Any], key: str) -> str:
    value = build.get(key)
    return "" if value is None else str(value)


def _value(value: Any) -> str:
    return significant(float(value)) if math.isfinite(float(value)) else ""


def _scientific(value: Any) -> str:
    return f"{float(value):.2e}" if math.isfinite(float(value)) else ""
