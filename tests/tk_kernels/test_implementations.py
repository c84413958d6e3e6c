"""What the kernels offer to a harness."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.workloads import mamba2
from tk_kernels import ops, toolchain
from tk_kernels.implementations import (
    Attention,
    Based,
    Gemm,
    GemmFp8,
    Hedgehog,
    Kernel,
    LinearAttention,
    Mamba2,
    Operator,
)

WITHOUT = "tk gemm: the schedule by_warps is one of GPUs without a copy engine"


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
    window: int = 0


@dataclass(frozen=True)
class LinearProblem:
    """The attributes of the linear attentions' problems that an implementation may read."""

    F: int = 16
    D: int = 64
    P: int = 64
    S: int = 64
    boundary: str = "raw"
    dtype: str = "bf16"
    direction: str = "fwd"
    options: dict[str, Any] = field(default_factory=dict)


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
    assert manifest["target"] == ("cpu" if device == "cpu" else toolchain.target_of_this_gpu().name)


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


def test_any_operator_serves_with_its_keywords_as_options_and_the_sizes_it_is_given() -> None:
    assert "return_state" in Operator("based").options
    assert "stages" in Operator("gemm", stages=2).options
    with pytest.raises(TypeError, match="tk based: got the option 'stage', it takes normalize, return_state, segments"):
        Operator("based", stage=2)
    with pytest.raises(ValueError, match="operator: got 'gem', there is attention"):
        Operator("gem")
    for known, taken, refused in (([64, 96], 96, 128), ({"multiple_of": 32, "at_most": 96}, 32, 128)):
        limited = Operator("attention", sizes={"D": known})
        assert limited.refuse(AttentionProblem(D=taken)) is None
        assert (
            f"tk attention takes D {'64 and 96' if known == [64, 96] else 'of multiples of 32 up to 96'}, not"
            in str(limited.refuse(AttentionProblem(D=refused)))
        )
    with pytest.raises(TypeError, match="up_to"):
        Operator("attention", sizes={"D": {"multiple_of": 32, "up_to": 96}})
    with pytest.raises(ValueError, match="sizes: got 'head_dim', the problem has D, causal, dtype"):
        Operator("attention", sizes={"head_dim": [64]}).refuse(AttentionProblem())


def test_wrong_options_are_named() -> None:
    with pytest.raises(TypeError, match="got the option 'depth', it takes stages, persistent"):
        Gemm(depth=3)
    with pytest.raises(ValueError, match="stages: got 7"):
        Gemm(stages=7)


@pytest.mark.parametrize(
    ("implementation", "problem", "words"),
    [
        (Gemm(), Problem(dtype="fp16"), "takes bf16, not fp16"),
        (Gemm(), Problem(direction="bwd"), "no kernel of its own for direction bwd"),
        (Attention(), AttentionProblem(D=96), "takes head dims 64 and 128, not 96"),
        (Attention(order="row_major"), AttentionProblem(direction="bwd"), "the option order concerns the forward pass"),
        (Attention(synchronous=1), AttentionProblem(D=128), "built for head dim 64 alone, not 128"),
        (Based(), LinearProblem(F=32), "tk based takes feature dim 16, not 32"),
        (Based(), LinearProblem(D=128), "tk based takes value dim 64, not 128"),
        (Hedgehog(), LinearProblem(D=64), "tk hedgehog takes head dim 128, not 64"),
        (LinearAttention(), LinearProblem(D=96), "tk linear_attention takes head dims 64 and 128, not 96"),
        (Mamba2(), LinearProblem(P=128), "tk mamba2 takes head dim 64, not 128"),
        (Mamba2(), LinearProblem(S=256), "tk mamba2 takes state dims 64 and 128, not 256"),
    ],
)
def test_unsupported_problems_have_a_reason(implementation: Kernel, problem: Any, words: str) -> None:
    assert words in str(implementation.supports(problem, "cpu"))
    assert "device 'tpu' has no target" in str(Gemm().supports(Problem(), "tpu"))


@pytest.mark.parametrize(
    ("options", "device", "reason"),
    [
        ({"target": "sm_80", "schedule": "by_warps"}, "cuda", None),
        ({"target": "sm_80", "schedule": "by_warps", "tile": "128x128"}, "cuda", None),
        (
            {"target": "sm_80", "schedule": "swapped"},
            "cuda",
            "the option schedule is one of the kernel for Hopper GPUs",
        ),
        ({"target": "sm_90a", "schedule": "by_warps"}, "cuda", WITHOUT),
        ({"schedule": "by_warps"}, "cpu", WITHOUT),
    ],
)
def test_a_schedule_is_one_of_gpus_with_a_copy_engine_or_without(
    options: dict[str, str], device: str, reason: str | None
) -> None:
    assert Gemm(**options).supports(Problem(), device) == reason
    if options["schedule"] == "by_warps" and options.get("target") == "sm_80":
        assert "8-bit" in str(GemmFp8(**options).supports(Problem(dtype="e4m3"), device))


@pytest.mark.parametrize(("direction", "folder"), [("fwd", "attention_warps"), ("bwd", "attention_warps_backward")])
def test_a_pass_with_a_kernel_of_its_own_has_that_kernels_manifest(
    monkeypatch: pytest.MonkeyPatch, direction: str, folder: str
) -> None:
    """Guard: the backward pass recorded the forward's machine code, and would not have been stale when it changed."""
    monkeypatch.setattr(toolchain, "load", lambda *_: None)
    monkeypatch.setattr(toolchain, "manifest", lambda name, target: {"name": name, "target": target})
    implementation = Attention(target="sm_80")
    monkeypatch.setattr(implementation, "_on", lambda _: "sm_80")
    monkeypatch.setattr(implementation, "bind", lambda *_: torch.empty)
    implementation.prepare(AttentionProblem(direction=direction), {"q": torch.empty(1)})
    assert implementation.build_manifest() == {"name": folder, "target": "sm_80"}


def test_missing_compilers_are_a_reason_not_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise toolchain.errors.CompilerMissingError("no compiler; install it: apt-get install g++")

    monkeypatch.delenv("TK_KERNELS_PREBUILT", raising=False)
    monkeypatch.setattr("tk_kernels.toolchain.loading.find_gxx", missing)
    assert "apt-get install g++" in str(Gemm().available())
    assert "apt-get install g++" in str(Gemm().supports(Problem(), "cuda"))


def small(name: str, device: str) -> dict[str, torch.Tensor]:
    """Inputs of the linear attentions, two heads of 70 rows."""

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device).bfloat16()

    heads = (1, 2, 70)
    if name == "based":
        return {"q": draw(*heads, 16), "k": draw(*heads, 16), "v": draw(*heads, 64)}
    if name == "hedgehog":
        factors = {name: torch.full((2,), 0.5, device=device) for name in ("alpha", "beta")}
        maps = {name: draw(2, 128, 64) * 0.1 for name in ("q_map", "k_map")}
        return {key: draw(*heads, 128) for key in ("q", "k", "v")} | maps | factors
    if name == "raw":
        dt, decay = torch.rand(1, 70, 2, device=device) * 0.1, -torch.rand(2, device=device)
        return {"x": draw(1, 70, 2, 64), "dt": dt, "A": decay, "B": draw(1, 70, 1, 64), "C": draw(1, 70, 1, 64)}
    groups = 1 if name == "prepared" else 2
    given = {"q": draw(1, groups, 70, 64), "k": draw(1, groups, 70, 64), "v": draw(*heads, 64)}
    return given if name == "linear_attention" else given | {"log_decay": -torch.rand(*heads, device=device)}


@pytest.mark.parametrize(
    ("implementation", "name", "problem", "outputs"),
    [
        (Based, "based", LinearProblem(), 1),
        (Based, "based", LinearProblem(options={"return_state": True}), 7),
        (Based, "based", LinearProblem(options={"return_state": True, "normalize": False}), 4),
        (Hedgehog, "hedgehog", LinearProblem(D=128, F=64), 1),
        (Hedgehog, "hedgehog", LinearProblem(D=128, F=64, options={"return_state": True}), 3),
        (LinearAttention, "linear_attention", LinearProblem(), 1),
        (LinearAttention, "linear_attention", LinearProblem(options={"return_final_state": True}), 2),
        (Mamba2, "raw", LinearProblem(), 1),
        (Mamba2, "raw", LinearProblem(options={"return_final_state": True}), 2),
        (Mamba2, "prepared", LinearProblem(boundary="prepared", options={"scale": 1.0}), 1),
        (Mamba2, "prepared", LinearProblem(boundary="prepared", options={"return_final_state": True, "scale": 1.0}), 2),
    ],
)
def test_prepared_call_returns_the_linear_attentions_outputs_one_after_the_other(
    device: str, implementation: type[Kernel], name: str, problem: LinearProblem, outputs: int
) -> None:
    inputs = small(name, device)
    made: Any = implementation(segments=1 if outputs == 1 else "auto")
    assert made.available() is None
    assert made.supports(problem, device) is None
    found = made.prepare(problem, inputs)()
    tensors = found if isinstance(found, tuple) else (found,)
    assert len(tensors) == outputs
    assert all(isinstance(tensor, torch.Tensor) and tensor.isfinite().all() for tensor in tensors)
    assert tensors[0].shape == inputs["x" if name == "raw" else "v"].shape
    assert tensors[0].dtype == torch.bfloat16
    assert all(tensor.dtype == torch.float32 for tensor in tensors[1:])


@pytest.mark.parametrize(
    ("implementation", "name", "boundary"),
    [
        (Based, "based", "raw"),
        (Hedgehog, "hedgehog", "raw"),
        (LinearAttention, "linear_attention", "raw"),
        (Mamba2, "raw", "raw"),
        (Mamba2, "prepared", "prepared"),
    ],
)
def test_a_variants_segments_reach_its_operator(
    implementation: type[Kernel], name: str, boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: results do not tell, and a variant's time would be that of the default."""
    given: list[dict[str, Any]] = []
    for operator in ("based", "hedgehog", "linear_attention", "mamba2"):
        monkeypatch.setitem(ops.OPERATORS, operator, lambda *_, **options: given.append(options) or torch.empty(0))
    implementation(segments=3).prepare(LinearProblem(boundary=boundary), small(name, "cpu"))()
    assert [options["segments"] for options in given] == [3]


def test_mamba2s_prepared_boundary_has_scale_one_and_linear_attention_another(device: str) -> None:
    inputs = small("prepared", device)
    (B, H, N, P), S = inputs["v"].shape, inputs["q"].shape[3]
    sizes = {"B": B, "H": H, "N": N, "P": P, "S": S, "G": inputs["q"].shape[1]}
    problem = mamba2.Problem(dtype="bf16", direction="fwd", boundary="prepared", **sizes)
    scan: Any = Mamba2().prepare(problem, inputs)()
    scaled: Any = LinearAttention().prepare(LinearProblem(), inputs)()
    torch.testing.assert_close(scan.double() / 8, scaled.double(), rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize(
    "implementation",
    [Gemm(), Attention(), Based(), Hedgehog(), LinearAttention(), Mamba2()],
    ids=lambda one: type(one).__name__,
)
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


def test_another_linear_attention_in_our_place_is_seen() -> None:
    for implementation in (Based(), Hedgehog(), LinearAttention(), Mamba2()):
        foreign = implementation.foreign_kernel_names()
        for other in ("parallel_based_fwd_kernel", "chunk_fwd_kernel_h", "_chunk_scan_fwd_kernel", "triton_poi_fused"):
            assert any(re.search(name, other) for name in foreign)


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
