"""Fetch one wheel for the node with pip, and read what it asks for."""

from __future__ import annotations

import email.parser
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tools.bundle.errors import BundleError

# glibc versions a wheel may name; pip matches the number exactly. 2.28 is RHEL 8, the oldest node in use.
MANYLINUX = ("_2_28", "_2_27", "_2_26", "_2_24", "_2_17", "_2_12", "_2_5", "2014", "2010", "1")


@dataclass(frozen=True)
class Wheel:
    """A wheel on disk."""

    path: Path

    @property
    def name(self) -> str:
        """Canonical name of the distribution."""
        return str(parse_wheel_filename(self.path.name)[0])

    @property
    def version(self) -> Version:
        """Version of the distribution."""
        return parse_wheel_filename(self.path.name)[1]

    @cached_property
    def sha256(self) -> str:
        """Digest of the file."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @cached_property
    def requires(self) -> tuple[Requirement, ...]:
        """Requirements in the wheel's metadata, those of extras included."""
        with zipfile.ZipFile(self.path) as archive:
            names = [n for n in archive.namelist() if n.count("/") == 1 and n.endswith(".dist-info/METADATA")]
            if len(names) != 1:
                raise BundleError(f"{self.path.name} has {len(names)} METADATA files, a wheel has one")
            message = email.parser.Parser().parsestr(archive.read(names[0]).decode())
        return tuple(Requirement(text) for text in message.get_all("Requires-Dist") or ())


class Downloader:
    """Fetches wheels of one node's Python into ``folder``, within the versions of ``constraints``.

    What is built from source sees the variables ``build``; with any, it is built with the packages installed here,
    since a source that needs them wants more than pip's empty environment has.
    """

    def __init__(
        self, python: str, folder: Path, constraints: Path | None, build: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._python = python
        self._folder = folder
        self._constraints = constraints
        self._build = dict(build)

    def fetch(self, name: str, specifier: SpecifierSet, *, from_source: bool = False) -> Wheel:
        """The newest wheel of ``name`` inside ``specifier``; ``from_source`` builds a pure one where none exists."""
        target = self._folder / canonicalize_name(name)
        target.mkdir(parents=True, exist_ok=True)
        for old in target.iterdir():
            old.unlink()
        command = self._build_command(target) if from_source else self._download_command(target)
        environment = self._build if from_source else {}
        _run_pip([*command, f"{name}{specifier}"], f"{name}{specifier}", self._python, environment)
        found = sorted(target.glob("*.whl"))
        if len(found) != 1:
            raise BundleError(f"pip left {[p.name for p in found]} for {name}, one wheel is needed")
        if from_source and not found[0].name.endswith("-py3-none-any.whl"):
            raise BundleError(f"{found[0].name} was built here and is not pure Python; the node needs its own build")
        return Wheel(found[0])

    def _common(self, verb: str) -> list[str]:
        command = [sys.executable, "-m", "pip", verb, "--quiet", "--no-deps", "--disable-pip-version-check"]
        if self._constraints is not None:
            command += ["--constraint", str(self._constraints)]
        return command

    def _download_command(self, target: Path) -> list[str]:
        platforms = [f"manylinux{version}_x86_64" for version in MANYLINUX]
        return [
            *self._common("download"),
            "--only-binary=:all:",
            "--implementation=cp",
            f"--python-version={self._python}",
            *(f"--platform={platform}" for platform in platforms),
            f"--dest={target}",
        ]

    def _build_command(self, target: Path) -> list[str]:
        alone = ["--no-build-isolation"] if self._build else []
        return [*self._common("wheel"), *alone, f"--wheel-dir={target}"]


def _run_pip(command: list[str], what: str, python: str, environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR")]
        said = errors[-1] if errors else done.stderr.strip()[-300:]
        raise BundleError(f"pip found no wheel of {what} for Python {python} on x86-64 Linux: {said}")
