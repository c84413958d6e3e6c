"""Which path `tk.attention` takes: the cost model of both, beside what was recorded, and when it is asked at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attentions import OnGpu, operands

import tk_kernels as tk
from tk_kernels.kernels.attention import by_decode as attention_decode
from tk_kernels.kernels.attention.by_decode import (
    CPU,
    GRAPH_MORE_US,
    HOST_MORE_US,
    decode_us,
    predicts_faster,
    whole_us,
)
from tk_kernels.ops.library import compiled

PARTIAL_US = 4e-4  # as in choice.h


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


ONE, LONG = OnGpu(1, 32, 1, 128), OnGpu(1, 8, 65536, 128)


def asked(q: Any = ONE, k: Any = LONG, causal: bool = False) -> bool:
    return attention_decode.takes(q, k, causal)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """There is a GPU of 132 multiprocessors with a copy engine, which captures nothing."""
    monkeypatch.setattr(attention_decode, "has_copy_engine", lambda device: True)
    monkeypatch.setattr(attention_decode, "compiled", lambda kernel, device, name: compiled(kernel, CPU, name))
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


def test_what_is_too_much_or_elsewhere_keeps_to_the_other_path(hopper: pytest.MonkeyPatch) -> None:
    """Guard: rows that a plan cannot number, and that the other kernel takes."""
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


def test_on_a_cpu_nothing_takes_it_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """There kernels are emulated, and it would change nothing."""
    monkeypatch.setattr(attention_decode, "has_copy_engine", lambda device: True)
    monkeypatch.setattr(attention_decode, "predicts_faster", lambda *a: pytest.fail("asked"))
    monkeypatch.setattr(attention_decode, "launch", lambda *a: pytest.fail("taken"))
    q, k, v, _ = operands((1, 8, 2, 1, 300), 64, "cpu")
    tk.attention(q, k, v)
