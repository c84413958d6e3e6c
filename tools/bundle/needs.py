"""What experiments need in a bundle: their contestants, and for these the parts, built libraries and kernels."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from harness.records.naming import parse_contestant
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibits import choose_exhibits
from paper_figures.recorded.configuration import CONFIGS, composed
from paper_figures.shown.derived import measured_exhibits
from tk_kernels.toolchain import find_unit
from tk_kernels.toolchain.targets import GPU
from tools.bundle.errors import BundleError
from tools.bundle.plan import KERNELS, Group
from tools.sources.libraries import Library


class Asked(NamedTuple):
    """A contestant of an experiment: its ``_target_``, and the target of kernels that its label names, else "gpu"."""

    path: str
    target: str = GPU


OWN = "tk_kernels."
"""The package of this repository's own implementations; their class names name the kernels."""


@dataclass(frozen=True)
class Needs:
    """Parts in the order of the groups, libraries that are built from source, and kernels by their folders' names.

    ``kernels`` has their names by target: the node's, or "gpu" for that of the machine that packs, and those that
    contestants name, as tk[target=sm_80] does. ``objects`` has, by library, the shared objects in a build's folder that
    the contestants load, where each loads one alone.
    """

    parts: tuple[str, ...]
    libraries: tuple[str, ...]
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    objects: Mapping[str, frozenset[str]] = field(default_factory=dict)


def needs(contestants: Collection[Asked], groups: Mapping[str, Group], libraries: Mapping[str, Library]) -> Needs:
    """What these contestants need: core, and the parts and libraries that name their modules."""
    modules = {_module(one.path) for one in contestants}
    kernels: dict[str, tuple[str, ...]] = {}
    for one in sorted(contestants):
        if one.path.startswith(OWN):
            kernels[one.target] = tuple(sorted({*kernels.get(one.target, ()), *_kernels(one)}))
    kernels = {target: names for target, names in kernels.items() if names}
    parts = [name for name, group in groups.items() if name == "core" or modules & {*group.contestants}]
    wanted = {name: library for name, library in libraries.items() if modules & {*library.contestants}}
    files = {
        name: {_class(one.path).library.file for one in contestants if _module(one.path) in library.contestants}
        for name, library in wanted.items()
    }
    objects = {
        name: frozenset(f"site/{file}" for file in own)
        for name, own in files.items()
        if all(file.endswith(".so") for file in own)
    }
    return Needs(tuple(parts + [KERNELS] * bool(kernels)), tuple(wanted), kernels, objects)


def contestants(names: Iterable[str], configs: Path = CONFIGS, target: str = GPU) -> frozenset[Asked]:
    """Everyone who competes in experiments, which go by their own or an exhibit's name. ``target`` is the node's.

    Raises:
        BundleError: There is no experiment and no exhibit of a name, or it measures nothing.
    """
    found = set()
    for experiment in sorted({one for name in names for one in _experiments(name, configs)}):
        config = composed(experiment, configs)
        known = config["workload"]["implementations"]
        labels = config["implementations"] or known
        for one in (parse_contestant(str(label)) for label in labels):
            path = known[one.implementation]["_target_"]
            found.add(Asked(path, str(one.options.get("target", target)) if path.startswith(OWN) else GPU))
    return frozenset(found)


def _experiments(name: str, configs: Path) -> list[str]:
    """The experiment of this name, else those of the exhibits that it stands for: `fig8` is three."""
    if (configs / "experiment" / f"{name}.yaml").is_file():
        return [name]
    try:
        found = [one.id for one in measured_exhibits(choose_exhibits([name]))]
    except PaperFiguresError as error:
        raise BundleError(f"--for: {error}, or of the experiments in {configs.name}/experiment") from None
    if not found:
        raise BundleError(f"--for: {name} is made from other exhibits and measures nothing; name those")
    return found


def _module(path: str) -> str:
    return path.rpartition(".")[0]


def _class(path: str) -> Any:
    return getattr(importlib.import_module(_module(path)), path.rpartition(".")[2])


def _kernels(one: Asked) -> set[str]:
    """The kernels that a contestant of ours loads, forward and backward, as far as they are built for its target."""
    kernel = _class(one.path)
    if one.target == GPU:
        return {str(kernel.name), *kernel.helpers}
    folders = {str(kernel(target=one.target).unit(one.target, direction)) for direction in ("fwd", "bwd")}
    folders.update(kernel.helpers)
    return {name for name in folders if find_unit(name).refusal(one.target) is None}
