"""Plain PyTorch inside a whole model: mixers of tokens by their definitions, as matrices of weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from baselines.common.baseline import TORCH, Baseline, Call, Inputs
from baselines.common.compiled import INDUCTOR
from baselines.models import names


class Recall(Baseline):
    """A model of two layers that recalls; the problem brings it, compiled on a GPU, and its mixer's definition."""

    library = replace(TORCH, kernels=(INDUCTOR,), foreign=names.others())
    devices: tuple[str, ...] = ("cuda", "cpu")

    def prepare(self, problem: Any, inputs: Inputs) -> Call:
        """The problem's call with its own definition."""
        call: Call = problem.bind(inputs, problem.defined)
        return call
