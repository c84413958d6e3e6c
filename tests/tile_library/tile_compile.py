"""Compiles test programs of the tile library into shared libraries, and keeps them by what they are made of."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from tk_kernels.toolchain import wgmma
from tk_kernels.toolchain.compilers import find_gxx, find_nvcc
from tk_kernels.toolchain.store import cache_root
from tk_kernels.toolchain.targets import CPU, TARGETS
from tk_kernels.toolchain.units import INCLUDE_ROOT, KERNELS_ROOT


class CompileError(AssertionError):
    """A test program does not compile; the message is the compiler's."""


def compile_library(
    source: Path,
    target: str = "cpu",
    changed: Path | None = None,
    optimise: str = "-O1",
    defines: tuple[str, ...] = (),
    prefix: str = "",
    program: bool = False,
) -> Path:
    """Path of the shared library, or `program`, made from one source; compiled now unless the same was before.

    `changed` holds copies of headers of the tile library that stand for the library's own; the source's own folder is
    searched for headers too. `prefix` is text that the source could begin with: for the cpu target it is compiled once
    for all sources that share it. Raises CompileError.
    """
    command = _command(source, target, changed, optimise, defines)
    if program:
        command.remove("-shared")
    output = cache_root() / "tests" / f"{_key(command, source.parent, changed, _kernels(source))}.so"
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        partial = output.with_suffix(f".{os.getpid()}")
        if prefix:
            before = _precompiled(prefix, optimise)
            command[1:1] = [f"-I{before.parent}", "-include", before.name]
        _compile([*command, "-o", str(partial)], f"{source.name} for {target}")
        partial.replace(output)
        _forget_old(output.parent)
    return output


def _precompiled(text: str, optimise: str) -> Path:
    """A header of this text beside which its compiled form lies, for the cpu target."""
    folder = cache_root() / "tests"
    flags = [flag for flag in _host_flags(optimise) if flag not in ("-x", "c++", "-shared")]
    command = [find_gxx().path, "-x", "c++-header", *flags, *_includes("cpu")]
    made = folder / f"{_key([*command, text], None, None)}.pch"
    if not made.exists():
        partial = folder / f"{made.stem}.{os.getpid()}"
        partial.mkdir(parents=True)
        (partial / "prefix.cuh").write_text(text)
        _compile([*command, str(partial / "prefix.cuh"), "-o", str(partial / "prefix.cuh.gch")], "the prefix")
        try:
            partial.rename(made)
        except OSError:  # another process was first
            shutil.rmtree(partial)
    os.utime(made)
    return made / "prefix.cuh"


def _compile(command: list[str], what: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CompileError(f"{what}: {result.stderr[:4000]}")


def load(library: Path) -> ctypes.CDLL:
    """The library in this process; its hidden symbols stay its own."""
    return ctypes.CDLL(str(library), mode=os.RTLD_LOCAL | os.RTLD_NOW)


Run = Callable[..., None]


def caller(source: Path, device: str) -> Run:
    """run(function, arguments...) of a program for a device: tensors and numbers, then a message and its length.

    Raises RuntimeError with the message where the function gives another value than 0.
    """
    library = load(compile_library(source, {"cpu": "cpu", "cuda": "sm_90a"}[device]))

    def given(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return ctypes.c_void_p(value.data_ptr())
        return ctypes.c_float(value) if isinstance(value, float) else value

    def run(name: str, *arguments: Any) -> None:
        message = ctypes.create_string_buffer(1 << 14)
        if library[name](*map(given, arguments), message, len(message)) != 0:
            raise RuntimeError(message.value.decode())
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def ptx_of(source: Path, target: str, folder: Path) -> list[str]:
    """The instructions that a source has for a GPU target, in their order, a text each."""
    ptx = folder / f"{source.stem}.ptx"
    arch = re.sub(r".*arch=(\w+),.*", r"-arch=\1", TARGETS[target].flags[0])
    options = [arch, "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-ccbin", find_gxx().path, *_includes(target)]
    _compile([find_nvcc().path, "-ptx", *options, str(source), "-o", str(ptx)], f"{source.name} for {target}")
    lines = [line.strip() for line in ptx.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith(("//", "$", "."))]


def _forget_old(folder: Path) -> None:
    """Removes libraries that no test has made for two weeks, and precompiled headers, which are large, after a day."""
    for path in folder.iterdir():
        try:
            days = (time.time() - path.stat().st_mtime) / (24 * 3600)
        except FileNotFoundError:  # another process renamed or removed it since it was listed
            continue
        if path.suffix == ".pch" and days > 1:
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file() and days > 14:
            path.unlink(missing_ok=True)


def _includes(target: str) -> list[str]:
    generated = wgmma.include_options(TARGETS[target], cache_root())
    return [f"-I{INCLUDE_ROOT / 'kittens' / 'target' / target}", f"-I{INCLUDE_ROOT}", *generated]


def _host_flags(optimise: str) -> list[str]:
    return [*(flag for flag in CPU.flags if not flag.startswith("-O")), optimise, "-march=native", "-shared"]


def _command(source: Path, target: str, changed: Path | None, optimise: str, defines: tuple[str, ...]) -> list[str]:
    first = [f"-I{changed}"] if changed else []
    options = [*first, *_includes(target), f"-I{source.parent}", f"-I{KERNELS_ROOT}"]
    options += [f"-D{define}" for define in defines]
    if target == "cpu":
        return [find_gxx().path, *_host_flags(optimise), *options, str(source)]
    nvcc = find_nvcc()
    flags = [flag for flag in TARGETS[target].flags if flag != "-Xptxas=-v"]
    flags[0] = re.sub(r"code=\[(\w+),.*\]", r"code=\1", flags[0])  # one machine's code is enough here
    linked = [f"-L{nvcc.library_dir}", "-cudart=static", "-shared", "-ccbin", find_gxx().path]
    return [nvcc.path, *flags, *options, str(source), *linked]


def _kernels(source: Path) -> set[Path]:
    """The files of kernels that a source includes."""
    found: set[Path] = set()
    unread = [source]
    while unread:
        one = unread.pop()
        for name in re.findall(r'^#include "([^"]+)"', one.read_text(), re.MULTILINE):
            for path in ((one.parent / name).resolve(), KERNELS_ROOT / name):
                if path.is_file() and path.is_relative_to(KERNELS_ROOT) and path not in found:
                    found.add(path)
                    unread.append(path)
    return found


def _key(command: list[str], sources: Path | None, changed: Path | None, others: Iterable[Path] = ()) -> str:
    """sha256 of the command and of every file that the compiler may read."""
    # Where the files lie may differ from run to run; what is in them decides.
    folders = {INCLUDE_ROOT: "include", KERNELS_ROOT: "kernels", changed: "changed", sources: "source"}
    parts = list(command)
    for folder, name in folders.items():
        if folder is not None:
            parts = [part.replace(str(folder), name) for part in parts]
    digest = hashlib.sha256(repr(parts).encode())
    read = [*INCLUDE_ROOT.rglob("*.cuh"), *INCLUDE_ROOT.rglob("*.h")]
    read += [*changed.rglob("*.cuh")] if changed else []
    read += [*sources.rglob("*.cu*"), *sources.rglob("*.h")] if sources else []
    for path in sorted([*read, *others]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:32]
