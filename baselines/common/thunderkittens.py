"""The ThunderKittens authors' released kernels, called through shared objects that are built outside this repository.

None of their code is here. A site folder holds a folder `thunderkittens_released` with one shared object a kernel and a
file `COMMIT`. Each object exports functions in C: pointers to device memory first, then 64-bit sizes, then the stream;
they return 0, or 1 with the reason in `shim_last_error`. What each takes stands in the docstring of its contestant.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import HOPPER, refuse_other_gpus
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import find, holds, package_folders, use_site

if TYPE_CHECKING:
    import torch

NAME = "thunderkittens"
PACKAGE = "thunderkittens_released"
INSTALL = (
    "build the shared objects that docs/adding_a_baseline.md names, "
    "then python -m tools.sources install thunderkittens FOLDER"
)
DRIVER = "libcuda.so.1"
"""CUDA's driver, whose tensor maps the kernels are launched with."""

OURS = r"kittens.*kernel_entry"
"""Kernels of this repository, whose namespace is `kittens` as well."""


class Released:
    """What the contestants have in common; `library` is the shared object's name, `kernels` its kernels' names."""

    library: str
    kernels: tuple[str, ...]
    directions: Sequence[str] = ("fwd",)
    dtype = "bf16"

    def __init__(self, **options: Any) -> None:
        chosen(NAME, options, {}, {})

    def available(self) -> str | None:
        """None, or that the kernel is not built and where it is looked for."""
        reason = find(NAME, [PACKAGE], INSTALL)
        if reason is None and not holds(PACKAGE, f"{self.library}.so"):
            reason = f"{PACKAGE} here has no {self.library}.so: {INSTALL}"
        return reason

    def version(self) -> str:
        """The commit whose kernels were built."""
        use_site(NAME)
        return f"ThunderKittens, as released, {_commit()}"

    def supports(self, problem: Any, device: str) -> str | None:
        """None on Hopper for the dtype, the directions and the sizes that the kernel takes; else why not."""
        reason = refuse(problem, device, devices=("cuda",), name=NAME, dtype=self.dtype, directions=self.directions)
        return reason or self.refuse_size(problem) or refuse_other_gpus(NAME, major=HOPPER)

    def refuse_size(self, problem: Any) -> str | None:
        """None, or which size or option the kernel does not take."""
        raise NotImplementedError

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """Their kernels, by the names of their functions and templates."""
        return self.kernels

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Kernels of this repository and of the libraries that a fallback would run."""
        return (OURS, "cutlass", "nvjet", "xmma", "flash_(fwd|bwd)", "cudnn", "triton")


def refuse_tail(problem: Any, **multiples: int) -> str | None:
    """None if each size is a multiple, else which is not: the kernels leave out, or overrun, what is beyond a tile."""
    for key, multiple in multiples.items():
        size = getattr(problem, key)
        if size % multiple:
            return f"{NAME}: got {key}={size}, its tiles need a multiple of {multiple}"
    return None


def refuse_other(problem: Any, **wanted: Any) -> str | None:
    """None if the problem has these values, else which differs."""
    for key, value in wanted.items():
        values = value if isinstance(value, tuple) else (value,)
        if getattr(problem, key) not in values:
            takes = " and ".join(map(str, values))
            return f"{NAME}: got {key}={getattr(problem, key)}, its kernel is written for {takes}"
    return None


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
        import torch

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


def _commit() -> str:
    """The file that a build leaves beside its objects, one line."""
    files = [Path(folder) / "COMMIT" for folder in package_folders(PACKAGE)]
    text = next((file.read_text().strip() for file in files if file.is_file()), "")
    return f"commit {text.splitlines()[0]}" if text else "of unknown commit"
