"""The distributions a group needs on a node: its requirements and what they ask for, less what the node has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools.bundle.errors import BundleError
from tools.bundle.plan import Group, Node
from tools.bundle.wheels import Wheel

Fetch = Callable[[str, SpecifierSet, bool], Wheel]
ALL = "*"
"""In a group's `never`: none of what its distributions ask for is packed."""

_ROUNDS = 8  # every round narrows a version; real dependency graphs settle in two


def resolve(group: Group, node: Node, fetch: Fetch, already: Iterable[Wheel] = ()) -> list[Wheel]:
    """Wheels of ``group`` by name, without those in ``already``.

    ``fetch(name, specifier, from_source)`` gives one wheel. Where a later requirement excludes a version that was
    taken, the graph is walked again with all specifiers known so far, until none is violated.
    """
    packed = {wheel.name for wheel in already}
    known: dict[str, SpecifierSet] = {}
    cache: dict[tuple[str, str], Wheel] = {}

    def wheel_of(name: str) -> Wheel:
        specifier = known[name]
        key = (name, str(specifier))
        if key not in cache:
            cache[key] = fetch(name, specifier, name in group.source_only)
        return cache[key]

    for _ in range(_ROUNDS):
        wheels = _walk(group, node, packed, known, wheel_of)
        if all(known[w.name].contains(w.version, prereleases=True) for w in wheels):
            return sorted(wheels, key=lambda wheel: wheel.name)
    raise BundleError(f"group {group.name}: no set of versions meets {_text(known)}; relax one of them")


def _walk(
    group: Group,
    node: Node,
    packed: set[str],
    known: dict[str, SpecifierSet],
    wheel_of: Callable[[str], Wheel],
) -> list[Wheel]:
    """One pass over the graph, breadth first; narrows ``known`` as it goes."""
    environment = marker_environment(node.python)
    todo = list(group.requirements)
    seen: dict[tuple[str, frozenset[str]], None] = {}
    wheels: dict[str, Wheel] = {}
    while todo:
        requirement = todo.pop(0)
        name = canonicalize_name(requirement.name)
        if name in node.has | group.never | packed or not _applies(requirement, environment, frozenset()):
            continue
        known[name] = known.get(name, SpecifierSet()) & requirement.specifier
        extras = frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen[(name, extras)] = None
        wheels[name] = wheels.get(name) or wheel_of(name)
        if ALL not in group.never:
            todo += [_plain(r) for r in wheels[name].requires if _applies(r, environment, extras)]
    return list(wheels.values())


def marker_environment(python: str) -> dict[str, str]:
    """The marker variables (PEP 508) of CPython ``python`` ("3.12") on x86-64 Linux."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def _applies(requirement: Requirement, environment: dict[str, str], extras: frozenset[str]) -> bool:
    """Whether the requirement's marker holds on the node with one of ``extras``, or with none."""
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({**environment, "extra": extra}) for extra in (*extras, ""))


def _plain(requirement: Requirement) -> Requirement:
    """The requirement without its marker, which was evaluated already."""
    copy = Requirement(str(requirement))
    copy.marker = None
    return copy


def _text(known: dict[str, SpecifierSet]) -> str:
    return ", ".join(f"{name}{specifier}" for name, specifier in sorted(known.items()) if str(specifier))
