"""Compiling a unit into one shared library with a manifest that describes it."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import keys, store, wgmma
from .build_manifest import describe_build
from .compilers import Gxx, Nvcc, find_gxx, find_nvcc
from .errors import CompileError, QualityError, RefusedError, ToolchainError
from .machine_code import demangle
from .processes import Processes, at_once
from .ptxas_log import PtxasReport, read_ptxas_log, unexcused
from .targets import Target, binding_command, link_command, unit_command
from .units import INCLUDE_ROOT, Unit

LITTLE_SPACE_BYTES = 4 << 20
"""A compiler that fails with less free may have failed for it; what it says can be a screen of failed assertions."""

SIGN_OF_LIFE_SECONDS = 15.0
"""A wait of this long is told: a reader must not take a long build for a hang."""
FIRST_SIGN_SECONDS = 2.0
"""So is the first wait of this long: loading this program has taken seconds already."""

Say = Callable[[str], None]


def silent(_: str) -> None:
    """A `say` that says nothing."""


@dataclass(frozen=True)
class BuildOptions:
    """How to build. `portable`: host code for any x86-64-v3 machine, instead of for this one.

    `show` is called with every command line, `include` is the root of the tile library,
    `jobs` the number of compilers at work at once, `processes` those that are.
    """

    cache: Path = field(default_factory=store.cache_root)
    include: Path = INCLUDE_ROOT
    portable: bool = False
    jobs: int = field(default_factory=at_once)
    show: Say = silent
    processes: Processes = field(default_factory=Processes)


@dataclass(frozen=True)
class Build:
    """A built kernel: its library, its manifest, and whether it came from the cache."""

    kernel: str
    target: str
    folder: Path
    manifest: dict[str, Any]
    cached: bool

    @property
    def library(self) -> Path:
        """The shared library."""
        return store.library_path(self.folder, self.kernel)


@dataclass(frozen=True)
class _Job:
    """One kernel for one target, with all that its commands need."""

    kernel: Unit
    target: Target
    options: BuildOptions
    gxx: Gxx
    nvcc: Nvcc | None
    isa: str
    source: str
    key: str

    @property
    def entry(self) -> Path:
        return self.options.cache / store.entry_name(self.kernel.name, self.target.name, self.key)


def build(kernel: Unit, target: Target, options: BuildOptions, pool: Executor | None = None) -> Build:
    """Build `kernel` for `target`, or find it in the cache.

    Raises CompilerMissingError, CompileError (with the compiler's words) or QualityError (spills,
    serialized wgmma, ignored setmaxnreg that kernel.toml does not allow).
    """
    job = _plan(kernel, target, options)
    if store.is_complete(job.entry, kernel.name):
        return _found(job)
    if pool is None:
        with ThreadPoolExecutor(max_workers=options.jobs) as own_pool:
            return build(kernel, target, options, own_pool)
    with store.building(options.cache, job.entry.name) as scratch:
        if store.is_complete(job.entry, kernel.name):
            return _found(job)
        manifest = _compile(job, scratch, pool)
        store.publish(scratch, job.entry)
    return Build(kernel.name, target.name, job.entry, manifest, cached=False)


def build_all(
    pairs: list[tuple[Unit, Target]],
    options: BuildOptions,
    done: Callable[[Build], None],
    waiting: Callable[[list[str]], None] = lambda pending: None,
) -> list[ToolchainError]:
    """Build each kernel for its target, compilers in parallel; one failure does not stop the others.

    The longest come first, and few are begun at once. `done` is called with each build as it is finished, from this
    thread. `waiting` is called with the names of the others whenever none has finished for `SIGN_OF_LIFE_SECONDS`, or
    at first for `FIRST_SIGN_SECONDS`. Returns the failures.
    """
    failures: list[ToolchainError] = []
    with (
        ThreadPoolExecutor(max_workers=options.jobs) as compilers,
        # One more than compilers at work, for a build that waits for another process: if all began at once, their
        # compilers would be queued in no order, and the longest could be left for the end.
        ThreadPoolExecutor(max_workers=options.jobs + 1) as builders,
    ):
        try:
            pending = {
                builders.submit(build, kernel, target, options, compilers): f"{kernel.name} ({target.name})"
                for kernel, target in longest_first(pairs)
            }
            patience = FIRST_SIGN_SECONDS
            while pending:
                finished, _ = wait(pending, patience, FIRST_COMPLETED)
                patience = SIGN_OF_LIFE_SECONDS
                if not finished:
                    waiting(list(pending.values()))
                for future in finished:
                    del pending[future]
                    try:
                        done(future.result())
                    except ToolchainError as error:
                        failures.append(error)
        except KeyboardInterrupt:
            options.processes.stop()
            raise
    return failures


def longest_first(pairs: list[tuple[Unit, Target]]) -> list[tuple[Unit, Target]]:
    """GPU targets come first, whose compiler takes longer, and of each the longest sources."""
    return sorted(pairs, key=lambda pair: (pair[1].cuda, sum(path.stat().st_size for path in pair[0].files())))[::-1]


def export(kernels: list[Unit], target: Target, folder: Path, options: BuildOptions) -> list[Path]:
    """Build `kernels` for `target` and copy them to `folder`, as TK_KERNELS_PREBUILT wants them.

    The copies are named by their sources' hash alone, so that a machine without a compiler finds
    them. Builds that `folder` held of the same kernels and target are replaced. Returns the copies.
    """
    copies = []
    with store.writing(folder, "give another folder"):
        folder.mkdir(parents=True, exist_ok=True)
    for kernel in kernels:
        built = build(kernel, target, options)
        source = keys.source_hash(kernel, target, options.include)
        copy = folder / store.entry_name(kernel.name, target.name, source)
        with store.writing(folder, "give another folder"):
            for old in folder.glob(f"{kernel.name}-{target.name}-*"):
                shutil.rmtree(old)
            shutil.copytree(built.folder, copy)
        copies.append(copy)
    return copies


def _plan(kernel: Unit, target: Target, options: BuildOptions) -> _Job:
    """Find the compilers and compute the key. Raises RefusedError for a target that the kernel is not built for."""
    refusal = kernel.refusal(target.name)
    if refusal:
        raise RefusedError(refusal)
    gxx = find_gxx()
    nvcc = find_nvcc() if target.cuda else None
    isa = keys.isa_of(target, options.portable)
    source = keys.source_hash(kernel, target, options.include)
    return _Job(kernel, target, options, gxx, nvcc, isa, source, keys.build_key(source, gxx, nvcc, isa))


def _found(job: _Job) -> Build:
    """The build that the cache already has."""
    return Build(job.kernel.name, job.target.name, job.entry, store.read_manifest(job.entry), cached=True)


def _compile(job: _Job, scratch: Path, pool: Executor) -> dict[str, Any]:
    """Compile, check, link and describe one kernel inside `scratch`; returns the manifest."""
    import tvm_ffi.libinfo

    objects, commands = [], []
    generated = wgmma.include_options(job.target, job.options.cache)
    for source in job.kernel.sources:
        objects.append(scratch / "objects" / source.stem / f"{source.stem}.o")
        objects[-1].parent.mkdir(parents=True)
        commands.append(
            unit_command(job.target, source, objects[-1], job.options.include, generated, job.gxx, job.nvcc, job.isa)
        )  # fmt: skip
    device_objects = list(objects)
    objects.append(scratch / "objects" / "binding.o")
    ffi_includes = [tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()]
    commands.append(binding_command(job.kernel.binding, objects[-1], job.options.include, ffi_includes, job.gxx))
    logs = list(pool.map(lambda command: _run(job, command), commands))

    report = read_ptxas_log("\n".join(logs[:-1])) if job.target.cuda else PtxasReport((), ())
    _require_quality(job, report)
    ffi_library, library = Path(tvm_ffi.libinfo.find_libtvm_ffi()), store.library_path(scratch, job.kernel.name)
    link = link_command(job.target, objects, library, ffi_library, job.gxx, job.nvcc)
    logs.append(_run(job, link))
    commands.append(link)

    images = sorted(scratch.glob("objects/*/*.cubin")) if job.target.cuda else device_objects
    manifest = describe_build(
        job.kernel, job.target, job.gxx, job.nvcc, job.isa, job.source, job.key, report, images
    )  # fmt: skip
    (scratch / store.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    said = zip(commands, logs, strict=True)
    (scratch / store.LOG).write_text("\n".join(f"$ {shlex.join(command)}\n{log}" for command, log in said))
    shutil.rmtree(scratch / "objects")
    return manifest


def _run(job: _Job, command: list[str]) -> str:
    """Run one compiler; returns what it said. Raises CompileError with its words."""
    job.options.show(shlex.join(command))
    status, said = job.options.processes.run(command)
    if status != 0:
        words = "\n".join(line for line in said.splitlines() if not line.startswith("ptxas info")).strip()
        what = f"it was ended by signal {-status}" if status < 0 else "it says"
        left = min(shutil.disk_usage(folder).free for folder in (job.options.cache, tempfile.gettempdir()))
        full = f" (a disk has {left / 2**20:.1f} MiB left: free some space)" if left < LITTLE_SPACE_BYTES else ""
        raise CompileError(
            f"{job.kernel.name} does not build for {job.target.name}{full}; {what}:\n{words[-8000:]}\n"
            f"The command was: {shlex.join(command)}"
        )
    return said


def _require_quality(job: _Job, report: PtxasReport) -> None:
    """Raise QualityError for findings that kernel.toml does not allow; a build that is slow on purpose may be slow."""
    if job.target.slowed:
        return
    readable = demangle(finding.function for finding in report.findings)
    bad = unexcused(report.findings, job.kernel.allowances, readable)
    if bad:
        listed = "\n".join(f"  {f.kind} in {readable.get(f.function, f.function) or 'unknown'}: {f.text}" for f in bad)
        raise QualityError(
            f"{job.kernel.name} compiles for {job.target.name} but would be slow:\n{listed}\n"
            f"Change the kernel, or list the finding with its reason in {job.kernel.path / 'kernel.toml'}"
        )
