"""Check the options of a variant, such as ``quack[b_layout=k]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def chosen(
    name: str, given: Mapping[str, Any], known: Mapping[str, Sequence[Any]], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """``defaults`` with ``given`` over them.

    Args:
        name: The baseline, for messages.
        given: Options of the variant.
        known: Allowed values by option.
        defaults: One value by option.

    Raises:
        TypeError: An option does not exist.
        ValueError: An option's value does not exist.
    """
    for key, value in given.items():
        if key not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise TypeError(f"{name}: got the option {key}={value}, it takes {takes}")
        if value not in known[key]:
            raise ValueError(f"{name}: got {key}={value}, it takes {', '.join(map(str, known[key]))}")
    return {**defaults, **given}
