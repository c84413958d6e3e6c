"""Which groups of packages a bundle holds, and for which node."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tools.bundle.errors import BundleError

HERE = Path(__file__).resolve().parent
GROUPS_FILE = HERE / "groups.toml"
NODE_PACKAGES_FILE = HERE / "node_packages.txt"
KERNELS = "kernels"
_GROUP_KEYS = {"requirements", "never", "source_only", "build", "drop", "keep", "needs", "contestants", "default"}


@dataclass(frozen=True)
class Group:
    """One archive of a bundle: its root requirements, and what of their dependencies is left out."""

    name: str
    requirements: tuple[Requirement, ...]
    never: frozenset[str]
    source_only: frozenset[str]
    drop: tuple[str, ...]
    default: bool
    needs: tuple[str, ...] = ()
    build: tuple[tuple[str, str], ...] = ()
    keep: tuple[str, ...] = ()
    contestants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Node:
    """The machine a bundle is for: ``python`` and ``torch`` as "major.minor", ``has`` as canonical names."""

    python: str
    torch: str
    has: frozenset[str]


def read_groups(path: Path, pyproject: Path) -> dict[str, Group]:
    """Read the groups; ``core`` takes its requirements from ``pyproject``, less what other groups name."""
    tables = _read_toml(path)
    for name, table in tables.items():
        unknown = set(table) - _GROUP_KEYS
        if unknown:
            raise BundleError(f"{path}: group {name} has {sorted(unknown)}, known keys are {sorted(_GROUP_KEYS)}")
    elsewhere = {
        canonicalize_name(_requirement(text, path).name)
        for name, table in tables.items()
        for text in table.get("requirements", ())
    }
    project = _read_toml(pyproject).get("project", {}).get("dependencies")
    if not project:
        raise BundleError(f"{pyproject} has no [project].dependencies, which the group core is made of")
    core = [text for text in project if canonicalize_name(_requirement(text, pyproject).name) not in elsewhere]
    return {
        name: Group(
            name=name,
            requirements=tuple(
                _requirement(text, path) for text in (core if name == "core" else table["requirements"])
            ),
            never=_canonical(table.get("never", ())),
            source_only=_canonical(table.get("source_only", ())),
            drop=tuple(table.get("drop", ())),
            keep=tuple(table.get("keep", ())),
            contestants=tuple(table.get("contestants", ())),
            default=bool(table.get("default", False)),
            needs=_needs(name, table, tables, path),
            build=tuple(sorted((str(key), str(value)) for key, value in table.get("build", {}).items())),
        )
        for name, table in tables.items()
    }


def default_parts(groups: dict[str, Group]) -> tuple[str, ...]:
    """Names of the parts that are packed where nothing else is asked for."""
    return (*(name for name, group in groups.items() if group.default), KERNELS)


def choose(
    groups: dict[str, Group],
    base: Iterable[str],
    with_: Sequence[str] = (),
    without: Sequence[str] = (),
    libraries: Iterable[str] = (),
) -> tuple[str, ...]:
    """Names of the parts to pack: ``base`` and those that --with names, less those that --without names.

    A part is a group, one of ``libraries``, which are built from source, or ``kernels``. A group brings the groups that
    it needs; one of ``base`` is left out with a group that it needs.
    """
    known = [*groups, *libraries, KERNELS]
    for name in (*with_, *without):
        if name not in known:
            raise BundleError(f"got the part {name!r}, a bundle has {', '.join(known)}")
    both = sorted(set(with_) & set(without))
    if both:
        raise BundleError(f"{', '.join(both)}: named by --with and by --without; name it once")
    for name in with_:
        absent = [need for need in _needed(groups, name) if need in without]
        if absent:
            raise BundleError(f"{name} runs on {absent[0]}, which --without leaves out; name only one of them")
    wanted = {*base, *with_}
    wanted |= {need for name in wanted for need in _needed(groups, name)}
    return tuple(name for name in known if name in wanted and not {name, *_needed(groups, name)} & set(without))


def _needed(groups: dict[str, Group], name: str) -> tuple[str, ...]:
    return groups[name].needs if name in groups else ()


def _needs(name: str, table: dict[str, Any], tables: dict[str, Any], path: Path) -> tuple[str, ...]:
    """The groups that a group needs: earlier ones, so that what they hold is packed once."""
    earlier = list(tables)[: list(tables).index(name)]
    needs = tuple(table.get("needs", ()))
    for need in needs:
        if need not in earlier:
            raise BundleError(f"{path}: group {name} needs {need!r}, which is no group above it")
    return needs


def read_node(python: str, torch: str, has: Iterable[str]) -> Node:
    """Describe the node; an entry of ``has`` is a file of names, a name, or names joined by commas."""
    for what, version in (("--python", python), ("--torch", torch)):
        if not re.fullmatch(r"\d+\.\d+", version):
            raise BundleError(f"{what}: got {version!r}, needed is major.minor, such as 3.12")
    names: set[str] = set()
    for entry in has:
        if Path(entry).is_file():
            names |= _names_in(Path(entry).read_text())
        elif "/" in entry or entry.endswith(".txt"):
            raise BundleError(f"--node-has: there is no file {entry}; give a file of names, or names joined by commas")
        else:
            names |= _names_in(entry.replace(",", " "))
    return Node(python, torch, frozenset(names | {"torch"}))


def _names_in(text: str) -> frozenset[str]:
    """Canonical names in ``text``: words outside comments, without the version or address after a name."""
    lines = (line.split("#")[0].split(" @ ")[0] for line in text.splitlines())
    return _canonical(re.split(r"[=<>!~\[;]", word)[0] for line in lines for word in line.split())


def _canonical(names: Iterable[str]) -> frozenset[str]:
    return frozenset(canonicalize_name(name) for name in names if name)


def _requirement(text: str, path: Path) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise BundleError(f"{path}: {text!r} is no requirement: {error}") from error


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise BundleError(f"{path} is missing; run from a checkout of the project") from error
    except tomllib.TOMLDecodeError as error:
        raise BundleError(f"{path} is not valid TOML: {error}") from error
