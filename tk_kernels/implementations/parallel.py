"""The collectives as a harness wants them: W ranks, a process each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import distributed
from .kernel import Kernel, Outputs


class Collective(Kernel):
    """`tk.distributed`'s collective that the problem's `op` names, over the default process group.

    On the CPU each rank gathers what all have, runs all of them side by side, and takes its own result.
    """

    name = "collectives"
    options = ("way", "blocks")
    most = (("blocks", 64),)
    foreign = ("nccl", "all_reduce_kernel")

    def refuse(self, problem: Any) -> str | None:
        """Of the options, `way` is all_reduce's."""
        if self._options.get("way") and problem.op != "all_reduce":
            return f"{self._title}: the option way is of all_reduce, not of {problem.op}"
        return None

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call on x."""
        x, run = inputs["x"], getattr(distributed, problem.op)
        if x.is_cuda:
            return lambda: run(x, **self._options)
        rank = torch.distributed.get_rank()

        def side_by_side() -> Tensor:
            every = [torch.empty_like(x) for _ in range(problem.W)]
            torch.distributed.all_gather(every, x)
            with distributed.world(problem.W) as groups:
                outs = [run(one, group, **self._options) for one, group in zip(every, groups, strict=True)]
            return outs[rank]

        return side_by_side
