"""A baseline as it is declared: a frozen `Library`, options, the limits of what it takes, and `prepare`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import torch

from baselines.common import built, gpu, sites, tuning

Inputs = dict[str, torch.Tensor]
"""The workload's tensors by name."""

Call = Callable[[], Any]
"""What is timed: it works on the current stream, allocates its outputs and returns them."""

Limit = tuple[object, str]
"""Whether a problem is beyond it, and what a refusal then says: what was got and what is taken."""

Limits = Iterator[Limit]

T = TypeVar("T")


@dataclass(frozen=True)
class Library:
    """A library whose kernels are compared, and how it is found."""

    name: str
    """What a refusal begins with."""

    install: str
    """The command that installs it, or how to build it."""

    modules: tuple[str, ...]
    """Top-level modules that it needs; looking for them imports none."""

    packages: tuple[str, ...]
    """Labels of what `versions` tells of; the last word of each is the name of a distribution."""

    site: str | None = None
    """The name of its folder (`TK_BASELINES_SITE_<site>`) or build; None: its own name; "": it has no folder."""

    file: str = ""
    """A file that has to be in one of its modules, from the module's name on: `flash_attn/cute/interface.py`."""

    complaint: str = ""
    """What to say of a module without that file, where "has no <file>" would not do."""

    gpus: range | None = gpu.ANY
    """Compute capabilities (major) that it runs on; None where the baseline asks by itself."""

    kernels: tuple[str, ...] = ()
    """Regular expressions, each of which must match a kernel that a call runs."""

    backward: tuple[str, ...] = ()
    """The same of a backward pass."""

    foreign: tuple[str, ...] = ()
    """Regular expressions of which none may match: everyone else's kernels."""

    @property
    def _site(self) -> str:
        return self.name if self.site is None else self.site

    def use(self) -> None:
        """Put its folder first on `sys.path`; raises `SiteError` where the variable names none."""
        if self._site:
            sites.use_site(self._site)
        if "nvidia_cutlass_dsl" in self.modules:
            sites.use_cutlass_dsl()

    def load(self, module: str, *bare: str) -> Any:
        """A module of it; the `__init__` of the packages `bare` above it is not run."""
        self.use()
        return sites.import_bare(module, bare)

    def absent(self) -> str | None:
        """None, or why it cannot be imported here; where it is not installed, that ends with the command."""
        try:
            self.use()
        except sites.SiteError as error:
            return str(error)
        cutlass = ["cutlass"] if "nvidia_cutlass_dsl" in self.modules else []
        reason = sites.missing(self.modules, self.install) or sites.missing(cutlass, self.install)
        package, _, file = self.file.partition("/")
        if reason is None and file and not sites.holds(package, file):
            reason = f"{package} here {self.complaint or f'has no {file}'}: {self.install}"
        return reason

    def versions(self) -> str:
        """Its version and those of what it stands on; of a build from source the commit."""
        self.use()
        return built.described(self._site, ", ".join(map(sites.labelled_version, self.packages)))


TORCH = Library("torch", "pip install torch", ("torch",), ("torch",), site="")
TRITON = Library("triton", "pip install torch triton", ("torch", "triton"), ("triton",))
TORCH_COMPILE = replace(TRITON, name="torch_compile", packages=("torch", "triton"), site="")


def options(**values: Sequence[Any]) -> Mapping[str, Sequence[Any]]:
    """What each option of a variant may be, its default first."""
    return MappingProxyType(values)


class Baseline:
    """A library on one workload: what is declared here, and `prepare(problem, inputs) -> Call`, which each adds."""

    library: Library
    choices: Mapping[str, Sequence[Any]] = options()
    devices: tuple[str, ...] = ("cuda",)
    dtype = "bf16"
    directions: tuple[str, ...] = ("fwd",)

    notes: tuple[str, ...] = ()
    """What `version` says behind the versions."""

    memory: tuple[float, str] = (1.0, "")
    """The share of a GPU's memory that `held_bytes` may take, and what a refusal says with `held` and `share` in GB."""

    def __init__(self, **options: Any) -> None:
        """Raises `TypeError` for an option that there is not, `ValueError` for a value."""
        for key, value in options.items():
            if key not in self.choices:
                takes = ", ".join(sorted(self.choices)) or "none"
                raise TypeError(f"{self.library.name}: got the option {key}={value}, it takes {takes}")
            if value not in self.choices[key]:
                takes = ", ".join(map(str, self.choices[key]))
                raise ValueError(f"{self.library.name}: got {key}={value}, it takes {takes}")
        self.options = {**{key: values[0] for key, values in self.choices.items()}, **options}
        self.tunings: dict[Hashable, dict[str, Any]] = {}

    @property
    def name(self) -> str:
        """As its refusals name it."""
        return self.library.name

    def available(self) -> str | None:
        """None, or why it cannot run here and the command that installs it."""
        return self.library.absent()

    def version(self) -> str:
        """The library and what it stands on, with versions."""
        return ", ".join([self.library.versions(), *self.notes])

    def tuned(self, key: Hashable, choices: Sequence[T], make: Callable[[T], Call]) -> T:
        """The fastest of the choices, tried once for a key in a process (`tuning.tuned`); `tuning` tells of it."""
        choice, self.tunings[key] = tuning.tuned(key, choices, make)
        return choice

    def tuning(self) -> tuple[Mapping[str, Any], ...]:
        """What was chosen by timing since it was made, a record each: `chosen`, `space`, `tunings` and `seconds`."""
        return tuple(self.tunings.values())

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or the first limit that a problem on `cuda` or `cpu` is beyond."""
        if device not in self.devices:
            return f"{self.name} runs on {' and '.join(self.devices)}, not on {device}"
        limits: Iterable[Limit] = itertools.chain(self._always(problem), self.limits(problem))
        if device == "cuda":
            limits = itertools.chain(limits, self._of_gpu(problem))
        return next((f"{self.name}: {words}" for beyond, words in limits if beyond), None)

    def limits(self, problem: Any) -> Limits:
        """What of sizes and options it does not take; asked for a dtype and a direction that it takes."""
        yield from ()

    def held_bytes(self, problem: Any) -> int:
        """What is in memory at once beside inputs and outputs, where `memory` limits that."""
        return 0

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """The library's kernels of the problem's direction."""
        return self.library.backward if problem.direction == "bwd" else self.library.kernels

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return self.library.foreign

    def _always(self, problem: Any) -> Limits:
        yield problem.dtype != self.dtype, f"got dtype {problem.dtype}, it takes {self.dtype}"
        taken = " and ".join(self.directions)
        got = f"got direction {problem.direction}"
        yield problem.direction not in self.directions, f"{got}, it is compared in {taken} alone"

    def _of_gpu(self, problem: Any) -> Limits:
        if self.library.gpus is not None:
            reason = gpu.refuse(self.library.gpus)
            yield reason, str(reason)
        part, words = self.memory
        if words:
            held, share = self.held_bytes(problem), part * gpu.memory_bytes()
            yield held > share, words.format(held=held / 1e9, share=share / 1e9)


def multiples(problem: Any, words: str, **of: int) -> Limits:
    """Sizes that have to be multiples; `words` say so, with {} for the number."""
    for key, number in of.items():
        size = getattr(problem, key)
        yield size % number, f"got {key}={size}, {words.format(number)}"


def among(problem: Any, words: str, **values: tuple[Any, ...]) -> Limits:
    """Keys that have to have one of some values; `words` say so, with {} for these."""
    for key, taken in values.items():
        value = getattr(problem, key)
        yield value not in taken, f"got {key}={value}, {words.format(' and '.join(map(str, taken)))}"
