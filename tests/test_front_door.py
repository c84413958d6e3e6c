"""README and `make`: what an interrupted command leaves, and what is said while one waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


MOST_LINES, MOST_BYTES = 132, 7300


def test_readme_stays_short() -> None:
    """Guard: it had grown to 148 lines. What it lacks is a page of docs/; the block of results grows with its names."""
    text = (ROOT / "README.md").read_bytes()
    assert len(text.splitlines()) <= MOST_LINES
    assert len(text) <= MOST_BYTES


def make_env(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`make env` that installs nothing."""
    command = ["make", "env", f"VENV={folder}", f"PYTHON={sys.executable}", "PIP_INSTALL=true", *words]
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
reproduce._run = lambda arguments: print(flush=True)
sys.argv = ["reproduce-paper"]
raise SystemExit(main())
"""


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "tk_kernels.toolchain", "manifest", "rotary", "--target", "cpu"],
        ["-m", "harness.predecessors", "results/h100-sxm/nightly/20261126T030908Z-bc5ab8"],
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
    assert process.wait() == 128 + signal.SIGPIPE


INTERRUPTS = """
import importlib.abc, sys
class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("pandas", "torch", "tools.sources.install"):
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
"""


HARNESS = ("batch", "cluster", "compare", "dashboards", "overhead", "predecessors", "publish", "trace")
TOOLS = ("bundle", "host_time", "hub", "nightly", "sources")
COMMANDS = (
    *("harness", *(f"harness.{name}" for name in HARNESS), *(f"tools.{name}" for name in TOOLS)),
    *("paper_figures.reproduce", "tk_kernels.toolchain", "tk_kernels.trace"),
)


@pytest.mark.parametrize("module", COMMANDS)
def test_an_interruption_while_libraries_load_is_a_sentence(tmp_path: Path, module: str) -> None:
    """Guard: it was a traceback through pandas, and in the build's first second one through torch."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)  # before the command's first module
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", module]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "interrupted; nothing had begun\n"


def test_an_interruption_while_a_program_loads_the_operators_is_the_programs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    program = "try:\n    import tk_kernels\nexcept KeyboardInterrupt:\n    print('mine')"
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text(program)
    (tmp_path / "package" / "command.py").touch()
    for words in (["-c", program], ["-m", "package.command"]):
        command = [sys.executable, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("mine\n", "")


@pytest.mark.parametrize(("begun", "said"), [("True", "\n"), ("False", "")])
def test_an_interruption_ends_a_line_that_a_sign_of_life_began(tmp_path: Path, begun: str, said: str) -> None:
    (tmp_path / "slow_module.py").write_text("raise KeyboardInterrupt")
    program = f"from harness.entry import guarded\nguarded('slow_module', None, lambda: {begun})"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, f"{said}interrupted; nothing had begun\n")


FULL = "stdout cannot be written (No space left on device)"


@pytest.mark.parametrize("module", [name for name in COMMANDS if name != "harness"])
def test_a_help_that_cannot_be_written_is_no_success(module: str) -> None:
    """Guard: argparse takes whatever stdout answers, and of many commands nobody asked what was still to be written."""
    words = [sys.executable, "-m", module, "--help"]
    for unbuffered in ("", "1") if module == "harness.compare" else ("1",):
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                words, cwd=ROOT, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert (done.returncode, FULL in done.stderr) == (1 if module.startswith("tk_kernels") else 2, True), done


def test_a_list_that_cannot_be_written_is_not_the_reports_folder() -> None:
    """Guard: `--missing` said that report/ could not be written, which it does not write."""
    words = [sys.executable, "-m", "paper_figures.reproduce", "--missing", "--exhibit", "table2"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"{FULL}: give it another file or disk\n"


@pytest.mark.parametrize("module", ["harness", "harness.compare", "paper_figures.reproduce", "tk_kernels.toolchain"])
def test_a_folder_that_is_gone_is_said(tmp_path: Path, module: str) -> None:
    """Guard: it was a traceback, or PyTorch's `Intel oneMKL FATAL ERROR: Cannot load`."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = 'cd "$1" && rmdir "$1" && exec "$2" -m "$3" --help'
    done = subprocess.run(
        ["sh", "-c", command, "sh", str(gone), sys.executable, module],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (1 if module == "tk_kernels.toolchain" else 2)
    assert "the current folder is gone" in done.stderr
    assert done.stderr.count("\n") == 1
