"""The sentences that reports and verdicts are made of: `words.yaml` has their words, its callers the facts."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2
import yaml

WORDS = Path(__file__).with_suffix(".yaml")


def say(sentence: str, /, **facts: Any) -> str:
    """A sentence by its name in the file; one that has nothing to say is an empty text."""
    return re.sub(" {2,}", " ", _templates()[sentence].render(facts)).strip()


def numbered(count: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def does(count: int, verb: str) -> str:
    """`1 holds`, `2 hold`."""
    return f"{count} {verb}{'s' if count == 1 else ''}"


def listed(names: Iterable[str]) -> str:
    """`cuBLAS, quack and Triton`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def capital(text: str) -> str:
    """A text at the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def of_problems(count: int, total: int) -> str:
    """`4 of 5 problems`, `all 5 problems`, `its one problem`."""
    if total == 1:
        return "its one problem" if count else "none"
    return f"{'all' if count == total else f'{count} of'} {total} problems"


@functools.cache
def _templates() -> dict[str, jinja2.Template]:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.filters |= {"n": numbered, "do": does, "listed": listed, "capital": capital}
    environment.globals["of"] = of_problems
    texts = yaml.safe_load(WORDS.read_text(encoding="utf-8"))
    return {name: environment.from_string(text) for name, text in texts.items()}
