"""A token of a Llama in one launch, as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..kernels.llama_decode.operator import LlamaPlan, LlamaShape, llama_decode, llama_plan
from .kernel import Kernel, Multiples, Outputs

MOST_GROUP, NARROW = 8, 2048
"""Query heads of a key head; the width up to which as many sequences fit, and half as many beyond."""


class LlamaDecode(Kernel):
    """`tk.llama_decode`. Its plan is made in `prepare`, once for a model and a batch; it serves every position.

    A call has a cache of its own, since it appends to it: at the same place every time.
    """

    name = "llama_decode"
    foreign = ("flash", "fmha", "cudnn")
    sizes = (
        ("D", "head dims", (64, 128)),
        ("W", "widths", Multiples(64, 2 * NARROW)),
        ("F", "feed-forward widths", Multiples(64, 1 << 24)),
        ("V", "vocabularies", Multiples(16, 1 << 24)),
    )

    def refuse(self, problem: Any) -> str | None:
        """By its sizes, its batch and its groups of heads."""
        batch = 8 if problem.W <= NARROW else 4
        if problem.B > batch:
            return f"{self._title} takes a batch of up to {batch} at a width of {problem.W}, not {problem.B}"
        if problem.H > MOST_GROUP * problem.Hkv:
            return f"{self._title} takes up to {MOST_GROUP} query heads a key head, not {problem.H // problem.Hkv}"
        return super().refuse(problem)

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call with a plan, the gate's rows apart from up's, and caches with room for one more token."""
        given: dict[str, Any] = {name: tensor for name, tensor in inputs.items() if "cache" not in name}
        given["gate"], given["up"] = (half.contiguous() for half in inputs["up"].chunk(2, 1))
        caches = [torch.nn.functional.pad(inputs[name], (0, 0, 0, 1)) for name in ("k_cache", "v_cache")]
        plan = self._plan(problem, inputs)

        def call() -> Outputs:
            logits = torch.empty((problem.B, problem.V), dtype=torch.float32, device=plan.device)
            llama_decode(logits, k_cache=caches[0], v_cache=caches[1], plan=plan, **given)
            return (logits, *(cache[:, :, :, -1] for cache in caches))

        return call

    def planning(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], object]:
        """`tk.llama_plan` for the problem's sizes."""
        return lambda: self._plan(problem, inputs)

    def _plan(self, problem: Any, inputs: dict[str, Tensor]) -> LlamaPlan:
        p = problem
        shape = LlamaShape(p.L, p.W, p.F, p.H, p.Hkv, p.D, p.V, p.B)
        return llama_plan(shape, device=inputs["tokens"].device)
