"""Hedgehog by warps that copy for themselves: the kernel of GPUs without a copy engine."""

from __future__ import annotations

import pytest
import torch
from test_hedgehog import attend, operands

import tk_kernels as tk
from tk_kernels import implementations, toolchain
from tk_kernels.ops import library

Outputs = dict[str, torch.Tensor]


def run(inputs: list[torch.Tensor], segments: int) -> Outputs:
    """The kernel: on a CPU by its own export, on a GPU as the operator finds it."""
    q = inputs[0]
    if q.is_cuda:
        with library.built_for("sm_80"):
            chosen = None if segments < 0 else segments
            out, (k_state, kv_state) = tk.hedgehog(*inputs, return_state=True, segments=chosen)
        return {"out": out, "k_state": k_state, "kv_state": kv_state}
    B, H = q.shape[:2]
    results = {"out": torch.empty_like(q), "k_state": torch.empty(B, H, 128), "kv_state": torch.empty(B, H, 128, 128)}
    assert library.compiled("hedgehog_warps", q.device, "hedgehog")(*inputs, *results.values(), segments) == 0
    return results


def check(inputs: list[torch.Tensor], segments: int = -1) -> None:
    """Each result is within 1.3x of what rounding costs a bf16 kernel."""
    results, exact, emulated = run(inputs, segments), attend(*inputs), attend(*inputs, rounded=True)
    for name, result in results.items():
        error, allowed = (float((x.double() - exact[name]).norm()) for x in (result, emulated[name]))
        assert error <= 1.3 * allowed + 2.0**-20 * float(exact[name].norm()), f"{name}: {error}, {allowed}"


@pytest.mark.parametrize("N", [1, 64, 65, 129, 192, 300])
def test_lengths(device: str, N: int) -> None:
    check(operands(1, 2, N, device))


@pytest.mark.parametrize("segments", [1, 2, 3, 7])
@pytest.mark.parametrize("N", [448, 700])
def test_segments(device: str, N: int, segments: int) -> None:
    check(operands(2, 1, N, device), segments)


def test_heads_inside_rows(device: str) -> None:
    q, k, v, *rest = operands(2, 3, 200, device)
    check([*(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)), *rest])


def test_it_is_the_kernel_of_gpus_without_a_copy_engine() -> None:
    hedgehog = implementations.Hedgehog(target="sm_80")
    assert [hedgehog.unit(target) for target in ("sm_80", "sm_90a")] == ["hedgehog_warps", "hedgehog"]
    assert "hedgehog_warps is the kernel there" in str(toolchain.find_unit("hedgehog").refusal("sm_80"))
    assert str(toolchain.find_unit("hedgehog_warps").refusal("sm_90a")).endswith("runs the kernel hedgehog")
