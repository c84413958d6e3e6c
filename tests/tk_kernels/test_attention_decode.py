"""tk.attention with path="decode": the same numbers as the formulas, whatever the layout, and its plans."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attentions import OnGpu, assert_good, attend, operands

import tk_kernels as tk
from tk_kernels.implementations.attention import Attention
from tk_kernels.kernels.attention import by_decode as attention_decode
from tk_kernels.ops import operands as ops_operands


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
    torch.library.opcheck(operator, (q, k, v, True, None, False, None, [-1, -1, -1, 1]))
    call = torch.compile(lambda *t: tk.attention(*t, path="decode"), backend="eager", fullgraph=True)
    assert torch.equal(call(q, k, v), tk.attention(q, k, v, path="decode"))


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
    query: Any = OnGpu(1, 32, 1, 128)
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


def test_too_many_rows_are_refused() -> None:
    q = torch.zeros(1, 2, 40000, 64, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="^path: got 40000 queries of 2 heads, 'decode' takes 65536 of each"):
        tk.attention(q, q[:, :, :4], q[:, :, :4], path="decode")


def test_the_variant() -> None:
    variant = Attention(path="decode")
    assert variant.unit("sm_90a") == "paged_attention_decode"
    assert variant.unit("sm_90a", "bwd") == "attention"
    assert Attention(path="whole").unit("sm_90a") == "attention"
    with pytest.raises(ValueError, match="path: got 'paged', needs one of whole, decode"):
        Attention(path="paged")


def test_the_build_that_is_stored_is_of_the_kernel_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: a row of a call that takes this path unasked would have had the other kernel's machine code."""
    monkeypatch.setattr(attention_decode, "takes", lambda q, k, causal: True)
    q, k, v, _ = operands((1, 2, 1, 1, 70), 64, "cpu")
    problem, inputs = SimpleNamespace(direction="fwd", causal=False, window=0), {"q": q, "k": k, "v": v}
    for options, name in (
        ({}, "paged_attention_decode"),
        ({"path": "decode"}, "paged_attention_decode"),
        ({"path": "whole"}, "attention"),
        ({"order": "row_major"}, "attention"),
    ):
        variant = Attention(**options)
        variant.prepare(problem, inputs)
        assert (variant.unit("cpu"), variant.unit("cpu", "bwd")) == (name, "attention")


def test_its_plan_can_be_timed() -> None:
    """As `prepare` leaves it to the first call; of the other path there is none."""
    q, k, v, _ = operands((2, 4, 2, 3, 70), 64, "cpu")
    forward, backward = (SimpleNamespace(direction=way, causal=True, window=0) for way in ("fwd", "bwd"))
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
