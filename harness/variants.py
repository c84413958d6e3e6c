"""The text of an implementation with options of its own: `tk`, `tk[stages=2]`, `tk[persistent=0;order=row_major]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.errors import HarnessError

Option = int | float | str

_LABEL = re.compile(r"(?P<provider>[A-Za-z_]\w*)(?:\[(?P<options>[^\[\]]*)\])?")
_KEY = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Variant:
    """A provider's name and its options, sorted by key so that one variant has one text."""

    provider: str
    options: tuple[tuple[str, Option], ...] = ()

    @property
    def text(self) -> str:
        """Canonical options, `persistent=0;stages=2`; empty for none."""
        return ";".join(f"{key}={value}" for key, value in self.options)

    def __str__(self) -> str:
        return f"{self.provider}[{self.text}]" if self.options else self.provider


def parse_variant(label: str) -> Variant:
    """The variant that a label names; options are separated by `;` or `,`; raises `HarnessError`."""
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
        options[key] = parse_option(value)
    return Variant(match["provider"], tuple(sorted(options.items())))


def parse_option(text: str) -> Option:
    """An option's value: an int if it reads as one, else a float, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
