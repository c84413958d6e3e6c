"""Which runs of an earlier command a reproduction keeps, and why it measures the others again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.records.naming import gpu_slug
from harness.records.provenance import Source
from harness.records.rows import Status
from harness.runs import ResultsError, load_manifest, load_run
from paper_figures.recorded.campaign import MANIFEST, ROOT
from paper_figures.recorded.configuration import CONFIGS, composed
from paper_figures.shown.exhibit import Exhibit

QUICK = {
    "timer.warmup_seconds": 0.3,
    "timer.budget_seconds": 1.5,
    "timer.ci_width": 0.01,
    "timer.min_rounds": 10,
    "timer.settled": "never",
}
"""How `--quick` times."""


@dataclass(frozen=True)
class Place:
    """Where a command measures: the campaign under `results`, the GPU's reported name, and the code as it is now."""

    results: Path
    campaign: str
    gpu: str
    source: Source

    @property
    def folder(self) -> Path:
        """Where the runs go: another GPU's are in another folder."""
        return self.results / gpu_slug(self.gpu) / self.campaign


@dataclass(frozen=True)
class Found:
    """The newest run of an experiment at a place.  refusal: why it cannot be kept, empty where it can."""

    folder: Path
    manifest: Mapping[str, Any]
    refusal: str = ""

    @property
    def complete(self) -> bool:
        """Whether it came to its end."""
        return self.manifest["status"] == "completed"


def newest_run(exhibit: Exhibit, place: Place, quick: bool) -> Found | None:
    """The newest run of an exhibit's experiment, and whether it is what would be measured now; None if there is none.

    A run as long as without `--quick` does for `--quick` too.  Runs that cannot be read are passed over.
    """
    for folder in sorted((path.parent for path in place.folder.glob(f"*/{MANIFEST}")), reverse=True):
        try:
            manifest = load_manifest(folder)
        except ResultsError:
            continue
        if manifest["experiment"] == exhibit.id and manifest["device"] == "cuda":
            return Found(folder, manifest, _refusal(exhibit, place, quick, manifest))
    return None


def _refusal(exhibit: Exhibit, place: Place, quick: bool, manifest: Mapping[str, Any]) -> str:
    if manifest["git_commit"] != place.source.git_commit:
        return f"is of commit {str(manifest['git_commit'])[:12]}"
    if manifest["git_dirty"]:
        return "was measured with changes that were not committed"
    if place.source.git_dirty:
        return "is of the commit without the changes that are in this checkout"
    done = {key: manifest["config"].get(key) for key in ("timer", "problems", "implementations")}
    if done not in [settings(exhibit, short) for short in {False, quick}]:
        return "has other problems, contestants or settings of the timer" + ("" if quick else ", as --quick has")
    return ""


def settings(exhibit: Exhibit, quick: bool, configs: Path = CONFIGS) -> dict[str, Any]:
    """The timer, problems and contestants that an exhibit is measured with, as a manifest has them: grids as grids."""
    config = composed(exhibit.id, configs)
    timer = config["timer"]
    if quick:
        timer.update({key.removeprefix("timer."): value for key, value in QUICK.items()})
    subset = quick and bool(exhibit.quick_problems)
    return {
        "timer": timer,
        "problems": [dict(one) for one in exhibit.quick_problems] if subset else config["problems"],
        "implementations": list(exhibit.quick_contestants if subset else config["implementations"]),
    }


def absent(folder: Path) -> tuple[str, ...]:
    """The contestants that were not installed when a run was measured; none for a run that cannot be read."""
    try:
        table = load_run(folder).measurements
    except ResultsError:
        return ()
    rows = table[table["status"] == Status.UNAVAILABLE]
    labels = [f"{name}[{v}]" if v else name for name, v in zip(rows["implementation"], rows["variant"], strict=True)]
    return tuple(dict.fromkeys(labels))


def installed_since(experiment: str, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the contestants that the harness finds here now; none where it cannot be asked."""
    if not names:
        return ()
    words = (f"experiment={experiment}", "device=cuda", f"implementations=[{','.join(map(json.dumps, names))}]")
    command = (sys.executable, "-m", "harness", *words, "plan=true", "wandb=disabled")
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ()
    return _not_missing(names, done.stdout) if done.returncode == 0 else ()


def _not_missing(names: Sequence[str], said: str) -> tuple[str, ...]:
    """The names of which the harness's plan has no line `missing <name>: <why>`."""
    missing = {line.removeprefix("missing ").partition(": ")[0] for line in said.splitlines()}
    return tuple(name for name in names if name not in missing)


def unfinished_campaign(exhibits: Sequence[Exhibit], quick: bool, place: Place, prefix: str) -> str | None:
    """The newest campaign `<prefix><day>` beside the place that has runs of this code and lacks an exhibit."""
    days = "[0-9]" * 4 + "-[0-9][0-9]-[0-9][0-9]"
    for name in sorted((path.name for path in place.folder.parent.glob(f"{prefix}{days}")), reverse=True):
        found = [newest_run(one, replace(place, campaign=name), quick) for one in exhibits]
        kept = [one for one in found if one is not None and not one.refusal]
        if kept and not all(one is not None and one.complete and not one.refusal for one in found):
            return name
    return None
