"""A made-up campaign of all exhibits, and the report on it, made once a session."""

from __future__ import annotations

import datetime
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

from paper_figures import reproduce
from paper_figures.charts import save_figure
from paper_figures.exhibit import load_exhibits, measured_exhibits
from paper_figures.report import Report, make_report, write_report


def _load_synthetic() -> ModuleType:
    """The module beside this file, which is no test and in no package."""
    name = "paper_figures_synthetic"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("synthetic.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    return _load_synthetic()


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory, synthetic: ModuleType) -> Path:
    folder = tmp_path_factory.mktemp("results") / "h200-sxm" / "demo"
    for number, exhibit in enumerate(measured_exhibits(load_exhibits())):
        synthetic.write_run(folder, exhibit.id, f"20260102T0304{number:02}Z-abc1{number:02}")
    return folder


@pytest.fixture(scope="session")
def report(campaign: Path) -> Report:
    return make_report(campaign, load_exhibits())


DRAWN = ("table1_stages", "table4_attention", "fig8_attention", "input_distribution")
"""One of each kind: named bars, coloured ones, panels, columns of an exhibit's own."""


def save_some(figure: Figure, folder: Path, name: str, when: datetime.datetime) -> str:
    """Saves the figures of `DRAWN`, and an empty one for the others, which are drawn but not saved: it takes seconds.

    Whether all are saved is tested with the recorded report.
    """
    return save_figure(figure if name in DRAWN else Figure(figsize=(1, 1)), folder, name, when)


@pytest.fixture(scope="session")
def written(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "report"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paper_figures.report.save_figure", save_some)
        write_report(report, out)
    return out


@pytest.fixture(scope="session")
def recorded_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """The report on the runs that the repository keeps, and what comparing it with the kept digests ended with."""
    out = tmp_path_factory.mktemp("recorded") / "report"
    return reproduce.main(["--check", "--output", str(out)]), out
