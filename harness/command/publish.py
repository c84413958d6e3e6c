"""The wandb mirror of a stored run: `python -m harness.publish <run folder> [--mode online]`.

Everything published is read from the run folder, so the mirror can be made again at any time.
"""

from __future__ import annotations

import argparse
import datetime
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from harness.records import headline, stats
from harness.records.errors import HarnessError, one_line
from harness.records.naming import gpu_slug
from harness.runs import ResultsError, Run, load_run

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

FAILED = ("failed_verification", "out_of_memory", "timeout", "error")


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
        with tempfile.TemporaryFile(dir=dir):  # wandb would write elsewhere
            pass
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
    artifact = wandb.Artifact(
        f"{kind}-{run.run_id}", type=kind, metadata={"campaign": run.manifest["campaign"], **made_of}
    )
    for file in sorted(path for path in (folder.rglob("*") if recursive else folder.iterdir()) if path.is_file()):
        artifact.add_file(str(file), name=file.relative_to(folder).as_posix())
    return artifact


def _failures(run: Run) -> int:
    return int(run.measurements["status"].isin(FAILED).sum())


def summary(run: Run) -> dict[str, float]:
    """Scalars of a run: `failures`, when it `started`, and geometric means over its problems.

    `<experiment>/<workload>/ratio/<baseline>/geomean` is the headline speed of `tk` without options over each baseline,
    `<experiment>/<workload>/<implementation>/latency_us/geomean` the median latency in the rounds, `settled_cases` how
    many cases have settled headlines; for another direction than fwd the workload is `<workload>_bwd`.  Means over
    other problems are other numbers: each experiment has keys of its own.
    """
    table, experiment = run.measurements, run.manifest["experiment"]
    scalars: dict[str, float] = {
        "failures": float(_failures(run)),
        STARTED: _seconds(str(run.manifest["started_utc"])),
        "settled_cases": float(table["settled_blocks"].notna().sum()),
    }
    latencies: dict[str, list[float]] = {}
    for row in table[table["n_samples"] > 0].itertuples():
        workload = row.workload if row.direction == "fwd" else f"{row.workload}_{row.direction}"
        key = f"{experiment}/{workload}/{_label(row.implementation, row.variant)}/latency_us/geomean"
        latencies.setdefault(key, []).append(row.latency_us_p50)
    scalars |= {key: stats.geometric_mean(values) for key, values in latencies.items()}
    label = {
        row.case_id: (
            row.workload if row.direction == "fwd" else f"{row.workload}_{row.direction}",
            row.implementation,
            row.variant,
        )
        for row in table.itertuples()
    }
    pairs: dict[tuple[str, str], list[float]] = {}
    for ratio in run.ratios.to_dict("records"):
        workload, implementation, variant = label[ratio["case_id"]]
        _, baseline, baseline_variant = label[ratio["baseline_case_id"]]
        if (implementation, variant) == ("tk", ""):
            pairs.setdefault((workload, _label(baseline, baseline_variant)), []).append(headline.of_ratio(ratio).value)
    for (workload, baseline), values in pairs.items():
        scalars[f"{experiment}/{workload}/ratio/{baseline}/geomean"] = stats.geometric_mean(values)
    return scalars


def size_points(run: Run) -> list[dict[str, float]]:
    """One point a size, ascending: `<series>/<implementation>/<metric>` of every case that was timed.

    The size is the problem key that varies most over the run, else the first key. The series is the workload,
    `attention_bwd` for another direction than fwd, with the keys that vary at one size, `attention_bwd_causal=1`,
    and the kind of inputs where there are several, `gemm_zeros`.  Rates and latencies are the headline's, and `settled`
    is 1 where that is of settled blocks.
    """
    timed = run.measurements[run.measurements["n_samples"] > 0]
    if timed.empty:
        return []
    key = varying_key(list(timed["problem"]))
    others = also_varying(list(timed["problem"]), key)
    kinds = timed["distribution"].nunique() > 1
    points: dict[float, dict[str, float]] = {}
    for row in timed.itertuples():
        keys = _keys(row.problem)
        series = "_".join(
            [row.workload]
            + [row.direction] * (row.direction != "fwd")
            + [f"{other}={keys[other]}" for other in others if other in keys]
            + [row.distribution] * kinds
        )
        point = points.setdefault(float(keys[key]), {"size": float(keys[key])})
        rate = headline.of_case(row._asdict())
        values = {
            **{name: headline.known(getattr(row, column)) for name, column in METRICS.items()},
            "tflops": rate.tflops,
            "latency_us": rate.latency_us,
            "settled": 1.0 if rate.source == headline.SETTLED else None,
        }
        for name, value in values.items():
            if value is not None:
                point[f"{series}/{_label(row.implementation, row.variant)}/{name}"] = value
    return [points[size] for size in sorted(points)]


def varying_key(problems: Sequence[str]) -> str:
    """The numeric key with the most values over all canonical texts, the first of equals.

    A key that some texts leave out is an option, and no size.
    """
    table = pd.DataFrame([_keys(text) for text in problems]).dropna(axis="columns")
    numeric = [key for key in table.columns if table[key].map(_is_number).all()]
    return str(max(numeric, key=lambda key: table[key].nunique()))


def also_varying(problems: Sequence[str], size: str) -> list[str]:
    """The keys that differ between canonical texts of one size; an absent key is at its default."""
    table = pd.DataFrame([_keys(text) for text in problems])
    groups = table.groupby(size)
    return [str(key) for key in table.columns if key != size and (groups[key].nunique(dropna=False) > 1).any()]


EXAMPLES = """\
examples:
  python -m harness.publish results/<gpu>/scratch/<run>                   offline files, in ./wandb
  python -m harness.publish results/<gpu>/scratch/<run> --mode online     a run at wandb
  python -m harness.publish results/<gpu>/scratch/<run> --mode online --project kernels --entity my-team
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Publishes one run folder; exit code 2 with a sentence if it cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.publish",
        description="Mirror a stored run to wandb: tables, configuration and an artifact with all samples.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, help="run folder, results/<gpu>/<campaign>/<run>")
    parser.add_argument(
        "--mode", choices=("offline", "online"), default="offline", help="offline writes files alone, for `wandb sync`"
    )
    parser.add_argument("--project", default="tk-bench", help="wandb project (default: tk-bench)")
    parser.add_argument("--entity", default=None, help="wandb team or user (default: your own)")
    parser.add_argument("--figures", type=Path, default=None, help="folder of a report made from the run, to add")
    parser.add_argument("--dir", default=".", help="where wandb keeps its local files")
    arguments = parser.parse_args(argv)
    try:
        where = publish(
            arguments.run,
            mode=arguments.mode,
            project=arguments.project,
            entity=arguments.entity,
            dir=arguments.dir,
            figures=arguments.figures,
        )
    except (ResultsError, HarnessError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"published {arguments.run} ({arguments.mode}), local copy in {where}")
    return 0


def _seconds(utc: str) -> float:
    return datetime.datetime.fromisoformat(utc).timestamp()


def _keys(problem: str) -> dict[str, str]:
    """The keys of a canonical text."""
    return dict(item.split("=", 1) for item in problem.split(";") if "=" in item)


def _is_number(value: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", value) is not None


def _label(implementation: str, variant: str) -> str:
    return f"{implementation}[{variant}]" if variant else implementation
