"""Regular expressions for kernel names, shared by all families: this repository's kernels, and all but those of
some.
"""

from __future__ import annotations

from collections.abc import Sequence

TK = "kittens.*kernel_entry"
"""This repository's; the released library's namespace is `kittens` as well."""


def everyone_but(everyone: Sequence[str], *own: str) -> tuple[str, ...]:
    """All kernels but those of these libraries: none of them may run instead."""
    return tuple(pattern for pattern in everyone if pattern not in own)
