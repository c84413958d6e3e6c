"""The ThunderKittens authors' released kernels, called through shared objects that are built outside this repository.

None of their code is here. A site folder holds a folder `thunderkittens_released` with one shared object a kernel and a
file `COMMIT`. Each object exports functions in C: pointers to device memory first, then 64-bit sizes, then the stream;
they return 0, or 1 with the reason in `shim_last_error`. What each takes stands in the docstring of its contestant.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from baselines.common.baseline import Library
from baselines.common.gpu import HOPPER
from baselines.common.names import TK
from baselines.common.sites import package_folders, use_site

NAME = "thunderkittens"
PACKAGE = "thunderkittens_released"
INSTALL = (
    "build the shared objects that docs/adding_a_baseline.md names, "
    "then python -m tools.sources install thunderkittens FOLDER"
)
DRIVER = "libcuda.so.1"
"""CUDA's driver, whose tensor maps the kernels are launched with."""

WRITTEN_FOR, WHOLE_TILES = "its kernel is written for {}", "its tiles need a multiple of {}"
"""What refusals say: the kernels leave out, or overrun, what is beyond a tile."""

RIVALS = (TK, "cutlass", "nvjet", "xmma", "flash_(fwd|bwd)", "cudnn", "triton")
"""Kernels of this repository, whose namespace is `kittens` as well, and of the libraries that a fallback would run."""


@dataclass(frozen=True)
class Released(Library):
    """A shared object of the release, and the commit whose kernels were built."""

    def versions(self) -> str:
        """The commit, of the file that a build leaves beside its objects."""
        self.use()
        files = [Path(folder) / "COMMIT" for folder in package_folders(PACKAGE)]
        text = next((file.read_text().strip() for file in files if file.is_file()), "")
        return f"ThunderKittens, as released, {f'commit {text.splitlines()[0]}' if text else 'of unknown commit'}"


RELEASED = Released(NAME, INSTALL, (PACKAGE,), (), gpus=HOPPER)


def released(library: str, *kernels: str, backward: tuple[str, ...] = (), foreign: tuple[str, ...] = RIVALS) -> Library:
    """The kernels of the release's shared object of this name."""
    return replace(RELEASED, file=f"{PACKAGE}/{library}.so", kernels=kernels, backward=backward, foreign=foreign)


@cache
def function(library: str, name: str) -> Callable[..., None]:
    """A function of a shared object, on tensors and sizes: it launches on the current stream.

    Raises:
        RuntimeError: The object is not here, or a launch was refused; the text says which and why.
    """
    use_site(NAME)
    path = next((folder / f"{library}.so" for folder in package_folders(PACKAGE)), None)
    if path is None or not path.is_file():
        raise RuntimeError(f"{PACKAGE} has no {library}.so: {INSTALL}")
    ctypes.CDLL(DRIVER, mode=ctypes.RTLD_GLOBAL)  # an object linked where there is no driver does not name it
    loaded = ctypes.CDLL(str(path))
    loaded.shim_last_error.restype = ctypes.c_char_p
    entry = getattr(loaded, name)

    def call(*arguments: torch.Tensor | int) -> None:
        plain = [_plain(argument) for argument in arguments]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if entry(*plain, stream):
            raise RuntimeError(f"{library}.so: {loaded.shim_last_error().decode(errors='replace')}")

    return call


def _plain(argument: torch.Tensor | int) -> Any:
    """A pointer to a contiguous tensor's memory, or a 64-bit size."""
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if not argument.is_contiguous():
        raise ValueError(f"{NAME}: got a tensor with strides {argument.stride()}, its kernels read contiguous memory")
    return ctypes.c_void_p(argument.data_ptr())
