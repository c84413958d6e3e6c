"""The operands of tk.attention: any strides, what lies beside them, and the wrong ones, refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from attentions import assert_good, attend, heads, operands
from refusals import assert_refused
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands


def layouts(device: str) -> dict[str, tuple[Tensor, bool]]:
    """q of (2, 2, 35, 64) in memory in every way, and whether it has to be copied."""
    packed = heads(2, 35, 6, 64, device).transpose(1, 2)
    return {
        "contiguous": (heads(2, 2, 35, 64, device), False),
        "rows outside heads": (heads(2, 35, 2, 64, device).transpose(1, 2), False),
        "batch inside heads": (heads(2, 2, 35, 64, device).transpose(0, 1), False),
        "window of packed q, k, v": (packed[:, 2:4], False),
        "every third head": (packed[:, ::3], False),
        "every second row": (heads(2, 2, 70, 64, device)[:, :, 1::2], False),
        "half of the columns": (heads(2, 2, 35, 128, device)[..., 64:], False),
        "odd pitch": (heads(2, 2, 35, 67, device)[..., :64], True),
        "base not aligned": (heads(2, 2, 35, 72, device)[..., 3:67], True),
        "one head for all": (heads(2, 1, 35, 64, device).expand(2, 2, 35, 64), True),
        "one row for all": (heads(2, 2, 1, 64, device).expand(2, 2, 35, 64), True),
    }


@pytest.mark.parametrize("operand", [0, 1, 2, 3], ids=["q", "k", "v", "dout"])
@pytest.mark.parametrize("name", layouts("cpu"))
def test_any_strides(device: str, name: str, operand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    inputs = list(operands((2, 2, 2, 35, 35), 64, device, seed=1))
    inputs[operand], copy = layouts(device)[name]
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
    """Windows whose neighbours are NaN: rows before and after, heads before and after, columns beside."""
    inputs = []
    for plain in operands((1, 4, 2, 70, 90), 64, device):
        wide = plain.new_full((3, plain.shape[1] + 2, plain.shape[2] + 3, 128), float("nan"))
        window = wide[1:2, 1:-1, 1:-2, 64:]
        window.copy_(plain)
        inputs.append(window)
    assert_good(attend(*inputs), tuple(inputs))


def test_infinities_and_nans_stay_in_their_head(device: str) -> None:
    q, k, v, _ = operands((2, 4, 2, 70, 90), 64, device)
    k[0, 0, 5, 7], v[1, 1, 3, 2] = float("nan"), float("inf")
    out = tk.attention(q, k, v)
    assert not bool(out[0, :2].isfinite().any())
    assert bool(out[0, 2:].isfinite().all())
    assert bool(out[1, :2].isfinite().all())
    assert not bool(out[1, 2:, :, 2].isfinite().any())
    assert bool(out[1, 2:, :, 3:].isfinite().all())


def mistakes(device: str) -> dict[str, tuple[Callable[[], object], str]]:
    """A wrong call each, and the words that say so."""
    q, k, v, _ = operands((2, 4, 2, 16, 24), 64, device)
    return {
        "scale nan": (lambda: tk.attention(q, k, v, scale=math.nan), "scale: got nan, needs a finite number"),
        "scale inf": (lambda: tk.attention(q, k, v, scale=math.inf), "scale: got inf, needs a finite number"),
        "scale of another age": (
            lambda: tk.attention(q, k, v, scale=10**400),
            "scale: got an integer of 1329 bits, needs a finite number",
        ),
        "scale that the kernel's factor takes beyond float32": (
            lambda: tk.attention(q, k, v, scale=3e38),
            r"scale: got 3e\+38, needs a finite number",
        ),
        "causal in words": (lambda: tk.attention(q, k, v, causal="x"), "causal: got 'x', needs True or False"),  # type: ignore[call-overload]
        "deterministic in words": (
            lambda: tk.attention(q, k, v, deterministic="x"),  # type: ignore[call-overload]
            "deterministic: got 'x', needs True or False",
        ),
        "scale beyond float32": (
            lambda: tk.attention(q, k, v, scale=1e39),
            r"scale: got 1e\+39, needs a finite number",
        ),
        "scale -inf": (lambda: tk.attention(q, k, v, scale=-math.inf), "scale: got -inf, needs a finite number"),
        "scale in words": (lambda: tk.attention(q, k, v, scale=True), "scale: got True, needs a number or None"),
        "return_lse text": (
            lambda: tk.attention(q, k, v, return_lse="no"),  # type: ignore[call-overload]
            "return_lse: got 'no', needs True or False",
        ),
        "scale text": (lambda: tk.attention(q, k, v, scale="1"), "scale: got '1', needs a number or None"),  # type: ignore[arg-type]
        "order": (lambda: tk.attention(q, k, v, order="hilbert"), "order: got 'hilbert', needs one of head_major, row"),
        "synchronous": (
            lambda: tk.attention(q, k, v, synchronous=2),
            "synchronous: got 2, needs an integer from 0 to 1",
        ),
        "blocks": (
            lambda: tk.attention(q, k, v, synchronous=True, blocks_per_sm=5),
            "blocks_per_sm: got 5, needs an integer from 1 to 4",
        ),
        "blocks alone": (
            lambda: tk.attention(q, k, v, blocks_per_sm=2),
            "blocks_per_sm: got 2, needs synchronous=True",
        ),
    }


@pytest.mark.parametrize("gradient", [False, True], ids=["plain", "recorded"])
def test_mistakes_are_value_errors_that_name_the_argument(device: str, gradient: bool) -> None:
    with torch.enable_grad() if gradient else torch.inference_mode():
        assert_refused(mistakes(device))


@pytest.mark.gpu
def test_operands_on_cpu_and_gpu_are_refused() -> None:
    q, k, v, _ = operands((1, 1, 1, 8, 8), 64, "cuda")
    with pytest.raises(ValueError, match="k: is on cpu, needs to be on cuda:0 as q is"):
        tk.attention(q, k.cpu(), v)
    with pytest.raises(ValueError, match="k: is on cuda:0, needs to be on cpu as q is"):
        tk.attention(q.cpu(), k, v)


def test_copies_are_logged_once(device: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tk_operands, "_copies_logged", set())
    q, k, v, _ = operands((1, 1, 1, 8, 8), 64, device)
    with caplog.at_level("INFO", logger="tk_kernels"):
        tk.attention(q, k, v)
        assert caplog.messages == []
        for _ in range(2):
            tk.attention(q, k, heads(1, 1, 8, 67, device)[..., :64])
    assert len(caplog.messages) == 1
    assert "v (1, 1, 8, 64) with strides (536, 536, 67, 1) goes through a dense copy" in caplog.messages[0]
