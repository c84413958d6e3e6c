"""Tensors that tell the L2 cache what to let go of: the same numbers on every target, the hint in a GPU's code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tile_compile import caller, compile_library, ptx_of

SOURCE = Path(__file__).with_name("l2_hints.cu")
COPIES = {"sm_90a": ("cp.async.bulk.tensor", "cp.async.cg"), "sm_80": ("cp.async.cg",)}


@pytest.mark.parametrize("rows", [32, 77])
def test_a_hint_changes_no_number(rows: int, device: str) -> None:
    once, often, plain = (torch.randn(rows, 64, device=device).bfloat16() for _ in range(3))
    out = torch.full((rows, 64), torch.nan, dtype=torch.bfloat16, device=device)
    caller(SOURCE, device)("run_hinted", rows, once, often, plain, out)
    wanted = 2 * (once.float() + often.float() + plain.float())
    torch.testing.assert_close(out.float(), wanted, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("target", COPIES)
def test_a_gpu_is_told(target: str, tmp_path: Path) -> None:
    """Of the three tensors one has no hint; a policy is made for each of the others."""
    assert compile_library(SOURCE, target).stat().st_size > 0
    lines = ptx_of(SOURCE, target, tmp_path)
    assert any("createpolicy.fractional.L2::evict_first.b64" in line for line in lines)
    assert any("createpolicy.fractional.L2::evict_last.b64" in line for line in lines)
    for kind in COPIES[target]:
        copies = [line for line in lines if kind in line]
        assert 0 < sum("L2::cache_hint" in line for line in copies) < len(copies), kind
