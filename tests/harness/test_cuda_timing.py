"""The CUDA stopwatch against a model of a stream: what is enqueued when, and what if the host is late."""

import random
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from harness.devices import cuda_clock as cuda
from harness.devices.rounds import Sample
from harness.devices.visits import Visit, Written


class Stream:
    """A GPU that runs what is enqueued in order, and a host whose calls take time."""

    def __init__(self, host_us):
        self.host_us = host_us
        self.event_us = 0.0  # of the host, for an event
        self.host = 0.0  # us at which the host is
        self.device = 0.0  # us at which the device has done what was enqueued
        self.log = []

    def enqueue(self, name, microseconds):
        self.log.append(name)
        self.device = max(self.device, self.host) + microseconds

    def call(self, kernel_us=50.0):
        self.host += self.host_us
        self.enqueue("kernel", kernel_us)
        return "output"


@pytest.fixture
def stream(monkeypatch):
    made = Stream(host_us=10.0)

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            self.at = 0.0

        def record(self, stream):
            assert stream == "the stream"
            made.host += made.event_us
            made.enqueue("event", 0.0)
            self.at = made.device

        def query(self):
            return self.at <= made.host

        def synchronize(self):
            made.host = max(made.host, self.at)

        def elapsed_time(self, other):
            return (other.at - self.at) / 1e3

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "the stream")
    monkeypatch.setattr(cuda.random, "uniform", lambda low, high: low)  # the spin's shortest
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: setattr(made, "host", max(made.host, made.device)))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: made.enqueue("spin", cycles / 1980.0))
    monkeypatch.setattr(cuda.time, "perf_counter", lambda: made.host * 1e-6)
    return made


def stopwatch(stream):
    return cuda.EventStopwatch(lambda: stream.enqueue("flush", 5.0), cycles_per_us=1980.0)


def test_one_sample_is_flush_spin_event_call_event(stream):
    sample = stopwatch(stream).sample(stream.call, lambda: stream.log.append("read"))
    assert stream.log == ["flush", "spin", "event", "kernel", "event", "read"]
    assert sample.latency_us == pytest.approx(50.0)
    assert sample.output == "output"
    assert sample.in_time


def test_an_audited_sample_is_one_like_others(stream):
    """Guard: the same entries in the same order, with inputs written around the flush and the spin."""

    class Writes(Visit):
        def before(self):
            stream.log.append("NaN")

        def ahead(self):
            stream.log.append("inputs")

        def behind(self, output):
            stream.log.append(f"copy of {output}")

    stopwatch(stream).sample(stream.call, lambda: stream.log.append("read"), Writes())
    assert stream.log == ["NaN", "flush", "spin", "inputs", "event", "kernel", "event", "copy of output", "read"]


def test_nobody_knows_how_long_the_spin_is(stream, monkeypatch):
    """Guard: who starts on another stream while it lasts cannot time that to end with it."""
    lengths = []
    monkeypatch.setattr(cuda.random, "uniform", random.Random().uniform)
    watch = stopwatch(stream)
    monkeypatch.setattr(watch, "_once", lambda call, spin_us, *rest: lengths.append(spin_us) or Sample(1.0, None))
    call = stream.call
    for _ in range(20):
        watch.sample(call, lambda: None)
    assert len(set(lengths)) == 20
    assert cuda.FIRST_SPIN_US <= lengths.pop(0) <= cuda.SPIN_FACTOR * cuda.FIRST_SPIN_US
    assert cuda.SHORTEST_SPIN_US <= min(lengths) < max(lengths) <= cuda.SPIN_FACTOR * cuda.SHORTEST_SPIN_US


@pytest.mark.parametrize(("host_us", "first"), [(10.0, 1), (900.0, 1), (4000.0, 2)])
def test_a_slow_host_lengthens_the_spin_until_launches_are_hidden(stream, host_us, first):
    """Guard: `FIRST_SPIN_US`, behind which most hosts are in time at once. A long call is run twice otherwise."""
    stream.host_us = host_us
    watch, call = stopwatch(stream), stream.call
    sample = watch.sample(call, lambda: None)
    assert sample.in_time
    assert sample.latency_us == pytest.approx(50.0)  # not what the host took
    assert stream.log.count("kernel") == first, "1 ms, then as long as the call has been seen to need"
    for _ in range(50):
        assert watch.sample(call, lambda: None).in_time
    assert stream.log.count("kernel") == first + 50, "remembered, and not forgotten below what it needs"


@pytest.mark.parametrize(
    ("host_us", "kernel_us", "spins"), [(10.0, 50.0, 60.0), (400.0, 50.0, 1060.0), (10.0, 5e3, 1e3)]
)
def test_the_first_spin_of_a_short_call_is_that_of_the_same_code_on_other_inputs(stream, host_us, kernel_us, spins):
    """Guard: twice the spin that the other call needs, unless a repetition would cost more than the first spin."""
    lengths = []
    stream.host_us = host_us
    watch = stopwatch(stream)
    once = watch._once
    watch._once = lambda call, spin_us, *rest: lengths.append(spin_us) or once(call, spin_us, *rest)
    for call in [lambda number=number: stream.call(kernel_us) for number in range(2)]:
        assert watch.sample(call, lambda: None).in_time
    assert lengths == [cuda.FIRST_SPIN_US, pytest.approx(spins)]


def test_what_is_thrown_away_is_accounted_for(stream):
    """Guard: `late_us` is the time of the attempts before the one that counts."""
    watch, call = stopwatch(stream), stream.call
    assert watch.sample(call, lambda: None).late_us == 0.0
    stream.host_us = 300.0
    before = stream.host
    sample = watch.sample(call, lambda: None)
    assert sample.in_time
    assert stream.log.count("kernel") == 3
    whole = stream.host - before
    assert 300.0 < sample.late_us < whole - 300.0


def test_the_first_spin_is_not_remembered(stream):
    """Guard: the second spin is what the call needs. Forgotten slowly, the first would be in a hundred samples."""
    watch = stopwatch(stream)
    watch.sample(stream.call, lambda: None)
    assert list(watch._spin_us.values()) == [cuda.SHORTEST_SPIN_US]


def test_the_spin_outlasts_the_events_too(stream):
    """Guard: a margin, without which every few samples would be thrown away."""
    stream.host_us, stream.event_us = 25.0, 5.0
    watch, call = stopwatch(stream), stream.call
    for _ in range(100):
        assert watch.sample(call, lambda: None).in_time
    assert stream.log.count("kernel") == 100


def test_a_host_that_is_late_outside_the_call_gets_its_spin_too(stream):
    """Guard: each repetition spins twice as long, whatever the call took."""
    stream.host_us, stream.event_us = 1.0, 400.0

    def call():
        assert stream.log.count("kernel") < 20, "repeated without an end"
        return stream.call()

    assert stopwatch(stream).sample(call, lambda: None).in_time


def test_no_spin_is_longer_than_the_longest(stream):
    stream.host_us = 19_000.0
    watch, call = stopwatch(stream), stream.call
    for _ in range(5):
        watch.sample(call, lambda: None)
    assert max(watch._spin_us.values()) <= cuda.LONGEST_SPIN_US


def test_what_a_call_costs_its_caller(stream):
    """Guard: the account of a run has a call's own time in it, and none of the spin that a call may wait for."""
    watch = stopwatch(stream)
    stream.host_us = 20.0
    assert watch.sample(stream.call, lambda: None).own_us == pytest.approx(50.0), "its kernel's"
    stream.host_us = 400.0
    sample = watch.sample(stream.call, lambda: None)
    assert sample.latency_us == pytest.approx(50.0)
    assert sample.own_us == pytest.approx(400.0), "its launches'"
    late = Sample(70.0, None, in_time=False, host_us=20_000.0)
    assert late.own_us == 70.0


def test_a_hiccup_of_the_host_is_forgotten(stream):
    watch, call = stopwatch(stream), stream.call
    stream.host_us = 3000.0
    watch.sample(call, lambda: None)
    stream.host_us = 10.0
    for _ in range(30):
        watch.sample(call, lambda: None)
    assert next(iter(watch._spin_us.values())) == cuda.SHORTEST_SPIN_US


def test_a_call_that_waits_for_the_device_is_kept_and_said_to_be_late(stream):
    def waits():
        stream.host = max(stream.host, stream.device) + 30.0
        return stream.call()

    sample = stopwatch(stream).sample(waits, lambda: None)
    assert not sample.in_time
    assert sample.latency_us >= 50.0


def test_calls_have_spins_of_their_own(stream):
    watch = stopwatch(stream)
    quick = stream.call

    def slow():
        stream.host += 500.0
        return stream.call()

    watch.sample(slow, lambda: None)
    stream.log.clear()
    watch.sample(quick, lambda: None)
    assert stream.log.count("kernel") == 1
    assert sorted(watch._spin_us.values())[0] == cuda.SHORTEST_SPIN_US


class Ahead(Visit):
    def __init__(self, ahead):
        self.ahead = ahead


def test_an_observed_sample_is_once_and_held_for_as_long_as_told(stream):
    """Guard: what is ahead of the clock is behind the spin."""
    watch = stopwatch(stream)
    sample = watch.observed(stream.call, Ahead(lambda: stream.enqueue("inputs", 7.0)), hold_us=500.0)
    assert stream.log == ["flush", "spin", "inputs", "event", "kernel", "event"]
    assert sample.latency_us == pytest.approx(50.0)
    assert sample.host_us == pytest.approx(10.0)
    assert sample.in_time
    assert stream.host > 500.0, "the stream was held"
    stream.host_us = 4000.0
    assert not watch.observed(stream.call, Visit(), hold_us=500.0).in_time, "not repeated, and said"
    assert watch.observed(stream.call, Visit(), hold_us=8000.0).in_time
    assert watch.observed(stream.call, Visit(), hold_us=1e9).in_time
    assert stream.host < 1e6, "held for so long at most"


def test_an_audits_outputs_are_copied_and_gone():
    """Guards: inputs are NaN until the clock starts, outputs copied behind it, and what others find of them is NaN."""
    buffer, kept, output = torch.ones(3), torch.ones(3), torch.full((3,), 2.0)
    visit = Written({"a": buffer, "b": kept}, {"a": torch.full((3,), 5.0)})
    visit.before()
    assert bool(buffer.isnan().all())
    visit.ahead()
    assert buffer.tolist() == [5.0] * 3
    assert kept.tolist() == [1.0] * 3, "what is not written again stays: a backward pass reads it"
    visit.behind(output)
    assert visit.held[0].tolist() == [2.0] * 3
    assert bool(output.isnan().all())


def test_an_observed_sample_is_held_as_long_as_those_of_the_rounds(stream):
    """Guard: work that a spin of the rounds hides, on another stream, is over before the inputs come here, too."""
    watch, call = stopwatch(stream), stream.call
    stream.host_us = 3000.0
    assert watch.sample(call, lambda: None).in_time
    held = []
    began = stream.host
    watch.observed(call, Ahead(lambda: held.append(stream.device - began)), hold_us=100.0)
    assert held[0] >= cuda.SPIN_FACTOR * 3000.0


def test_a_call_that_changes_the_current_stream_fails_and_the_stream_is_put_back(stream, monkeypatch):
    """Guard: events on one stream do not time work on another."""
    current = ["the stream"]
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "set_stream", current.append)

    def changes():
        current.append("another")
        return stream.call()

    with pytest.raises(RuntimeError, match="the call changed the current stream"):
        stopwatch(stream).sample(changes, lambda: None)
    assert current[-1] == "the stream"


@pytest.mark.parametrize(("left_behind", "busy"), [(14, True), (9, True), (5, False)])
def test_how_long_the_device_is_busy_after_a_call(stream, left_behind, busy):
    """Guard: the median of the looks at the whole device; a call that leaves nothing behind now and then is no excuse,
    a hiccup of the host no fault."""
    calls = []

    def call():
        calls.append(1)
        stream.device = stream.host + (2000.0 if len(calls) % 15 < left_behind else 20.0)  # on whichever stream
        stream.host += 10.0

    assert (stopwatch(stream).idle_after_us(call, enough_us=1000.0) > 1000.0) == busy
    assert len(calls) <= 15


def test_what_is_left_behind_is_seen_in_each_sample(stream):
    """Guard: a look at the whole device when the clock has stopped."""
    watch = stopwatch(stream)
    assert watch.sample(stream.call, lambda: None).busy_us == 0.0
    watch = stopwatch(stream)
    left = watch.sample(stream.call, lambda: stream.enqueue("elsewhere", 300.0))
    assert left.busy_us == pytest.approx(300.0)


@pytest.mark.parametrize(("factor", "said"), [(1.0, ""), (0.5, "the clock was touched")])
def test_the_clock_is_checked_by_a_wait_that_is_known(stream, monkeypatch, factor, said):
    """Guard: events that say less than the host sees and the wait is long."""
    real = torch.cuda.Event.elapsed_time
    monkeypatch.setattr(torch.cuda.Event, "elapsed_time", lambda self, other: factor * real(self, other))
    assert said in stopwatch(stream).complain()
    assert bool(stopwatch(stream).complain()) is bool(said)


@pytest.mark.gpu
def test_events_and_graphs_agree_on_the_gpu():
    a = torch.randn(4096, 4096, device="cuda").bfloat16()
    medians = {}
    for kind in ("cuda_events", "cuda_graph"):
        watch = cuda.make_stopwatch(kind, flush_l2=True, l2_bytes=60 * 2**20, sm_clock_max_mhz=1980.0)
        call = watch.wrap(lambda: a @ a)
        samples = [watch.sample(call, lambda: None) for _ in range(30)]
        assert all(sample.in_time for sample in samples[5:])
        medians[kind] = sorted(sample.latency_us for sample in samples)[15]
        torch.testing.assert_close(samples[-1].output, a @ a)
    assert medians["cuda_events"] == pytest.approx(medians["cuda_graph"], rel=0.1)
    assert 100 < medians["cuda_events"] < 2000


def test_a_graph_is_captured_on_the_stream_of_its_first_calls(stream, monkeypatch):
    """Guard: `tk.attention(path="decode")` keeps a plan by stream, and none was there on the stream of the capture."""
    current, seen = ["first"], []

    class Side:
        def wait_stream(self, other):
            pass

    @contextmanager
    def on(stream):
        before, current[0] = current[0], stream
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "Stream", Side)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", Side)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: seen.append("replay")))
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, pool=None, stream=None: on(stream))
    watch = cuda.GraphStopwatch(lambda: None, cycles_per_us=1.0)
    replay = watch.wrap(lambda: seen.append(current[0]) or "output")
    assert len(set(seen)) == 1
    assert isinstance(seen[0], Side)
    assert replay() == "output"
    assert seen[-1] == "replay"


@pytest.mark.gpu
def test_a_clean_flush_leaves_nothing_to_be_written_back():
    """Reading a part of the L2's size: behind the plain flush the same bytes are written, too."""
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    data, out = torch.zeros(l2_bytes // 8, device="cuda"), torch.empty((), device="cuda")
    medians = {}
    for kind in ("cuda_events", "cuda_events_clean"):
        watch = cuda.make_stopwatch(kind, flush_l2=True, l2_bytes=l2_bytes, sm_clock_max_mhz=1980.0)
        call = watch.wrap(lambda: torch.sum(data, dim=0, out=out))
        medians[kind] = sorted(watch.sample(call, lambda: None).latency_us for _ in range(31))[15]
    assert medians["cuda_events_clean"] < 0.95 * medians["cuda_events"]
