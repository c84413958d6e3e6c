"""FlashMLA's functions by our kernel: the numbers, with and without a causal mask, and what is refused."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from decode_operators import MLA, WIDTH

from tk_kernels.integrations.flash_mla import flash_mla_with_kvcache, get_mla_metadata


def step(device: str, lengths: str = "70+0+33") -> tuple[Any, dict[str, torch.Tensor]]:
    """Arguments by the names of FlashMLA, two new tokens of four heads."""
    one = MLA.problem(lengths, 2, 4, 64)
    inputs = MLA.poisoned(one, device)
    inputs["k_cache"] = inputs.pop("kv_cache").unsqueeze(2)
    inputs["cache_seqlens"] = inputs.pop("seqlens")
    return one, inputs


@pytest.mark.parametrize("causal", [True, False])
def test_it_is_right(causal: bool, device: str) -> None:
    one, inputs = step(device)
    metadata, splits = get_mla_metadata(inputs["cache_seqlens"], 2 * 4, 1)
    given = {"tile_scheduler_metadata": metadata, "num_splits": splits, "causal": causal, "softmax_scale": 0.05}
    out, lse = flash_mla_with_kvcache(**inputs, head_dim_v=512, **given)
    assert out.shape == (3, 2, 4, 512)
    assert lse.shape == (3, 4, 2)
    assert lse.is_contiguous()
    for sequence, length in enumerate(one.seqlens):
        pages = inputs["block_table"][sequence, : -(-length // 64)].long()
        keys = inputs["k_cache"][pages].flatten(0, 2)[:length].double()
        scores = torch.einsum("rhd,kd->rhk", inputs["q"][sequence].double(), keys) * 0.05
        seen = (
            torch.arange(length, device=device)[None] < length - causal * (1 - torch.arange(2, device=device))[:, None]
        )
        scores = scores.masked_fill(~seen[:, None], -math.inf)
        weights = torch.softmax(scores, -1).nan_to_num()
        torch.testing.assert_close(out[sequence].double(), weights @ keys[:, :512], rtol=2**-7, atol=4e-3)
        torch.testing.assert_close(lse[sequence].double(), torch.logsumexp(scores, -1).T, rtol=0, atol=1e-4)
    again = flash_mla_with_kvcache(**inputs, head_dim_v=512, **given)
    assert torch.equal(out, again[0])


def test_one_plan_serves_all_layers() -> None:
    _, inputs = step("cpu")
    metadata, _ = get_mla_metadata(inputs["cache_seqlens"], 8, 1, num_heads_q=4)
    lengths = inputs["cache_seqlens"]
    assert metadata.plan(lengths, 2, 4) is metadata.plan(lengths, 2, 4)
    assert metadata.plan(lengths, 1, 8) is not metadata.plan(lengths, 2, 4)


def test_metadata_without_arguments_is_of_the_first_call(device: str) -> None:
    """Guard: FlashMLA's own has taken none since 2026, and a caller that changed its import met a TypeError."""
    _, inputs = step(device)
    told, (empty, splits) = get_mla_metadata(inputs["cache_seqlens"], num_heads_per_head_k=8)[0], get_mla_metadata()
    assert splits is None
    for causal in (True, False):
        wanted = flash_mla_with_kvcache(**inputs, head_dim_v=512, tile_scheduler_metadata=told, causal=causal)
        made = flash_mla_with_kvcache(**inputs, head_dim_v=512, tile_scheduler_metadata=empty, causal=causal)
        assert all(map(torch.equal, wanted, made))
    later = {**inputs, "cache_seqlens": inputs["cache_seqlens"] + 1}
    with pytest.raises(ValueError, match="^plan: is for other lengths") if device == "cpu" else nullcontext():
        flash_mla_with_kvcache(**later, head_dim_v=512, tile_scheduler_metadata=empty, causal=True)
    with pytest.raises(ValueError, match="^tile_scheduler_metadata: is for 8 query rows a key head"):
        flash_mla_with_kvcache(
            **{**inputs, "q": inputs["q"][:, :1]}, head_dim_v=512, tile_scheduler_metadata=empty, causal=True
        )


@pytest.mark.parametrize("causal", [True, False])
def test_a_sink_takes_its_share(causal: bool, device: str) -> None:
    _, inputs = step(device)
    given = {**inputs, "head_dim_v": 512, "tile_scheduler_metadata": get_mla_metadata()[0], "causal": causal}
    plain, lse = flash_mla_with_kvcache(**given)
    sink = torch.tensor([-math.inf, 0.5, 30.0, math.inf], device=device)
    out, same = flash_mla_with_kvcache(**given, attn_sink=sink)
    assert torch.equal(lse, same)
    share = lse.double().exp() / (lse.double().exp() + sink.double().exp()[:, None])
    wanted = plain.double() * share.nan_to_num().transpose(1, 2)[..., None]
    torch.testing.assert_close(out.double(), wanted, rtol=2**-7, atol=1e-6)
    assert torch.equal(out[:, :, 0], plain[:, :, 0])
    assert not out[:, :, 3].any()


WRONG_METADATA: list[tuple[dict[str, Any], str]] = [
    ({"num_heads_k": 2}, "num_heads_k: got 2, needs 1"),
    ({"num_q_tokens_per_head_k": 0}, "num_q_tokens_per_head_k: got 0, needs a whole number of at least 1"),
    ({"num_heads_q": 3}, "num_heads_q: got 3, needs a divisor of the 8"),
    ({"is_fp8_kvcache": True}, "is_fp8_kvcache: the kernel reads bfloat16"),
    ({"topk": 64}, "topk: the kernel attends every key"),
    ({"cache_seqlens": torch.tensor([5, 6])}, "cache_seqlens: needs to be an int32 tensor"),
    ({"cache_seqlens": torch.tensor([5, -6], dtype=torch.int32)}, "seqlens: sequence 1 has -6 keys"),
]


@pytest.mark.parametrize("number", range(len(WRONG_METADATA)))
def test_wrong_metadata_is_refused(number: int) -> None:
    different, words = WRONG_METADATA[number]
    right: dict[str, Any] = {"cache_seqlens": torch.tensor([5, 6], dtype=torch.int32)}
    right |= {"num_q_tokens_per_head_k": 8, "num_heads_k": 1}
    given = {**right, **different}
    with pytest.raises(ValueError, match=f"^{words}"):
        get_mla_metadata(**given)[0].plan(given["cache_seqlens"], 1, 8)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"head_dim_v": 128}, "head_dim_v: got 128, needs 512"),
    ({"tile_scheduler_metadata": torch.zeros(3)}, "tile_scheduler_metadata: got a Tensor, needs what this module"),
    ({"q": torch.zeros(3, 1, 4, WIDTH, dtype=torch.bfloat16)}, "tile_scheduler_metadata: is for 8 query rows a key"),
    ({"k_cache": torch.zeros(3, 64, 2, WIDTH, dtype=torch.bfloat16)}, "k_cache: got shape"),
    ({"cache_seqlens": torch.tensor([70, 0, 34], dtype=torch.int32)}, "plan: is for other lengths"),
    ({"is_fp8_kvcache": True}, "is_fp8_kvcache: the kernel reads"),
    ({"indices": torch.zeros(3, 1, 64)}, "indices: the kernel attends every key"),
    ({"extra_topk_length": torch.zeros(3)}, "extra_topk_length: the kernel attends every key"),
    ({"num_splits": torch.zeros(3)}, "num_splits: got a Tensor, needs the None of get_mla_metadata"),
    ({"attn_sink": torch.zeros(3)}, r"attn_sink: got shape \(3,\), needs \(4,\)"),
    ({"cache_seqlens": torch.tensor([70, 0, 33])}, "cache_seqlens: needs to be an int32 tensor"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_refused(number: int) -> None:
    different, words = WRONG[number]
    _, inputs = step("cpu")
    metadata, _ = get_mla_metadata(inputs["cache_seqlens"], 8, 1)
    given: dict[str, Any] = {**inputs, "head_dim_v": 512, "tile_scheduler_metadata": metadata}
    with pytest.raises(ValueError, match=f"^{words}"):
        flash_mla_with_kvcache(**{**given, **different})
