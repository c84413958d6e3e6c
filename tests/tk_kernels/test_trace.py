"""tk_kernels.trace: every instruction is there once, in an order that can be, and the timed result is what it was."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from decode_operators import OPERATORS
from test_llama_decode import at, drawn

import tk_kernels as tk
from tk_kernels import LlamaShape
from tk_kernels.kernels.decode.plan import SCHEDULES
from tk_kernels.trace import LLAMA_ROLES, ROLES, fit, record


@pytest.mark.parametrize("kind", list(OPERATORS))
def test_every_instruction_is_recorded(kind: str, device: str) -> None:
    decode = OPERATORS[kind]
    one = decode.problem("450+3", 1, 2, 16, Hkv=1)
    inputs, plan = decode.poisoned(one, device), decode.plan(one, device)
    results = []
    trace = record(plan, lambda: results.append(decode(*inputs.values(), plan=plan)))
    assert torch.equal(results[0], decode(*inputs.values(), plan=plan))
    queues = plan.buffer.cpu()[16:].view(plan.blocks, plan.capacity, 16)
    wanted = [tuple(queues[b, i].tolist()) for b in range(plan.blocks) for i in range(plan.capacity)]
    wanted = sorted(fields for fields in wanted if fields[0])
    for role in ROLES:
        events = [event for event in trace.events if event.role == role]
        assert sorted(event.fields for event in events) == wanted
        for event in events:
            assert event.start <= event.waited <= event.end
        for block in range(plan.blocks):
            own = [event for event in events if event.block == block]
            assert all(before.end <= after.start for before, after in itertools.pairwise(own))
    computed = [event for event in trace.events if event.role == "multiplies"]
    reductions = [event for event in computed if event.opcode == "reduce"]
    assert reductions
    for reduction in reductions:  # it goes on behind the last part that it waits for has been stored
        parts = [event for event in computed if event.opcode == "attend" and event.fields[7] == reduction.fields[7]]
        assert len(parts) == reduction.fields[9]
        if device == "cpu":
            assert all(part.waited < reduction.waited for part in parts)
    assert trace.unit == ("us" if device == "cuda" else "step")
    assert (trace.residual_us is None) == (device == "cpu")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_file_is_a_chrome_trace(schedule: str) -> None:
    decode = OPERATORS["gqa"]
    one = decode.problem("1000+33", 1, 4, 16, Hkv=1)
    inputs, plan = decode.poisoned(one, "cpu"), decode.plan(one, "cpu", schedule=schedule)
    written = json.loads(json.dumps(record(plan, lambda: decode(*inputs.values(), plan=plan)).chrome()))
    rows = written["traceEvents"]
    assert {row["ph"] for row in rows} == {"M", "X", "s", "f"}
    assert all(row["dur"] >= 0 for row in rows if row["ph"] == "X")
    starts = {row["id"]: row for row in rows if row["ph"] == "s"}
    ends = {row["id"]: row for row in rows if row["ph"] == "f"}
    assert starts.keys() == ends.keys()
    if schedule == "last":  # all but one of a sequence's pieces point to that one
        assert len({row["pid"] for row in ends.values()}) == 1
        assert len(starts) == sum("sequence 0" in row["name"] and row["tid"] == 1 for row in rows if "dur" in row) - 1
    assert all(starts[number]["ts"] <= ends[number]["ts"] for number in starts)
    assert written["otherData"] == {"unit": "step", "clock_residual_us": None}


def test_clocks_are_fitted_to_one_time() -> None:
    """Clocks of 1.5 GHz that began at different times, read beside a shared time in steps of 32 ns."""
    generator = torch.Generator().manual_seed(0)
    true = torch.rand(5, 2, 6, 3, generator=generator, dtype=torch.float64).sort(-1).values * 30 + 1  # us
    ticks = (true * 1500 + torch.arange(5).view(5, 1, 1, 1) * 10**12).long()
    shared = (true[..., 2] * 1000 / 32).floor() * 32 + 10**15
    log = torch.cat([ticks, shared.long()[..., None]], -1)
    log[3, 1, 4:] = 0
    fitted, residual = fit(log)
    done = log[..., 3] > 0
    away = (fitted - true)[done]
    assert float(away.max() - away.min()) < 0.05
    assert 0 < residual < 0.05


def test_a_call_that_records_nothing_is_refused() -> None:
    decode = OPERATORS["gqa"]
    plan = decode.plan(decode.problem("20+40", 1, 4, 16), "cpu")
    with pytest.raises(ValueError, match="^call: launched no kernel that follows this plan"):
        record(plan, lambda: None)


def test_a_call_that_follows_a_larger_plan_is_refused() -> None:
    """Guard: it would write behind the log."""
    decode = OPERATORS["gqa"]
    small, large = decode.problem("20+40", 1, 4, 16), decode.problem("+".join(["20"] * 60), 1, 4, 16)
    inputs, plan = decode.poisoned(large, "cpu"), decode.plan(large, "cpu")
    with pytest.raises(ValueError, match="^plan: is larger than the one that is recorded"):
        record(decode.plan(small, "cpu"), lambda: decode(*inputs.values(), plan=plan))


@pytest.mark.parametrize("rounds", [None, 2])
def test_a_llamas_roles_record_every_instruction(rounds: int | None, device: str) -> None:
    shape = LlamaShape(layers=2, width=512, inner=576, heads=8, kv_heads=1, dim=64, vocabulary=64)
    given, plan = drawn(shape, 20, device), tk.llama_plan(shape, device=device, blocks=3)
    at(given, [17])
    count = rounds or 1
    if rounds:
        given["chosen"] = torch.zeros(1, rounds, dtype=torch.int32, device=device)
    trace = record(plan, lambda: tk.llama_decode(**given, plan=plan), rounds=count)
    found = [given[name].clone() for name in ("logits", "k_cache")]
    tk.llama_decode(**given, plan=plan)
    assert torch.equal(found[0], given["logits"])
    assert torch.equal(found[1].nan_to_num(7.0), given["k_cache"].nan_to_num(7.0))
    queues = plan.program.cpu()[16:].view(plan.blocks, -1, 16)
    for role in LLAMA_ROLES:
        for block in range(plan.blocks):
            own = [event for event in trace.events if (event.role, event.block) == (role, block)]
            wanted = [tuple(one) for one in queues[block].tolist() if one[0]]
            assert [event.fields for event in own] == wanted * count
            assert [event.round for event in own] == sorted(list(range(count)) * len(wanted))
            assert all(event.start <= event.waited <= event.end for event in own)
            assert all(before.end <= after.start for before, after in itertools.pairwise(own))
    assert trace.between("qkv", "gate_up").shape == (2 * count, 3)
    assert trace.between("down", "qkv").shape == (2 * count - 1, 3)
    assert trace.between("down", "head").shape == (count, 3)
    assert float(trace.between("out", "gate_up").min()) > 0
    rows = json.loads(json.dumps(trace.chrome()))["traceEvents"]
    assert {row["tid"] for row in rows if row["ph"] == "X"} == {0, 1, 2}
    names = {row["name"] for row in rows if row["ph"] == "X"}
    assert {"waits", "token 0, layer 1, attend sequence 0, head 0, part 0"} <= names


def test_a_call_of_more_tokens_than_are_recorded_is_refused() -> None:
    shape = LlamaShape(layers=1, width=512, inner=576, heads=8, kv_heads=1, dim=64, vocabulary=64)
    given, plan = drawn(shape, 8, "cpu"), tk.llama_plan(shape, device="cpu", blocks=2)
    with pytest.raises(ValueError, match="^plan: is larger than the one that is recorded"):
        record(plan, lambda: tk.llama_decode(**given, plan=plan, chosen=torch.zeros(1, 2, dtype=torch.int32)))
