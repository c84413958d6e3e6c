"""Whose kernel a name is, for every family: this repository's, and everyone's but some."""

from __future__ import annotations

from collections.abc import Callable

TK = "kittens.*kernel_entry"
"""This repository's; the released library's namespace is `kittens` as well."""


def everyone_but(*everyone: str) -> Callable[..., tuple[str, ...]]:
    """What gives the kernels of everyone but those named, none of which may run in their place."""
    return lambda *own: tuple(pattern for pattern in everyone if pattern not in own)
