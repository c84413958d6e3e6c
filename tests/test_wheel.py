"""A wheel, built as `python -m build` builds it and installed into an empty folder, away from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.records.places import FIRST
from tools.bundle.node.unpack import extract

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tk_kernels", "baselines", "harness", "paper_figures")
RECORDED = FIRST
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE")
FILES += ("constraints.txt", "results/README.md")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
Run = Callable[..., subprocess.CompletedProcess[str]]


def tracked(*folders: str) -> list[str]:
    """The files of the checkout that git knows or would."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "--deduplicate", "--", *folders]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in said if (ROOT / name).is_file()]


def called(folder: Path, hook: str, out: Path) -> Path:
    """Has setuptools build what a hook of its build backend makes of a source tree; gives the file."""
    program = f"from setuptools import build_meta; print(build_meta.{hook}({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the wheel of the source distribution into, without its dependencies."""
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    data = ("configs", RECORDED, "results/README.md")
    for name in tracked(*PACKAGES, *data, "*.toml", "*.py", "*.in", "*.md", "LICENSE"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    (source / "build_info.json").write_text(json.dumps({"git_commit": COMMIT, "git_dirty": False}))
    with tarfile.open(called(source, "build_sdist", work)) as archive:
        extract(archive, work / "unpacked")
    wheel = called(next((work / "unpacked").iterdir()), "build_wheel", work)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--no-index", "--target", str(work / "site"), str(wheel)], check=True, capture_output=True)
    return work / "site"


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Runs a program of the wheel in an empty folder, with the wheel in front of everything else."""

    def command(program: str, *words: str, site: Path = installed) -> subprocess.CompletedProcess[str]:
        start = [sys.executable] if program == "python" else [str(site / "bin" / program)]
        environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"}
        return subprocess.run(
            [*start, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return command


def test_a_wheel_carries_every_file_that_is_no_document(installed: Path) -> None:
    """Guard: the harness's datasheets were in no wheel, and its first command ended with FileNotFoundError."""
    files = [name for name in tracked(*PACKAGES) if not name.endswith("reference/README.md")]
    assert not [name for name in files if not (installed / name).is_file()]
    data = tracked("configs", RECORDED)
    assert data
    assert not [name for name in data if not (installed / "harness" / "data" / name).is_file()]


def test_the_harness_verifies_away_from_the_checkout(run: Run, tmp_path: Path) -> None:
    done = run(
        "tk-bench", "workload=gemm", "problems=[{M:65,N:72,K:40}]", "implementations=[tk]", "device=cpu", "run_id=one",
        "wandb=disabled",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    manifest = json.loads((tmp_path / "results" / "cpu" / "scratch" / "one" / "manifest.json").read_text())
    assert (manifest["git_commit"], manifest["git_dirty"]) == (COMMIT, False)
    assert manifest["claim_files"]


@pytest.mark.parametrize("words", [(RECORDED,), ()])
def test_the_report_is_made_from_the_runs_that_the_wheel_carries(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = run("reproduce-paper", "report", *words, "--exhibit", "table1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recorded, not measured here (campaign 2026-11-paper, 1 run)" in done.stdout
    assert (tmp_path / "report-part" / "index.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["report-part"]


def test_its_runs_are_read_as_one_table(run: Run) -> None:
    program = (
        "from harness.records.places import DATA, FIRST; from harness.runs import frame; import harness; "
        "run = next((DATA / FIRST).glob('*/manifest.json')).parent; print(harness.__file__, len(frame(run)) > 0)"
    )
    done = run("python", "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("/site/harness/__init__.py True\n")


def test_what_is_kept_in_a_checkout_is_not_written_into_a_package(run: Run) -> None:
    done = run("reproduce-paper", "report", RECORDED, "--keep")
    assert done.returncode == 2
    assert done.stderr == ("error: --keep writes into a checkout of the repository, and this is an installed package\n")


def test_a_package_without_its_data_says_how_to_get_them(run: Run, installed: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    ignored = shutil.ignore_patterns("data", "tk_kernels", "baselines")
    shutil.copytree(installed, bare, ignore=ignored)
    done = run("reproduce-paper", "report", RECORDED, site=bare)
    assert done.returncode == 1
    assert "harness/data/results is missing, the recorded runs of this installation: install a wheel" in done.stderr
