"""A multirun spread over a cluster: each point is measured by a job of its own, and the jobs' parts become one run.

    python -m harness -m hydra/launcher=submitit_slurm experiment=fig7_gemm,fig8_attention
    python -m harness cluster results/.parts/<run>        # merges what jobs have stored, if the command was killed

A job writes a part, a run folder of its own below `<results_dir>/.parts/<run>/`, on a file system that all share.  A
group of contestants is timed by one job on one GPU, so that ratios are paired as ever.  Parts of boards of one name are
merged into one run; another name makes another run, in that board's folder of results.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import json
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig

from harness import runs as results
from harness.measure.ledger import added, overhead_pct
from harness.plan.settings import differences
from harness.records.errors import HarnessError
from harness.records.naming import gpu_slug, with_builds
from harness.records.rows import Measurement, ProfileMetric, Ratio, _Row
from harness.runs.invocation import Invocation
from harness.runs.store import Store, StoredGroup, StoreError, in_use, newest_settings, run_folder

PARTS = ".parts"
_LAUNCHER = "hydra/launcher="
_ERROR = ".error.json"
_Record = TypeVar("_Record", bound=_Row)


@dataclass(frozen=True)
class Order:
    """What every job is told.  parts: where it stores; stored: the run that is gone on with, if one is."""

    run_id: str
    arguments: tuple[str, ...]
    parts: Path
    stored: Path | None = None


def launcher(arguments: Sequence[str]) -> str | None:
    """The launcher that is asked for, unless it is Hydra's own; raises `HarnessError` where it cannot do its work."""
    named = [word.partition("=")[2] for word in arguments if word.startswith(_LAUNCHER)]
    if not named or named[-1] == "basic":
        return None
    if importlib.util.find_spec("submitit") is None or importlib.util.find_spec("hydra_plugins") is None:
        raise HarnessError(
            f"{_LAUNCHER}{named[-1]} needs hydra-submitit-launcher, which is not installed: "
            "pip install 'tk-kernels[cluster]'"
        )
    if not {"-m", "--multirun"} & set(arguments):
        raise HarnessError(f"{_LAUNCHER}{named[-1]} runs a job for each point of a multirun: add -m")
    return named[-1]


def order_of(invocation: Invocation, default_results_dir: str) -> Order:
    """What the jobs of this command are told."""
    named = [word for word in invocation.arguments if word.startswith("results_dir=")]
    results_dir = Path(_value(named[-1]) if named else default_results_dir)
    parts = (results_dir / PARTS / invocation.run_id).absolute()
    return Order(invocation.run_id, invocation.arguments, parts, invocation.folder)


def _value(word: str) -> str:
    """The value of an override without the quotes that Hydra takes off; as it stands in one that Hydra will refuse."""
    try:
        value = OverridesParser.create().parse_override(word).value()
    except HydraException:
        value = None
    return value if isinstance(value, str) else word.partition("=")[2]


def task(order: Order, run: Callable[[DictConfig, Invocation], None]) -> Callable[[DictConfig], None]:
    """The function that Hydra hands to every job, which is another process on perhaps another machine."""

    def job(config: DictConfig) -> None:
        measure_part(order, config, run)

    return job


def measure_part(order: Order, config: DictConfig, run: Callable[[DictConfig, Invocation], None]) -> None:
    """One job: measures its point into a part of its own.  A mistake is left as a file for the command to report."""
    part = order.parts / f"job-{secrets.token_hex(4)}"
    stored = results.load_manifest(order.stored)["groups"] if order.stored else ()
    invocation = Invocation(order.run_id, order.arguments, part=part, stored_elsewhere=tuple(stored))
    status = "failed"
    try:
        run(config, invocation)
        status = "completed"
    except KeyboardInterrupt:
        status = "interrupted"
    except HarnessError as error:
        order.parts.mkdir(parents=True, exist_ok=True)
        said = {"sentence": str(error), "exit_code": error.exit_code}
        part.with_suffix(_ERROR).write_text(json.dumps(said))
    finally:
        invocation.close(status)


def mistakes(parts: Path) -> list[HarnessError]:
    """What jobs could not do, as they said it."""
    said = [json.loads(path.read_text()) for path in sorted(parts.glob(f"*{_ERROR}"))]
    return [HarnessError(one["sentence"], one["exit_code"]) for one in said]


def wait_for_jobs(parts: Path, seconds: float = 2.0) -> None:
    """Returns when no job that has begun a part still writes into it."""
    while any(in_use(part) for part in parts.glob("job-*") if part.is_dir()):
        time.sleep(seconds)


def merge(parts: Path, results_dir: Path) -> list[Store]:
    """The runs made of these parts, each open; groups that are in them already are left as they are.

    A part is removed when all of it is in its run, so that a merge which was interrupted can be repeated.  Raises
    `StoreError` while a job still writes, and for parts that do not belong together.
    """
    loaded = []
    for part in sorted(path for path in parts.glob("job-*") if path.is_dir()):
        with Store.reopen(part):  # whole again, whatever ended the job; refused while it runs
            pass
        loaded.append(results.load_run(part))
    commits = {str(run.manifest["git_commit"]) for run in loaded}
    if len(commits) > 1:
        raise StoreError(f"{parts} holds parts of different commits, {', '.join(sorted(commits))}: measure them apart")
    by_slug: dict[str, list[results.Run]] = {}
    for run in loaded:
        gpu = run.manifest["gpu"]
        by_slug.setdefault(gpu_slug(str(gpu["name"])) if gpu else run.manifest["device"], []).append(run)
    stores: list[Store] = []
    with contextlib.ExitStack() as opened:
        for slug, runs in by_slug.items():
            store = _opened(runs[0], run_folder(results_dir, slug, str(runs[0].manifest["campaign"]), runs[0].run_id))
            opened.callback(store.__exit__)
            _merge_into(store, runs)
            stores.append(store)
            for run in runs:
                shutil.rmtree(run.path)
        opened.pop_all()  # they stay open
    return stores


def _opened(part: results.Run, folder: Path) -> Store:
    """The run that a part belongs to, which begins with the part's manifest."""
    if not folder.exists():
        own = ("groups", "notes", "seconds", "overhead_pct")
        entries = {key: value for key, value in part.manifest.items() if key not in own}
        return Store.create(folder, {**entries, "status": "running", "machines": []})
    store = Store.reopen(folder)
    if store.manifest["git_commit"] != part.manifest["git_commit"]:
        store.__exit__()
        raise StoreError(f"{folder} is of another commit than its parts in {part.path.parent}: start a new run")
    return store


def _merge_into(store: Store, runs: Sequence[results.Run]) -> None:
    """Adds the groups of all parts that are not there yet, and what the manifest says of the machines."""
    for run in runs:
        for group in run.manifest["groups"]:
            key = {"part": run.path.name, "case_ids": group["case_ids"]}
            if not any({name: had.get(name) for name in key} == key for had in store.manifest["groups"]):
                before = newest_settings(store.manifest["groups"], group["case_ids"])
                different = differences(before, group.get("settings", {})) if before else []
                store.append(_stored_group(run, group))
                if different:
                    store.note(
                        f"{group['workload']} {group['problem']} was measured by two jobs, the one that counts with "
                        f"{', '.join(different)}, which is not part of a case's name"
                    )
        for note in run.manifest["notes"]:
            store.note(note)
    manifests = [run.manifest for run in runs]
    parts = {run.path.name: _machine(run) for run in runs}
    known = [machine for machine in store.manifest.get("machines", []) if machine["part"] not in parts]
    there = [machine["part"] for machine in store.manifest.get("machines", [])]
    new = [dict(run.manifest.get("seconds", {})) for run in runs if run.path.name not in there]
    seconds = added(store.manifest.get("seconds", {}), *new)
    names = dict.fromkeys(name for m in (store.manifest, *manifests) for name in str(m["experiment"]).split(","))
    store.update(
        experiment=",".join(names),
        kernel_builds=reduce(with_builds, (m["kernel_builds"] for m in (store.manifest, *manifests))),
        machines=[*known, *parts.values()],
        seconds=seconds,
        overhead_pct=overhead_pct(seconds),
        started_utc=min(str(m["started_utc"]) for m in (store.manifest, *manifests)),
    )


def _machine(run: results.Run) -> dict[str, Any]:
    """Where a part was measured, and what that board reached."""
    kept = ("gpu", "libraries", "roofs", "started_utc", "ended_utc", "status")
    seconds = run.manifest.get("seconds", {})
    return {"part": run.path.name, **{key: run.manifest[key] for key in kept}, "seconds": seconds}


def _stored_group(run: results.Run, group: Mapping[str, Any]) -> StoredGroup:
    """A group of a part as it was handed to its store."""
    cases = list(group["case_ids"])
    measured = {m.case_id: m for m in _records(run.path / results.MEASUREMENTS, Measurement)}
    ratios = {(r.case_id, r.baseline_case_id): r for r in _records(run.path / results.RATIOS, Ratio)}
    profiled = _records(run.path / results.PROFILE, ProfileMetric) if (run.path / results.PROFILE).exists() else ()
    return StoredGroup(
        tuple(measured[case] for case in cases),
        tuple(ratio for (case, _), ratio in ratios.items() if case in cases),
        {case: run.seats(case) for case in cases},
        results.blocks_of(run, cases),
        tuple(metric for metric in profiled if metric.case_id in cases),
        group.get("energy_j"),
        group.get("seconds", {}),
        group.get("settings", {}),
        {"part": run.path.name},
    )


def _records(path: Path, record: type[_Record]) -> list[_Record]:
    with open(path, newline="") as file:
        return [record.from_row(row) for row in csv.DictReader(file)]


def main(argv: Sequence[str] | None = None) -> int:
    """Merges the parts of a run whose command ended before its jobs did; gives the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words in (["--help"], ["-h"]):
        print(f"usage: python -m harness cluster <results_dir>/.parts/<run>\n\n{main.__doc__}\n")
        print("example: python -m harness cluster results/.parts/20261122T104500Z-1a2b3c")
        return 0
    if len(words) != 1 or words[0].startswith("-"):
        print("python -m harness cluster takes one folder, <results_dir>/.parts/<run>", file=sys.stderr)
        return 2
    parts = Path(words[0]).absolute()
    if parts.parent.name != PARTS:
        print(f"{words[0]} is no <results_dir>/{PARTS}/<run>: give the folder of a run's parts", file=sys.stderr)
        return 2
    try:
        stores = merge(parts, parts.parents[1])
        if not stores:
            raise HarnessError(f"{parts} holds nothing that a job has stored")
        for store in stores:
            unfinished = any(machine["status"] != "completed" for machine in store.manifest["machines"])
            last = max((str(machine["ended_utc"] or "") for machine in store.manifest["machines"]), default="")
            store.update(status="interrupted" if unfinished else "completed", ended_utc=last or None)
            store.__exit__()
            print(f"{len(store.manifest['groups'])} problems -> {store.folder}")
    except (HarnessError, results.ResultsError) as error:
        print(str(error), file=sys.stderr)
        return getattr(error, "exit_code", 2)
    shutil.rmtree(parts, ignore_errors=True)
    return 0
