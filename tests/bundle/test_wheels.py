"""How pip is asked for a wheel: downloaded for the node, or built here from source."""

from __future__ import annotations

import os

import pytest
from packaging.specifiers import SpecifierSet

from tools.bundle import wheels
from tools.bundle.wheels import Downloader


@pytest.fixture
def pip(monkeypatch, make_wheel):
    """What pip was called with; it leaves a wheel of the package in the folder it is given."""
    calls = []

    def run(command, **options):
        calls.append((command, options["env"]))
        folder = next(word.partition("=")[2] for word in command if word.startswith(("--wheel-dir=", "--dest=")))
        source = make_wheel("tiny").path
        os.link(source, os.path.join(folder, source.name))
        return wheels.subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(wheels.subprocess, "run", run)
    return calls


def test_a_wheel_is_downloaded_for_the_nodes_python(pip, tmp_path):
    Downloader("3.12", tmp_path / "w", None, [("SKIP_CUDA", "TRUE")]).fetch("tiny", SpecifierSet("==1.0"))
    ((command, environment),) = pip
    assert "download" in command
    assert "--python-version=3.12" in command
    assert "SKIP_CUDA" not in environment


def test_a_source_is_built_alone_unless_the_group_says_how(pip, tmp_path):
    Downloader("3.12", tmp_path / "w", None).fetch("tiny", SpecifierSet(), from_source=True)
    Downloader("3.12", tmp_path / "w", None, [("SKIP_CUDA", "TRUE")]).fetch("tiny", SpecifierSet(), from_source=True)
    (alone, plain), (command, environment) = pip
    assert "wheel" in alone
    assert "--no-build-isolation" not in alone
    assert "SKIP_CUDA" not in plain
    assert "--no-build-isolation" in command
    assert environment["SKIP_CUDA"] == "TRUE"
    assert environment["PATH"] == os.environ["PATH"]
