"""A made-up campaign of all exhibits, and the report on it, made once a session; and a place for `reproduce-paper`.

The modules beside this file that are no tests are found by name, so this folder is on the path.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from harness.records.places import CODE
from paper_figures.command import digest, reproduce, steps
from paper_figures.exhibits import choose_exhibits, load_exhibits
from paper_figures.recorded.configuration import CONFIGS
from paper_figures.shown.derived import measured_exhibits
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import Report
from paper_figures.shown.report.writing import write_report

if TYPE_CHECKING:
    from report_support import Page, Recorded
    from reproduction_support import Processes


HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    """The module that writes made-up runs."""
    import synthetic

    return synthetic


def made_once(shared: Path, name: str, make: Callable[[Path], object]) -> tuple[Path, Any]:
    """A folder in `shared` that one worker makes for all, with `make(folder)`; and what that gave, kept as JSON."""
    folder, said = shared / name, shared / f"{name}.json"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what an interrupted session has left
            said.write_text(json.dumps(make(folder)))
    return folder, json.loads(said.read_text())


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the workers of a session have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def kept(request: pytest.FixtureRequest, shared: Path) -> Path:
    """What sessions have in common until something changes that a report is made from."""
    from inputs import digest_of_inputs

    cache = getattr(request.config, "cache", None)
    if cache is None:
        return shared
    place = Path(cache.mkdir("recorded_report"))
    now = place / digest_of_inputs([CODE / "results", CODE / "tests" / "paper_figures"])[:16]
    for old in place.iterdir():
        if old != now:
            shutil.rmtree(old, ignore_errors=True)
    now.mkdir(exist_ok=True)
    return now


@pytest.fixture(scope="session")
def campaign(shared: Path, synthetic: ModuleType) -> Path:
    def make(folder: Path) -> None:
        for number, exhibit in enumerate(measured_exhibits(load_exhibits())):
            name = f"{synthetic.stamp_of(number)}-abc1{number:02}"
            synthetic.write_run(folder / "h200-sxm" / "demo", exhibit.id, name)

    return made_once(shared, "made_up", make)[0] / "h200-sxm" / "demo"


@pytest.fixture(scope="session")
def report(campaign: Path) -> Report:
    return make_report(campaign, load_exhibits())


@pytest.fixture(scope="session")
def written(request: pytest.FixtureRequest, shared: Path) -> Path:
    def make(folder: Path) -> None:
        write_report(request.getfixturevalue("report"), folder / "report")

    return made_once(shared, "written", make)[0] / "report"


@pytest.fixture(scope="session")
def kept_report(kept: Path) -> Recorded:
    """The report on the runs that the repository keeps, which takes a minute."""
    from report_support import Recorded

    def make(folder: Path) -> dict[str, Any]:
        return {"status": reproduce.main(["check", "--output", str(folder / "report")])}

    folder, said = made_once(kept, "recorded", make)
    return Recorded(folder / "report", **said)


@pytest.fixture(scope="session")
def recorded_report(kept_report: Recorded) -> tuple[int, Path]:
    """What comparing it with the kept digests ended with, and its folder."""
    return kept_report.status, kept_report.folder


@pytest.fixture(scope="session")
def pages(written: Path) -> dict[str, Page]:
    """The written pages but those of cases, parsed, by their path within the report."""
    from report_support import read_pages

    return read_pages(written)


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A folder of the project's configurations without its experiments."""
    folder = tmp_path / "configs"
    shutil.copytree(CONFIGS, folder, ignore=shutil.ignore_patterns("experiment"))
    (folder / "experiment").mkdir()
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository root of its own, with no recorded digests and no GPU, in which no process is started."""
    from reproduction_support import CODE, FEW

    monkeypatch.setattr(reproduce, "ROOT", tmp_path)
    monkeypatch.setattr(reproduce, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(digest, "DIGESTS", tmp_path / "report.sha256")
    monkeypatch.setattr(steps, "find_gpu", lambda: None)
    monkeypatch.setattr(reproduce, "source", lambda: CODE)
    monkeypatch.setattr(reproduce, "choose_exhibits", lambda names: choose_exhibits(names) if names else FEW)
    return tmp_path


@pytest.fixture(scope="session")
def few_runs(tmp_path_factory: pytest.TempPathFactory, synthetic: ModuleType) -> Path:
    """The folder of one campaign, made once."""
    from reproduction_support import FEW

    folder = tmp_path_factory.mktemp("results") / "h200-sxm" / "paper"
    for number, exhibit in enumerate(FEW):
        synthetic.write_run(folder, exhibit.id, f"{synthetic.stamp_of(number)}-abc1{number:02}")
    return folder


@pytest.fixture
def recorded(place: Path, few_runs: Path) -> Path:
    """The results folder with one campaign, a copy that a test may damage."""
    return shutil.copytree(few_runs, place / "results" / "h200-sxm" / "paper")


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """In place of every process that a step would start."""
    from reproduction_support import Processes, small_cases

    fake = Processes()
    monkeypatch.setattr(steps, "run_step", fake)
    counts = small_cases()
    monkeypatch.setattr(steps, "passed_cases", lambda exhibit: counts[exhibit.id])
    return fake
