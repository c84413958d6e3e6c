"""Both paged decode operators as one kind of thing: what a test needs to call either of them and to judge it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from operator_examples import bf16
from torch import Tensor

import tk_kernels as tk
from harness import workloads
from harness.measure.verification import check_outputs
from tests.baselines.problems import small
from tk_kernels.trace import record

WIDTH = 576
COUNTER = 7


@dataclass(frozen=True)
class Decode(ABC):
    """An operator with its workload."""

    name: str
    kind: str
    caches: tuple[str, ...]

    @abstractmethod
    def problem(self, lengths: str, Q: int, H: int, page: int, **sizes: int) -> Any:
        """A problem of its workload; `lengths` are joined by plus signs."""

    @abstractmethod
    def operands(self) -> dict[str, Tensor]:
        """Right arguments without a plan: two sequences of 20 and 30 keys, two pages of 16 keys each."""

    @abstractmethod
    def keys(self, one: Any, rows: Tensor) -> Tensor:
        """Rows of the first cache, (keys, ...), as float64 keys of each head: (keys, heads, dim)."""

    def poisoned(self, one: Any, device: str, seed: int = 0) -> dict[str, Tensor]:
        """Inputs with NaN in unused pages and tails of pages, and wild table entries behind the end."""
        workload = workloads.load(self.name)
        inputs = workload.make_inputs(one, torch.Generator().manual_seed(seed), "poisoned")
        return {name: tensor.to(device) for name, tensor in inputs.items()}

    def plan(self, one: Any, device: str, **options: Any) -> tk.DecodePlan:
        """A plan for a problem."""
        heads = {"heads": one.H, "kv_heads": getattr(one, "Hkv", 1), "new_tokens": one.Q}
        return tk.decode_plan(one.seqlens, **{**heads, "kind": self.kind, "device": device, **options})

    def __call__(self, *tensors: Tensor, **options: Any) -> Any:
        return tk.ops.OPERATORS[self.name](*tensors, **options)

    def assert_right(self, one: Any, inputs: dict[str, Tensor], plan: tk.DecodePlan | None, seed: int = 0) -> None:
        """Out as the workload judges it, lse within 1e-4 of float64's, and the same bits again."""
        workload = workloads.load(self.name)
        out, lse = self(*inputs.values(), plan=plan, return_lse=True)
        check = check_outputs(workload, one, out, workload.reference(one, inputs, seed), inputs)
        assert check.passed, check.reason
        for sequence, length in enumerate(one.seqlens):
            pages = inputs["block_table"][sequence, : -(-length // one.page)].long()
            keys = self.keys(one, inputs[self.caches[0]][pages].flatten(0, 1)[:length])
            scores = torch.einsum("rhd,khd->hrk", inputs["q"][sequence].double(), keys) * one.scale
            seen = torch.arange(length)[None] < length - (one.Q - 1) + torch.arange(one.Q)[:, None]
            wanted = torch.logsumexp(scores.masked_fill(~seen.to(scores.device), -math.inf), -1)
            torch.testing.assert_close(lse[sequence].double(), wanted, rtol=0, atol=1e-4)
        again = self(*inputs.values(), plan=plan, return_lse=True)
        assert torch.equal(out, again[0])
        assert torch.equal(lse, again[1])

    def assert_same_whoever_is_last(self, one: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """The same bits, with schedule "last", by seeds of which not all let the same block end a sequence."""
        inputs, plan = self.poisoned(one, "cpu"), self.plan(one, "cpu", schedule="last")
        results: list[Any] = []
        lasts = set()
        for seed in range(12):
            monkeypatch.setenv("KITTENS_SEED", str(seed))
            trace = record(plan, lambda: results.append(self(*inputs.values(), plan=plan, return_lse=True)))
            lasts.add(max((event.end, event.block) for event in trace.events if event.fields[COUNTER] == 0)[1])
        assert len(lasts) > 1
        assert all(torch.equal(a, b) for other in results for a, b in zip(results[0], other, strict=True))


class Latent(Decode):
    """`tk.mla_decode`."""

    def problem(self, lengths: str, Q: int, H: int, page: int, **sizes: int) -> Any:
        """Sizes beyond these are grouped heads' and left out."""
        return small("mla_decode", B=len(lengths.split("+")), lengths=lengths, Q=Q, H=H, page=page)

    def operands(self) -> dict[str, Tensor]:
        """Four pages for two sequences."""
        return {"q": bf16(2, 1, 4, WIDTH), "kv_cache": bf16(4, 16, WIDTH), **_tables()}

    def keys(self, one: Any, rows: Tensor) -> Tensor:
        """One row for all heads."""
        return rows.double()[:, None].expand(-1, one.H, -1)


class Grouped(Decode):
    """`tk.paged_attention_decode`."""

    def problem(self, lengths: str, Q: int, H: int, page: int, **sizes: int) -> Any:
        """Two key heads and head dim 64 where nothing else is said."""
        given = {"Hkv": 2, "D": 64, **sizes}
        return small("paged_attention_decode", B=len(lengths.split("+")), lengths=lengths, Q=Q, H=H, page=page, **given)

    def operands(self) -> dict[str, Tensor]:
        """Two key heads."""
        return {"q": bf16(2, 1, 4, 64), "k_cache": bf16(4, 16, 2, 64), "v_cache": bf16(4, 16, 2, 64), **_tables()}

    def keys(self, one: Any, rows: Tensor) -> Tensor:
        """A key head for each group."""
        return rows.double().repeat_interleave(one.H // one.Hkv, 1)


def _tables() -> dict[str, Tensor]:
    return {
        "block_table": torch.tensor([[1, 0], [3, 2]], dtype=torch.int32),
        "seqlens": torch.tensor([20, 30], dtype=torch.int32),
    }


MLA = Latent("mla_decode", "mla", ("kv_cache",))
GQA = Grouped("paged_attention_decode", "gqa", ("k_cache", "v_cache"))
OPERATORS = {"mla": MLA, "gqa": GQA}
