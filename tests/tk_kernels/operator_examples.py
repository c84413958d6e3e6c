"""Every operator, with small operands that it takes: what the test modules of this folder name in `EXAMPLES`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Example:
    """A call of an operator.

    operands: makes them, by name. dense: those whose last dimension has to be dense. copied: those that go through a
    copy where it is not. larger: operands for many blocks of a GPU, of a seed; options: what they are called with.
    """

    operator: Callable[..., Any]
    operands: Callable[[], dict[str, Tensor]]
    dense: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    larger: Callable[[int], Sequence[Tensor]] | None = None
    options: Sequence[dict[str, Any]] = ({},)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.operands()))

    def __call__(self, *operands: Tensor) -> Any:
        return self.operator(**dict(zip(self.names, operands, strict=True)))

    def make(self) -> list[Tensor]:
        return list(self.operands().values())


def bf16(*shape: int) -> Tensor:
    return torch.randn(shape).bfloat16()


def e4m3(*shape: int) -> Tensor:
    return torch.randn(shape).to(torch.float8_e4m3fn)


def sequences(dim: int = 64) -> dict[str, Tensor]:
    """q, k and v of one head."""
    return {name: bf16(1, 1, 64, dim) for name in "qkv"}


def examples() -> dict[str, Example]:
    """By the operator's name, and what is called beside it."""
    files = sorted(Path(__file__).parent.glob("test_*.py"))
    named = [file.stem for file in files if "\nEXAMPLES: " in file.read_text()]
    found = [example for name in named for example in importlib.import_module(name).EXAMPLES.items()]
    assert len(dict(found)) == len(found), "two examples have one name"
    return dict(found)
