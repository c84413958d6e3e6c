"""tk.paged_attention_decode against float64, with memory that no token sees poisoned, and as a citizen of PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from operator_examples import Example, bf16
from torch import Tensor

import tk_kernels as tk
from harness import workloads
from harness.verification import check_outputs
from tests.baselines.problems import small

WORKLOAD = workloads.load("paged_attention_decode")


def short_call(q: Tensor, k_cache: Tensor, v_cache: Tensor) -> Tensor:
    """One sequence of 20 keys in two pages of 16."""
    table, lengths = (torch.tensor(ints, dtype=torch.int32, device=q.device) for ints in ([[1, 0]], [20]))
    result = tk.paged_attention_decode(q, k_cache, v_cache, table, lengths)
    assert isinstance(result, Tensor)
    return result


def short_operands() -> dict[str, Tensor]:
    return {"q": bf16(1, 2, 4, 64), "k_cache": bf16(2, 16, 2, 64), "v_cache": bf16(2, 16, 2, 64)}


EXAMPLES: dict[str, Example] = {"paged_attention_decode": Example(short_call, short_operands, copied=("q",))}


def problem(lengths: str, Q: int, H: int, Hkv: int, D: int, page: int) -> Any:
    batch = len(lengths.split("+"))
    return small("paged_attention_decode", B=batch, lengths=lengths, Q=Q, H=H, Hkv=Hkv, D=D, page=page)


def poisoned(one: Any, device: str, seed: int = 0) -> dict[str, Tensor]:
    """Inputs with NaN in unused pages and tails of pages, and wild table entries behind the end."""
    inputs = WORKLOAD.make_inputs(one, torch.Generator().manual_seed(seed), "poisoned")
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def plan_for(one: Any, device: str, **options: Any) -> tk.DecodePlan:
    return tk.decode_plan(one.seqlens, new_tokens=one.Q, heads=one.H, kv_heads=one.Hkv, device=device, **options)


def assert_right(one: Any, inputs: dict[str, Tensor], plan: tk.DecodePlan | None, seed: int = 0) -> None:
    """out as the workload judges it, lse within 1e-4 of float64's, and the same bits again."""
    out, lse = tk.paged_attention_decode(*inputs.values(), plan=plan, return_lse=True)
    check = check_outputs(WORKLOAD, one, out, WORKLOAD.reference(one, inputs, seed), inputs)
    assert check.passed, check.reason
    for sequence, length in enumerate(one.seqlens):
        pages = inputs["block_table"][sequence, : -(-length // one.page)].long()
        keys = inputs["k_cache"][pages].flatten(0, 1)[:length].double().repeat_interleave(one.H // one.Hkv, 1)
        scores = torch.einsum("rhd,khd->hrk", inputs["q"][sequence].double(), keys) * one.scale
        seen = torch.arange(length)[None] < length - (one.Q - 1) + torch.arange(one.Q)[:, None]
        wanted = torch.logsumexp(scores.masked_fill(~seen.to(scores.device), -math.inf), -1)
        torch.testing.assert_close(lse[sequence].double(), wanted, rtol=0, atol=1e-4)
    again = tk.paged_attention_decode(*inputs.values(), plan=plan, return_lse=True)
    assert torch.equal(out, again[0])
    assert torch.equal(lse, again[1])


@pytest.mark.parametrize("schedule", ["makespan", "static"])
@pytest.mark.parametrize(
    ("lengths", "Q", "H", "Hkv", "D", "page"),
    [
        ("0+1+2", 2, 8, 1, 128, 16),
        ("33+31+32+65", 4, 16, 2, 64, 16),
        ("5+130+64", 2, 6, 2, 64, 64),
        ("1000", 1, 8, 1, 128, 64),
        ("700+0+65", 1, 4, 4, 128, 32),
        ("200+97", 3, 5, 1, 64, 128),
        ("300+17", 16, 16, 1, 128, 256),
        ("450", 5, 16, 1, 64, 128),
    ],
)
def test_every_shape(lengths: str, Q: int, H: int, Hkv: int, D: int, page: int, schedule: str, device: str) -> None:
    one = problem(lengths, Q, H, Hkv, D, page)
    assert_right(one, poisoned(one, device), plan_for(one, device, schedule=schedule))


@pytest.mark.parametrize("seed", range(4))
def test_every_order_of_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows of a long sequence: pieces of all blocks, each row reduced by several warps."""
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    one = problem("1300+3", 1, 2, 1, 64, 16)
    assert_right(one, poisoned(one, "cpu", seed), plan_for(one, "cpu"))


def test_scores_of_every_size(device: str) -> None:
    """Maxima that move late, and a scale of zero, which weighs all keys alike."""
    one = problem("150", 2, 4, 2, 64, 64)
    inputs = poisoned(one, device)
    inputs["q"] *= 30
    assert_right(one, inputs, None)
    out = tk.paged_attention_decode(*inputs.values(), scale=0)
    pages = inputs["block_table"][0, :3].long()
    values = inputs["v_cache"][pages].flatten(0, 1).double().repeat_interleave(2, 1)
    wanted = torch.stack([values[:149].mean(0), values[:150].mean(0)])[None]
    torch.testing.assert_close(out.double(), wanted, rtol=2**-7, atol=1e-3)


def test_a_plan_is_refilled_and_a_cache_may_be_strided(device: str) -> None:
    """Keys and values of a page side by side in memory, as some engines keep them."""
    one, other = problem("100+7", 1, 4, 2, 64, 16), problem("3+260", 1, 4, 2, 64, 16)
    plan = plan_for(one, device)
    assert_right(one, poisoned(one, device), plan)
    inputs = poisoned(other, device)
    both = torch.stack([inputs["k_cache"], inputs["v_cache"]], 3)
    inputs["k_cache"], inputs["v_cache"] = both.unbind(3)
    assert_right(other, inputs, plan.refill(other.seqlens))
    with pytest.raises(ValueError, match=r"plan: is for \w+ "):
        tk.paged_attention_decode(*poisoned(problem("3+260", 1, 8, 2, 64, 16), device).values(), plan=plan)


def test_the_operator_is_one_of_pytorchs() -> None:
    one = problem("20+40", 1, 4, 2, 64, 16)
    inputs, plan = poisoned(one, "cpu"), plan_for(one, "cpu")
    sizes = (plan.blocks, plan.capacity, plan.counters, plan.slots, plan.rows_per_tile)
    torch.library.opcheck(
        torch.ops.tk_kernels.paged_attention_decode.default,
        (*list(inputs.values())[:4], plan.buffer, plan.words, *sizes, one.scale, True),
    )
    assert not plan.words.any()


def test_it_compiles_as_a_whole() -> None:
    one = problem("20+40", 1, 4, 2, 64, 16)
    inputs, plan = poisoned(one, "cpu"), plan_for(one, "cpu")
    call = torch.compile(
        lambda *tensors: tk.paged_attention_decode(*tensors, plan=plan), backend="eager", fullgraph=True
    )
    assert torch.equal(call(*inputs.values()), tk.paged_attention_decode(*inputs.values(), plan=plan))


CACHE = (4, 16, 2, 64)
WRONG = [
    ({"q": bf16(2, 1, 4, 80)}, "q: got head dim 80, supported are 64 and 128"),
    ({"q": torch.zeros(2, 1, 4, 64)}, "q: got .*float32"),
    ({"q": bf16(2, 1, 5, 64)}, "q: got 5 heads, needs a multiple of the cache's 2"),
    ({"k_cache": bf16(4, 16, 2, 128)}, "k_cache: got shape"),
    ({"v_cache": bf16(5, 16, 2, 64)}, "v_cache: got shape"),
    (
        {"k_cache": bf16(4, 48, 2, 64), "v_cache": bf16(4, 48, 2, 64)},
        "k_cache: got pages of 48 keys, needs 16, 32 or a",
    ),
    ({"k_cache": bf16(4, 16, 2, 128)[..., ::2]}, "k_cache: needs a 16-byte aligned base, unit stride"),
    ({"block_table": torch.zeros(2, 2, dtype=torch.int64)}, "block_table: got .*int64"),
    ({"block_table": torch.zeros(3, 2, dtype=torch.int32)}, "block_table: got shape"),
    ({"seqlens": torch.tensor([20, 33], dtype=torch.int32)}, "block_table: has 2 pages of 16 keys a sequence"),
    ({"seqlens": torch.tensor([20, -1], dtype=torch.int32)}, "seqlens: sequence 1 has -1 keys, needs 0 to"),
    ({"scale": -1.0}, "scale: got -1.0, needs a finite number of at least 0"),
    ({"scale": math.inf}, "scale: got inf, needs a finite number of at least 0"),
    ({"plan": 3}, "plan: got a int, needs what tk.decode_plan returns"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_named(number: int) -> None:
    different, words = WRONG[number]
    given: dict[str, Any] = {
        "q": bf16(2, 1, 4, 64),
        "k_cache": bf16(*CACHE),
        "v_cache": bf16(*CACHE),
        "block_table": torch.zeros(2, 2, dtype=torch.int32),
        "seqlens": torch.tensor([20, 30], dtype=torch.int32),
    }
    with pytest.raises(ValueError, match=f"^{words}"):
        tk.paged_attention_decode(**{**given, **different})


@pytest.mark.parametrize("options", [{"schedule": "last"}, {"kv_heads": 4}], ids=["last", "heads"])
def test_plans_of_other_calls_are_refused(options: dict[str, Any]) -> None:
    one = problem("20+40", 1, 4, 2, 64, 16)
    given: dict[str, Any] = {"kv_heads": 2, **options}
    plan = tk.decode_plan(one.seqlens, new_tokens=1, heads=4, device="cpu", **given)
    with pytest.raises(ValueError, match="^plan: "):
        tk.paged_attention_decode(*poisoned(one, "cpu").values(), plan=plan)


@pytest.mark.gpu
def test_a_graph_replays_with_other_lengths() -> None:
    one, other = problem("1000+7", 2, 16, 2, 128, 64), problem("90+870", 2, 16, 2, 128, 64)
    first, second = poisoned(one, "cuda"), poisoned(other, "cuda", 1)
    width = max(inputs["block_table"].shape[1] for inputs in (first, second))
    pages = max(inputs["k_cache"].shape[0] for inputs in (first, second))
    table = torch.zeros(2, width, dtype=torch.int32, device="cuda")
    k, v = (torch.full((pages, 64, 2, 128), math.nan, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    q, lengths, plan = torch.zeros_like(first["q"]), first["seqlens"].clone(), plan_for(one, "cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = tk.paged_attention_decode(q, k, v, table, lengths, plan=plan)
    for which, inputs in ((one, first), (other, second), (one, first)):
        q.copy_(inputs["q"])
        k[: len(inputs["k_cache"])] = inputs["k_cache"]
        v[: len(inputs["v_cache"])] = inputs["v_cache"]
        table[:, : inputs["block_table"].shape[1]] = inputs["block_table"]
        plan.refill(which.seqlens)
        graph.replay()
        assert torch.equal(out, tk.paged_attention_decode(*inputs.values(), plan=plan))
