"""Make a bundle: install, build, pack, stamp, check its size, and only then put it in place."""

from __future__ import annotations

import datetime
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.records.provenance import FILES
from tools.bundle import archive, kernels, packages, stamp
from tools.bundle.errors import BundleError
from tools.bundle.plan import HERE, KERNELS, Group, Node

MIB = 1 << 20
LAUNCHER = HERE / "node"  # files that go into every bundle as they are


@dataclass(frozen=True)
class Order:
    """What to make: ``parts`` as `plan.choose` names them, from the checkout ``root``.

    ``max_mib`` bounds what travels, in MiB: the bundle and the checkout's tracked files. ``builds`` has the folders of
    the parts that were built from source, ``kernels`` the names of ours to pack, by target; none is all of them.
    ``objects`` has the shared objects of a build to pack, where not all of them.
    """

    root: Path
    output: Path
    cache: Path
    node: Node
    groups: Mapping[str, Group]
    parts: tuple[str, ...]
    max_mib: float
    command: str
    builds: Mapping[str, Path]
    kernels: Mapping[str, tuple[str, ...]]
    objects: Mapping[str, frozenset[str]]


def assemble(order: Order, say: Callable[[str], None]) -> dict[str, int]:
    """Make the bundle at ``order.output``; returns bytes by part. An older bundle there is replaced at the end.

    Raises:
        BundleError: A part cannot be had, or the bundle and the checkout's tracked files are more than ``max_mib``.
    """
    output = order.output
    if output.is_file() or (output.is_dir() and any(output.iterdir()) and not (output / "build_info.json").is_file()):
        raise BundleError(f"{output} exists and is not a bundle; name another folder with --output, or remove it")
    info: dict[str, Any] = {
        "git_commit": stamp.git_commit(order.root),
        "git_dirty": stamp.git_dirty(order.root),
        "left_out": stamp.left_out(order.root),
        "built_utc": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": order.command,
        "node": {"python": order.node.python, "torch": order.node.torch},
        **{what: {} for what in ("packages", "built", "archives")},
    }
    listed = stamp.listed_files(order.root)  # now: packing takes minutes, and the commit above is of these
    order.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=order.cache) as scratch:  # beside the output, git would see a new file
        bundle = Path(scratch) / "bundle"
        for part in order.parts:
            say(f"{part}: fetching or building, then packing")
            target = bundle / "site" / f"{part}.tar.xz"
            files = _files(order, part, Path(scratch) / part, info)
            info["archives"][target.name] = archive.pack(files, target, order.cache / "packed")
        shutil.copytree(LAUNCHER, bundle, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        (bundle / "build_info.json").write_text(json.dumps(info, indent=2, sort_keys=True) + "\n")
        (bundle / FILES).write_text(listed)
        sizes = _measured(bundle)
        _check_size(sizes, stamp.tracked_bytes(order.root), order.max_mib)
        if output.exists():
            shutil.rmtree(output)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(bundle, output)
    return sizes


def _files(order: Order, part: str, folder: Path, info: dict[str, Any]) -> dict[str, Path]:
    """The files of a part by their paths on the node; ``folder`` is made for them, ``info`` says what they are."""
    if part == KERNELS:
        for target, names in order.kernels.items():
            kernels.build(order.root, folder, names, target)
        info["kernels"] = sorted(_below(folder))
        return {f"kernels/{name}": file for name, file in _below(folder).items()}
    if part in order.builds:
        build = order.builds[part]
        manifest = json.loads((build / "manifest.json").read_text())
        info["built"][part] = {"key": build.name, "commit": str(manifest.get("commit", "unknown"))}
        files = {
            name: file for name, file in _below(build).items() if file.suffix != ".so" or part not in order.objects
        }
        files |= {name: build / name for name in order.objects.get(part, ()) if (build / name).is_file()}
        return {f"sources/{part}/{build.name}/{name}": file for name, file in files.items()}
    group = order.groups[part]
    info["packages"] |= packages.install(group, order.node, info["packages"], order.root / "constraints.txt", folder)
    return {f"site/{name}": file for name, file in _below(folder).items() if group.takes(name)}


def _below(folder: Path) -> dict[str, Path]:
    """The files in ``folder`` by their paths there."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path for path in files}


def _measured(folder: Path) -> dict[str, int]:
    """Bytes by part: each archive of site/ by its name, and ``rest``."""
    sizes = {file.name.removesuffix(".tar.xz"): file.stat().st_size for file in (folder / "site").iterdir()}
    return {**sizes, "rest": sum(file.stat().st_size for file in folder.iterdir() if file.is_file())}


def describe(sizes: Mapping[str, int]) -> str:
    """The sizes in words, largest first."""
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {size / MIB:.1f} MiB" for name, size in ordered)


def _check_size(sizes: Mapping[str, int], tracked: int, max_mib: float) -> None:
    """Raises `BundleError` where the bundle and ``tracked`` bytes of the checkout are more than ``max_mib`` MiB."""
    bundle = sum(sizes.values())
    excess = bundle + tracked - max_mib * MIB
    if excess > 0:
        raise BundleError(
            f"the bundle is {bundle / MIB:.2f} MiB ({describe(sizes)}) and the checkout's tracked files are "
            f"{tracked / MIB:.2f}, {excess / MIB:.2f} over the limit of {max_mib:g} MiB; pack for fewer experiments "
            "with --for, leave parts out with --without, or raise --max-mib if your way to the node carries more"
        )
