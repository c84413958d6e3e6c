"""tk.attention with path="decode": the same numbers as the formulas, whatever the layout, and its plans."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attentions import assert_good, attend, operands

import tk_kernels as tk
from tk_kernels.implementations.attention import Attention
from tk_kernels.ops import attention_decode
from tk_kernels.ops import operands as ops_operands
from tk_kernels.ops.attention_decode import (
    GRAPH_MORE_US,
    HOST_MORE_US,
    PARTIAL_US,
    decode_us,
    predicts_faster,
    whole_us,
)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("shape", "D"),
    [
        ((1, 8, 2, 1, 300), 64),
        ((2, 4, 1, 5, 193), 128),
        ((2, 2, 2, 20, 3), 64),
        ((1, 4, 1, 17, 257), 64),
        ((1, 8, 2, 34, 130), 128),
    ],
    ids=["one", "few", "more_queries_than_keys", "two_groups", "two_tiles"],
)
def test_it_is_right(shape: tuple[int, int, int, int, int], D: int, causal: bool, device: str) -> None:
    inputs = operands(shape, D, device)
    assert_good(attend(*inputs, causal=causal, path="decode"), inputs, causal)


@pytest.mark.parametrize("queries", [1, 3, 33])
def test_layouts(queries: int, device: str) -> None:
    """Heads inside rows, keys as a part of a longer cache, and a stride that only a copy can serve."""
    q, k, v, _ = operands((2, 4, 2, queries, 70), 64, device)
    for causal in (False, True):
        wanted = tk.attention(q, k, v, causal=causal, path="decode", scale=-0.2)
        inside = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (q, k, v)]
        out = tk.attention(*inside, causal=causal, path="decode", scale=-0.2)
        assert out.stride() == tk.attention(*inside, causal=causal).stride()
        assert torch.equal(out, wanted)
        cached = [torch.full((2, 2, 128, 64), torch.nan, dtype=torch.bfloat16, device=device) for _ in range(2)]
        for cache, tensor in zip(cached, (k, v), strict=True):
            cache[:, :, :70] = tensor
        parts = [cache[:, :, :70] for cache in cached]
        assert torch.equal(tk.attention(q, *parts, causal=causal, path="decode", scale=-0.2), wanted)
        odd = [torch.nn.functional.pad(tensor, (0, 1))[..., :64] for tensor in (k, v)]
        assert torch.equal(tk.attention(q, *odd, causal=causal, path="decode", scale=-0.2), wanted)
        same = [tensor[:1].expand(2, -1, -1, -1) for tensor in (k, v)]
        assert torch.equal(
            tk.attention(q, *same, causal=causal, path="decode")[:1],
            tk.attention(q[:1], k[:1], v[:1], causal=causal, path="decode"),
        )


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("rows_outside", [False, True], ids=["heads_outside", "rows_outside"])
def test_nothing_is_copied(causal: bool, rows_outside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads q where it lies and writes what is returned, but for rows outside heads without a mask."""
    q, k, v, _ = operands((2, 4, 2, 3, 70), 64, "cpu")
    if rows_outside:
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    written, copied = [], []
    real = attention_decode.launch
    monkeypatch.setattr(attention_decode, "launch", lambda *a: written.append(a[3][3].data_ptr()) or real(*a))
    monkeypatch.setattr(ops_operands, "log_copies_once", lambda kernel, which: copied.extend(which))
    out = tk.attention(q, k, v, causal=causal, path="decode")
    assert (copied == []) == (causal or not rows_outside)
    assert (written == [out.data_ptr()]) == (causal or not rows_outside)
    assert out.stride() == q.stride()


def test_plans_are_kept_and_left_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    real = attention_decode.decode_plan
    monkeypatch.setattr(attention_decode, "KEPT", 2)
    monkeypatch.setattr(attention_decode, "decode_plan", lambda *a, **k: made.append(real(*a, **k)) or made[-1])
    attention_decode._plans.clear()
    for keys in (50, 50, 60, 50, 70, 60):
        q, k, v, _ = operands((1, 2, 1, 1, keys), 64, "cpu")
        tk.attention(q, k, v, path="decode")
    assert [plan.lengths for plan in made] == [(50,), (60,), (70,), (60,)]
    assert not any(plan.words.any() for plan in made)


def test_the_operator_is_one_of_pytorchs() -> None:
    q, k, v, _ = operands((1, 2, 1, 3, 70), 64, "cpu")
    operator = torch.ops.tk_kernels.attention.default
    torch.library.opcheck(operator, (q, k, v, True, None, False, [-1, -1, -1, 1]))
    call = torch.compile(lambda *t: tk.attention(*t, path="decode"), backend="eager", fullgraph=True)
    assert torch.equal(call(q, k, v), tk.attention(q, k, v, path="decode"))


def test_the_cost_model() -> None:
    """Few queries on many keys; what fills the GPU anyway and what is short stay with the whole kernel."""
    for queries in (1, 17):
        assert predicts_faster((1, 32, queries, 128), (1, 8, 4097, 128), 132, host_more_us=0.0)
    for q, k in (
        ((16, 16, 3072, 128), (16, 16, 3072, 128)),
        ((1, 32, 1024, 128), (1, 8, 4096, 128)),
        ((1, 32, 1, 128), (1, 8, 64, 128)),
        ((128, 32, 1, 64), (128, 32, 4096, 64)),
    ):
        assert not predicts_faster(q, k, 132, host_more_us=0.0), (q, k)
        assert decode_us(q, k, 132) >= whole_us(q, k, 132)


RECORDED = {
    (1, 1, 64): (16.8, 50.4),
    (1, 1, 128): (21.4, 54.5),
    (1, 17, 64): (19.0, 50.8),
    (1, 17, 128): (26.0, 54.7),
    (16, 1, 64): (66.1, 173.6),
    (16, 1, 128): (108.0, 202.1),
    (16, 17, 64): (69.4, 176.8),
    (16, 17, 128): (110.7, 205.1),
}
"""By batch, queries and head dimension: us of the decode path and of the other. 32:8 heads and 4097 keys without a
mask, of the run 20261126T000054Z-23cb53 on an H100."""
MEASURED = {
    (1, 33, 16384, 128): (49.9, 173.2),
    (1, 64, 16384, 64): (47.2, 162.0),
    (1, 128, 16384, 128): (107.0, 173.8),
    (1, 1024, 4097, 128): (137.3, 102.6),
    (4, 33, 16384, 64): (107.3, 160.7),
    (4, 48, 4097, 128): (48.2, 53.6),
    (4, 128, 4097, 64): (57.4, 47.0),
    (4, 256, 16384, 128): (522.0, 413.4),
    (16, 24, 4097, 64): (58.7, 170.9),
    (16, 33, 4097, 128): (138.3, 195.0),
    (16, 64, 1024, 64): (35.0, 48.2),
    (16, 128, 4097, 64): (213.4, 168.7),
    (16, 128, 4097, 128): (283.3, 217.4),
    (16, 1024, 4097, 64): (1672.4, 1203.3),
}
"""By batch, queries, keys and head dimension, the same: medians in CUDA graphs on an H100, keys not in L2."""


def recorded_shapes(batch: int, queries: int, dim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (batch, 32, queries, dim), (batch, 8, 4097, dim)


@pytest.mark.parametrize("problem", RECORDED)
def test_the_model_is_near_what_was_recorded(problem: tuple[int, int, int]) -> None:
    """Guard: steps scaled by the head dimension were 38 % off."""
    decode, whole = RECORDED[problem]
    assert decode_us(*recorded_shapes(*problem), 132) == pytest.approx(decode, rel=0.1)
    assert whole_us(*recorded_shapes(*problem), 132) == pytest.approx(whole, rel=0.1)


@pytest.mark.parametrize("problem", MEASURED)
def test_in_a_graph_the_faster_path_is_taken(problem: tuple[int, int, int, int]) -> None:
    """Several tiles of rows, which read a head's keys side by side: their multiplies bound a step."""
    batch, queries, keys, dim = problem
    shapes = (batch, 32, queries, dim), (batch, 8, keys, dim)
    decode, whole = MEASURED[problem]
    assert decode_us(*shapes, 132) == pytest.approx(decode, rel=0.25)
    assert whole_us(*shapes, 132) == pytest.approx(whole, rel=0.2)
    assert predicts_faster(*shapes, 132, GRAPH_MORE_US) == (decode < whole)


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("batch", [1, 4, 16])
def test_what_a_tile_holds_costs_the_same(batch: int, dim: int) -> None:
    """Keys are read once for up to 24 queries of 4 heads, with 16 sequences for up to 32. Rows of cut tiles add."""
    cut = batch < 16
    numbers = (1, 16, 17, 24, 32, 33)
    steps = [
        decode_us(*recorded_shapes(batch, queries, dim), 132) - cut * 4 * queries * dim * PARTIAL_US
        for queries in numbers
    ]
    alike = 4 if cut else 5
    assert steps[:alike] == pytest.approx([steps[0]] * alike)
    assert decode_us(*recorded_shapes(batch, 33, dim), 132) > decode_us(*recorded_shapes(batch, 24, dim), 132)


@pytest.mark.parametrize("host_more_us", [GRAPH_MORE_US, HOST_MORE_US], ids=["in_a_graph", "outside"])
@pytest.mark.parametrize("problem", sorted(RECORDED))
def test_what_was_recorded_as_faster_is_taken(problem: tuple[int, int, int], host_more_us: float) -> None:
    """Guard: one sequence kept to the slow path, as all that the host takes was held against it."""
    decode, whole = RECORDED[problem]
    assert decode + HOST_MORE_US < whole
    assert predicts_faster(*recorded_shapes(*problem), 132, host_more_us)


def test_outside_a_graph_the_hosts_time_counts() -> None:
    """It is taken where the kernels differ by more than what it costs the host more."""
    q, k = (1, 32, 1, 128), (1, 8, 4097, 128)
    gain_us = whole_us(q, k, 132) - decode_us(q, k, 132)
    assert gain_us > HOST_MORE_US > 0
    for host_more_us in (HOST_MORE_US, 0.9 * gain_us, 1.1 * gain_us):
        assert predicts_faster(q, k, 132, host_more_us) == (host_more_us < gain_us)


MULTIPROCESSORS = {"H100 SXM": 132, "H200 SXM": 132}
"""All that the rule knows of a GPU."""
QUERIES, KEYS = (1, 4, 17, 64, 128, 1024), (512, 1024, 4097, 16384, 65536)
TAKEN = {
    (1, 64): ("..ddd ..ddd ..ddd ..ddd ..ddd .....", ".dddd .dddd .dddd .dddd ..ddd ....."),
    (1, 128): ("..ddd ..ddd ..ddd ..ddd ..ddd .....", ".dddd .dddd .dddd ..ddd ..ddd ....."),
    (4, 64): ("..ddd ..ddd ..ddd ...dd ..... .....", ".dddd .dddd .dddd ..ddd ..... ....."),
    (4, 128): ("..ddd ..ddd ..ddd ...dd ..... .....", ".dddd ..ddd ..ddd ..ddd ..... ....."),
    (16, 64): (".dddd .dddd .dddd ..ddd ..... .....", "ddddd ddddd ddddd ddddd ..... ....."),
    (16, 128): (".dddd .dddd .dddd ..ddd ..... .....", "ddddd ddddd ddddd ddddd ..... ....."),
    (64, 64): ("ddddd ddddd ddddd ddddd ..... .....", "ddddd ddddd ddddd ddddd ..... ....."),
    (64, 128): ("ddddd ddddd ddddd ddddd ..... .....", "ddddd ddddd ddddd ddddd ..... ....."),
}
"""By batch and head dimension: where a call costs the host 7.2 us more, and in a CUDA graph. A word for each number of
queries."""


def taken(batch: int, dim: int, host_more_us: float, multiprocessors: int) -> list[str]:
    """A word for each number of queries, a letter for each of keys: whether 32:8 heads take the decode path."""
    return [
        "".join(
            "d" if predicts_faster((batch, 32, n, dim), (batch, 8, keys, dim), multiprocessors, host_more_us) else "."
            for keys in KEYS
        )
        for n in QUERIES
    ]


@pytest.mark.parametrize("gpu", MULTIPROCESSORS)
@pytest.mark.parametrize(("batch", "dim"), sorted(TAKEN))
def test_what_would_be_taken(batch: int, dim: int, gpu: str) -> None:
    """The rule on a grid of shapes."""
    outside, in_graph = TAKEN[batch, dim]
    assert taken(batch, dim, 7.2, MULTIPROCESSORS[gpu]) == outside.split()
    assert taken(batch, dim, GRAPH_MORE_US, MULTIPROCESSORS[gpu]) == in_graph.split()


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("batch", [1, 4, 16, 64])
def test_a_slower_host_takes_it_less_often(batch: int, dim: int) -> None:
    before = taken(batch, dim, GRAPH_MORE_US, 132)
    counts = ["".join(before).count("d")]
    for host_more_us in (HOST_MORE_US, 30.0, 100.0, 1e6):
        now = taken(batch, dim, host_more_us, 132)
        assert all(new == "." or old == "d" for old, new in zip("".join(before), "".join(now), strict=True))
        counts.append("".join(now).count("d"))
        before = now
    assert counts[0] > counts[-2] > counts[-1] == 0


class OnGpu:
    """A tensor as the rule sees it: on a GPU, and of a shape."""

    is_cuda, device = True, torch.device("cuda", 0)

    def __init__(self, *shape: int) -> None:
        self.shape = torch.Size(shape)

    def dim(self) -> int:
        return len(self.shape)


ONE, LONG = OnGpu(1, 32, 1, 128), OnGpu(1, 8, 65536, 128)


def asked(q: Any = ONE, k: Any = LONG, causal: bool = False) -> bool:
    return attention_decode.takes(q, k, causal)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """There is a GPU of 132 multiprocessors with a copy engine, which captures nothing."""
    monkeypatch.setattr(attention_decode, "has_copy_engine", lambda device: True)
    monkeypatch.setattr(attention_decode, "key_of", lambda q, k, causal: (q.shape, k.shape, causal))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=132))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return monkeypatch


def test_the_rule_is_asked(hopper: pytest.MonkeyPatch) -> None:
    assert asked()
    assert asked(causal=True)
    assert not asked(q=OnGpu(1, 32, 4096, 128))
    assert not asked(q=OnGpu(1, 32, 1, 128), k=OnGpu(1, 8, 3, 128))
    assert asked(k=OnGpu(1, 8, 4097, 128))
    gain_us = whole_us(ONE.shape, LONG.shape, 132) - decode_us(ONE.shape, LONG.shape, 132)
    for host_more_us in (0.99 * gain_us, 1.01 * gain_us):
        hopper.setattr(attention_decode, "HOST_MORE_US", host_more_us)
        assert asked() == (host_more_us < gain_us)


def test_what_is_wrong_or_elsewhere_keeps_to_the_other_path(hopper: pytest.MonkeyPatch) -> None:
    """Guards: a division by no key heads; a head dim that no kernel has; rows that a plan cannot number, and that the
    other kernel takes."""
    assert not asked(k=OnGpu(1, 0, 65536, 128))
    assert not asked(q=OnGpu(1, 32, 1, 96), k=OnGpu(1, 8, 65536, 96))
    assert not asked(k=OnGpu(1, 8, 65536))
    many = OnGpu(1, 70000, 1, 64)
    assert predicts_faster(many.shape, (1, 1, 65536, 64), 132, HOST_MORE_US)
    assert not asked(q=many, k=OnGpu(1, 1, 65536, 64))
    hopper.setattr(attention_decode, "has_copy_engine", lambda device: False)
    assert not asked()


def test_in_a_capture_a_plan_has_to_be_there(hopper: pytest.MonkeyPatch) -> None:
    """And there the host's time does not count."""
    short = OnGpu(1, 8, 4097, 128)
    hopper.setattr(attention_decode, "HOST_MORE_US", 1000.0)
    assert not asked(k=short)
    hopper.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not asked(k=short)
    hopper.setitem(attention_decode._plans, (ONE.shape, short.shape, False), (None, None, None))
    assert asked(k=short)


def test_a_capture_takes_the_plan_of_any_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `torch.cuda.graph` captures a stream of its own, where no call before had planned."""
    q, k, *_ = operands((1, 2, 1, 1, 70), 64, "cpu")
    kept = attention_decode.new_plan(q, k, False)
    kept.counters = kept.plan.words.new_zeros((2, len(kept.plan.words)))  # as on a GPU
    capturing = False
    monkeypatch.setattr(attention_decode, "_plans", OrderedDict())
    monkeypatch.setattr(attention_decode, "_captured", {})
    monkeypatch.setattr(attention_decode, "_planned_aside", lambda q, k, causal: kept)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    query: Any = OnGpu(*q.shape)
    eager, graph = ((*attention_decode.key_of(q, k, False)[:-2], stream, 1) for stream in (0, 77))
    assert attention_decode._plan(eager, query, query, False) == (kept, kept.plan.words)
    capturing = True
    plan, words = attention_decode._plan(graph, query, query, False)
    assert plan is kept
    assert words.data_ptr() == kept.counters[0].data_ptr()
    attention_decode._plans.clear()
    assert attention_decode._plan(graph, query, query, False)[0] is kept  # for as long as the graph may be replayed
    longer = (torch.Size((1, 2, 2, 64)), *graph[1:])
    with pytest.raises(RuntimeError, match="call it once before the capture"):
        attention_decode._plan(longer, query, query, False)
    capturing = False
    own = attention_decode.new_plan(q, k, False)
    monkeypatch.setattr(attention_decode, "_planned_aside", lambda q, k, causal: own)
    assert attention_decode._plan(graph, query, query, False)[0] is own  # a stream's launches share its counters


def test_launches_in_graphs_have_counters_of_their_own() -> None:
    """Guard: two graphs captured on one stream shared them, and disturbed each other where both were replayed."""
    q, k, *_ = operands((1, 2, 1, 1, 70), 64, "cpu")
    kept = attention_decode.new_plan(q, k, False)
    kept.counters = kept.plan.words.new_zeros((2, len(kept.plan.words)))  # as on a GPU
    assert kept.words(capturing=False) is kept.words(capturing=False) is kept.plan.words
    given = [kept.words(capturing=True) for _ in range(4)]
    places = {words.data_ptr() for words in given}
    assert len(places | {kept.plan.words.data_ptr()}) == 5
    assert all(words.shape == kept.plan.words.shape and not words.any() for words in given)


def test_a_default_device_is_not_the_hosts() -> None:
    """Guard: a plan's own tensors, which the host fills, came to lie on the default device."""
    q, k, v, _ = operands((1, 8, 2, 1, 301), 64, "cpu")
    with torch.device("meta"):
        out = tk.attention(q, k, v, path="decode")
    assert torch.equal(out, tk.attention(q, k, v, path="decode"))


def test_a_gpus_plan_is_made_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: the calling thread may allocate from a CUDA graph's pool, from which nothing may be kept."""
    made: list[tuple[int, str]] = []
    given: list[str] = []

    def new_plan(q: Any, k: Any, causal: bool) -> str:
        if causal:
            raise ValueError("path: refused")
        made.append((threading.get_ident(), given[-1]))
        return "a plan"

    monkeypatch.setattr(attention_decode, "new_plan", new_plan)
    waited: list[str] = []
    stream = SimpleNamespace(synchronize=lambda: waited.append(made[-1][1]))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(
        torch.cuda,
        "stream",
        lambda one: contextlib.nullcontext(given.append("its own" if one is stream else "another")),
    )
    query: Any = ONE
    assert attention_decode._planned_aside(query, query, causal=False) == "a plan"
    [(thread, where)] = made
    assert thread != threading.get_ident()
    assert where == "its own"
    assert waited == ["its own"]
    with pytest.raises(ValueError, match="path: refused"):
        attention_decode._planned_aside(query, query, causal=True)


@pytest.mark.gpu
def test_nothing_is_kept_from_the_pool_of_a_graph() -> None:
    q, k, v, _ = operands((1, 8, 2, 1, 3003), 64, "cuda")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        out = tk.attention(q, k, v, path="decode")
    assert any(one["active_size"] for one in pool.snapshot())  # of the result
    assert torch.equal(out, tk.attention(q, k, v, path="decode"))
    del out
    assert not any(one["active_size"] for one in pool.snapshot())


def test_on_a_cpu_nothing_takes_it_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """There kernels are emulated, and it would change nothing."""
    monkeypatch.setattr(attention_decode, "has_copy_engine", lambda device: True)
    monkeypatch.setattr(attention_decode, "predicts_faster", lambda *a: pytest.fail("asked"))
    monkeypatch.setattr(attention_decode, "launch", lambda *a: pytest.fail("taken"))
    q, k, v, _ = operands((1, 8, 2, 1, 300), 64, "cpu")
    tk.attention(q, k, v)


def test_too_many_rows_are_refused() -> None:
    q = torch.zeros(1, 2, 40000, 64, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="^path: got 40000 queries of 2 heads, 'decode' takes 65536 of each"):
        tk.attention(q, q[:, :, :4], q[:, :, :4], path="decode")


def test_the_variant() -> None:
    variant = Attention(path="decode")
    assert variant.folder("sm_90a") == "paged_attention_decode"
    assert variant.folder("sm_90a", "bwd") == "attention"
    assert Attention(path="whole").folder("sm_90a") == "attention"
    with pytest.raises(ValueError, match="path: got 'paged', needs one of whole, decode"):
        Attention(path="paged")


def test_the_build_that_is_stored_is_of_the_kernel_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: a row of a call that takes this path unasked would have had the other kernel's machine code."""
    monkeypatch.setattr(attention_decode, "takes", lambda q, k, causal: True)
    q, k, v, _ = operands((1, 2, 1, 1, 70), 64, "cpu")
    problem, inputs = SimpleNamespace(direction="fwd", causal=False), {"q": q, "k": k, "v": v}
    for options, name in (
        ({}, "paged_attention_decode"),
        ({"path": "decode"}, "paged_attention_decode"),
        ({"path": "whole"}, "attention"),
        ({"order": "row_major"}, "attention"),
    ):
        variant = Attention(**options)
        variant.prepare(problem, inputs)
        assert (variant.folder("cpu"), variant.folder("cpu", "bwd")) == (name, "attention")


def test_its_plan_can_be_timed() -> None:
    """As `prepare` leaves it to the first call; of the other path there is none."""
    q, k, v, _ = operands((2, 4, 2, 3, 70), 64, "cpu")
    forward, backward = (SimpleNamespace(direction=way, causal=True) for way in ("fwd", "bwd"))
    inputs = {"q": q, "k": k, "v": v}
    plan = Attention(path="decode").planning(forward, inputs)
    assert plan is not None
    made, again = plan().plan, plan().plan
    assert made is not again
    assert (made.lengths, made.new_tokens, made.heads) == ((70, 70), 3, 4)
    assert Attention(path="decode").planning(backward, inputs) is None
    assert Attention().planning(forward, inputs) is None


@pytest.mark.gpu
def test_a_graph_needs_a_plan_that_is_there() -> None:
    q, k, v, _ = operands((1, 8, 2, 1, 3001), 64, "cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="call it once before the capture"), torch.cuda.graph(graph):
        tk.attention(q, k, v, path="decode")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        wanted = tk.attention(q, k, v, path="decode")
    for where in (stream, None):  # None: a stream that the capture brings along
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=where):
            out = tk.attention(q, k, v, path="decode")
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, wanted)


@pytest.mark.gpu
def test_graphs_captured_on_one_stream_can_be_replayed_at_once() -> None:
    q, k, v, _ = operands((1, 8, 2, 1, 3001), 64, "cuda")
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    graphs, outs = [torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()], []
    with torch.cuda.stream(streams[0]):
        wanted = tk.attention(q, k, v, path="decode")
    for graph in graphs:
        with torch.cuda.graph(graph, stream=streams[0]):
            outs.append(tk.attention(q, k, v, path="decode"))
    for _ in range(50):
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(out, wanted) for out in outs)
