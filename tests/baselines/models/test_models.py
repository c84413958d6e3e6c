"""PyTorch's attention inside whole models: the operator that each backend calls, on tensors without values."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from baselines.models.sdpa import GptTraining, Prefill


class Bound:
    """A problem that gives its attention back instead of a model's call."""

    def __init__(self, heads: int, heads_kv: int) -> None:
        self.shape = SimpleNamespace(heads=heads, heads_kv=heads_kv)

    def bind(self, inputs: dict[str, torch.Tensor], *, attend: Callable[..., Any], rotate: Any) -> Callable[[], Any]:
        return lambda: attend(*inputs.values())


class Seen(TorchDispatchMode):
    """Which operators ran, and whether they were told that the mask is causal."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((func.overloadpacket.__name__, any(one is True for one in (*args, *(kwargs or {}).values()))))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("model", [GptTraining, Prefill])
@pytest.mark.parametrize(("heads", "heads_kv"), [(4, 4), (4, 2)])
def test_flash_calls_its_own_operator_and_no_choice_is_left(model: Any, heads: int, heads_kv: int) -> None:
    """Guard: under torch.compile the choice of `sdpa_kernel` was lost, and cuDNN ran under this name."""
    q = torch.empty(2, heads, 33, 64, dtype=torch.bfloat16, device="meta")
    k, v = (torch.empty(2, heads_kv, 33, 64, dtype=torch.bfloat16, device="meta") for _ in range(2))
    call = model(backend="flash").prepare(Bound(heads, heads_kv), {"q": q, "k": k, "v": v})
    with Seen() as seen:
        out = call()
    assert seen.calls == [("_scaled_dot_product_flash_attention", True)]
    assert out.shape == q.shape


def test_the_cpus_attention_is_causal_with_grouped_heads() -> None:
    q, k, v = (torch.randn(1, heads, 9, 16, generator=torch.Generator().manual_seed(heads)) for heads in (4, 2, 2))
    out = Prefill(backend="math").prepare(Bound(4, 2), {"q": q, "k": k, "v": v})()
    k, v = (one.repeat_interleave(2, 1) for one in (k, v))
    scores = (q @ k.mT / 4).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf)
    assert torch.allclose(out, scores.softmax(-1) @ v, atol=1e-5)
