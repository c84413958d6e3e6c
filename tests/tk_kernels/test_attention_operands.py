"""The operands of tk.attention: any strides, what lies beside them, and the wrong ones, refused by name."""

from __future__ import annotations

import pytest
from attentions import assert_good, attend, heads, operands
from layouts import LAYOUTS, amid_nans

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands


@pytest.mark.parametrize("operand", [0, 1, 2, 3], ids=["q", "k", "v", "dout"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_any_strides(device: str, name: str, operand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    inputs = list(operands((2, 2, 2, 35, 35), 64, device, seed=1))
    make, copy = LAYOUTS[name]
    inputs[operand] = make(lambda *shape: heads(*shape, device), 35, 64)
    assert_good(attend(*inputs, causal=True), tuple(inputs), causal=True)
    assert set(copied) == ({("q", "k", "v", "dout")[operand]} if copy else set())


def test_sizes_of_one_may_have_any_stride(device: str) -> None:
    q, k, v, dout = (heads(1, 1, 1, 64, device, seed).as_strided((1, 1, 1, 64), (3, 5, 7, 1)) for seed in range(4))
    assert_good(attend(q, k, v, dout), (q, k, v, dout))


def test_out_lies_as_q_does(device: str) -> None:
    q, k, v, _ = operands((2, 4, 2, 70, 90), 64, device)
    assert tk.attention(q, k, v).is_contiguous()
    by_rows = heads(2, 70, 4, 64, device).transpose(1, 2)
    assert tk.attention(by_rows, k, v).transpose(1, 2).is_contiguous()
    results = attend(by_rows, k, v, heads(2, 4, 70, 64, device))
    assert results["dq"].transpose(1, 2).is_contiguous()
    assert results["dk"].is_contiguous()


def test_what_lies_beside_the_operands_is_not_read(device: str) -> None:
    inputs = tuple(map(amid_nans, operands((1, 4, 2, 70, 90), 64, device)))
    assert_good(attend(*inputs), inputs)


def test_infinities_and_nans_stay_in_their_head(device: str) -> None:
    q, k, v, _ = operands((2, 4, 2, 70, 90), 64, device)
    k[0, 0, 5, 7], v[1, 1, 3, 2] = float("nan"), float("inf")
    out = tk.attention(q, k, v)
    assert not bool(out[0, :2].isfinite().any())
    assert bool(out[0, 2:].isfinite().all())
    assert bool(out[1, :2].isfinite().all())
    assert not bool(out[1, 2:, :, 2].isfinite().any())
    assert bool(out[1, 2:, :, 3:].isfinite().all())
