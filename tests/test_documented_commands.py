"""Every command of README, CONTRIBUTING and docs is one that its program takes, as printed.

What answers within seconds of a CPU is run as printed, in a folder of the test's own where it writes runs. The
program's own parser reads what needs a GPU, a network, a cluster or more time. Configurations are composed and
planned, options are held against --help. Words in angle brackets, upper case and ellipses stand for what a reader has.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from harness.__main__ import COMMANDS
from harness.plan.help import help_text
from harness.plan.planning import make_plan
from paper_figures.command.reproduce import parser as report_parser
from paper_figures.exhibits import choose_exhibits

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "results/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
ENTER = ". .venv/bin/activate"
PROGRAMS = ("make", "python", "python3", "reproduce-paper", "tk-bench", "pip", "bundle/run", ".")
NEEDS_THE_ENVIRONMENT = ("python", "reproduce-paper", "tk-bench", "pip")

PASSED_ON = {"BUNDLE_ARGS": "tools.bundle", "NIGHTLY_ARGS": "tools.nightly"}
"""Variables of the Makefile, and the module that gets their words."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"<[a-z_ ]+>|\.\.\.|\b(RUN_[ABC]|X)\b")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")


def words_of(text: str) -> list[str]:
    """The words of a command line, as a shell has them."""
    return shlex.split(text, comments=True)


def program_of(words: list[str]) -> str:
    """The program that a command line starts, behind its assignments; empty for none."""
    return next((word for word in words if not _ASSIGNMENT.match(word)), "")


def commands(page: Path) -> Iterator[str]:
    """The command lines of a page's blocks, and those within its sentences that begin with one of ours."""
    text = page.read_text()
    for language, block in _FENCE.findall(text):
        lines = [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]
        if language in ("", "sh", "bash") and program_of(lines[0].split()) in PROGRAMS:
            yield from lines
    for inline in re.findall(r"`([^`]+)`", _FENCE.sub("", text)):
        if re.match(r"(python -m |reproduce-paper |make [a-z]|pip install -e)", inline) and not inline.endswith(" ..."):
            yield " ".join(inline.split())


FOUND = [(page, command) for page in PAGES for command in commands(page)]


def test_commands_are_found() -> None:
    assert len(FOUND) > 40
    assert {program_of(words_of(command)) for _, command in FOUND} <= set(PROGRAMS)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # of a program that others import
@pytest.mark.parametrize(
    ("page", "command"), FOUND, ids=[f"{page.name}-{number}" for number, (page, _) in enumerate(FOUND)]
)
def test_a_command_is_taken_by_its_program(page: Path, command: str) -> None:
    words = words_of(command)
    while _ASSIGNMENT.match(words[0]) or words[0] == "bundle/run":
        words = words[1:]
    check(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_how_to_enter_the_environment(page: Path) -> None:
    """Guard: nothing said it, and after `make reproduce` no other command ran."""
    programs = {program_of(words_of(command)) for own, command in FOUND if own == page}
    if programs & set(NEEDS_THE_ENVIRONMENT):
        assert ENTER in page.read_text(), f"{page.name} has commands of the environment, and never enters it"


def check(words: list[str]) -> None:
    """One command without assignments; fails where its program would refuse it."""
    program, *rest = words
    if program == "make":
        check_make(rest)
    elif program == "reproduce-paper":
        check_report(rest)
    elif program == "pip":
        check_pip(rest)
    elif program == ".":
        assert words_of(ENTER) == words
    elif program == "tk-bench":
        check_harness(rest)
    elif rest[:2] == ["-m", "harness"]:
        check_harness(rest[2:])
    elif rest[:2] == ["-m", "pip"]:
        assert rest[2] in ("list", "install")
    else:
        assert rest[0] == "-m", words
        check_module(rest[1], rest[2:])


def check_make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, equals, value = word.partition("=")
        if name in PASSED_ON:
            check_module(PASSED_ON[name], value.split())
        wanted = rf"^{re.escape(name)} \?=" if equals else rf"^{re.escape(name)}:"
        assert re.search(wanted, makefile, re.MULTILINE), f"make has no {name}"


def check_report(words: list[str]) -> None:
    arguments = report_parser().parse_args(words)
    exhibits = getattr(arguments, "exhibit", None) or ()
    if exhibits and not any(_PLACEHOLDER.search(name) for name in exhibits):
        assert choose_exhibits(exhibits)
    for campaign in getattr(arguments, "campaigns", None) or ():
        assert _PLACEHOLDER.search(campaign) or (ROOT / campaign).is_dir(), f"{campaign} is not in this repository"


def check_pip(words: list[str]) -> None:
    assert words[0] == "install"
    extras = re.search(r"\.\[([\w,]+)\]", " ".join(words))
    if extras:
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(extras[1].split(",")) <= set(known)


def check_harness(words: list[str]) -> None:
    """What the harness makes of it: a plan, of the first point of a sweep, or one of its commands."""
    if words and words[0] in COMMANDS:
        check_module(f"harness {words[0]}", words[1:])
        return
    words = [word for word in words if word not in ("-m", "--multirun") and not word.startswith("hydra")]
    if any(_PLACEHOLDER.search(word) for word in words):
        return
    if "--help" in words:
        assert help_text(words)
        return
    plain = [re.sub(r"^([\w.]+=[^\[{,]+),.*", r"\1", word) for word in words]
    if any(word.startswith("workload=scale") for word in plain):
        return  # the kernel of docs/adding_a_kernel.md, which its own test builds from the page
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        composed = compose("config", overrides=["run_id=test", *plain])
    settings = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(settings, dict)
    assert make_plan({str(key): value for key, value in settings.items()}, plain).groups


def check_module(module: str, words: list[str]) -> None:
    """Its options are in its help, and so is the sub-command that it may begin with."""
    assert importlib.util.find_spec(module.split()[0]) is not None, f"there is no module {module}"
    sub = words[:1] if words and re.fullmatch(r"[a-z]+", words[0]) and "<" not in words[0] else []
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    text = help_of(module, tuple(sub))
    assert not [option for option in options if option not in text], text


@cache
def help_of(module: str, sub: tuple[str, ...]) -> str:
    """What the module prints, run in this process: its start takes longer than its help."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        name, *word = module.split()
        patch.setattr(sys, "argv", [name, *word, *sub, "--help"])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(name, run_name="__main__")
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it, and tk_kernels' commands do not
    assert not ended.value.code
    return said.getvalue()


EXPLAINED = (
    *("harness.compare", "harness.publish", "harness dashboards", "harness predecessors"),
    *("harness batch", "tk_kernels.toolchain", "paper_figures.reproduce"),
    *("tools.bundle", "tools.hub", "tools.nightly", "tools.sources"),
)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("module", EXPLAINED)
def test_help_explains_each_option_and_has_an_example(module: str) -> None:
    """Guard: `--entity ENTITY` stood there without a word, and of thirteen commands two had an example."""
    text = help_of(module, ())
    assert (
        f"python -m {module} " in text.partition("example")[2]
        or "reproduce-paper measure" in text.partition("example")[2]
    )
    lines = text.partition("options:")[2].splitlines()
    bare = [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if re.fullmatch(r"  -\S.*", line)
        and not re.search(r"\S {2,}\S", line.strip())
        and not after.startswith(" " * 10)
    ]
    assert not bare


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python -m harness experiment=fig7_gemm plan=true", "fig7_gemm"),
        ("python -m harness --help", "workload=gemm"),
        ("python -m harness workload=gemm --help", "cublas"),
        ("python -m tools.sources list", "flash_attn_3"),
    ],
    ids=["plan", "help", "help-of-gemm", "sources"],
)
def test_a_quick_command_runs_as_printed(command: str, said: str) -> None:
    """Guard: its options are known, and it fails."""
    assert words_of(command) in [words_of(line) for _, line in FOUND], "no page prints it"
    done = subprocess.run(
        [sys.executable, *words_of(command)[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def run_elsewhere(folder: Path, command: str) -> str:
    """What it prints, run as printed in a folder that takes its runs and wandb's."""
    assert command in {" ".join(line.partition(" #")[0].split()) for _, line in FOUND}, "no page prints it"
    done = subprocess.run(
        [sys.executable, *words_of(command)[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readmes_run_on_a_cpu_runs_as_printed(tmp_path: Path) -> None:
    """It is verified, and stored with its mirror."""
    said = run_elsewhere(
        tmp_path, "python -m harness workload=gemm 'problems=[{M:256,N:256,K:256}]' 'implementations=[tk]'"
    )
    assert "passed" in said
    assert list(tmp_path.glob("results/*/*/*/manifest.json"))


def test_the_readmes_jobs_without_a_cluster_run_as_printed(tmp_path: Path) -> None:
    """Two points, a process and a run of its own each."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    run_elsewhere(
        tmp_path,
        "python -m harness -m hydra/launcher=submitit_local device=cpu problem.M=64,128 'implementations=[tk]'",
    )
    manifests = list(tmp_path.glob("results/*/*/*/manifest.json"))
    assert [len(json.loads(one.read_text())["groups"]) for one in manifests] == [1, 1]


def test_the_readmes_frame_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed; its last line has a value."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text()
    (block,) = (block for language, block in _FENCE.findall(text) if "import frame" in block)
    *body, last = block.strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(body), names)
    described = eval(last, names)
    assert described.loc[("gemm", "fwd"), "count"] >= 5


def test_the_kernel_of_ten_lines_is_measured_as_printed(tmp_path: Path) -> None:
    """The README's own module and command, without the other contestants, which have tests of their own."""
    text = (ROOT / "README.md").read_text()
    source = next(block for language, block in _FENCE.findall(text) if block.startswith("# my_package.py"))
    (tmp_path / "my_package.py").write_text(source)
    command = next(line for page, line in FOUND if page.name == "README.md" and "my_package" in line)
    words = [word for word in words_of(command)[2:] if not word.startswith("implementations=")]
    more = ["implementations=[mine]", "device=cpu", "wandb=disabled", f"results_dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, *words, *more],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "TORCHDYNAMO_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
