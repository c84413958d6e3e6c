"""What the implementations of all kernels share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import torch
from torch import Tensor

from .. import __version__, ops, toolchain
from ..ops.library import built_for, unsupported_gpu
from ..ops.options import integer

Outputs = Tensor | tuple[Tensor, ...]

TARGET_OF_DEVICE = {device: target.name for device, target in toolchain.DEFAULT_OF_DEVICE.items()}


@dataclass(frozen=True)
class Multiples:
    """Sizes that are multiples of one number up to another."""

    multiple_of: int
    at_most: int

    def __contains__(self, value: int) -> bool:
        return value % self.multiple_of == 0 and value <= self.at_most

    def __str__(self) -> str:
        return f"of multiples of {self.multiple_of} up to {self.at_most}"


Sizes = tuple[tuple[str, str, tuple[int, ...] | Multiples], ...]


class Kernel:
    """A kernel's operator as a harness wants it; a subclass says what differs.

    name: the kernel's build unit. workload: what messages call it, where that is another name. dtype, directions: what
    it takes. options: the names of a variant's options, besides `target`: the build to use on a GPU instead of the one
    for its capability. of_copy_engine: those of the options that Hopper GPUs alone have kernels for. foreign: more of
    other people's kernels. helpers: other units that a call loads. sizes: a key of the problem, what a message
    calls it, and which the kernel takes. most: options that are numbers from 1 up, and their largest. Raises TypeError
    for an option that does not exist, ValueError for such a number out of range or a target that is none of GPUs.
    """

    name: str
    workload = ""
    dtype = "bf16"
    directions: tuple[str, ...] = ("fwd",)
    options: tuple[str, ...] = ()
    of_copy_engine: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    sizes: Sizes = ()
    most: tuple[tuple[str, int], ...] = ()

    def __init__(self, **options: Any) -> None:
        self._target = self._direction = ""
        known = (*self.options, "target")
        for option in options:
            if option not in known:
                raise TypeError(f"{self._title}: got the option {option!r}, it takes {', '.join(known)}")
        wanted = options.pop("target", "auto")
        of_gpus = [name for name, target in toolchain.TARGETS.items() if target.cuda]
        if wanted not in (*of_gpus, "auto"):
            raise ValueError(f"target: got {wanted!r}, needs one of {', '.join(of_gpus)}, or auto")
        self._wanted = "" if wanted == "auto" else str(wanted)
        self._options: dict[str, Any] = {
            option: None if value == "auto" else value for option, value in options.items()
        }
        for option, most in self.most:
            if self._options.get(option) is not None:
                integer(option, self._options[option], 1, most)

    @property
    def _title(self) -> str:
        return f"tk {self.workload or self.name}"

    def available(self) -> str | None:
        """None when the kernel can be loaded or built for some device, else the reason with the command to run."""
        reasons = [toolchain.obstacle(self.name, target) for target in TARGET_OF_DEVICE.values()]
        return None if None in reasons else reasons[0]

    def version(self) -> str:
        """The project's version and the hash of the sources; and whether the build is slow on purpose."""
        target = self._on("cuda")
        kernel, slowed = toolchain.find_unit(self.unit(target)), toolchain.slowed_percent()
        sources = toolchain.source_hash(kernel, toolchain.find_target(target))[:8]
        remark = f", slowed by {slowed:g} % on purpose" if slowed else ""
        return f"tk_kernels {__version__}, {self.name} sources {sources}{remark}"

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device` ("cuda" or "cpu")."""
        if problem.dtype != self.dtype:
            return f"{self._title} takes {self.dtype}, not {problem.dtype}"
        if problem.direction not in self.directions:
            return f"{self._title} has no kernel of its own for direction {problem.direction}"
        reason = self.refuse(problem)
        if reason:
            return reason
        if device not in TARGET_OF_DEVICE:
            return f"device {device!r} has no target; there are {', '.join(TARGET_OF_DEVICE)}"
        if self._wanted and device != "cuda":
            return f"{self._title}: target {self._wanted} is one of GPUs, not of the device {device!r}"
        if device == "cuda" and torch.cuda.is_initialized():
            reason = unsupported_gpu(torch.device("cuda", torch.cuda.current_device()), self._wanted)
            if reason:
                return reason
        target = self._on(device)
        forced = [name for name in self.of_copy_engine if self._options.get(name) is not None]
        if forced and not toolchain.TARGETS[target].copy_engine and not self.is_refused(target, problem.direction):
            return f"the option {forced[0]} is one of the kernel for Hopper GPUs"
        return toolchain.obstacle(self.unit(target, problem.direction), target)

    def is_refused(self, target: str, direction: str) -> bool:
        """Whether no kernel is built for the target at all."""
        return toolchain.find_unit(self.unit(target, direction)).refusal(target) is not None

    def refuse(self, problem: Any) -> str | None:
        """None, or why the kernel was not built for this problem, or not with these options: by its `sizes`."""
        for key, what, known in self.sizes:
            if getattr(problem, key) not in known:
                listed = known if isinstance(known, Multiples) else " and ".join(map(str, known))
                return f"{self._title} takes {what} {listed}, not {getattr(problem, key)}"
        return None

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call that is timed, with the kernel loaded (and built, if need be)."""
        self._target, self._direction = self._on(next(iter(inputs.values())).device.type), problem.direction
        toolchain.load(self.unit(self._target, problem.direction), self._target)
        if not self._wanted:
            return self.bind(problem, inputs)
        with built_for(self._wanted):
            call = self.bind(problem, inputs)

        def on_target() -> Outputs:
            with built_for(self._wanted):
                return call()

        return on_target

    def unit(self, target: str, direction: str = "fwd") -> str:
        """The kernel's build unit for a target and direction: one, where the same source serves all."""
        return self.name

    def loaded_kernels(self, device: str, direction: str = "fwd") -> tuple[str, ...]:
        """The build units that calls on "cuda" or "cpu" load, as far as they are built for its target."""
        target = self._on(device)
        names = dict.fromkeys((self.unit(target, direction), *self.helpers))
        return tuple(name for name in names if toolchain.find_unit(name).refusal(target) is None)

    def _on(self, device: str) -> str:
        """The target that is built for "cuda" or "cpu": the variant's, else that of the GPU as far as it is known."""
        if device == "cuda" and self._wanted:
            return self._wanted
        if device == "cuda" and torch.cuda.is_initialized():
            return toolchain.target_of_this_gpu().name
        return TARGET_OF_DEVICE[device]

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call on these inputs: the kernel's operator with inputs and options by their names.

        Where a state is asked for, (out, (state, ...)) becomes (out, state, ...).
        """
        operator = ops.OPERATORS[self.operator(problem)]
        given = {**inputs, **problem.options, **self._options}
        if not given.get("return_state"):
            return lambda: operator(**given)

        def flat() -> Outputs:
            out, states = operator(**given)
            return (out, *states)

        return flat

    def operator(self, problem: Any) -> str:
        """The name of the operator that a problem is for."""
        return self.name

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """A regular expression that the profiled name of our kernel matches, mangled or not."""
        return (rf"kittens.*kernel_entry.*tk.*{self.name}",)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Other people's kernels, none of which may run in our place."""
        return ("nvjet", "cutlass", "cublas", "xmma", "triton", *self.foreign)

    def build_manifest(self) -> dict[str, Any] | None:
        """The build manifest of the kernel: as it was prepared, else for the GPU where there is one, forward."""
        target = self._target or self._on("cuda" if torch.cuda.is_available() else "cpu")
        return toolchain.manifest(self.unit(target, self._direction or "fwd"), target)


class Operator(Kernel):
    """An operator that takes a workload's inputs and options by their names; a variant's options are its keywords.

    operator: its name, which is that of its build unit too. sizes: problem's key -> the sizes it takes, a list or
    `{multiple_of: 8, at_most: 512}`. Raises ValueError for an operator that there is not, TypeError for other limits.
    """

    def __init__(self, operator: str, sizes: Mapping[str, Any] | None = None, **options: Any) -> None:
        if operator not in ops.OPERATORS:
            raise ValueError(f"operator: got {operator!r}, there is {', '.join(ops.OPERATORS)}")
        self.name = operator
        self.options = _keywords(ops.OPERATORS[operator])
        self.sizes = tuple(
            (key, key, Multiples(**known) if isinstance(known, Mapping) else tuple(known))
            for key, known in (sizes or {}).items()
        )
        super().__init__(**options)

    def refuse(self, problem: Any) -> str | None:
        """The first of the sizes that the operator does not take. Raises ValueError for one that no problem has."""
        strange = [key for key, *_ in self.sizes if not hasattr(problem, key)]
        if strange:
            raise ValueError(f"sizes: got {strange[0]!r}, the problem has {', '.join(vars(problem))}")
        return super().refuse(problem)


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the keywords of a function, those of a typed dictionary that it takes among them."""
    names: list[str] = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY:
            names.append(one.name)
        elif one.kind is one.VAR_KEYWORD:
            names += get_args(get_type_hints(function)[one.name])[0].__annotations__
    return tuple(names)
