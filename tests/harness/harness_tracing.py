"""Contestants of `harness.command.trace`: one that records, right or wrong as told, and one that takes no problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Tracing:
    """A contestant that records, and is right or wrong as told."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def prepare(self, problem: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        return lambda: (inputs["a"].float() @ inputs["b"].float() * self.factor).bfloat16()

    def trace(self, problem: Any, inputs: dict[str, torch.Tensor]) -> tuple[dict[str, Any], torch.Tensor]:
        return {"traceEvents": [], "otherData": {"unit": "step"}}, self.prepare(problem, inputs)()


class Refusing(Tracing):
    """The same, with no problem that it takes."""

    def supports(self, problem: Any, device: str) -> str:
        return "got a problem, takes none"
