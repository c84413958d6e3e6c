"""Names of contestants, problems and GPU folders, all written and parsed here, and suggestions for misspelt ones.

A contestant is `tk` or `tk[persistent=0;stages=2]`, a problem `M=64;N=64;K=64`.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from harness.records.datasheets import find_datasheet
from harness.records.errors import HarnessError, objection

Option = int | float | str

_LABEL = re.compile(r"(?P<implementation>[A-Za-z_]\w*)\s*(?:\[(?P<options>[^\[\]]*)\])?")
_KEY = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, order=True)
class Contestant:
    """An implementation and the options it runs with: the columns `implementation` and `variant` of a row."""

    implementation: str
    variant: str = ""
    """Canonical options, `persistent=0;stages=2`, sorted by key; empty for none."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any] | Any) -> Contestant:
        """That of a row, a `Measurement` or a mapping of its columns."""
        cells = row if isinstance(row, Mapping) else vars(row)
        return Contestant(str(cells["implementation"]), str(cells["variant"]))

    @property
    def options(self) -> dict[str, Option]:
        """The options by name: an int where one reads as one, else a float, else the text."""
        return {key: _option(value) for key, value in problem_keys(self.variant).items()}

    def __str__(self) -> str:
        return f"{self.implementation}[{self.variant}]" if self.variant else self.implementation


def build_keys(contestant: Contestant, direction: str) -> tuple[str, str]:
    """Keys under which a manifest's `kernel_builds` may have a case's build, in order.

    First the direction's, if it has a kernel of its own, then the contestant's.
    """
    return f"{contestant} {direction}", str(contestant)


def with_builds(known: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest's `kernel_builds` with more of them; the build of another kernel than a key's has its name behind it.

    Attention takes another kernel where queries are few: `tk` and `tk paged_attention_decode`.
    """
    builds = dict(known)
    for key, build in found.items():
        other = key in builds and builds[key].get("name") != build.get("name")
        builds[f"{key} {build.get('name')}" if other else key] = build
    return builds


def builds_under(builds: Mapping[str, Any], contestant: Contestant, direction: str) -> list[Any]:
    """Those of a manifest's `kernel_builds` that a case of a contestant may run: of a direction of its own, or all."""
    for base in build_keys(contestant, direction):
        own = [one for key, one in builds.items() if key == base or key == f"{base} {one.get('name')}"]
        if own:
            return own
    return []


@lru_cache(maxsize=1024)
def parse_contestant(label: str) -> Contestant:
    """The contestant that a label names, whatever its blanks and the order of its options.

    Options are separated by `;` or `,`.  Raises `HarnessError`.
    """
    match = _LABEL.fullmatch(label.strip())
    if match is None:
        raise HarnessError(
            f"implementation {label!r} is not a name with options: write tk or tk[stages=2;order=hilbert]"
        )
    options: dict[str, Option] = {}
    for item in filter(None, (part.strip() for part in re.split("[;,]", match["options"] or ""))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not _KEY.fullmatch(key) or not value:
            raise HarnessError(f"implementation {label!r}: option {item!r} is not of the form key=value")
        if key in options:
            raise HarnessError(f"implementation {label!r}: option {key} is given twice")
        options[key] = _option(value)
    return Contestant(match["implementation"], ";".join(f"{key}={value}" for key, value in sorted(options.items())))


def _option(text: str) -> Option:
    """An option's value: an int if it reads as one, else a float, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def problem_text(keys: Mapping[str, object]) -> str:
    """The text of a problem given as a mapping, in its own order: `{"M": 64, "causal": True}` is `M=64;causal=1`."""
    return ";".join(f"{key}={int(value) if isinstance(value, bool) else value}" for key, value in keys.items())


def problem_keys(text: str) -> dict[str, str]:
    """The keys and values of a problem's text: `M=64;K=8` is `{"M": "64", "K": "8"}`.  Raises `HarnessError`."""
    keys: dict[str, str] = {}
    for item in filter(None, text.split(";")):
        key, equals, value = item.partition("=")
        if not equals or key in keys:
            raise HarnessError(f"problem {text!r}: {item!r} is not one key=value, separated by ';'")
        keys[key] = value
    return keys


def same_problem(left: str, right: str) -> bool:
    """Whether two texts name one problem, in whatever order their keys are."""
    return problem_keys(left) == problem_keys(right)


class _Entry(BaseModel, extra="allow"):
    """A problem, or with the key `grid` the product of its lists."""

    grid: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)] = {}

    @property
    def problems(self) -> list[dict[str, Any]]:
        if self.grid:
            return [dict(zip(self.grid, point, strict=True)) for point in itertools.product(*self.grid.values())]
        return [dict(self.model_extra or {})]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.grid and self.model_extra:
            raise ValueError(f"a grid stands alone, has {', '.join(self.model_extra)} beside it")
        return self


_ENTRIES = TypeAdapter(Annotated[list[_Entry], Field(min_length=1)])


def expand_problems(entries: object) -> list[dict[str, Any]]:
    """A list of problems and grids as a flat list of problems; a grid is the product of its lists, last key fastest."""
    try:
        listed = _ENTRIES.validate_python(entries)
    except ValidationError as error:
        raise HarnessError(objection(error, "problems")) from None
    return [problem for entry in listed for problem in entry.problems]


def gpu_slug(gpu_name: str) -> str:
    """Folder name of a GPU: its datasheet's, else its reported name in lower case with dashes."""
    sheet = find_datasheet(gpu_name)
    return sheet.slug if sheet else re.sub(r"[^a-z0-9]+", "-", gpu_name.lower()).strip("-") or "unknown-gpu"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known name that a word is a near miss of, before all in upper or lower case alone; None without one."""
    alike = [one for one in known if one.lower() == word.lower()]
    return next(iter(alike or difflib.get_close_matches(word, known, n=1)), None)


def closest(word: str, known: Sequence[str], prefix: str = "") -> str:
    """`; did you mean X?` for a near miss, else nothing.  prefix: what stands before each of the names."""
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {prefix}{near}?"
