"""Packaging: pinned versions, what the package carries, and what `make` says on a machine that will not do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+", line) for line in lines)
    return {canonical(name): version for name, version in (line.split("==") for line in lines)}


def test_every_dependency_and_extra_is_pinned() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    for requirement in [*PROJECT["project"]["dependencies"], *(name for extra in extras.values() for name in extra)]:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name is not None
        assert canonical(name.group()) in pins(), requirement


def test_pins_agree_with_the_requirements() -> None:
    assert pins()["torch"] == "2.13.0"
    assert pins()["triton"] == "3.7.1"  # torch 2.13.0 asks for this one
    assert pins()["apache-tvm-ffi"] == "0.1.12"
    compiler = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt")
    assert len({pins()[package] for package in compiler}) == 1
    assert all(
        pins()[package].startswith("13.0.") for package in (*compiler, "nvidia-cuda-runtime", "nvidia-cuda-cccl")
    )


def test_the_lock_has_the_versions_of_the_constraints() -> None:
    """Guard: who installs with uv would test other versions. Where a Python needs an older one, both are in it."""
    locked: dict[str, set[str]] = {}
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    for package in packages:
        locked.setdefault(canonical(package["name"]), set()).add(package.get("version", ""))
    differ = {name: locked[name] for name, version in pins().items() if name in locked and version not in locked[name]}
    assert differ == {}, "lock again: uv lock"
    (own,) = (package for package in packages if package["name"] == "tk-kernels")
    wanted = PROJECT["project"]["dependencies"] + [
        name for extra in PROJECT["project"]["optional-dependencies"].values() for name in extra
    ]
    named = {canonical(re.match(r"[A-Za-z0-9_.-]+", one).group()) for one in wanted}  # type: ignore[union-attr]
    assert {canonical(one["name"]) for one in own["metadata"]["requires-dist"]} == named
    assert {source for package in packages for source in package["source"].values()} == {"https://pypi.org/simple", "."}


def test_containers_install_what_is_there() -> None:
    """Guard: the recipes name files, extras and commands of this repository."""
    extras = PROJECT["project"]["optional-dependencies"]
    for name, pattern in (("Dockerfile", r"ARG EXTRAS=(\S+)"), ("tk-kernels.def", r"extras=(\S+)")):
        text = (ROOT / name).read_text()
        chosen = re.search(pattern, text)
        assert chosen is not None
        assert set(chosen[1].split(",")) <= set(extras)
        assert "constraints.txt" in text
        assert "python -m tk_kernels.toolchain build" in text
        assert "reproduce-paper" in PROJECT["project"]["scripts"]
    copied = re.search(r"^%files\n {4}\. (/\S+)$", (ROOT / "tk-kernels.def").read_text(), re.MULTILINE)
    assert copied is not None
    assert not copied[1].startswith(("/tmp", "/var/tmp")), "Apptainer hides what is there from %post"
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["postCreateCommand"].startswith("make env EXTRAS=")


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_issue_forms_can_be_read(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert form["name"]
    assert form["description"]
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert ids
    assert len(ids) == len(set(ids))
    assert all(part["attributes"]["label"] for part in form["body"] if part["type"] != "markdown")


def test_package_data_covers_every_header_and_source() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["tk_kernels"]
    package = ROOT / "tk_kernels"
    carried = {path for pattern in patterns for path in package.glob(pattern) if path.is_file()}
    for folder in ("include", "kernels"):
        needed = {path for path in (package / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert needed
        assert needed <= carried


def make(*arguments: str, path: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables, "PATH": path or os.environ["PATH"]}
    for given in ("MAKEFLAGS", "PYTHON"):  # by a `make test PYTHON=python3.12` that runs this
        environment.pop(given, None)
    return subprocess.run(
        ["make", "-C", str(ROOT), *arguments], capture_output=True, text=True, env=environment, check=False
    )  # fmt: skip


def test_make_alone_lists_the_targets() -> None:
    said = make().stdout
    for target in ("reproduce", "test", "lint", "bundle", "help"):
        assert re.search(rf"^  {target} +\w", said, re.MULTILINE)


@pytest.fixture
def fake_programs(tmp_path: Path) -> Path:
    """A folder of programs in front of PATH."""
    return tmp_path / "bin"


def write_program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        (
            "uname",
            'case "$1" in -m) echo aarch64;; *) echo Linux;; esac',
            "this machine is Linux aarch64; x86-64 Linux",
        ),
        (
            "python3",
            'case "$1" in -c) exit 1;; *) echo Python 3.9.2;; esac',
            "is Python 3.9.2; 3.11 or newer is needed",
        ),
        ("g++", "echo 11.4.0", "is version 11.4.0; 12 or newer is needed"),
    ],
)
def test_unfit_machines_are_refused_in_words(fake_programs: Path, name: str, body: str, words: str) -> None:
    write_program(fake_programs, name, body)
    result = make("check-machine", path=f"{fake_programs}:{os.environ['PATH']}", CXX="g++")
    assert result.returncode != 0
    assert words in result.stderr


@pytest.mark.parametrize(
    ("missing", "words"), [("python3", "python3 is not installed"), ("g++", "g++ is not installed")]
)
def test_missing_programs_are_named(fake_programs: Path, missing: str, words: str) -> None:
    fake_programs.mkdir()
    for name in ("sh", "make", "uname", "g++", "cut", "sed", "git", "test"):
        real = shutil.which(name)
        if real and name != missing:
            (fake_programs / name).symlink_to(real)
    if missing != "python3":
        write_program(fake_programs, "python3", f'exec {sys.executable} "$@"')
    result = make("check-machine", path=str(fake_programs), CXX="g++")
    assert result.returncode != 0
    assert words in result.stderr


def test_this_machine_is_fit() -> None:
    assert make("check-machine").returncode == 0


def test_continuous_integration_runs_what_make_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "make lint" in script
    assert "make test" in script
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
