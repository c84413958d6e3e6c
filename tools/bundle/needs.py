"""What experiments need of a bundle: their contestants, and by these the parts, built libraries and kernels."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.naming import parse_contestant
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibits import choose_exhibits
from paper_figures.recorded.configuration import CONFIGS, composed
from paper_figures.shown.derived import measured_exhibits
from tools.bundle.errors import BundleError
from tools.bundle.plan import GROUPS_FILE, KERNELS, Group
from tools.sources.libraries import FILE as LIBRARIES_FILE
from tools.sources.libraries import Library

OWN = "tk_kernels."
"""Where this repository's kernels are called from; the class of one names its kernel."""


@dataclass(frozen=True)
class Needs:
    """Parts in the order of the groups, libraries that are built from source, and kernels by their folders' names.

    ``files`` has, by library, the files in its site folder that the contestants read, where each reads one alone.
    """

    parts: tuple[str, ...]
    libraries: tuple[str, ...]
    kernels: tuple[str, ...] = ()
    files: Mapping[str, frozenset[str]] = field(default_factory=dict)


def needs(targets: Collection[str], groups: Mapping[str, Group], libraries: Mapping[str, Library]) -> Needs:
    """What the contestants with these ``_target_`` want: core, and what their modules are named by.

    Raises:
        BundleError: No group and no library names a contestant's module.
    """
    modules = {_module(target) for target in targets}
    lists = [*(group.contestants for group in groups.values()), *(one.contestants for one in libraries.values())]
    known = {module for listed in lists for module in listed}
    if unknown := sorted(modules - known):
        raise BundleError(
            f"{', '.join(unknown)}: no part says that it packs what this contestant runs on; "
            f"name it below contestants in {GROUPS_FILE.name} or {LIBRARIES_FILE.name}"
        )
    kernels = sorted({str(_class(target).name) for target in targets if target.startswith(OWN)})
    parts = [name for name, group in groups.items() if name == "core" or modules & {*group.contestants}]
    wanted = {name: one for name, one in libraries.items() if modules & {*one.contestants}}
    files = {
        name: frozenset(
            one.file.format(library=_class(target).library) for target in targets if _module(target) in one.contestants
        )
        for name, one in wanted.items()
        if one.file
    }
    return Needs(tuple(parts + [KERNELS] * bool(kernels)), tuple(wanted), tuple(kernels), files)


def targets(names: Iterable[str], configs: Path = CONFIGS) -> frozenset[str]:
    """The ``_target_`` of everyone who competes in experiments, which go by their own or an exhibit's name.

    Raises:
        BundleError: There is no experiment and no exhibit of a name, or it measures nothing.
    """
    found = set()
    for experiment in sorted({one for name in names for one in _experiments(name, configs)}):
        config = composed(experiment, configs)
        known = config["workload"]["implementations"]
        labels = config["implementations"] or known
        found |= {known[parse_contestant(str(label)).implementation]["_target_"] for label in labels}
    return frozenset(found)


def _experiments(name: str, configs: Path) -> list[str]:
    """The experiment of this name, else those of the exhibits that it stands for: `fig8` is three."""
    if (configs / "experiment" / f"{name}.yaml").is_file():
        return [name]
    try:
        found = [one.experiment or one.id for one in measured_exhibits(choose_exhibits([name]))]
    except PaperFiguresError as error:
        raise BundleError(f"--for: {error}, or of the experiments in {configs.name}/experiment") from None
    if not found:
        raise BundleError(f"--for: {name} is made from other exhibits and measures nothing; name those")
    return found


def _module(target: str) -> str:
    return target.rpartition(".")[0]


def _class(target: str) -> Any:
    return getattr(importlib.import_module(_module(target)), target.rpartition(".")[2])
