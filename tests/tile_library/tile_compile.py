"""Compiles test programs of the tile library into shared libraries, and keeps them by what they are made of."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import time
from pathlib import Path

from tk_kernels.toolchain.compilers import find_gxx, find_nvcc
from tk_kernels.toolchain.kernel_folder import INCLUDE_ROOT
from tk_kernels.toolchain.store import cache_root
from tk_kernels.toolchain.targets import CPU, SM_90A


class CompileError(AssertionError):
    """A test program does not compile; the message is the compiler's."""


def compile_library(
    source: Path,
    target: str = "cpu",
    include: Path = INCLUDE_ROOT,
    optimise: str = "-O1",
    defines: tuple[str, ...] = (),
) -> Path:
    """Path of the shared library made from one source; compiled now unless the same was compiled before.

    `include` is the tile library's root and may be a changed copy of it; the source's own folder is
    searched for headers too. Raises CompileError.
    """
    command = _command(source, target, include, optimise, defines)
    output = cache_root() / "tests" / f"{_key(command, source, include)}.so"
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        partial = output.with_suffix(f".{os.getpid()}")
        result = subprocess.run([*command, "-o", str(partial)], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise CompileError(f"{source.name} for {target}: {result.stderr[:4000]}")
        partial.replace(output)
        _forget_old(output.parent)
    return output


def load(library: Path) -> ctypes.CDLL:
    """The library in this process; its hidden symbols stay its own."""
    return ctypes.CDLL(str(library), mode=os.RTLD_LOCAL | os.RTLD_NOW)


def _forget_old(folder: Path) -> None:
    """Removes libraries that no test has made for two weeks."""
    for path in folder.iterdir():
        if time.time() - path.stat().st_mtime > 14 * 24 * 3600:
            path.unlink(missing_ok=True)


def _command(source: Path, target: str, include: Path, optimise: str, defines: tuple[str, ...]) -> list[str]:
    includes = [f"-I{include / 'kittens' / 'target' / target}", f"-I{include}", f"-I{source.parent}"]
    options = [*includes, *(f"-D{define}" for define in defines)]
    if target == "cpu":
        flags = [flag for flag in CPU.flags if not flag.startswith("-O")]
        return [find_gxx().path, *flags, optimise, "-march=native", "-shared", *options, str(source)]
    nvcc = find_nvcc()
    flags = [flag for flag in SM_90A.flags if flag != "-Xptxas=-v"]
    linked = [f"-L{nvcc.library_dir}", "-cudart=static", "-shared", "-ccbin", find_gxx().path]
    return [nvcc.path, *flags, *options, str(source), *linked]


def _key(command: list[str], source: Path, include: Path) -> str:
    """sha256 of the command and of every file that the compiler may read."""
    # Where the files lie may differ from run to run; what is in them decides.
    parts = [part.replace(str(include), "include").replace(str(source.parent), "source") for part in command]
    digest = hashlib.sha256(repr(parts).encode())
    for path in sorted([*include.rglob("*.cuh"), *source.parent.glob("*.cu*"), *source.parent.glob("*.h")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:32]
