"""The sentences that reports and verdicts are made of: `words.j2` has their words, its callers the facts."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2

WORDS = Path(__file__).with_suffix(".j2")


def say(sentence: str, /, **facts: Any) -> str:
    """A sentence by the name of its macro, on one line; a macro that has nothing to say gives an empty text."""
    return re.sub(r"\s*\n\s*", " ", str(getattr(_macros(), sentence)(**facts))).strip()


def numbered(count: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def do(count: int, verb: str) -> str:
    """`1 holds`, `2 hold`."""
    return f"{count} {verb}{'s' if count == 1 else ''}"


def listed(names: Iterable[str], word: str = "and") -> str:
    """`cuBLAS, quack and Triton`."""
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last


def capital(text: str) -> str:
    """A text at the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


@functools.cache
def _macros() -> Any:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"n": numbered, "do": do, "listed": listed, "capital": capital}
    return environment.from_string(WORDS.read_text(encoding="utf-8")).module
