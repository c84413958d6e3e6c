"""The targets, which device runs which, and the command lines that compile one source for each.

A target is chosen by include path alone: `include/kittens/target/<name>` comes first, and
`kittens.cuh` includes from it what it needs by name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from .compilers import Gxx, Nvcc
from .errors import ToolchainError, closest

# Hidden symbols, and none that is unique in the process: two kernels built from different versions
# of the library must not share its inline variables once both are loaded.
HOST_FLAGS = ("-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-pthread")
PORTABLE_ISA = "x86-64-v3"


@dataclass(frozen=True)
class Target:
    """A target's name and the flags of its device compiler; `cuda` says whether that is nvcc.

    `copy_engine`: whether tiles are copied by TMA, or something that imitates it, instead of by the warps themselves.
    """

    name: str
    cuda: bool
    flags: tuple[str, ...]
    copy_engine: bool = True

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of `include/kittens/target` that it is made of: its own, and what GPU targets share."""
        return ("gpu", self.name) if self.cuda else (self.name,)

    @property
    def slowed(self) -> bool:
        """Whether its builds are slower on purpose."""
        return any(flag.startswith("-DKITTENS_SLOWED_PERCENT") for flag in self.flags)


_NVCC_FLAGS = (
    "-std=c++20",
    "-O3",
    "-lineinfo",
    "-Xfatbin=-compress-all",  # libraries travel in bundles: 1.3 MB instead of 2.2 for gemm
    "--expt-relaxed-constexpr",
    "-Xptxas=-v",
    "-Xcompiler=" + ",".join(HOST_FLAGS),
)
SM_90A = Target(name="sm_90a", cuda=True, flags=("-gencode=arch=compute_90a,code=sm_90a", *_NVCC_FLAGS))
# One PTX, as machine code for A100 (sm_80), RTX 30 (sm_86), RTX 40 (sm_89) and Hopper (sm_90, to measure it there); the
# PTX itself travels along for GPUs that are newer.
SM_80 = Target(
    name="sm_80",
    cuda=True,
    flags=("-gencode=arch=compute_80,code=[sm_80,sm_86,sm_89,sm_90,compute_80]", *_NVCC_FLAGS),
    copy_engine=False,
)
CPU = Target(name="cpu", cuda=False, flags=("-x", "c++", "-std=c++20", "-O3", *HOST_FLAGS))
TARGETS = {target.name: target for target in (SM_90A, SM_80, CPU)}

DEFAULT_OF_DEVICE = {"cuda": SM_90A, "cpu": CPU}
"""What a device runs where only its kind is known, by PyTorch's name."""
LEAST_CAPABILITY = (8, 0)
GPU = "gpu"
"""On the command line: the target of this machine's GPU, or a Hopper one's where there is none."""


def target_of_capability(capability: tuple[int, int]) -> Target | None:
    """The target whose kernels a GPU of this compute capability runs, or None: it is too old.

    Code for sm_90a runs on capability 9.0 alone; any other GPU since 8.0 runs that for sm_80, or its PTX.
    """
    if capability < LEAST_CAPABILITY:
        return None
    return SM_90A if capability == (9, 0) else SM_80


def target_of_this_gpu() -> Target:
    """The target of the current GPU, by which "gpu" is meant; a Hopper one's where there is none or it is too old."""
    import torch

    if not torch.cuda.is_available():
        return DEFAULT_OF_DEVICE["cuda"]
    return target_of_capability(torch.cuda.get_device_capability()) or DEFAULT_OF_DEVICE["cuda"]


BINDING_FLAGS = ("-std=c++20", "-O2", *HOST_FLAGS)
LINK_FLAGS = ("-shared", "-pthread", "-Wl,-z,defs", "-Wl,--exclude-libs,ALL")


SLOWED = "TK_SLOWED_PERCENT"
"""Environment variable: builds for a GPU whose blocks take this much longer, to try comparisons of runs on."""


def find_target(name: str) -> Target:
    """The target called `name`, with the flags that the environment asks for.

    Raises ToolchainError that lists the known targets, or says what TK_SLOWED_PERCENT needs to be.
    """
    if name not in TARGETS:
        listed = f"known targets are {', '.join(TARGETS)}{closest(name, TARGETS)}"
        raise ToolchainError(f"target {name!r} does not exist; {listed}")
    target, slowed = TARGETS[name], slowed_percent()
    if slowed is None or not target.cuda:
        return target
    return replace(target, flags=(*target.flags, f"-DKITTENS_SLOWED_PERCENT={slowed:g}"))


def find_targets(names: list[str]) -> list[Target]:
    """The targets of these names, each once; "gpu" stands for `target_of_this_gpu`, and no name for that and cpu.

    Raises ToolchainError as `find_target` does.
    """
    listed = [target_of_this_gpu().name if name == GPU else name for name in names or (GPU, CPU.name)]
    return [find_target(name) for name in dict.fromkeys(listed)]


def slowed_percent() -> float | None:
    """What TK_SLOWED_PERCENT says, None where it is not set; raises ToolchainError if that is no share."""
    text = os.environ.get(SLOWED, "")
    if not text:
        return None
    try:
        percent = float(text)
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise ToolchainError(
            f"{SLOWED} is {text!r}, needs a number above 0 and at most 100; unset it for normal builds"
        )
    return percent


def unit_command(
    target: Target,
    source: Path,
    output: Path,
    include: Path,
    generated: list[str],
    gxx: Gxx,
    nvcc: Nvcc | None,
    isa: str,
) -> list[str]:
    """The command that compiles one `.cu` for `target`.

    `generated`: options that find generated headers. `isa` is g++'s -march, for the cpu target alone. For a CUDA target
    the intermediate files are kept beside `output`, because the cubin among them is what the manifest describes.
    """
    includes = [f"-I{include / 'kittens' / 'target' / target.name}", f"-I{include}", *generated, f"-I{source.parent}"]
    if not target.cuda:
        return [gxx.path, *target.flags, f"-march={isa}", *includes, "-c", str(source), "-o", str(output)]
    if nvcc is None:
        raise ToolchainError(f"target {target.name} needs the CUDA compiler")
    keep = ["--keep", "--keep-dir", str(output.parent)]
    return [nvcc.path, *target.flags, "-ccbin", gxx.path, *keep, *includes, "-c", str(source), "-o", str(output)]


def binding_command(source: Path, output: Path, include: Path, ffi_includes: list[str], gxx: Gxx) -> list[str]:
    """The command that compiles `binding.cc`; the same for every target."""
    includes = [f"-I{include}", f"-I{source.parent}", *(f"-isystem{path}" for path in ffi_includes)]
    return [gxx.path, *BINDING_FLAGS, *includes, "-c", str(source), "-o", str(output)]


def link_command(
    target: Target, objects: list[Path], output: Path, ffi_library: Path, gxx: Gxx, nvcc: Nvcc | None
) -> list[str]:
    """The command that links one kernel's objects: cudart statically, libstdc++ never.

    `ffi_library` is libtvm_ffi.so; the process that loads the kernel has it already. A symbol that
    nothing defines is an error here, not at the first call.
    """
    command = [gxx.path, *LINK_FLAGS, *map(str, objects), str(ffi_library)]
    if target.cuda and nvcc is not None:
        command += [f"-L{nvcc.library_dir}", "-lcudart_static", "-ldl", "-lrt"]
    return [*command, "-o", str(output)]
