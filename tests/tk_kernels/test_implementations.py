"""What the kernels offer to a harness."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from tk_kernels import toolchain
from tk_kernels.implementations import Attention, Gemm, Kernel


@dataclass(frozen=True)
class Problem:
    """The attributes of a GEMM problem that an implementation may read."""

    M: int = 32
    N: int = 48
    K: int = 40
    dtype: str = "bf16"
    direction: str = "fwd"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AttentionProblem:
    """The attributes of an attention problem that an implementation may read."""

    D: int = 64
    causal: bool = True
    dtype: str = "bf16"
    direction: str = "fwd"


def test_prepared_call_computes_the_product(device: str) -> None:
    a = torch.randn(32, 40, device=device).bfloat16()
    b = torch.randn(40, 48, device=device).bfloat16()
    implementation = Gemm(stages=2, order="row_major", tile="auto")
    assert implementation.available() is None
    assert implementation.supports(Problem(), device) is None
    call = implementation.prepare(Problem(), {"a": a, "b": b})
    first, second = call(), call()
    torch.testing.assert_close(first.double(), a.double() @ b.double(), rtol=2**-7, atol=2**-5)
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()
    manifest = implementation.build_manifest()
    assert manifest is not None
    assert manifest["target"] == {"cpu": "cpu", "cuda": "sm_90a"}[device]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("options", [{}, {"deterministic": 1, "order": "auto"}], ids=str)
def test_prepared_call_computes_attention_and_its_gradient(device: str, causal: bool, options: dict[str, Any]) -> None:
    q, k, v, dout = (torch.randn(1, 2, 40, 64, device=device).bfloat16() for _ in range(4))
    implementation = Attention(**options)
    assert implementation.available() is None
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    exact = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
    forward = AttentionProblem(causal=causal)
    assert implementation.supports(forward, device) is None
    out = implementation.prepare(forward, {"q": q, "k": k, "v": v})()
    assert isinstance(out, torch.Tensor)
    torch.testing.assert_close(out.double(), exact.detach(), rtol=2**-6, atol=2**-6)

    backward = AttentionProblem(causal=causal, direction="bwd")
    assert implementation.supports(backward, device) is None
    call = implementation.prepare(backward, {"q": q, "k": k, "v": v, "dout": dout})
    grads = call()
    for got, wanted in zip(grads, torch.autograd.grad(exact, leaves, dout.double()), strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=2**-5, atol=2**-5)
    if options:
        assert all(torch.equal(first, second) for first, second in zip(grads, call(), strict=True))


@pytest.mark.parametrize(
    ("options", "problem", "words"),
    [
        ({}, AttentionProblem(dtype="fp16"), "takes bf16, not fp16"),
        ({}, AttentionProblem(D=96), "takes head dims 64 and 128, not 96"),
        ({}, AttentionProblem(direction="bwd2"), "no kernel of its own for direction bwd2"),
        ({"order": "row_major"}, AttentionProblem(direction="bwd"), "the option order concerns the forward pass"),
        ({"synchronous": 1}, AttentionProblem(D=128), "built for head dim 64 alone, not 128"),
    ],
)
def test_unsupported_attention_has_a_reason(options: dict[str, Any], problem: AttentionProblem, words: str) -> None:
    assert words in str(Attention(**options).supports(problem, "cpu"))


def test_wrong_options_of_attention_are_named() -> None:
    with pytest.raises(
        TypeError, match="tk attention: got the option 'stages', it takes order, synchronous, blocks_per_"
    ):
        Attention(stages=3)
    with pytest.raises(ValueError, match="order: got 'hilbert'"):
        Attention(order="hilbert")
    with pytest.raises(ValueError, match="deterministic: got 2, needs 0 or 1"):
        Attention(deterministic=2)


def test_wrong_options_are_named() -> None:
    with pytest.raises(TypeError, match="got the option 'depth', it takes stages, persistent"):
        Gemm(depth=3)
    with pytest.raises(ValueError, match="stages: got 7"):
        Gemm(stages=7)


@pytest.mark.parametrize(
    ("problem", "device", "words"),
    [
        (Problem(dtype="fp16"), "cpu", "takes bf16, not fp16"),
        (Problem(direction="bwd"), "cpu", "no kernel of its own for direction bwd"),
        (Problem(), "tpu", "device 'tpu' has no target"),
    ],
)
def test_unsupported_problems_have_a_reason(problem: Problem, device: str, words: str) -> None:
    assert words in str(Gemm().supports(problem, device))


def test_missing_compilers_are_a_reason_not_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise toolchain.CompilerMissingError("no compiler; install it: apt-get install g++")

    monkeypatch.delenv("TK_KERNELS_PREBUILT", raising=False)
    monkeypatch.setattr("tk_kernels.toolchain.loading.find_gxx", missing)
    assert "apt-get install g++" in str(Gemm().available())
    assert "apt-get install g++" in str(Gemm().supports(Problem(), "cuda"))


@pytest.mark.parametrize("implementation", [Gemm(), Attention()], ids=["gemm", "attention"])
def test_kernel_names_match_ours_and_no_one_elses(implementation: Kernel) -> None:
    (pattern,) = implementation.kernel_names(Problem())
    ours = "void kittens::kernel_entry<kittens::lcf<tk::{}::kernel<tk::{}::config{{...}}> > >(...)"
    ours = ours.replace("{}", implementation.name)
    assert re.search(pattern, ours)
    for other in ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", "triton_mm", "void cutlass::Kernel2<cutlass_80_gemm>"):
        assert not re.search(pattern, other)
        assert any(re.search(foreign, other) for foreign in implementation.foreign_kernel_names())
    assert not any(re.search(foreign, ours) for foreign in implementation.foreign_kernel_names())


def test_another_attention_in_our_place_is_seen() -> None:
    foreign = Attention().foreign_kernel_names()
    for other in (
        "void pytorch_flash::flash_fwd_kernel<...>",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop",
        "fmha",
    ):
        assert any(re.search(name, other) for name in foreign)


def test_version_changes_with_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Gemm().version()
    monkeypatch.setattr("tk_kernels.toolchain.source_hash", lambda kernel, target: "f" * 64)
    assert re.fullmatch(r"tk_kernels \d+\.\d+\.\d+, gemm sources [0-9a-f]{8}", before)
    assert Gemm().version() != before


@pytest.mark.parametrize("kernel", ["gemm", "attention"])
@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_build_manifest_is_complete(target: str, kernel: str) -> None:
    manifest = toolchain.manifest(kernel, target)
    for key in ("compiler", "flags", "source_hash", "registers", "spills", "shared_memory", "hgmma_count",
                "hmma_count", "binary_hash", "lines_of_code"):  # fmt: skip
        assert key in manifest
        assert manifest[key] is not None or manifest["reasons"][key]
    if target == "sm_90a":
        assert manifest["hgmma_count"] is None or manifest["hgmma_count"] > 0
        assert manifest["spills"] == 0
    assert Path(toolchain.ensure_built(kernel, target).library).is_file()
