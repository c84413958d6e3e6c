"""What the problems of whole language models have in common: how a contestant's call is made of its operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from harness.workloads._models import decoder
from harness.workloads._models.decoder import Attend, Part, Rotate
from harness.workloads.spec import ProblemSpec


class ModelProblem(ProblemSpec):
    """A problem whose contestants bring attention and rotary embedding alone."""

    def bind(self, inputs: Mapping[str, Tensor], *, attend: Attend, rotate: Rotate) -> Callable[[], tuple[Tensor, ...]]:
        """The call of a contestant that brings these operators; on a GPU the model's parts are compiled."""
        part = decoder.compiled if inputs["tokens"].is_cuda else decoder.as_it_is
        return self.call_of(inputs, attend, rotate, part)

    def call_of(
        self, inputs: Mapping[str, Tensor], attend: Attend, rotate: Rotate, part: Part
    ) -> Callable[[], tuple[Tensor, ...]]:
        """The same, each part of the model called as `part` says; each problem has its own."""
        raise NotImplementedError(f"{type(self).__name__} says no call of its model")
