"""The wandb mirror of a stored run: `python -m harness.publish <run folder> [--mode online]`.

Everything published is read from the run folder, so the mirror can be made again at any time.
"""

from __future__ import annotations

import argparse
import datetime
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from harness.records import headline, stats
from harness.records.errors import HarnessError, one_line
from harness.records.naming import Contestant, gpu_slug, problem_keys
from harness.records.rows import FAILURES
from harness.runs import Run, load_run

METRICS = {"tflops": "tflops", "gbps": "gbps", "latency_us": "latency_us_p50", "roof_pct": "roof_pct_measured"}
"""Name in wandb -> column of `Measurement`, of the rounds."""

STARTED = "started"
"""Key of the summary: when the run started, in seconds since 1970, the axis of what is shown over time."""

LONGEST_TAG = 64
"""Characters that wandb takes."""

VERIFICATION = (
    *("case_id", "workload", "direction", "problem", "dtype", "distribution", "seed", "implementation", "variant"),
    *("version", "status", "reason", "rel_l2_error", "max_abs_error", "worst_output", "tolerance", "kernel_names"),
)
"""Columns of the table of the job `verify`."""


def publish(
    folder: str | Path, *, mode: str, project: str, entity: str | None, dir: str, figures: Path | None = None
) -> str:
    """Mirrors a run as one wandb run a job, all of one group; gives the local folder that wandb wrote of the main one.

    Jobs: `verify`, what was checked and how it ended; `measure`, the main one, if the device times; `figures`, the
    files of a report, if its folder is given. Raises `ResultsError` for an unusable run and `HarnessError` for a folder
    `dir` that cannot be written, `figures` that is none, or a wandb that begins no run.
    """
    run = load_run(folder)
    try:
        Path(dir).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=dir).close()  # wandb would write elsewhere
    except OSError as error:
        raise HarnessError(f"dir is {dir}, which cannot be written ({error.strerror}): give another") from None
    if figures is not None and not figures.is_dir():
        raise HarnessError(f"figures is {figures}, which is no folder: give that of a report")
    where = {}
    for job in jobs(run, figures):
        with _mirror(run, job, mode=mode, project=project, entity=entity, dir=dir) as mirror:
            if job == "verify":
                mirror.log({"verification": _table(run.measurements[list(VERIFICATION)])})
                mirror.summary.update(statuses(run))
            if job == "measure":
                _log_times(mirror, run)
            if job == main_job(run):
                mirror.log({"measurements": _table(run.measurements)})
                mirror.log_artifact(_artifact(run, "results", Path(folder), recursive=False))
            if job == "figures":
                assert figures is not None
                if mode == "online":  # wandb draws the lineage; the metadata say it in any mode
                    mirror.use_artifact(f"results-{run.run_id}:latest")
                mirror.log_artifact(_artifact(run, "figures", figures, recursive=True))
            where[job] = str(Path(mirror.dir).parent)
    return where[main_job(run)]


def tags(run: Run) -> list[str]:
    """Tags to filter runs by: GPU folder name or `cpu`, twelve digits of the commit, campaign."""
    gpu = run.manifest["gpu"]
    commit, campaign = str(run.manifest["git_commit"]), str(run.manifest["campaign"])
    named = (gpu_slug(str(gpu.get("name", ""))) if gpu else "cpu", commit[:12], campaign)
    return list(dict.fromkeys(one[:LONGEST_TAG] for one in named if one))


def main_job(run: Run) -> str:
    """`measure` for a device that times, `verify` for one that only verifies."""
    return "measure" if run.manifest["device"] == "cuda" else "verify"


def jobs(run: Run, figures: Path | None) -> list[str]:
    """The jobs that a run is mirrored as, each before those that use its output."""
    return list(dict.fromkeys(["verify", main_job(run), *(["figures"] if figures else [])]))


def statuses(run: Run) -> dict[str, int]:
    """How many cases ended how, `status/passed`, and how many of these are failures."""
    counts = run.measurements["status"].value_counts()
    return {"failures": _failures(run), **{f"status/{status}": int(count) for status, count in counts.items()}}


@contextmanager
def _mirror(run: Run, job: str, *, mode: str, project: str, entity: str | None, dir: str) -> Iterator[Any]:
    """A wandb run of one job, finished at the end; raises `HarnessError` for whatever keeps wandb from beginning it."""
    import wandb

    try:
        mirror = wandb.init(
            mode=mode,  # type: ignore[arg-type]
            project=project,
            entity=entity,
            dir=dir,
            name=f"{run.manifest['experiment']}-{run.run_id}-{job}",
            id=secrets.token_hex(4),  # WANDB_RUN_ID, which a job of a cluster may have, would make one of the jobs
            group=run.run_id,
            job_type=job,
            tags=tags(run),
            config={**run.manifest["config"], "manifest": {k: v for k, v in run.manifest.items() if k != "config"}},
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
    except Exception as error:  # no login, no network, no such team: wandb has an exception for each
        raise HarnessError(f"no run can begin at wandb (`wandb login` logs in): {one_line(error)}") from None
    try:
        yield mirror
    finally:
        mirror.finish()
        wandb.teardown()  # finish() may return before wandb's own process has written the file out


def _log_times(mirror: Any, run: Run) -> None:
    points = size_points(run)
    for key in sorted({key for point in points for key in point if key != "size"}):
        mirror.define_metric(key, step_metric="size")
    for point in points:
        mirror.log(point)
    mirror.summary.update(summary(run))


def _table(rows: pd.DataFrame) -> Any:
    import wandb

    return wandb.Table(dataframe=rows.astype(object).where(rows.notna(), None))


def _artifact(run: Run, kind: str, folder: Path, *, recursive: bool) -> Any:
    """The files of a folder; its metadata say what it was made of."""
    import wandb

    made_of = {"commit": run.manifest["git_commit"]} if kind == "results" else {"made_from": f"results-{run.run_id}"}
    metadata = {"campaign": run.manifest["campaign"], **made_of}
    artifact = wandb.Artifact(f"{kind}-{run.run_id}", type=kind, metadata=metadata)
    for file in sorted(path for path in (folder.rglob("*") if recursive else folder.iterdir()) if path.is_file()):
        artifact.add_file(str(file), name=file.relative_to(folder).as_posix())
    return artifact


def _failures(run: Run) -> int:
    return int(run.measurements["status"].isin([str(one) for one in FAILURES]).sum())


def summary(run: Run) -> dict[str, float]:
    """Scalars of a run: `failures`, when it `started`, and geometric means over its problems.

    `<experiment>/<workload>/ratio/<baseline>/geomean` is the headline speed of `tk` without options over each baseline,
    `<experiment>/<workload>/<implementation>/latency_us/geomean` the median latency in the rounds, `settled_cases` how
    many cases have settled headlines; for another direction than fwd the workload is `<workload>_bwd`.  Means over
    other problems are other numbers: each experiment has keys of its own.
    """
    experiment = run.manifest["experiment"]
    scalars: dict[str, float] = {
        "failures": float(_failures(run)),
        STARTED: datetime.datetime.fromisoformat(run.manifest["started_utc"]).timestamp(),
        "settled_cases": float(run.measurements["settled_blocks"].notna().sum()),
    }
    means: dict[str, list[float]] = {}
    for row in run.rows:
        if row["n_samples"]:
            key = f"{workload_of(row)}/{Contestant.of_row(row)}/latency_us"
            means.setdefault(key, []).append(row["latency_us_p50"])
    for (case, baseline), ratio in run.ratio_rows.items():
        ours, other = run.by_case[case], run.by_case[baseline]
        if Contestant.of_row(ours) == Contestant("tk"):
            key = f"{workload_of(ours)}/ratio/{Contestant.of_row(other)}"
            means.setdefault(key, []).append(headline.of_ratio(ratio).value)
    return scalars | {f"{experiment}/{key}/geomean": stats.geometric_mean(values) for key, values in means.items()}


def workload_of(row: Mapping[str, Any]) -> str:
    """`attention`, and `attention_bwd` for another direction than fwd."""
    return str(row["workload"]) + (f"_{row['direction']}" if row["direction"] != "fwd" else "")


def size_points(run: Run) -> list[dict[str, float]]:
    """One point a size, ascending: `<series>/<implementation>/<metric>` of every case that was timed.

    The size is the problem key that varies most over the run, else the first key. The series is the workload,
    `attention_bwd` for another direction than fwd, with the keys that vary at one size, `attention_bwd_causal=1`,
    and the kind of inputs where there are several, `gemm_zeros`.  Rates and latencies are the headline's, and `settled`
    is 1 where that is of settled blocks.
    """
    timed = [row for row in run.rows if row["n_samples"]]
    if not timed:
        return []
    problems = [row["problem"] for row in timed]
    key = varying_key(problems)
    others = also_varying(problems, key)
    kinds = len({row["distribution"] for row in timed}) > 1
    points: dict[float, dict[str, float]] = {}
    for row in timed:
        keys = problem_keys(row["problem"])
        own = [f"{other}={keys[other]}" for other in others if other in keys] + [row["distribution"]] * kinds
        series = "_".join([workload_of(row), *own])
        point = points.setdefault(float(keys[key]), {"size": float(keys[key])})
        rate = headline.of_case(row)
        values = {name: headline.known(row[column]) for name, column in METRICS.items()}
        values |= {"tflops": rate.tflops, "latency_us": rate.latency_us}
        values["settled"] = 1.0 if rate.source == headline.SETTLED else None
        who = Contestant.of_row(row)
        point.update({f"{series}/{who}/{name}": value for name, value in values.items() if value is not None})
    return [points[size] for size in sorted(points)]


def varying_key(problems: Sequence[str]) -> str:
    """The numeric key with the most values over all canonical texts, the first of equals.

    A key that some texts leave out is an option, and no size.
    """
    table = pd.DataFrame([problem_keys(text) for text in problems]).apply(pd.to_numeric, errors="coerce")
    return str(table.dropna(axis="columns").nunique().idxmax())


def also_varying(problems: Sequence[str], size: str) -> list[str]:
    """The keys that differ between canonical texts of one size; an absent key is at its default."""
    table = pd.DataFrame([problem_keys(text) for text in problems])
    groups = table.groupby(size)
    return [str(key) for key in table.columns if key != size and (groups[key].nunique(dropna=False) > 1).any()]


def main(argv: Sequence[str] | None = None) -> int:
    """Publishes one run folder; raises `HarnessError` if it cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.publish",
        description="Mirror a stored run to wandb: tables, configuration and an artifact with all samples.",
        epilog="example: python -m harness.publish results/<gpu>/scratch/<run> --mode online --project kernels",
    )
    parser.add_argument("run", type=Path, help="run folder, results/<gpu>/<campaign>/<run>")
    parser.add_argument(
        "--mode", choices=("offline", "online"), default="offline", help="offline writes files alone, for `wandb sync`"
    )
    parser.add_argument("--project", default="tk-bench", help="wandb project (default: tk-bench)")
    parser.add_argument("--entity", default=None, help="wandb team or user (default: your own)")
    parser.add_argument("--figures", type=Path, default=None, help="folder of a report made from the run, to add")
    parser.add_argument("--dir", default=".", help="where wandb keeps its local files")
    arguments = vars(parser.parse_args(argv))
    folder = arguments.pop("run")
    where = publish(folder, **arguments)
    print(f"published {folder} ({arguments['mode']}), local copy in {where}")
    return 0
