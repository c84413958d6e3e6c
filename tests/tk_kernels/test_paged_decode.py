"""Both paged decode operators: memory that no token sees is poisoned, graphs, wrong arguments, other calls' plans."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from decode_operators import OPERATORS, Decode

import tk_kernels as tk
from tk_kernels import toolchain
from tk_kernels.kernels.decode import call as decode_call


@pytest.fixture(params=list(OPERATORS))
def decode(request: pytest.FixtureRequest) -> Decode:
    return OPERATORS[request.param]


@pytest.mark.parametrize("schedule", ["makespan", "last"])
@pytest.mark.parametrize("seed", range(4))
def test_every_order_of_blocks(decode: Decode, seed: int, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows of a long sequence: pieces of all blocks, each row reduced by several warps."""
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    one = decode.problem("450+3", 1, 2, 16, Hkv=1)
    decode.assert_right(one, decode.poisoned(one, "cpu", seed), decode.plan(one, "cpu", schedule=schedule))


@pytest.mark.parametrize("tokens", [1, 3])
def test_bits_do_not_depend_on_who_is_last(decode: Decode, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sequences in pieces, many rows and few, each block the last of some seed: the sums have one order."""
    decode.assert_same_whoever_is_last(decode.problem("450+300", tokens, 2, 16, Hkv=1), monkeypatch)


def test_a_plan_is_refilled(decode: Decode, device: str) -> None:
    one, other = decode.problem("100+7", 1, 4, 16), decode.problem("3+260", 1, 4, 16)
    plan = decode.plan(one, device)
    decode.assert_right(one, decode.poisoned(one, device), plan)
    inputs = decode.poisoned(other, device)
    decode.assert_right(other, inputs, plan.refill(other.seqlens))
    wide = {
        **inputs,
        **{
            name: torch.full_like(inputs[name].repeat(1, 2, *[1] * (inputs[name].dim() - 2)), math.nan)
            for name in decode.caches
        },
    }
    for name in decode.caches:
        wide[name][:, ::2] = inputs[name]
        wide[name] = wide[name][:, ::2]
    assert torch.equal(decode(*wide.values(), plan=plan), decode(*inputs.values(), plan=plan))


def test_a_plan_for_other_lengths_is_told_by_the_device(decode: Decode, device: str) -> None:
    """Guard: a compiled call, and one whose lengths lie on a GPU, gave the numbers of the lengths that were planned."""
    one = decode.problem("450+60+0", 1, 4, 16)
    inputs, plan = decode.poisoned(one, device), decode.plan(one, device, schedule="static")
    right = decode(*inputs.values(), plan=plan, return_lse=True)
    call = getattr(torch.ops.tk_kernels, decode.name)
    for other in (-1, 0, 1, 2):
        lengths = inputs["seqlens"] + (torch.arange(3, device=device) == other).int()
        told = lengths.repeat_interleave(2)[::2]
        operands = {**inputs, "seqlens": told, "plan": plan.buffer, "words": plan.words, "sizes": plan.sizes}
        for own, wanted in zip(call(**operands, return_lse=True), right, strict=True):
            asked = wanted.clone()
            if other >= 0:
                asked[other] = math.nan
            assert torch.equal(own.nan_to_num(7), asked.nan_to_num(7)), other


def test_the_operator_is_one_of_pytorchs(decode: Decode) -> None:
    one = decode.problem("20+40", 1, 4, 16)
    inputs, plan = decode.poisoned(one, "cpu"), decode.plan(one, "cpu")
    torch.library.opcheck(
        getattr(torch.ops.tk_kernels, decode.name).default,
        (*inputs.values(), plan.buffer, plan.words, plan.sizes, one.scale, True),
    )
    assert not plan.words.any()


def test_it_compiles_as_a_whole(decode: Decode) -> None:
    one = decode.problem("20+40", 1, 4, 16)
    inputs, plan = decode.poisoned(one, "cpu"), decode.plan(one, "cpu")
    operator = tk.ops.OPERATORS[decode.name]
    call = torch.compile(lambda *tensors: operator(*tensors, plan=plan), backend="eager", fullgraph=True)
    assert torch.equal(call(*inputs.values()), decode(*inputs.values(), plan=plan))


def test_vmap_over_queries(decode: Decode) -> None:
    q, *others = decode.operands().values()
    out = torch.func.vmap(lambda one: decode(one, *others))(torch.stack([q, 2 * q]))
    assert torch.equal(out[1], decode(2 * q, *others))


def int32(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"block_table": int32([[1, 0], [3, -1]])}, "block_table: entry 1 of sequence 1 is -1, needs a page from 0 to 3"),
    ({"block_table": int32([[4, 0], [3, 2]])}, "block_table: entry 0 of sequence 0 is 4, needs a page from 0 to 3"),
    ({"seqlens": int32([20, 33])}, "block_table: has 2 pages of 16 keys a sequence, the longest has 33"),
    ({"seqlens": int32([20, -1])}, "seqlens: sequence 1 has -1 keys, needs 0 to"),
    ({"scale": -1.0}, "scale: got -1.0, needs a finite number of at least 0"),
    ({"scale": math.inf}, "scale: got inf, needs a finite number of at least 0"),
    ({"plan": 3}, "plan: got a int, needs what tk.decode_plan returns"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_named(decode: Decode, number: int) -> None:
    different, words = WRONG[number]
    with pytest.raises(ValueError, match=f"^{words}"):
        decode(**{**decode.operands(), **different})


OTHER_PLANS: list[tuple[dict[str, Any], str]] = [
    ({"heads": 8}, "is for heads 8, the call has 4"),
    ({"new_tokens": 2}, "is for new tokens 2, the call has 1"),
    ({"seqlens": [20, 31]}, "is for other lengths, sequence 1 has 31 keys there and 30 in seqlens"),
    ({"seqlens": [20]}, "is for sequences 1, the call has 2"),
]


def test_numbers_of_a_plan_that_do_not_fit_are_refused(decode: Decode) -> None:
    """Of a registered operator, whose schema has them one by one."""
    operands = decode.operands()
    sizes = {"heads": 4, "kv_heads": 1 if decode.kind == "mla" else 2, "kind": decode.kind}
    plan = tk.decode_plan([20, 30], new_tokens=1, device="cpu", **sizes)  # type: ignore[arg-type]
    right = {"plan": plan.buffer, "words": plan.words, "sizes": plan.sizes}
    for name, wrong, words in (
        ("plan", plan.buffer[:-1], f"plan: needs at least {len(plan.buffer)} contiguous int32 numbers where q is"),
        ("plan", plan.buffer.long(), "plan: needs"),
        ("words", plan.words[:-1], "words: needs"),
        ("sizes", [0, *plan.sizes[1:]], "plan: needs blocks, instructions, counters, slots and rows"),
    ):
        with pytest.raises(ValueError, match=f"^{words}"):
            getattr(torch.ops.tk_kernels, decode.name)(*operands.values(), **{**right, name: wrong})


@pytest.mark.parametrize("number", range(len(OTHER_PLANS)))
def test_plans_of_other_calls_are_refused(decode: Decode, number: int) -> None:
    different, words = OTHER_PLANS[number]
    operands = decode.operands()
    right: dict[str, Any] = {"seqlens": [20, 30], "new_tokens": 1, "heads": 4, "kind": decode.kind, "device": "cpu"}
    given = {**right, "kv_heads": 1 if decode.kind == "mla" else 2, **different}
    with pytest.raises(ValueError, match=f"^plan: {words}"):
        decode(**operands, plan=tk.decode_plan(given.pop("seqlens"), **given))


def test_plans_of_the_other_operator_or_device_are_refused(decode: Decode) -> None:
    operands = decode.operands()
    other = {"mla": "gqa", "gqa": "mla"}[decode.kind]
    plan = tk.decode_plan([20, 30], new_tokens=1, heads=4, kv_heads=1, kind=other, device="cpu")
    with pytest.raises(ValueError, match=f"^plan: is for kind {other}, the call has {decode.kind}"):
        decode(**operands, plan=plan)
    heads = 1 if decode.kind == "mla" else 2
    plan = tk.decode_plan([20, 30], new_tokens=1, heads=4, kv_heads=heads, kind=decode.kind, device="cpu")
    plan.call = plan.call._replace(device=torch.device("cuda", 0))
    with pytest.raises(ValueError, match="^plan: is for device cuda:0, the call has cpu"):
        decode(**operands, plan=plan)


def test_entries_behind_the_end_are_not_judged(decode: Decode) -> None:
    operands = decode.operands()
    operands["seqlens"] = int32([16, 0])
    wanted = decode(**operands)
    operands["block_table"] = int32([[1, 2**31 - 1], [-(2**31), -1]])
    assert torch.equal(decode(**operands), wanted)


@pytest.mark.gpu
def test_entries_on_a_gpu_are_judged_where_the_call_plans(decode: Decode) -> None:
    operands = {name: tensor.cuda() for name, tensor in decode.operands().items()}
    operands["block_table"][1, 1] = 4
    with pytest.raises(ValueError, match="^block_table: entry 1 of sequence 1 is 4, needs a page from 0 to 3"):
        decode(**operands)


@pytest.mark.gpu
def test_a_graph_replays_with_other_lengths(decode: Decode) -> None:
    one, other = (decode.problem(lengths, 2, 16, 64, D=128) for lengths in ("1000+7", "90+870"))
    first, second = decode.poisoned(one, "cuda"), decode.poisoned(other, "cuda", 1)
    width = max(inputs["block_table"].shape[1] for inputs in (first, second))
    pages = max(inputs[decode.caches[0]].shape[0] for inputs in (first, second))
    table = torch.zeros(2, width, dtype=torch.int32, device="cuda")
    caches = {name: first[name].new_full((pages, *first[name].shape[1:]), math.nan) for name in decode.caches}
    q, lengths, plan = torch.zeros_like(first["q"]), first["seqlens"].clone(), decode.plan(one, "cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = decode(q, *caches.values(), table, lengths, plan=plan)
    for which, inputs in ((one, first), (other, second), (one, first)):
        q.copy_(inputs["q"])
        for name, cache in caches.items():
            cache[: len(inputs[name])] = inputs[name]
        table[:, : inputs["block_table"].shape[1]] = inputs["block_table"]
        plan.refill(which.seqlens)
        graph.replay()
        assert torch.equal(out, decode(*inputs.values(), plan=plan))


FIRST_CAPTURED = """
import torch, tk_kernels as tk
plan = tk.decode_plan([3000], new_tokens=1, heads=4, kv_heads=1, kind="mla")
q = torch.randn(1, 1, 4, 576, device="cuda").bfloat16()
cache = torch.randn(47, 64, 576, device="cuda").bfloat16()
table = torch.arange(47, dtype=torch.int32, device="cuda")[None]
lengths = torch.tensor([3000], dtype=torch.int32, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = tk.mla_decode(q, cache, table, lengths, plan=plan)
graph.replay()
print(torch.equal(out, tk.mla_decode(q, cache, table, lengths, plan=plan)))
"""


@pytest.mark.gpu
def test_the_first_launch_of_a_process_can_be_captured() -> None:
    """Guard: what counters report to was allocated at the first launch, which a capture refuses."""
    done = subprocess.run([sys.executable, "-c", FIRST_CAPTURED], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


STALL = """
import torch, tk_kernels as tk
plan = tk.decode_plan([3000], new_tokens=1, heads=4, kv_heads=1, kind="mla")
queues = plan.buffer[16:].view(-1, 16)
queues[:, 9] += (queues[:, 0] == 2).int()  # reductions await a part more than there is
q = torch.randn(1, 1, 4, 576, device="cuda").bfloat16()
cache = torch.randn(47, 64, 576, device="cuda").bfloat16()
table = torch.arange(47, dtype=torch.int32, device="cuda")[None]
lengths = torch.tensor([3000], dtype=torch.int32, device="cuda")
tk.mla_decode(q, cache, table, lengths, plan=plan)
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    print(f"first: {error}")
tk.mla_decode(q, cache, table, lengths, plan=plan)
"""
STALLED = r"await: counter 0 holds (\d+) and not the (\d+) that block \d+ waits for, after two seconds"


@pytest.mark.gpu
def test_a_wait_that_never_ends_is_an_error_that_names_its_counter() -> None:
    """In a process of its own, which cannot use the GPU afterwards."""
    ended = subprocess.run([sys.executable, "-c", STALL], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode != 0
    assert "first: CUDA error" in ended.stdout
    told = re.findall(STALLED, ended.stderr)
    assert len(told) == 2, "by the call that followed, and behind its traceback"
    assert all(int(wanted) == int(held) + 1 for held, wanted in told)
    assert re.search(rf"^tk_kernels: mla_decode: {STALLED}$", ended.stderr, re.M)


def test_a_wait_that_never_ended_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What a GPU's library says of it, whichever of those that were loaded; kernels without counters are not asked."""
    words = "await: counter 3 holds 1 and not the 2 that block 7 waits for, after two seconds"

    def unasked() -> str:
        raise RuntimeError("allocating the report of counters: no CUDA-capable device is detected")

    libraries = {
        "attention": SimpleNamespace(),
        "mla_decode": SimpleNamespace(stalled=unasked),
        "decode_trace": SimpleNamespace(stalled=str),
        "paged_attention_decode": SimpleNamespace(stalled=lambda: words),
    }
    loaded: dict[tuple[str, str], Any] = {}
    monkeypatch.setattr(decode_call, "loaded_on_gpus", lambda: loaded)
    decode_call._tell_of_a_stall()
    loaded.update({(name, "sm_90a"): library for name, library in libraries.items()})
    decode_call._tell_of_a_stall()
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"tk_kernels: paged_attention_decode: {words}\n")


@pytest.mark.parametrize("unit", ["mla_decode", "paged_attention_decode", "decode_trace", "gemm"])
def test_the_kernels_can_tell_of_it(unit: str) -> None:
    assert toolchain.load(unit, "cpu").stalled() == ""
