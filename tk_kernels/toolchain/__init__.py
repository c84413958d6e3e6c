"""Compile, cache and load kernels.

`python -m tk_kernels.toolchain build --target gpu|cpu [names]` compiles; `load(name, target)`
gives the library to Python; `manifest(name, target)` says what was built and from what.
"""

from . import compilers
from .building import Build, BuildOptions, build, build_all, export
from .errors import (
    CompileError,
    CompilerMissingError,
    KernelFolderError,
    PrebuiltError,
    QualityError,
    RefusedError,
    ToolchainError,
)
from .kernel_folder import KernelFolder, find_kernel, kernel_names, open_kernel
from .keys import source_hash
from .loading import ensure_built, load, manifest, obstacle
from .targets import (
    CPU,
    DEFAULT_OF_DEVICE,
    LEAST_CAPABILITY,
    SM_80,
    SM_90A,
    TARGETS,
    Target,
    find_target,
    find_targets,
    slowed_percent,
    target_of_capability,
    target_of_this_gpu,
)

__all__ = [
    "CPU",
    "DEFAULT_OF_DEVICE",
    "LEAST_CAPABILITY",
    "SM_80",
    "SM_90A",
    "TARGETS",
    "Build",
    "BuildOptions",
    "CompileError",
    "CompilerMissingError",
    "KernelFolder",
    "KernelFolderError",
    "PrebuiltError",
    "QualityError",
    "RefusedError",
    "Target",
    "ToolchainError",
    "build",
    "build_all",
    "compilers",
    "ensure_built",
    "export",
    "find_kernel",
    "find_target",
    "find_targets",
    "kernel_names",
    "load",
    "manifest",
    "obstacle",
    "open_kernel",
    "slowed_percent",
    "source_hash",
    "target_of_capability",
    "target_of_this_gpu",
]
