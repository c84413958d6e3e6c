"""Plain PyTorch inside a whole model: mixers of tokens by their definitions, as matrices of weights."""

from __future__ import annotations

from typing import Any

from baselines.common.baseline import TORCH, Baseline, Call, Inputs


class Recall(Baseline):
    """A model of two layers that recalls; the problem brings it, and the definition of its mixer."""

    library = TORCH
    devices: tuple[str, ...] = ("cuda", "cpu")

    def prepare(self, problem: Any, inputs: Inputs) -> Call:
        """The problem's call with its own definition."""
        call: Call = problem.bind(inputs, problem.defined)
        return call
