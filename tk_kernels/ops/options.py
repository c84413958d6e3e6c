"""Checks that the options of every operator share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def given(options: Mapping[str, Any], known: tuple[str, ...]) -> bool:
    """Whether one of the options has a value; raises TypeError for one that is not known."""
    has_value = False
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"got an unexpected keyword argument {name!r}, the options are {', '.join(known)}")
        has_value = has_value or value is not None
    return has_value


def integer(name: str, value: int, low: int, high: int) -> int:
    """`value` as an integer in [low, high], which a bool is not here; raises ValueError that names the option."""
    if not isinstance(value, int | torch.SymInt) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}: got {value!r}, needs an integer from {low} to {high}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """`value`, which must be True or False (or 1 or 0); raises ValueError that names the option."""
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError(f"{name}: got {value!r}, needs True or False")
    return bool(value)


def choice(name: str, value: str, choices: tuple[str, ...]) -> int:
    """Position of `value` among `choices`; raises ValueError that names the option."""
    if value not in choices:
        raise ValueError(f"{name}: got {value!r}, needs one of {', '.join(choices)}")
    return choices.index(value)


def require_scale(scale: Any, largest: float) -> None:
    """Raises ValueError unless an attention's scale is None, or a number (no bool) from -largest to largest."""
    if scale is None:
        return
    if isinstance(scale, bool) or not isinstance(scale, (float, int, torch.SymFloat)):
        raise ValueError(f"scale: got {scale!r}, needs a number or None")
    if isinstance(scale, (float, int)) and not -largest <= scale <= largest:
        got = scale if isinstance(scale, float) else f"an integer of {scale.bit_length()} bits"
        raise ValueError(f"scale: got {got}, needs a finite number in float32")
