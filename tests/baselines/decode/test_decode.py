"""The baselines of paged decode: right where a CPU can tell, refusals in words, and whose kernels are whose."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from baselines.common import flash_attn_4
from baselines.decode import vllm_libraries
from harness import workloads
from harness.measure.verification import check_outputs
from tests.baselines.problems import small

WORKLOADS = ("mla_decode", "paged_attention_decode")
CLASSES = {"mla_decode": "MlaDecode", "paged_attention_decode": "PagedAttentionDecode"}
LENGTHS = ("0+1+2", "16+17+15", "64+65+63", "5+130+64")


def baseline(module: str, workload: str) -> Any:
    return getattr(importlib.import_module(f"baselines.decode.{module}"), CLASSES[workload])()


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("page", [16, 64])
@pytest.mark.parametrize("module", ["torch_decode", "sdpa"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_plain_torch_is_right_on_poisoned_memory(workload: str, module: str, page: int, lengths: str) -> None:
    """NaN in tails and unused pages, wild table entries, tokens that see nothing."""
    if module == "sdpa" and workload == "mla_decode":
        pytest.skip("SDPA has no fused kernel for keys wider than values")
    problem, own = small(workload, lengths=lengths, page=page), workloads.load(workload)
    implementation = baseline(module, workload)
    reason = implementation.supports(problem, "cpu")
    if module == "sdpa" and "1" in lengths.split("+"):
        assert "a softmax of no key is NaN" in reason
        return
    assert reason is None
    inputs = own.make_inputs(problem, torch.Generator().manual_seed(page), "poisoned")
    out = implementation.prepare(problem, inputs)()
    check = check_outputs(own, problem, out, own.reference(problem, inputs, 0), inputs)
    assert check.passed, check.reason


def test_libraries_of_vllm_are_found_without_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TK_BASELINES_SITE_VLLM", str(tmp_path))
    for library, words in (
        (vllm_libraries.FLASH_MLA, "pip install"),
        (vllm_libraries.FLASH_ATTN_3, "vllm here has no"),
    ):
        reason = library.absent()
        assert reason is not None
        assert words in reason
        file = tmp_path / library.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        assert library.absent() is None


def test_other_pages_and_head_dims_are_refused_by_name(hopper: None) -> None:
    for module in ("flash_mla", "flash_attn_3"):
        assert "page=16" in baseline(module, "mla_decode").supports(small("mla_decode", page=16), "cuda")
        assert baseline(module, "mla_decode").supports(small("mla_decode", page=64), "cuda") is None
    grouped = baseline("flash_attn_3", "paged_attention_decode")
    assert "D=80" in grouped.supports(small("paged_attention_decode", D=80), "cuda")
    assert grouped.supports(small("paged_attention_decode", page=16), "cuda") is None


class Library:
    """Stands for a library of vLLM's wheel: keeps what it is called with."""

    def __init__(self, out: torch.Tensor) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._out = out

    def dense_decode_fwd(self, *given: Any) -> tuple[Any, ...]:
        self.calls.append(given)
        return self._out, "lse", "metadata", "splits"

    def get_scheduler_metadata(self, *given: Any) -> str:
        self.calls.append(given)
        return "schedule"

    def fwd(self, *given: Any) -> list[Any]:
        self.calls.append(given)
        return [self._out, "lse"]


def inputs_of(problem: Any, workload: str) -> dict[str, torch.Tensor]:
    return workloads.load(workload).make_inputs(problem, torch.Generator().manual_seed(0), "normal")


def test_flash_mla_hands_its_schedule_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the schema of vLLM 0.33.0: q, cache, value width, lengths, table, scale, causal, metadata, splits, out."""
    problem = small("mla_decode")
    inputs, library = inputs_of(problem, "mla_decode"), Library(torch.zeros(1))
    monkeypatch.setattr(vllm_libraries, "operators", lambda name: library)
    call = baseline("flash_mla", "mla_decode").prepare(problem, inputs)
    assert call() is call()
    first, *later = library.calls
    assert len(first) == 10
    assert first[7:] == (None, None, None)
    assert all(given[7:] == ("metadata", "splits", None) for given in later)
    assert all(given[0] is inputs["q"] and given[3] is inputs["seqlens"] for given in library.calls)
    assert first[1].shape == (*inputs["kv_cache"].shape[:2], 1, 576)
    baseline("flash_mla", "mla_decode").planning(problem, inputs)()
    assert library.calls[-1][7:] == (None, None, None), "it plans anew"
    assert first[5:7] == (pytest.approx(576**-0.5), True)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_flash_attn_3_gets_what_its_schema_asks_for(workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the schemas of vLLM 0.33.0, whose arguments are 23 and 37."""
    problem = small(workload)
    rows, width = problem.B * problem.Q, 512 if workload == "mla_decode" else problem.D
    inputs, library = inputs_of(problem, workload), Library(torch.zeros(rows, problem.H, width))
    monkeypatch.setattr(vllm_libraries, "operators", lambda name: library)
    assert baseline("flash_attn_3", workload).prepare(problem, inputs)().shape == (
        problem.B,
        problem.Q,
        problem.H,
        width,
    )
    schedule, forward = library.calls
    heads = 1 if workload == "mla_decode" else problem.Hkv
    head_dim = 64 if workload == "mla_decode" else problem.D
    assert schedule[:7] == (problem.B, problem.Q, 130, problem.H, heads, head_dim, width)
    assert (len(schedule), len(forward)) == (23, 37)
    assert schedule[14:17] == (problem.page, 0, True), "page, no new keys and mask are those of the call"
    plan = baseline("flash_attn_3", workload).planning(problem, inputs)
    assert plan() == plan() == "schedule"
    assert [len(given) for given in library.calls[2:]] == [23, 23], "schedules alone"
    q, k, v, _, _, q_v, _ = forward[:7]
    assert q.shape == (rows, problem.H, head_dim)
    assert k.shape[2:] == (heads, head_dim)
    assert v.shape[2:] == (heads, width)
    assert (q_v is None) == (workload != "mla_decode")
    assert forward[7].tolist() == [0, 2, 4, 6]
    assert forward[11] is inputs["seqlens"]
    assert forward[14] is inputs["block_table"]
    assert forward[23:25] == (pytest.approx(problem.scale), True)
    assert forward[29] == "schedule"


@pytest.mark.parametrize("D", [64, 128])
def test_flash_attn_4_gets_the_pages_and_lengths(D: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small("paged_attention_decode", D=D, page=64)
    inputs = inputs_of(problem, "paged_attention_decode")
    calls = []

    def flash_attn_varlen_func(*tensors: torch.Tensor, **given: Any) -> tuple[torch.Tensor, None]:
        calls.append((tensors, given))
        return tensors[0], None

    library = SimpleNamespace(flash_attn_varlen_func=flash_attn_varlen_func)
    monkeypatch.setattr(flash_attn_4, "interface", lambda: library)
    call = baseline("flash_attn_4", "paged_attention_decode").prepare(problem, inputs)
    assert len(calls) == 1  # it compiles
    assert call() is inputs["q"]
    tensors, given = calls[-1]
    assert all(tensor is inputs[name] for tensor, name in zip(tensors, ("q", "k_cache", "v_cache"), strict=True))
    assert given["seqused_k"] is inputs["seqlens"]
    assert given["page_table"] is inputs["block_table"]
    assert given["causal"]
    assert given["softmax_scale"] == pytest.approx(D**-0.5)
    assert (given["max_seqlen_q"], given["max_seqlen_k"]) == (problem.Q, 130)


def test_flash_attn_4_refuses_pages_whose_tails_it_reads(hopper: None) -> None:
    own = baseline("flash_attn_4", "paged_attention_decode")
    reasons = {
        (page, lengths): own.supports(small("paged_attention_decode", page=page, lengths=lengths), "cuda")
        for page in (64, 128, 256)
        for lengths in ("5+130+64", "128+256+384")
    }
    assert "a NaN behind a sequence's end" in reasons.pop((128, "5+130+64"))
    assert set(reasons.values()) == {None}
    assert "D=80" in own.supports(small("paged_attention_decode", D=80), "cuda")


KERNELS = {
    "flash_attn_4": "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm90FlashAttentionForwardSm90_object_at__tensorptr",
    "flash_mla": "void legacy::sm90::decode::dense::flash_fwd_splitkv_mla_kernel<legacy::sm90::decode::dense::Traits<",
    "flash_attn_3": "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloop",
    "sdpa": "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t",
}
OF_NONE = {
    "inductor": "triton_red_fused__softmax_0",
    "ours": "void kittens::kernel_entry<tk::paged_attention_decode::paged_kernel<64> >(Globals)",
}


@pytest.mark.parametrize("module", sorted(KERNELS))
def test_a_baseline_knows_its_kernels_and_disowns_others(module: str) -> None:
    workload = "mla_decode" if module == "flash_mla" else "paged_attention_decode"
    implementation = baseline(module, workload)
    problem = small(workload)
    for name, kernel in (KERNELS | OF_NONE).items():
        own = all(re.search(pattern, kernel) for pattern in implementation.kernel_names(problem))
        foreign = any(re.search(pattern, kernel) for pattern in implementation.foreign_kernel_names())
        assert (own, foreign) == (name == module, name != module), kernel
