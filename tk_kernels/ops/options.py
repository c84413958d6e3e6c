"""Checks that the options of every operator share."""

from __future__ import annotations


def integer(name: str, value: int, low: int, high: int) -> int:
    """`value` as an integer in [low, high], which a bool is not here; raises ValueError that names the option."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}: got {value!r}, needs an integer from {low} to {high}")
    return int(value)


def choice(name: str, value: str, choices: tuple[str, ...]) -> int:
    """Position of `value` among `choices`; raises ValueError that names the option."""
    if value not in choices:
        raise ValueError(f"{name}: got {value!r}, needs one of {', '.join(choices)}")
    return choices.index(value)
