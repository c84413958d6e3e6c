"""Paged decode as a harness wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .. import ops, toolchain
from ..kernels.decode.plan import SCHEDULES, DecodePlan, decode_plan
from ..trace import record
from .kernel import Kernel, Outputs, Sizes

PAGES = (16, 32, 64, 128, 256)
RECORDS = "decode_trace"
"""The build unit of the kernels that record what they do."""


class _Decode(Kernel):
    """What both decode operators have in common. A variant's options are `schedule` and `blocks` of `tk.decode_plan`.

    The plan is made in `prepare`: like every contestant's it depends on the lengths alone and serves all layers.
    """

    options = ("schedule", "blocks")
    most = (("blocks", 2**31 - 1),)
    foreign = ("flash", "fmha", "cudnn")
    helpers = ("decode_plan",)
    sizes: Sizes = (("page", "pages of", PAGES),)
    kind: str
    inputs: tuple[str, ...]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        schedule = self._options.get("schedule")
        if schedule not in (None, *SCHEDULES):
            raise ValueError(f"schedule: got {schedule!r}, needs one of {', '.join(SCHEDULES)}")

    def bind(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Outputs]:
        """The call with a plan for the problem's lengths."""
        return self._planned(problem, inputs)[1]

    def planning(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], object]:
        """`tk.decode_plan` for the problem's lengths."""
        return lambda: self._plan(problem, inputs)

    def trace(self, problem: Any, inputs: dict[str, Tensor]) -> tuple[dict[str, Any], Outputs]:
        """A call as a Chrome trace and what it returned, by the kernels that record; a first call is not shown."""
        plan, call = self._planned(problem, inputs)
        returned: list[Outputs] = []
        record(plan, call)
        chrome = record(plan, lambda: returned.append(call())).chrome()
        target = self._on(plan.device.type)
        return {
            **chrome,
            "otherData": {**chrome["otherData"], "kernel": toolchain.manifest(RECORDS, target)},
        }, returned[0]

    def _planned(self, problem: Any, inputs: dict[str, Tensor]) -> tuple[DecodePlan, Callable[[], Outputs]]:
        operator, tensors = ops.OPERATORS[self.name], [inputs[name] for name in self.inputs]
        plan = self._plan(problem, inputs)
        return plan, lambda: operator(*tensors, plan=plan)

    def _plan(self, problem: Any, inputs: dict[str, Tensor]) -> DecodePlan:
        given = {name: value for name, value in self._options.items() if value is not None}
        return decode_plan(
            problem.seqlens,
            new_tokens=problem.Q,
            heads=problem.H,
            kv_heads=1 if self.kind == "mla" else problem.Hkv,
            kind=self.kind,
            device=inputs["q"].device,
            **given,
        )


class MlaDecode(_Decode):
    """`tk.mla_decode`."""

    name, kind = "mla_decode", "mla"
    inputs = ("q", "kv_cache", "block_table", "seqlens")


class PagedAttentionDecode(_Decode):
    """`tk.paged_attention_decode`."""

    name, kind = "paged_attention_decode", "gqa"
    sizes = (*_Decode.sizes, ("D", "head dims", (64, 128)))
    inputs = ("q", "k_cache", "v_cache", "block_table", "seqlens")
