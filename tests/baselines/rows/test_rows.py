"""The baselines of the rotary embedding and of dropout-add-layernorm, as far as they run without a GPU."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from baselines.rows import liger, names, torch_rows
from baselines.rows.flash_attn_triton import DropoutAddLayernorm, Rotary
from tests.baselines.problems import small

# Names as the profiler gives them, by who runs them.
NAMES = {
    "flash_attn_rotary": "rotary_kernel",
    "liger_rotary": "_triton_rope",
    "flash_attn_norm": "_layer_norm_fwd_1pass_kernel",
    "inductor": "triton_per_fused_add_native_dropout_native_layer_norm_0",
    "eager": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)",
    "tk": "void kittens::kernel_entry<tk::rotary::kernel<128, false, __nv_bfloat16>>(globals)",
}


def rotary_inputs(problem: Any) -> dict[str, torch.Tensor]:
    shape = (problem.B, problem.H, problem.N, problem.D)
    shape = shape if problem.layout == "bhnd" else (problem.B, problem.N, problem.H, problem.D)
    generator = torch.Generator().manual_seed(0)
    angles = 6 * torch.rand(problem.N, problem.D // 2, generator=generator)
    inputs = {"cos": angles.cos().bfloat16(), "sin": angles.sin().bfloat16()}
    names = ("x",) if problem.tensors == 1 else ("q", "k")
    return inputs | {name: torch.randn(shape, generator=generator).bfloat16() for name in names}


@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("tensors", [1, 2])
def test_pytorch_turns_by_complex_multiplication(layout: str, interleaved: bool, tensors: int) -> None:
    problem = small("rotary", layout=layout, interleaved=interleaved, tensors=tensors)
    inputs = rotary_inputs(problem)
    outputs = torch_rows.Rotary().prepare(problem, inputs)()
    named = {"x": outputs} if tensors == 1 else dict(zip("qk", outputs, strict=True))
    turn = torch.complex(inputs["cos"].double(), inputs["sin"].double())
    turn = turn if layout == "bhnd" else turn[:, None]
    for name, out in named.items():
        x = inputs[name].double()
        halves = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        turned = torch.complex(*(half.contiguous() for half in halves)) * turn
        parts = [turned.real, turned.imag]
        exact = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
        assert float((out.double() - exact).norm()) <= 3e-3 * float(exact.norm())


@pytest.mark.parametrize("p", [0.0, 0.25])
def test_pytorch_normalises_what_it_returns(p: float) -> None:
    problem = small("dropout_add_layernorm", p=p)
    generator = torch.Generator().manual_seed(0)
    shape = (problem.B, problem.N, problem.D)
    x, residual = (torch.randn(shape, generator=generator).bfloat16() for _ in range(2))
    weight, bias = (torch.randn(problem.D, generator=generator).bfloat16() for _ in range(2))
    inputs = {"x": x, "residual": residual, "weight": weight, "bias": bias}
    y, r = torch_rows.DropoutAddLayernorm().prepare(problem, inputs)()
    kept = r != residual
    share = float(kept.double().mean())  # what is too small to change the residual looks dropped
    assert abs(share - (1 - p)) < 0.05
    exact = residual.double() + torch.where(kept, x.double() / (1 - p), 0.0)
    assert float((r.double() - exact).norm()) <= 4e-3 * float(exact.norm())
    normed = torch.nn.functional.layer_norm(r.double(), (problem.D,), weight.double(), bias.double())
    assert float((y.double() - normed).norm()) <= 4e-3 * float(normed.norm())


@pytest.mark.parametrize(
    ("implementation", "problem", "own"),
    [
        (Rotary(), small("rotary"), ("flash_attn_rotary", "eager")),
        (DropoutAddLayernorm(), small("dropout_add_layernorm"), ("flash_attn_norm", "eager")),
        (liger.Rotary(), small("rotary"), ("liger_rotary", "eager")),
        (torch_rows.Rotary(), small("rotary"), ("eager",)),
        (torch_rows.DropoutAddLayernorm(compiled=1), small("dropout_add_layernorm"), ("inductor", "eager")),
    ],
    ids=["flash-attn rotary", "flash-attn norm", "liger rotary", "eager", "compiled"],
)
def test_each_knows_its_kernels_and_disowns_the_others(implementation, problem, own: tuple[str, ...]) -> None:
    (pattern,) = implementation.kernel_names(problem)
    assert re.search(pattern, NAMES[own[0]])
    for name, kernel in NAMES.items():
        if name != "eager":
            foreign = any(re.search(one, kernel) for one in implementation.foreign_kernel_names())
            assert foreign == (name not in own), name


def test_no_kernel_is_everyones() -> None:
    assert set(names.others(names.TK)) == set(names.others()) - {names.TK}


def test_liger_takes_q_and_k_whose_halves_are_paired() -> None:
    assert "tensors=1" in str(liger.Rotary().supports(small("rotary", tensors=1), "cuda"))
    assert "interleaved=1" in str(liger.Rotary().supports(small("rotary", interleaved=True), "cuda"))


def test_sizes_that_the_library_does_not_take() -> None:
    assert "D=512" in str(Rotary().supports(small("rotary", D=512), "cuda"))
    assert "D=65536" in str(DropoutAddLayernorm().supports(small("dropout_add_layernorm", D=65536), "cuda"))


def test_the_kernels_are_imported_without_running_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "flash_attn" / "ops" / "triton"
    folder.mkdir(parents=True)
    (tmp_path / "flash_attn" / "__init__.py").write_text("raise ImportError('flash_attn_2_cuda')\n")
    for package in (folder.parent, folder):
        (package / "__init__.py").write_text("")
    (folder / "rotary.py").write_text(
        "def apply_rotary(x, cos, sin, interleaved):\n"
        "    assert x.shape[1] == 20, 'needs rows outside heads'\n"
        "    return -x\n"
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "flash_attn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("TK_BASELINES_SITE_FLASH_ATTN", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    problem = small("rotary")
    inputs = rotary_inputs(problem)
    try:
        q_out, k_out = Rotary().prepare(problem, inputs)()
        assert torch.equal(q_out, -inputs["q"])
        assert torch.equal(k_out, -inputs["k"])
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "flash_attn"]:
            del sys.modules[name]


@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
@pytest.mark.parametrize("n", [1, 20])
def test_what_works_in_place_gets_copies(layout: str, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Liger's function as it behaves: heads outside, rows outside heads in memory, turned where they are.

    Guards: the copies in the call, without which a second call turns twice and the inputs change; the clone in
    `prepare`, without which the strides of one position are those of heads.
    """
    folder = tmp_path / "liger_kernel" / "ops"
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").write_text("raise ImportError('every kernel of the library')\n")
    (folder / "rope.py").write_text(
        "def rope_forward(q, k, cos, sin):\n"
        "    for x in (q, k):\n"
        "        rows = x.transpose(1, 2)\n"
        "        assert rows.stride() == (x.shape[1] * x.shape[2] * 64, x.shape[1] * 64, 64, 1), rows.stride()\n"
        "        first, second = x.clone().chunk(2, -1)\n"
        "        c, s = cos[..., :32], sin[..., 32:]\n"
        "        x[..., :32], x[..., 32:] = first * c - second * s, second * c + first * s\n"
        "    return q, k, cos, sin\n"
    )
    monkeypatch.setenv("TK_BASELINES_SITE_LIGER", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    problem = small("rotary", B=2, N=n, layout=layout)
    inputs = rotary_inputs(problem)
    before = {name: tensor.clone() for name, tensor in inputs.items()}
    wanted = torch_rows.Rotary().prepare(problem, inputs)()
    try:
        call = liger.Rotary().prepare(problem, inputs)
        for got in (call(), call()):
            assert all(torch.equal(one, other) for one, other in zip(got, wanted, strict=True))
        assert all(torch.equal(inputs[name], tensor) for name, tensor in before.items())
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "liger_kernel"]:
            del sys.modules[name]
