"""README and `make`: what an interrupted command leaves, and what is said while one waits."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def make_env(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`make env` that installs nothing."""
    command = [
        "make",
        "env",
        f"VENV={folder}",
        f"PYTHON={sys.executable}",
        "PIP_INSTALL=true",
        "UV_INSTALL=true",
        *words,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_half_an_environment_of_ours_is_made_anew(tmp_path: Path) -> None:
    """Guard: Ctrl-C in the first seconds left an interpreter without pip, and every later `make` failed."""
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")  # no pip
    (folder / "bin" / "python").chmod(0o755)
    (folder / "lib").mkdir()
    (folder / ".made-by-make").touch()
    done = make_env(folder)
    assert done.returncode == 0, done.stderr
    assert f"making {folder}\n" in done.stdout
    pip = subprocess.run([folder / "bin" / "python", "-m", "pip", "--version"], capture_output=True, check=False)
    assert pip.returncode == 0
    assert list(folder.glob(".installed-*"))


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    done = make_env(tmp_path)
    assert done.returncode != 0
    assert f"{tmp_path} is no virtual environment" in done.stderr
    assert (tmp_path / "letters").read_text() == "dear"


@pytest.mark.parametrize(
    ("extras", "words"),
    [
        ("cuda,nothing", "EXTRAS has 'nothing', which is no extra: there is cuda, baselines, "),
        ("cuda,dev,baselins", "; did you mean baselines?\n"),
    ],
)
def test_an_extra_that_is_not_there_is_refused_before_anything_is_installed(
    tmp_path: Path, extras: str, words: str
) -> None:
    """Guard: pip only warns, `make env` said that it was done, and no baseline was installed."""
    done = make_env(tmp_path / "venv", f"EXTRAS={extras}")
    assert done.returncode != 0
    assert words in done.stderr
    assert not (tmp_path / "venv").exists()


REPORT = """
import sys
from paper_figures.command import reproduce
from paper_figures.reproduce import main
reproduce._missing = lambda arguments: print(flush=True)
sys.argv = ["reproduce-paper", "missing"]
raise SystemExit(main())
"""


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "tk_kernels.toolchain", "manifest", "rotary", "--target", "cpu"],
        ["-m", "harness", "predecessors", "results/h100-sxm/nightly/20261126T030908Z-bc5ab8"],
        ["-m", "tools.sources", "list"],
        ["-c", REPORT],
    ],
    ids=["toolchain", "predecessors", "sources", "report"],
)
def test_a_reader_that_stops_early_is_no_traceback(words: list[str]) -> None:
    """Guard: each printed a traceback, or took the reader's end for a folder that cannot be written."""
    command = [sys.executable, *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() in (128 + signal.SIGPIPE, -signal.SIGPIPE), "a shell's answer is the same"
