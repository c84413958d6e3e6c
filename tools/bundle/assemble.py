"""Make a bundle: resolve, pack, build, stamp, check its size, and only then put it in place."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from harness.provenance import FILES
from tools.bundle import archive, builds, kernels, stamp
from tools.bundle.errors import BundleError
from tools.bundle.plan import HERE, KERNELS, Group, Node
from tools.bundle.resolve import resolve
from tools.bundle.wheels import Downloader, Wheel

SCHEMA_VERSION = 2
KERNELS_ARCHIVE = f"{KERNELS}.tar.xz"
MIB = 1 << 20
LAUNCHER = HERE / "node"  # files that go into every bundle as they are


@dataclass(frozen=True)
class Order:
    """What to make: ``parts`` as `plan.choose` names them, from the checkout ``root``.

    ``max_mib`` bounds what travels, in MiB: the bundle and the checkout's tracked files. ``builds`` are the parts that
    were built from source, ``kernels`` the names of those to pack, by target; no name is all of a target, no target the
    node's GPU.
    """

    root: Path
    output: Path
    cache: Path
    node: Node
    groups: dict[str, Group]
    parts: tuple[str, ...]
    max_mib: float
    command: str
    builds: tuple[builds.Build, ...] = ()
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def assemble(order: Order, say: Callable[[str], None]) -> dict[str, int]:
    """Make the bundle at ``order.output``; returns bytes by part. An older bundle there is replaced at the end.

    Raises:
        BundleError: A part cannot be had, or the bundle and the checkout's tracked files are more than ``max_mib``.
    """
    _refuse_foreign_folder(order.output)
    stamp.left_out(order.root)  # what a node lacks is said before minutes are spent
    partial = order.cache / f"assembling-{os.getpid()}"  # not beside the output: it would look like a new file to git
    partial.mkdir(parents=True)
    try:
        info = _fill(order, partial, say)
        (partial / "build_info.json").write_text(json.dumps(info, indent=2, sort_keys=True) + "\n")
        (partial / FILES).write_text(stamp.listed_files(order.root))
        sizes = measure(partial)
        _check_size(sizes, stamp.tracked_bytes(order.root), order.max_mib)
        if order.output.exists():
            shutil.rmtree(order.output)
        order.output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(partial, order.output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return sizes


def _fill(order: Order, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Write everything but the stamp into ``folder``; returns the stamp."""
    info: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "git_commit": stamp.git_commit(order.root),
        "git_dirty": stamp.git_dirty(order.root),
        "left_out": stamp.left_out(order.root),
        "built_utc": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": order.command,
        "node": {"python": order.node.python, "torch": order.node.torch},
        "parts": list(order.parts),
        "packages": {},
        "built": {build.library: build.stamp for build in order.builds},
        "archives": {},
        "kernels": [],
    }
    packed: list[Wheel] = []
    for name in (part for part in order.parts if part in order.groups):
        wheels = _group_wheels(order, name, packed, say)
        packed += wheels
        target = folder / "site" / f"{name}.tar.xz"
        say(f"{name}: packing {', '.join(f'{w.name} {w.version}' for w in wheels) or 'nothing'}")
        patterns = archive.Patterns(order.groups[name].drop, order.groups[name].keep)
        archive.pack(wheels, patterns, target, order.cache / "packed")
        info["packages"] |= {w.name: str(w.version) for w in wheels}
        info["archives"][target.name] = hashlib.sha256(target.read_bytes()).hexdigest()
    for build in order.builds:
        say(f"{build.library}: packing {build.folder}")
        target = folder / "site" / f"{build.library}.tar.xz"
        builds.pack(build, target, order.cache / "packed")
        info["archives"][target.name] = hashlib.sha256(target.read_bytes()).hexdigest()
    if KERNELS in order.parts:
        with tempfile.TemporaryDirectory() as built:
            for gpus, names in (order.kernels or {kernels.TARGET: ()}).items():
                say(f"kernels: building {', '.join(names) or 'all'} for {gpus}")
                kernels.build(order.root, Path(built), names, gpus)
            info["kernels"] = kernels.listed(Path(built))
            target = folder / "site" / KERNELS_ARCHIVE
            kernels.pack(Path(built), target)
        info["archives"][target.name] = hashlib.sha256(target.read_bytes()).hexdigest()
    for file in sorted(LAUNCHER.iterdir()):
        if file.is_file():
            shutil.copy(file, folder / file.name)
    (folder / "run").chmod(0o755)
    return info


def _group_wheels(order: Order, name: str, packed: list[Wheel], say: Callable[[str], None]) -> list[Wheel]:
    constraints = order.root / "constraints.txt"
    downloader = Downloader(
        order.node.python,
        order.cache / "wheels" / name,
        constraints if constraints.is_file() else None,
        order.groups[name].build,
    )

    def fetch(package: str, specifier: SpecifierSet, from_source: bool) -> Wheel:
        say(f"{name}: fetching {package}{specifier}")
        return downloader.fetch(package, specifier, from_source=from_source)

    return resolve(order.groups[name], order.node, fetch, packed)


def measure(folder: Path) -> dict[str, int]:
    """Bytes by part: each archive of site/ by its name, and ``rest``."""
    sizes: dict[str, int] = {}
    for path in (p for p in folder.rglob("*") if p.is_file()):
        parts = path.relative_to(folder).parts
        part = path.name.removesuffix(".tar.xz") if parts[0] == "site" else "rest"
        sizes[part] = sizes.get(part, 0) + path.stat().st_size
    return sizes


def describe(sizes: dict[str, int]) -> str:
    """The sizes in words, largest first."""
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {size / MIB:.1f} MiB" for name, size in ordered)


def _check_size(sizes: dict[str, int], tracked: int, max_mib: float) -> None:
    """Raises `BundleError` where the bundle and ``tracked`` bytes of the checkout are more than ``max_mib`` MiB."""
    bundle = sum(sizes.values())
    excess = bundle + tracked - max_mib * MIB
    if excess > 0:
        raise BundleError(
            f"the bundle is {bundle / MIB:.2f} MiB ({describe(sizes)}) and the checkout's tracked files are "
            f"{tracked / MIB:.2f}, {excess / MIB:.2f} over the limit of {max_mib:g} MiB; "
            f"{_advice(sizes, excess)}or raise --max-mib if your way to the node carries more"
        )


def _advice(sizes: dict[str, int], excess: float) -> str:
    """What to leave out, so that ``excess`` bytes are saved: the smallest part that does, else all of them."""
    parts = sorted((size, name) for name, size in sizes.items() if name not in ("core", KERNELS, "rest"))
    enough = [(size, name) for size, name in parts if size >= excess][:1]
    if not enough and sum(size for size, _ in parts) < excess:
        return "pack for fewer experiments with --for, "
    named = ",".join(name for _, name in enough or parts)
    saved = sum(size for size, _ in enough or parts)
    return f"pack for fewer experiments with --for, leave out {saved / MIB:.1f} MiB with --without {named}, "


def _refuse_foreign_folder(output: Path) -> None:
    """An existing output is replaced only if it is a bundle, or empty."""
    if output.is_file() or (output.is_dir() and any(output.iterdir()) and not (output / "build_info.json").is_file()):
        raise BundleError(f"{output} exists and is not a bundle; name another folder with --output, or remove it")
