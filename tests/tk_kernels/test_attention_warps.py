"""Attention's forward pass by warps that copy for themselves: the kernel of GPUs without a copy engine."""

from __future__ import annotations

import math

import pytest
import torch

import tk_kernels as tk
from tk_kernels import implementations, toolchain
from tk_kernels.ops import library

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
# B, H, Hkv, N, Nk: one row; tails of both; fewer keys than queries, and many more; heads that share keys; whole tiles.
SHAPES = [
    (1, 1, 1, 1, 1),
    (1, 2, 2, 33, 131),
    (1, 1, 1, 200, 70),
    (2, 4, 2, 129, 257),
    (1, 2, 1, 5, 300),
    (1, 1, 1, 256, 256),
]


def operands(shape: tuple[int, int, int, int, int], D: int, device: str) -> Tensors:
    B, H, Hkv, N, Nk = shape
    generator = torch.Generator().manual_seed(N)
    q, k, v = (
        torch.randn(B, heads, rows, D, generator=generator).to(device, torch.bfloat16)
        for heads, rows in ((H, N), (Hkv, Nk), (Hkv, Nk))
    )
    return q, k, v


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and log-sum-exp in float64."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * q.shape[3] ** -0.5
    if causal:
        row = torch.arange(q.shape[2], device=q.device)[:, None]
        hidden = torch.arange(k.shape[2], device=q.device) > row + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(hidden, -math.inf)
    lse = torch.logsumexp(scores, -1)
    return torch.exp(scores - lse[..., None]).nan_to_num(0.0) @ v, lse


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel: on a CPU by its own export, on a GPU as the operator finds it."""
    if q.is_cuda:
        with library.built_for("sm_80"):
            out, lse = tk.attention(q, k, v, causal=causal, return_lse=True)
        return out, lse
    out, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
    assert library.compiled("attention_warps", q.device)(q, k, v, out, lse, causal, q.shape[3] ** -0.5) == 0
    return out, lse


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_output_and_logarithms(device: str, shape: tuple[int, int, int, int, int], D: int, causal: bool) -> None:
    q, k, v = operands(shape, D, device)
    out, lse = attend(q, k, v, causal)
    wanted, wanted_lse = expected(q, k, v, causal)
    assert (out - wanted).norm() <= 6e-3 * wanted.norm()
    assert torch.equal(torch.isinf(lse), torch.isinf(wanted_lse))
    seen = torch.isfinite(wanted_lse)
    assert (lse[seen] - wanted_lse[seen]).abs().max() < 5e-3 if seen.any() else True
    assert not out[~seen].any()


def test_heads_inside_rows(device: str) -> None:
    whole = torch.randn(2, 70, 3, 2, 64).to(device, torch.bfloat16)
    q, k, v = (whole[:, :, i].transpose(1, 2) for i in range(3))
    out, _ = attend(q, k, v, True)
    wanted, _ = expected(q, k, v, True)
    assert (out - wanted).norm() <= 6e-3 * wanted.norm()


@pytest.mark.parametrize("seed", range(4))
def test_any_schedule(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    q, k, v = operands((1, 1, 1, 140, 150), 64, "cpu")
    out, _ = attend(q, k, v, True)
    wanted, _ = expected(q, k, v, True)
    assert (out - wanted).norm() <= 6e-3 * wanted.norm()


def test_device_code_is_short() -> None:
    lines = toolchain.find_unit("attention_warps").lines_by_stem()
    assert lines["by_warps"] <= 110


@pytest.mark.long
def test_no_build_spills() -> None:
    manifest = toolchain.manifest("attention_warps", "sm_80")
    for machine in ("sm_80", "sm_86", "sm_89", "sm_90"):
        code = manifest["machine_codes"][machine]
        assert (machine, code["spills"]) == (machine, 0)
        assert code["registers"] <= 255
        assert code["hgmma_count"] in (0, None)
        assert code["hmma_count"] is None or code["hmma_count"] > 0


def test_each_direction_has_a_kernel_of_its_own() -> None:
    attention = implementations.Attention(target="sm_80")
    assert [attention.unit("sm_80", one) for one in ("fwd", "bwd")] == ["attention_warps", "attention_warps_backward"]
    assert [attention.unit("sm_90a", one) for one in ("fwd", "bwd")] == ["attention", "attention"]
    assert str(toolchain.find_unit("attention").refusal("sm_80")).endswith("are the kernels there")


@pytest.mark.gpu
def test_options_of_the_other_kernel_are_refused() -> None:
    q, k, v = operands((1, 1, 1, 64, 64), 64, "cuda")
    with library.built_for("sm_80"), pytest.raises(ValueError, match="are options of the kernel for Hopper GPUs"):
        tk.attention(q, k, v, order="row_major")
