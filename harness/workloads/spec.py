"""What every workload's problem, reference, tolerance and cost have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from harness.records.errors import HarnessError, objection
from harness.records.naming import problem_keys, problem_text

if TYPE_CHECKING:
    import torch

_KINDS: dict[type, Any] = {
    int: Annotated[int, Field(ge=1), BeforeValidator(lambda given: str(given) if given is True else given)],  # a size
    bool: bool,
    float: float,
    str: str,
}
_CHECKED = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
_COMMON = ("dtype", "direction")
_SAME_AS = "same_as"
_CHOICES = "choices"
_OPTION = "option"


def same_as(key: str) -> Any:
    """A problem key that is another key's value where it is not given: `Hkv: int = same_as("H")`.

    It is left out of the canonical text where the two are equal, and is a size and no option: plain functions see it
    in the shapes of their inputs.
    """
    return field(default=0, metadata={_SAME_AS: key})


def inputs_are(default: str, *others: str) -> Any:
    """A problem key that says which inputs there are: `boundary: str = inputs_are("raw", "prepared")`.

    It takes one of these values, the first where it is not given, and is no option: plain functions see it in the names
    and shapes of their inputs.
    """
    return field(default=default, metadata={_CHOICES: (default, *others)})


def known(*values: str) -> Any:
    """A problem key without a default that takes one of these values, and is no option."""
    return field(metadata={_CHOICES: values})


def one_of(default: Any, *others: Any) -> Any:
    """An option that takes one of these values: `layout: str = one_of("bhnd", "bnhd")`."""
    return field(default=default, metadata={_CHOICES: (default, *others), _OPTION: True})


@dataclass(frozen=True, kw_only=True)
class ProblemSpec:
    """Base of every `Problem`: a subclass adds its keys in canonical order; a key with a default is an option.

    Options at their default are left out of the canonical text, and all of them are passed to plain functions.
    A key declared with `same_as` has another key's value as its default, and is no option; nor is one declared with
    `inputs_are`.
    """

    dtype: str
    direction: str
    multiples: ClassVar[Mapping[str, str | int]] = {}
    """Keys that need to be multiples of another key or a number."""
    forward_only: ClassVar[tuple[str, ...]] = ()
    """Options that say nothing of a backward pass, and may not be set for one."""

    def __post_init__(self) -> None:
        for own in self._own_fields():
            if _SAME_AS in own.metadata and not getattr(self, own.name):
                object.__setattr__(self, own.name, getattr(self, own.metadata[_SAME_AS]))
            values = own.metadata.get(_CHOICES)
            if values and getattr(self, own.name) not in values:
                got = getattr(self, own.name)
                raise HarnessError(f"problem: {own.name} is {got!r}, needs to be one of {', '.join(map(str, values))}")
        for key in self.forward_only:
            if self.direction == "bwd" and getattr(self, key):
                raise HarnessError(f"problem: {key} is set, and the direction is bwd, which has no such output")
        for key, of in self.multiples.items():
            number = getattr(self, of) if isinstance(of, str) else of
            if (got := getattr(self, key)) % number:
                named = f"{of}, {number}" if isinstance(of, str) else of
                raise HarnessError(f"problem: {key} is {got}, needs a multiple of {named}")

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The workload's own keys in canonical order."""
        return tuple(field.name for field in fields(cls) if field.name not in _COMMON)

    @property
    def options(self) -> dict[str, Any]:
        """Keyword options of the operation, which shapes do not determine."""
        optional = (f for f in self._own_fields() if not f.metadata or _OPTION in f.metadata)
        return {f.name: getattr(self, f.name) for f in optional if f.default is not MISSING}

    @property
    def text(self) -> str:
        """Canonical text, `M=4096;N=4096;K=64`."""
        shown = [
            f.name for f in self._own_fields() if f.default is MISSING or getattr(self, f.name) != self._default(f)
        ]
        return problem_text({name: getattr(self, name) for name in shown})

    @property
    def title(self) -> str:
        """The text, with the direction where that is not fwd: what tells the problems of one run apart."""
        return self.text if self.direction == "fwd" else f"{self.text} {self.direction}"

    def as_mapping(self) -> dict[str, Any]:
        """Every key with its value, as `from_mapping` takes them."""
        return {name: getattr(self, name) for name in self.keys()}

    @classmethod
    def from_mapping(cls, workload: str, values: Mapping[str, object], *, dtype: str, direction: str) -> Self:
        """The problem with these keys; raises `HarnessError` for an unknown, missing or ill-typed one.

        None stands for the default of a key that has one, as `null` does in a configuration.
        """
        given = {key: value for key, value in values.items() if value is not None}
        try:
            typed = vars(cls._checker()(**given))
        except ValidationError as error:
            keys = f"its keys are {', '.join(cls.keys())}"
            raise HarnessError(f"{workload} problem: {objection(error)}; {keys}") from None
        return cls(dtype=dtype, direction=direction, **{key: typed[key] for key in given})

    @classmethod
    @cache
    def _checker(cls) -> type[BaseModel]:
        """The model of the workload's own keys."""
        hints = get_type_hints(cls)
        own: dict[str, Any] = {
            one.name: (_KINDS[hints[one.name]], ... if one.default is MISSING else None) for one in cls._own_fields()
        }
        return create_model(cls.__name__, __config__=_CHECKED, **own)

    @classmethod
    def parse(cls, workload: str, text: str, *, dtype: str, direction: str) -> Self:
        """The problem of a canonical text (the inverse of `text`); raises `HarnessError`."""
        return cls.from_mapping(workload, problem_keys(text), dtype=dtype, direction=direction)

    def _default(self, own: Any) -> Any:
        return getattr(self, own.metadata[_SAME_AS]) if _SAME_AS in own.metadata else own.default

    @classmethod
    def _own_fields(cls) -> tuple[Any, ...]:
        return tuple(field for field in fields(cls) if field.name not in _COMMON)


@dataclass(frozen=True)
class Output:
    """Form of one output: its shape, and its dtype as problems write it (`bf16`)."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Magnitude:
    """The L2 norm of each row of a tensor, (..., rows) float64, and its largest absolute value."""

    rows: torch.Tensor
    largest: float


@dataclass(frozen=True)
class Expected:
    """A part of one output, and what it should be.

    values: float64 tensor; select: takes the whole output and gives the part that `values` describes.
    note: empty if the part is the whole, else which part, in words.
    cancelled: size of the terms that the values are a small difference of; nothing for most outputs.
    bands: what is judged by itself in the matrices of the last two dimensions: "tiles" are 64 rows, and each matrix as
    a whole; "lines" are rows and columns, for values that are rounded one by one; nothing for "".
    """

    output: str
    values: torch.Tensor
    select: Callable[[torch.Tensor], torch.Tensor]
    note: str = ""
    cancelled: Magnitude | None = None
    bands: str = "tiles"
    statistic: bool = False
    """Whether this is a statistic of the output, the bound of which no library's roundings widen."""


Reference = Sequence[Expected] | Callable[[Mapping[str, "torch.Tensor"]], Sequence[Expected]]
"""What outputs should be; a function of the outputs, by name, where that depends on what an implementation drew."""


@dataclass(frozen=True)
class Tolerance:
    """Bounds on the error of an output: relative L2 norm, largest absolute error, and where they come from.

    ours: the share of both that our own kernels may use, whose roundings are known.  shared: how much too large or
    small all of an output may be by design, relative to it, as sums are that are cut off.
    """

    rel_l2: float
    max_abs: float
    reason: str
    ours: float = 1.0
    shared: float = 0.0


@dataclass(frozen=True)
class OwnBound:
    """A relative L2 error that a library may have by its design, in place of the workload's.  reason: its roundings."""

    rel_l2: float
    reason: str


@dataclass(frozen=True)
class Traffic:
    """Bytes that a problem must read and write, each tensor once; wire: those that a rank must receive of others."""

    read: int
    written: int
    wire: int = 0

    @property
    def total(self) -> int:
        return self.read + self.written
