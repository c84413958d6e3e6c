"""`python -m harness.overhead FOLDER...`: what runs cost, and how much of it was the harness.

FOLDER: a run, or a campaign with all its runs.  Runs from before there were accounts are estimated from what was always
stored: begin and end of the run, and the samples of the timed calls.  That overhead is an upper bound, with compiling,
tuning and the warm-up in it.
"""

from __future__ import annotations

import sys

from harness.entry import Parser, guarded

if __name__ == "__main__":
    sys.exit(guarded("harness.overhead"))

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.ledger import added, overhead_pct, sentence
from harness.naming import closest
from harness.results import MANIFEST, ResultsError, Run, load_campaign, load_run


@dataclass(frozen=True)
class Cost:
    """What a run cost.  estimated: from its samples, for want of an account; None where it did not even end."""

    run: Run
    seconds: Mapping[str, float] | None
    estimated: bool


def cost(run: Run) -> Cost:
    """The account of a run, or what can be known without one."""
    seconds = run.manifest.get("seconds")
    if seconds:
        return Cost(run, seconds, False)
    if run.manifest["ended_utc"] is None:
        return Cost(run, None, True)
    began, ended = (datetime.fromisoformat(str(run.manifest[key])) for key in ("started_utc", "ended_utc"))
    calls = sum(float(run.samples(case).sum()) for case in run.measurements["case_id"]) / 1e6
    whole = max((ended - began).total_seconds(), calls)
    return Cost(run, {"calls": calls, "other": whole - calls}, True)


def chosen(runs: Sequence[Run], newest: bool, without: Sequence[str]) -> list[Run]:
    """The runs of a report, oldest first: without these experiments, and of each of the others the newest alone."""
    kept = [run for run in runs if run.manifest["experiment"] not in without]
    kept.sort(key=lambda run: str(run.manifest["started_utc"]))
    last = {run.manifest["experiment"]: run.run_id for run in kept}
    return [run for run in kept if not newest or last[run.manifest["experiment"]] == run.run_id]


def report(runs: Sequence[Run]) -> str:
    """A line a run, and one for all that have an account."""
    costs = [cost(run) for run in runs]
    lines = [f"{one.run.manifest['experiment']} {one.run.run_id}: {_words(one)}" for one in costs]
    known = [one.seconds for one in costs if one.seconds is not None and not one.estimated]
    if known:
        lines.append(f"{len(known)} run{'s' * (len(known) > 1)} with an account: {sentence(added(*known))}")
    return "\n".join(lines)


def _words(one: Cost) -> str:
    if one.seconds is None:
        return "no account, and it did not end"
    if not one.estimated:
        return sentence(one.seconds)
    whole, share = sum(one.seconds.values()), overhead_pct(one.seconds)
    bound = "" if share is None else f", overhead at most {share:.0f} %"
    return f"no account; {whole:.0f} s from begin to end, {one.seconds['calls']:.1f} in timed calls{bound}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives its exit code: 2 where a folder cannot be used, which is said beside the others' lines."""
    parser = Parser(
        prog="python -m harness.overhead",
        description="What runs cost: seconds by purpose, and how much of them was the harness.",
        epilog="example: python -m harness.overhead results/h200-sxm/2026-11-paper",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a run, or a campaign of runs")
    parser.add_argument("--newest", action="store_true", help="of each experiment its newest run alone")
    parser.add_argument("--without", default="", metavar="NAME,...", help="leave out the runs of these experiments")
    arguments = parser.parse_args(argv)
    runs: list[Run] = []
    code = 0
    for folder in arguments.folders:
        try:
            runs += _runs(folder)
        except ResultsError as error:
            print(error, file=sys.stderr)
            code = 2
    without = [name for name in arguments.without.split(",") if name]
    here = sorted({str(run.manifest["experiment"]) for run in runs})
    for name in without if runs else ():
        if name not in here:
            print(f"--without {name}: no run is of it{closest(name, here)}", file=sys.stderr)
    runs = chosen(runs, arguments.newest, without)
    if runs:
        print(report(runs))
    return code


def _runs(folder: Path) -> list[Run]:
    return [load_run(folder)] if (folder / MANIFEST).exists() else load_campaign(folder)[::-1]
