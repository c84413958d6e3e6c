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
from .units import Unit, find_unit, open_unit, open_units, unit_names

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
    "KernelFolderError",
    "PrebuiltError",
    "QualityError",
    "RefusedError",
    "Target",
    "ToolchainError",
    "Unit",
    "build",
    "build_all",
    "compilers",
    "ensure_built",
    "export",
    "find_target",
    "find_targets",
    "find_unit",
    "load",
    "manifest",
    "obstacle",
    "open_unit",
    "open_units",
    "slowed_percent",
    "source_hash",
    "target_of_capability",
    "target_of_this_gpu",
    "unit_names",
]
