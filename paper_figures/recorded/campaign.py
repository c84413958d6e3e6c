"""Finding the recorded runs that a report is made from."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from harness.records.places import CHECKOUT, DATA, FIRST, RECORDED, WORK
from harness.runs import ResultsError, Run, load_campaign
from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError

ROOT = WORK
"""Where reports and new results go: the checkout, or of a wheel the folder of whoever calls."""
RESULTS = ROOT / "results"
MANIFEST = "manifest.json"


def carried(folder: Path, root: Path) -> Path:
    """A folder of results, or where there is none the one of that name that an installed package carries."""
    if CHECKOUT or folder.exists():
        return folder
    if not RECORDED.is_dir():
        raise PaperFiguresError(
            f"{RECORDED} is missing, the recorded runs of this installation: install a wheel of the project again, or "
            "give a folder of runs to report on"
        )
    resolved = folder if folder.is_absolute() else Path.cwd() / folder
    inside = DATA / resolved.relative_to(root) if resolved.is_relative_to(root) else folder
    return inside if inside.is_dir() else folder


def find_campaign(results: Path, name: str | None = None, gpu: str = "*") -> Path:
    """The folder of a campaign by name, or of the one with the newest run: `results/<gpu>/<campaign>`; gpu: its folder.

    What was verified on a CPU holds no times, and nights (campaigns `nightly...`) are no exhibits: without a name both
    are passed over.  A name that several GPUs have is that of the recorded campaign, where it is among them.
    Raises `PaperFiguresError` if there is none, or if the name does not decide.
    """
    runs = [path for path in results.glob(f"{gpu}/*/*/{MANIFEST}") if path.relative_to(results).parts[0] != "cpu"]
    folders = {path.parent.parent for path in runs if name is not None or not is_nightly(path.parent.parent)}
    if name is not None:
        folders = {folder for folder in folders if folder.name == name}
    if not folders:
        what = f"no recorded run of a campaign {name!r}" if name is not None else "no recorded run"
        raise PaperFiguresError(
            f"{results} holds {what}: restore the folder from the repository, or measure on a machine with a Hopper GPU"
        )
    if name is not None and len(folders) > 1:
        first = results.parent / FIRST
        if first not in folders:
            several = " and ".join(sorted(str(folder) for folder in folders))
            raise PaperFiguresError(f"campaign {name!r} is of several GPUs: give one of {several}")
        return first
    newest = max(runs, key=lambda path: (path.parent.parent in folders, path.parent.name, str(path)))
    return newest.parent.parent


def is_nightly(folder: Path) -> bool:
    """Whether a campaign is of nights, the same experiments again and again: `nightly...`."""
    return folder.name.startswith("nightly")


def load_runs(folder: Path) -> list[Run]:
    """The runs of a campaign's folder, newest first; a folder of one run is a campaign of one.

    Raises `PaperFiguresError` with the reader's own sentence if one cannot be used; no such folder is a wrong argument.
    """
    try:
        if (folder / MANIFEST).exists():
            runs = [run for run in load_campaign(folder.parent) if run.path.name == folder.name]
        else:
            runs = load_campaign(folder)
    except ResultsError as error:
        raise PaperFiguresError(str(error), 1 if folder.is_dir() else WRONG_ARGUMENTS) from None
    timed = [run for run in runs if run.manifest["device"] == "cuda"]
    if not timed:
        raise PaperFiguresError(f"{folder} holds no run on a GPU, and a report needs times: choose another campaign")
    return timed


def campaign_end(runs: Sequence[Run]) -> datetime.datetime:
    """When the last of the runs ended, in UTC: the date that every generated file carries."""
    ends = [str(run.manifest.get("ended_utc") or run.manifest["started_utc"]) for run in runs]
    return max(datetime.datetime.fromisoformat(text).astimezone(datetime.UTC) for text in ends)
