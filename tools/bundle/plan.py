"""Which parts a bundle holds, and for which node."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from baselines.common import built
from tools.bundle.errors import BundleError

HERE = Path(__file__).resolve().parent
GROUPS_FILE = HERE / "groups.toml"
NODE_PACKAGES_FILE = HERE / "node_packages.txt"
KERNELS = "kernels"
ALL = "*"
"""In a group's `never`: no dependencies of its distributions are packed."""

_DROPPED = (
    *("*/__pycache__/*", "*.pyi", "*.pyx", "*.pxd", "*.pth", "bin/*", ".lock"),
    *(f"*.dist-info/{name}" for name in ("licenses/*", "RECORD", "INSTALLER", "REQUESTED", "uv_*.json")),
)
"""Packages that no node needs, in every group."""


@dataclass(frozen=True)
class Group:
    """One archive of a bundle; groups.toml says what each field holds."""

    requirements: Sequence[str] = ()
    never: Sequence[str] = ()
    source_only: Sequence[str] = ()
    build: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    keep: Sequence[str] = ("*",)
    needs: Sequence[str] = ()
    contestants: Sequence[str] = ()
    default: bool = False

    def takes(self, path: str) -> bool:
        """Whether the file at ``path``, relative to the site folder, is packed; metadata has the version."""
        return not _matches(path, (*_DROPPED, *self.drop)) and _matches(path, ("*.dist-info/*", *self.keep))


@dataclass(frozen=True)
class Node:
    """The machine a bundle is for: ``python`` and ``torch`` as "major.minor", ``has`` as canonical names."""

    python: str
    torch: str
    has: frozenset[str]


def read_groups(path: Path, pyproject: Path) -> dict[str, Group]:
    """Read the groups; ``core`` takes its requirements from ``pyproject``, less what other groups name."""
    tables = tomllib.loads(path.read_text())
    elsewhere = {Requirement(text).name for table in tables.values() for text in table.get("requirements", ())}
    project = tomllib.loads(pyproject.read_text())["project"]["dependencies"]
    tables["core"]["requirements"] = [text for text in project if Requirement(text).name not in elsewhere]
    return {name: Group(**table) for name, table in tables.items()}


def choose(
    groups: Mapping[str, Group],
    base: Iterable[str],
    with_: Collection[str] = (),
    without: Collection[str] = (),
    libraries: Iterable[str] = (),
) -> tuple[str, ...]:
    """Names of the parts to pack: ``base`` and those that --with names, less those that --without names.

    A part is a group, one of ``libraries``, which are built from source, or ``kernels``. A group brings the groups that
    it needs, and is left out with them.

    Raises:
        BundleError: There is no such part.
    """
    needs = {**{name: group.needs for name, group in groups.items()}, **dict.fromkeys((*libraries, KERNELS), ())}
    if unknown := {*with_, *without} - {*needs}:
        raise BundleError(f"got the part {', '.join(sorted(unknown))}, a bundle has {', '.join(needs)}")
    wanted = {name for name in (*base, *with_) if not {name, *needs[name]} & {*without}}
    wanted |= {need for name in wanted for need in needs[name]}
    return tuple(name for name in needs if name in wanted)


def read_node(python: str, torch: str, has: Path) -> Node:
    """Describe the node; ``has`` is a file of what is installed there, names alone or as pip lists them.

    Raises:
        BundleError: A version is not major.minor.
    """
    for what, version in (("--python", python), ("--torch", torch)):
        if not re.fullmatch(r"\d+\.\d+", version):
            raise BundleError(f"{what}: got {version!r}, needed is major.minor, such as 3.12")
    lines = (line.split("#")[0].split(" @ ")[0] for line in has.read_text().splitlines())
    names = {canonicalize_name(re.split(r"[=<>!~\[;]", word)[0]) for line in lines for word in line.split()}
    return Node(python, torch, frozenset(names | {"torch"}))


def find_build(library: str, node: Node) -> Path | None:
    """The newest build from source of a library for the node's Python and torch, as `tools.sources` keeps it."""
    machine = {"python": node.python, "torch": node.torch}
    fitting = (folder for folder, manifest in built.manifests(library) if built.misfit(manifest, machine) is None)
    return next(fitting, None)


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
