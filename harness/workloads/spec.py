"""What every workload's problem, reference, tolerance and cost have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from harness.errors import HarnessError

if TYPE_CHECKING:
    import torch

_COMMON = ("dtype", "direction")


@dataclass(frozen=True, kw_only=True)
class ProblemSpec:
    """Base of every `Problem`: a subclass adds its keys in canonical order; a key with a default is an option.

    Options at their default are left out of the canonical text, and all of them are passed to plain functions.
    """

    dtype: str
    direction: str

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The workload's own keys in canonical order."""
        return tuple(field.name for field in fields(cls) if field.name not in _COMMON)

    @property
    def options(self) -> dict[str, Any]:
        """Keyword options of the operation, which shapes do not determine."""
        return {f.name: getattr(self, f.name) for f in self._own_fields() if f.default is not MISSING}

    @property
    def text(self) -> str:
        """Canonical text, `M=4096;N=4096;K=64`."""
        shown = [f.name for f in self._own_fields() if f.default is MISSING or getattr(self, f.name) != f.default]
        return ";".join(f"{name}={_show(getattr(self, name))}" for name in shown)

    def as_mapping(self) -> dict[str, Any]:
        """Every key with its value, as `from_mapping` takes them."""
        return {name: getattr(self, name) for name in self.keys()}

    @classmethod
    def from_mapping(cls, workload: str, values: Mapping[str, object], *, dtype: str, direction: str) -> Self:
        """The problem with these keys; raises `HarnessError` for an unknown, missing or ill-typed one."""
        hints = get_type_hints(cls)
        known = cls.keys()
        unknown = [key for key in values if key not in known]
        if unknown:
            raise HarnessError(f"{workload} has no problem key {unknown[0]!r}: its keys are {', '.join(known)}")
        missing = [f.name for f in cls._own_fields() if f.default is MISSING and f.name not in values]
        if missing:
            raise HarnessError(f"{workload} problem lacks {', '.join(missing)}: its keys are {', '.join(known)}")
        typed = {key: _typed(workload, key, hints[key], value) for key, value in values.items()}
        return cls(dtype=dtype, direction=direction, **typed)

    @classmethod
    def parse(cls, workload: str, text: str, *, dtype: str, direction: str) -> Self:
        """The problem of a canonical text (the inverse of `text`); raises `HarnessError`."""
        values: dict[str, object] = {}
        for item in filter(None, text.split(";")):
            key, equals, value = item.partition("=")
            if not equals or key in values:
                raise HarnessError(f"problem {text!r}: {item!r} is not one key=value, separated by ';'")
            values[key] = value
        return cls.from_mapping(workload, values, dtype=dtype, direction=direction)

    @classmethod
    def _own_fields(cls) -> tuple[Any, ...]:
        return tuple(field for field in fields(cls) if field.name not in _COMMON)


@dataclass(frozen=True)
class Expected:
    """A part of one output, and what it should be.

    values: float64 tensor; select: takes the whole output and gives the part that `values` describes.
    note: empty if the part is the whole, else which part, in words.
    """

    output: str
    values: torch.Tensor
    select: Callable[[torch.Tensor], torch.Tensor]
    note: str = ""


@dataclass(frozen=True)
class Tolerance:
    """Bounds on the error of an output: relative L2 norm, largest absolute error, and where they come from."""

    rel_l2: float
    max_abs: float
    reason: str


@dataclass(frozen=True)
class Traffic:
    """Bytes that a problem must read and write, each tensor once."""

    read: int
    written: int

    @property
    def total(self) -> int:
        return self.read + self.written


def _typed(workload: str, key: str, hint: Any, value: object) -> Any:
    """The value of a key in its type: a positive int, a float, a bool (0/1) or a text."""
    if hint is int:
        text = str(value)
        if isinstance(value, bool) or not text.lstrip("+-").isdigit() or int(text) < 1:
            raise HarnessError(f"{workload} problem: {key} is {value!r}, needs a whole number of at least 1")
        return int(text)
    if hint is bool:
        if str(value).lower() not in ("0", "1", "true", "false"):
            raise HarnessError(f"{workload} problem: {key} is {value!r}, needs 0 or 1")
        return str(value).lower() in ("1", "true")
    if hint is float:
        try:
            return float(str(value))
        except ValueError:
            raise HarnessError(f"{workload} problem: {key} is {value!r}, needs a number") from None
    return str(value)


def _show(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
