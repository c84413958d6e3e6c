"""The wandb dashboard as code: `python -m harness dashboards <run folder>... --entity TEAM [--save] [--report]`.

`dashboard()` is a pure function of what stored runs publish, so every panel shows keys that exist; `workspace()` turns
it into a workspace of wandb-workspaces (an extra: `pip install 'tk-kernels[dashboards]'`).  `report()` makes a report
on these runs alone, which says what they are of.  Only `--save` needs a network.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.command.publish import METRICS, STARTED, size_points, statuses, summary, tags, workload_of
from harness.records.errors import HarnessError, one_line
from harness.runs import Run, load_run

UNITS = {"tflops": "TFLOPS", "gbps": "GB/s", "latency_us": "us", "roof_pct": "% of the measured roof"}


@dataclass(frozen=True)
class Panel:
    """A chart.  kind: `lines` over the size, one a key of the history; `bars`, one a run and a key of the summary; or
    `time`, a point a run of a key of the summary, over the start of the run.
    """

    kind: Literal["lines", "bars", "time"]
    title: str
    keys: tuple[str, ...]
    unit: str = ""


@dataclass(frozen=True)
class Section:
    """A titled group of panels."""

    name: str
    panels: tuple[Panel, ...]


def dashboard(runs: Iterable[Run]) -> tuple[Section, ...]:
    """An overview, a section a workload and regressions over time, of the keys that these runs publish.

    What is a mean over the problems of an experiment has a panel an experiment: its keys begin with the experiment.
    A workload's directions have sections of their own, `attention_bwd`, as their metrics have names of their own.
    """
    runs = list(runs)
    history = {key for run in runs for point in size_points(run) for key in point if key != "size"}
    scalars = {key for run in runs for key in summary(run)}
    workloads = {workload_of(row) for run in runs for row in run.rows}
    ratios = sorted({key.partition("/ratio/")[0] for key in scalars if "/ratio/" in key})
    overview = [Panel("bars", "Cases that failed", ("failures",))]
    for name in ratios:
        speeds = sorted(key for key in scalars if key.startswith(f"{name}/ratio/"))
        overview.append(Panel("bars", f"{name}: speed of tk over", tuple(speeds)))
    sections = [Section("Overview", tuple(overview))]
    for name in sorted(workloads):
        own = sorted(key for key in history if _owner(key, workloads) == name)
        keys = {metric: tuple(key for key in own if key.endswith(f"/{metric}")) for metric in METRICS}
        lines = (Panel("lines", f"{name}: {metric}", found, UNITS[metric]) for metric, found in keys.items() if found)
        sections.append(Section(name, tuple(lines)))
    over_time = (Panel("time", key, (key,)) for key in sorted(scalars) if key.endswith("/geomean"))
    sections.append(Section("Regressions over time", tuple(over_time)))
    return tuple(section for section in sections if section.panels)


def keys_of(panel: Panel) -> tuple[str, ...]:
    """Every key of a published run that a panel reads, that of its axis too."""
    return {"lines": ("size",), "bars": (), "time": (STARTED,)}[panel.kind] + panel.keys


def workspace(sections: Sequence[Section], *, entity: str, project: str, name: str) -> Any:
    """The sections as a workspace of wandb-workspaces, not saved; raises `HarnessError` where that is not installed."""
    panels, workspaces = _library("reports.v2"), _library("workspaces")
    made = [
        workspaces.Section(name=one.name, panels=[_made(panel, panels) for panel in one.panels], is_open=not number)
        for number, one in enumerate(sections)
    ]
    return workspaces.Workspace(entity=entity, project=project, name=name, sections=made)


def report(runs: Sequence[Run], *, entity: str, project: str, name: str) -> Any:
    """A report of wandb on these runs alone, not saved: what they are of, then the dashboard's sections.

    Raises `HarnessError` where wandb-workspaces is not installed.
    """
    panels, expressions = _library("reports.v2"), _library("expr")
    these = panels.Runset(
        entity=entity,
        project=project,
        name="These runs",
        filters=expressions.And(expressions.Metric("Group").isin([run.run_id for run in runs])),
    )
    blocks: list[Any] = [panels.P(text) for text in said_of(runs)]
    for section in dashboard(runs):
        made = [_made(panel, panels) for panel in section.panels]
        blocks += [panels.H2(section.name), panels.PanelGrid(runsets=[these], panels=made)]
    return panels.Report(
        entity=entity, project=project, title=name, description=", ".join(tags(runs[0])), blocks=blocks
    )


def said_of(runs: Sequence[Run]) -> list[str]:
    """A sentence per run: what it measured, on which GPU, at which commit, and how its cases ended."""
    sentences = []
    for run in runs:
        counts = statuses(run)
        ended = ", ".join(f"{count} {key.removeprefix('status/')}" for key, count in counts.items() if "/" in key)
        gpu, commit, *_ = tags(run)
        sentences.append(f"{run.run_id}: {run.manifest['experiment']} on {gpu} at commit {commit}. Cases: {ended}.")
    return sentences


def _library(part: str) -> Any:
    """A module of wandb-workspaces; raises `HarnessError` where it is not installed."""
    try:
        return importlib.import_module(f"wandb_workspaces.{part}")
    except ImportError:
        raise HarnessError(
            "wandb-workspaces is not installed, which dashboards need: pip install 'tk-kernels[dashboards]'"
        ) from None


def _made(panel: Panel, panels: Any) -> Any:
    """A panel as wandb-workspaces has it."""
    keys = list(panel.keys)
    if panel.kind == "lines":
        return panels.LinePlot(title=panel.title, x="size", y=keys, log_x=True, title_x="size", title_y=panel.unit)
    if panel.kind == "bars":
        return panels.BarPlot(title=panel.title, metrics=keys)
    return panels.ScatterPlot(title=panel.title, x=panels.SummaryMetric(STARTED), y=panels.SummaryMetric(keys[0]))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the dashboard of some runs, or saves it; raises `HarnessError`."""
    parser = argparse.ArgumentParser(
        prog="python -m harness dashboards",
        description="The wandb dashboard of runs: their speeds, ratios and errors as charts, or a report.",
        epilog="example: python -m harness dashboards results/<gpu>/scratch/<run> --save --entity my-team --report",
    )
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, results/<gpu>/<campaign>/<run>")
    parser.add_argument("--entity", default="", help="wandb team or user; needed with --save")
    parser.add_argument("--project", default="tk-bench", help="wandb project (default: tk-bench)")
    parser.add_argument("--name", default="Kernels", help="of the workspace (default: Kernels)")
    parser.add_argument("--report", action="store_true", help="with --save: a report on these runs, and no workspace")
    parser.add_argument("--save", action="store_true", help="store it at wandb; without, only print what it shows")
    arguments = parser.parse_args(argv)
    runs = [load_run(folder) for folder in arguments.runs]
    sections = dashboard(runs)
    if arguments.save:
        if not arguments.entity:
            raise HarnessError("--save needs --entity, the wandb team or user that it belongs to")
        where = {"entity": arguments.entity, "project": arguments.project, "name": arguments.name}
        print(_saved(report(runs, **where) if arguments.report else workspace(sections, **where)))
        return 0
    for section in sections:
        print(section.name)
        for panel in section.panels:
            print(f"  {panel.title}: {', '.join(keys_of(panel))}")
    return 0


def _saved(made: Any) -> str:
    """The address of a workspace or report, stored at wandb; raises `HarnessError` for whatever keeps wandb from it."""
    try:
        made.save()
        return str(made.url)
    except Exception as error:  # no login, no network, no such team: wandb has an exception for each
        raise HarnessError(f"nothing can be saved at wandb (`wandb login` logs in): {one_line(error)}") from None


def _owner(key: str, workloads: Iterable[str]) -> str:
    """The workload of a key of the history: the longest name that its series, `attention_bwd_causal=1`, begins with."""
    series = key.split("/", 1)[0]
    return max((name for name in workloads if f"{series}_".startswith(f"{name}_")), key=len)
