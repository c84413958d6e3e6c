"""Which libraries are built from source: `libraries.toml`, read and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.sources.errors import SourcesError

FILE = Path(__file__).resolve().parent / "libraries.toml"
_TEXTS, _LISTS = ("upstream", "commit", "licence", "needs", "built", "wheel"), ("holds", "contestants")
_KEYS = {**dict.fromkeys(_TEXTS, str), **dict.fromkeys(_LISTS, list), "refused": dict}


@dataclass(frozen=True)
class Library:
    """One entry of the data file."""

    name: str
    upstream: str
    commit: str
    licence: str
    holds: tuple[str, ...]
    needs: str
    contestants: tuple[str, ...]
    built: str = ""
    wheel: str = ""
    refused: Mapping[str, list[str]] = field(default_factory=dict, hash=False)


def read(path: Path = FILE) -> dict[str, Library]:
    """Every library by its name, which is the one that its baseline looks for.

    Raises:
        SourcesError: An entry lacks a key, has one that is not known, or one of another type.
    """
    found = {}
    for name, table in tomllib.loads(path.read_text()).items():
        table = {"refused": {}, **table}
        wrong = {key for key in {*table, *_KEYS} if not isinstance(table.get(key), _KEYS.get(key, ()))}
        if wrong:
            raise SourcesError(f"{path}: {name} has no good {', '.join(sorted(wrong))}; see the head of the file")
        lists = {key: tuple(table[key]) for key in _LISTS}
        found[name] = Library(name, **{**table, **lists})
    return found


def named(name: str, path: Path = FILE) -> Library:
    """The library of this name.

    Raises:
        SourcesError: There is none.
    """
    known = read(path)
    if name not in known:
        raise SourcesError(f"got the library {name!r}, known are {', '.join(known)}")
    return known[name]
