"""What the rotary embedding and dropout-add-layernorm offer to a harness."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import tk_kernels as tk
from tk_kernels import toolchain
from tk_kernels.implementations import DropoutAddLayernorm, Kernel, Rotary


@dataclass(frozen=True)
class RotaryProblem:
    D: int = 64
    layout: str = "bhnd"
    interleaved: bool = False
    tensors: int = 1
    dtype: str = "bf16"
    direction: str = "fwd"


@dataclass(frozen=True)
class LayernormProblem:
    D: int = 128
    options: dict[str, float] = field(default_factory=dict)
    dtype: str = "bf16"
    direction: str = "fwd"


@pytest.mark.parametrize("tensors", [1, 2])
@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
def test_prepared_call_rotates(device: str, tensors: int, layout: str) -> None:
    problem, implementation = RotaryProblem(layout=layout, interleaved=True, tensors=tensors), Rotary()
    assert implementation.available() is None
    assert implementation.supports(problem, device) is None
    angles = torch.rand(5, 32, device=device)
    inputs = {"cos": angles.cos().bfloat16(), "sin": angles.sin().bfloat16()}
    names = ("x",) if tensors == 1 else ("q", "k")
    inputs |= {name: torch.randn(2, 5, 5, 64, device=device).bfloat16() for name in names}
    outputs = implementation.prepare(problem, inputs)()
    for name, out in zip(names, outputs if isinstance(outputs, tuple) else (outputs,), strict=True):
        wanted = tk.rotary(inputs[name], inputs["cos"], inputs["sin"], layout=layout, interleaved=True)
        assert torch.equal(out, wanted)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_prepared_call_normalises_and_draws_anew(device: str, p: float) -> None:
    problem, implementation = LayernormProblem(options={"p": p}), DropoutAddLayernorm(blocks=2)
    assert implementation.supports(problem, device) is None
    x, residual = (torch.randn(3, 7, 128, device=device).bfloat16() for _ in range(2))
    weight, bias = (torch.randn(128, device=device).bfloat16() for _ in range(2))
    call = implementation.prepare(problem, {"x": x, "residual": residual, "weight": weight, "bias": bias})
    torch.manual_seed(0)
    first, second = call(), call()
    torch.manual_seed(0)
    again = tk.dropout_add_layernorm(x, residual, weight, bias, p=p)
    assert all(torch.equal(*pair) for pair in zip(first, again, strict=True))
    assert torch.equal(first[1], second[1]) == (p == 0)


@pytest.mark.parametrize(
    ("implementation", "problem", "words"),
    [
        (Rotary(), RotaryProblem(D=96), "takes head dims 64 and 128, not 96"),
        (Rotary(), RotaryProblem(dtype="fp16"), "tk rotary takes bf16, not fp16"),
        (DropoutAddLayernorm(), LayernormProblem(D=100), "multiples of 64 up to 8192, not 100"),
        (DropoutAddLayernorm(), LayernormProblem(direction="bwd"), "no kernel of its own for direction bwd"),
    ],
)
def test_unsupported_problems_have_a_reason(implementation: Kernel, problem: Any, words: str) -> None:
    assert words in str(implementation.supports(problem, "cpu"))


def test_wrong_options_are_named() -> None:
    with pytest.raises(TypeError, match="tk rotary: got the option 'rows', it takes target"):
        Rotary(rows=1)
    with pytest.raises(TypeError, match="got the option 'warps', it takes blocks"):
        DropoutAddLayernorm(warps=1)
    with pytest.raises(ValueError, match="blocks: got 0"):
        DropoutAddLayernorm(blocks=0)


@pytest.mark.parametrize("implementation", [Rotary(), DropoutAddLayernorm()], ids=["rotary", "layernorm"])
def test_kernel_names_match_ours_and_no_one_elses(implementation: Kernel) -> None:
    (pattern,) = implementation.kernel_names(None)
    ours = f"void kittens::kernel_entry<tk::{implementation.name}::kernel<128, false, __nv_bfloat16>>(globals)"
    assert re.search(pattern, ours)
    assert not any(re.search(foreign, ours) for foreign in implementation.foreign_kernel_names())
    for other in ("rotary_kernel", "_layer_norm_fwd_1pass_kernel", "triton_poi_fused_add_0", "void at::native::mul"):
        assert not re.search(pattern, other)
        assert any(re.search(foreign, other) for foreign in implementation.foreign_kernel_names())


@pytest.mark.parametrize("kernel", ["rotary", "dropout_add_layernorm"])
@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_build_manifest_is_complete(target: str, kernel: str) -> None:
    manifest = toolchain.manifest(kernel, target)
    for key in ("compiler", "flags", "source_hash", "registers", "spills", "binary_hash", "lines_of_code"):
        assert manifest[key] is not None or manifest["reasons"][key]
