"""Whose kernel a name is, for every family: this repository's, and everyone's but some."""

from __future__ import annotations

from collections.abc import Sequence

TK = "kittens.*kernel_entry"
"""This repository's; the released library's namespace is `kittens` as well."""


def everyone_but(everyone: Sequence[str], *own: str) -> tuple[str, ...]:
    """The kernels of everyone but these, none of which may run in their place."""
    return tuple(pattern for pattern in everyone if pattern not in own)
