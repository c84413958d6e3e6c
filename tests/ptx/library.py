"""Libraries of kernels for `sm_80` that run on a CPU: their host code as it is, their PTX translated."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import translate
import tvm_ffi
import tvm_ffi.libinfo

from tk_kernels import toolchain
from tk_kernels.toolchain import compilers, kernel_folder, store, targets

HERE = Path(__file__).resolve().parent
FFI_INCLUDES = [tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()]
PTX_FLAGS = (
    "-arch=compute_80",
    *(flag for flag in toolchain.SM_80.flags if not flag.startswith(("-gencode", "-lineinfo"))),
)
"""Those of the target, but for the machines' code."""
CPP_FLAGS = ("-std=c++20", "-O1", "-fPIC", "-ffp-contract=off", f"-I{HERE}")


def cache() -> Path:
    """Where libraries are kept: beside the kernels' own builds."""
    return store.cache_root() / "interpreted"


def build(name: str, folder: Path) -> Path:
    """The library of a kernel, in a folder below `folder` that its sources name; made where it is not there."""
    kernel = toolchain.find_kernel(name)
    files = [path for path in sorted(HERE.iterdir()) if path.is_file() and not path.name.startswith("test_")]
    own = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    entry = f"{name}-{toolchain.source_hash(kernel, toolchain.SM_80)[:12]}-{own[:12]}"
    library = folder / entry / f"{name}.so"
    with store.building(folder, entry) as scratch:
        if not library.is_file():
            _make(kernel, scratch)
            store.publish(scratch, folder / entry)
    return library


def _make(kernel: toolchain.KernelFolder, scratch: Path) -> None:
    nvcc, gxx, include = compilers.find_nvcc(), compilers.find_gxx(), kernel_folder.INCLUDE_ROOT
    of_target = include / "kittens" / "target" / toolchain.SM_80.name
    compiler = [nvcc.path, *PTX_FLAGS, "-ccbin", gxx.path, f"-I{of_target}", f"-I{include}", f"-I{kernel.path}"]
    objects = [scratch / "binding.o"]
    commands = [targets.binding_command(kernel.binding, objects[0], include, FFI_INCLUDES, gxx)]
    sources = [HERE / "machine.cc", HERE / "cuda.cc"]
    for unit in kernel.units:
        ptx = scratch / f"{unit.stem}.ptx"
        _run([*compiler, "-ptx", str(unit), "-o", str(ptx)])
        objects.append(scratch / f"{unit.stem}.host.o")
        commands.append([*compiler, "-c", str(unit), "-o", str(objects[-1])])
        for i, entry in enumerate(translate.entries(ptx.read_text())):
            sources.append(scratch / f"{unit.stem}_{i}.cc")
            sources[-1].write_text(entry.code())
    for source in sources:
        objects.append(scratch / f"{source.stem}.o")
        commands.append([gxx.path, *CPP_FLAGS, "-c", str(source), "-o", str(objects[-1])])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_run, commands))
    linked = ["-Wl,-Bsymbolic", *map(str, objects), str(tvm_ffi.libinfo.find_libtvm_ffi())]
    _run([gxx.path, *targets.LINK_FLAGS, *linked, "-o", str(scratch / f"{kernel.name}.so")])


def load(name: str, folder: Path) -> Any:
    """The same, loaded; a `tvm_ffi.Module`."""
    return tvm_ffi.load_module(str(build(name, folder)))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
