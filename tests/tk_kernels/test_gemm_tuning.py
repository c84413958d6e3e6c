"""`tune`: which kernel is taken for recorded times, and what is kept of it."""

from __future__ import annotations

import json
import logging
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import tk_kernels as tk
from tk_kernels.implementations import Gemm
from tk_kernels.kernels.gemm import tuning
from tk_kernels.kernels.gemm.options import AUTOMATIC, TUNED, encode_options

SHAPE = (140, 264, 600)


class Clock:
    """The times that calls get, by their places; counts how often it is asked."""

    def __init__(self) -> None:
        self.times, self.asked = {0: 10.0, 3: 9.0, 7: 9.5}, 0

    def __call__(self, calls: Sequence[Callable[[], Any]], flush: torch.Tensor) -> dict[int, float]:
        self.asked += 1
        for at in self.times:
            calls[at]()
        return self.times


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Clock]:
    """The CPU taken for a GPU on which these times are measured; choices are kept in a folder of the test's own."""
    recorded = Clock()
    monkeypatch.setattr(tuning, "timed", recorded)
    monkeypatch.setattr(tuning, "gpu_name", lambda device: "NVIDIA Fake")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(tuning, "_chosen", {})
    monkeypatch.setattr(tuning, "place", lambda key: tmp_path / "tuned" / f"{abs(hash(key))}.json")
    return recorded


def operands(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    M, N, K = shape
    torch.manual_seed(0)
    return torch.randn(M, K).to(torch.bfloat16), torch.randn(K, N).to(torch.bfloat16)


def is_right(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> bool:
    exact = a.double() @ b.double()
    return float((out.double() - exact).norm() / exact.norm()) < 4e-3


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "tuned").iterdir())


def chosen() -> Any:
    (kept,) = tuning._chosen.values()
    return kept["options"]


@pytest.mark.parametrize(
    ("times", "fastest"),
    [({0: 10.0, 3: 9.0, 7: 9.5}, 3), ({0: 10.0, 3: 9.5, 7: 9.4}, 7), ({0: 10.0, 3: 9.95}, 0), ({0: 1.0, 3: 2.0}, 0)],
)
def test_the_fastest_is_taken_unless_the_choice_by_shape_is_as_fast(
    clock: Clock, times: dict[int, float], fastest: int
) -> None:
    clock.times = times
    a, b = operands(*SHAPE)
    assert is_right(tk.gemm(a, b, tune=True), a, b)
    names = tuning.listed(lambda: tk.gemm(a, b, tile="1x1"))
    assert chosen() == encode_options(**[{}, *tuning.forced(*SHAPE, names)][fastest])


def test_a_choice_is_timed_once_and_kept(clock: Clock, tmp_path: Path) -> None:
    a, b = operands(*SHAPE)
    first = tk.gemm(a, b, tune=True)
    (path,) = files(tmp_path)
    kept = json.loads(path.read_text())
    assert kept["options"] == list(chosen())
    assert "NVIDIA Fake" in kept["key"]
    assert len(kept["us"]) == 3
    assert torch.equal(tk.gemm(a, b, out=torch.empty_like(first), tune=True), first)
    tuning._chosen.clear()  # another process
    assert torch.equal(tk.gemm(a, b, tune=True), first)
    assert clock.asked == 1


def test_a_harness_is_told_of_the_choice(clock: Clock) -> None:
    a, b = operands(*SHAPE)
    problem = types.SimpleNamespace(options={}, direction="fwd")
    made = Gemm(tune=1)
    assert made.tuning() == ()
    made.prepare(problem, {"a": a, "b": b})
    (told,) = made.tuning()
    assert told["chosen"] == told["space"][1]
    assert told["space"][0] == "by shape"
    assert (told["tunings"], len(told["space"])) == (3, 3)
    assert told["seconds"] >= 0


def test_each_time_is_the_best_of_three_tunings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `TUNINGS`. The second call is screened as the faster of two, and unlucky in two tunings of three."""
    rounds = iter([[3.0, 2.0, 2.5], [3.0, 2.9, 2.6], [3.0, 1.9, 2.6], [3.1, 2.9, 2.7]])
    monkeypatch.setattr(tuning, "rounds", lambda calls, count, flush: next(rounds))
    assert tuning.timed([lambda: None] * 3, torch.empty(1)) == {0: 3.0, 1: 1.9, 2: 2.6}


def test_other_problems_gpus_and_sources_have_choices_of_their_own(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = operands(*SHAPE)
    e4m3 = a[:, :592].to(torch.float8_e4m3fn), b[:592].t().contiguous().to(torch.float8_e4m3fn).t()
    clock.times = {0: 2.0, 1: 1.0}
    calls: list[Callable[[], torch.Tensor]] = [
        lambda: tk.gemm(a, b, tune=True),
        lambda: tk.gemm(a[:100], b, tune=True),
        lambda: tk.gemm(a, b.t().contiguous().t(), tune=True),
        lambda: tk.gemm(a, b, bias=b[0], tune=True),
        lambda: tk.gemm(a, b, activation="gelu", tune=True),
        lambda: tk.gemm_fp8(*e4m3, tune=True),
        lambda: tk.gemm_fp8(*e4m3, fast_accum=False, tune=True),
    ]
    for count, call in enumerate(calls, start=1):
        call()
        call()
        assert clock.asked == len(files(tmp_path)) == count
    for name, value in (("gpu_name", "NVIDIA Other"), ("sources", "0123")):
        tuning._chosen.clear()
        monkeypatch.setattr(tuning, name, lambda *_, value=value: value)
        calls[0]()
    assert clock.asked == len(files(tmp_path)) == len(calls) + 2


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"key": ',
        "[]",
        '{"key": "another problem", "options": [0, -1, -1, 0, 0, 0, 0, 0, 0]}',
        '{"key": KEY, "options": [1]}',
        '{"key": KEY, "options": [0, -1, -1, 0, 0, 0, 0, 0, 0], "us": {}}',
        '{"key": KEY, "options": "nine chars"}',
        '{"key": KEY, "options": [0, -1, -1, 0, 0, 0, 0, 0, true]}',
    ],
)
def test_a_file_that_is_no_choice_is_named_and_replaced(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    a, b = operands(*SHAPE)
    tk.gemm(a, b, tune=True)
    (path,) = files(tmp_path)
    good = path.read_text()
    path.write_text(content.replace("KEY", json.dumps(json.loads(good)["key"])))
    tuning._chosen.clear()
    with caplog.at_level(logging.WARNING, "tk_kernels"):
        tk.gemm(a, b, tune=True)
    assert f"{path}: is no choice of a kernel" in caplog.text
    assert {**json.loads(path.read_text()), "seconds": 0.0} == {**json.loads(good), "seconds": 0.0}
    assert clock.asked == 2


def test_writers_at_once_leave_one_whole_choice(clock: Clock, tmp_path: Path) -> None:
    tuning.keep("key", AUTOMATIC, {}, 0.0)
    seen = []

    def write_and_read(split: int) -> None:
        for _ in range(50):
            tuning.keep("key", encode_options(split=split), {"us": 1.0}, 0.0)
            seen.append((tuning.kept("key") or {})["options"])

    writers = [threading.Thread(target=write_and_read, args=(split,)) for split in range(1, 9)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert set(seen) <= {encode_options(split=split) for split in range(1, 9)}
    assert len(seen) == 400
    assert len(files(tmp_path)) == 1


def test_a_cache_that_cannot_be_written_costs_a_warning(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tuned").write_text("a file where the folder should be")
    a, b = operands(*SHAPE)
    assert is_right(tk.gemm(a, b, tune=True), a, b)
    assert "cannot be written" in caplog.text
    assert chosen() != AUTOMATIC


def test_a_graph_that_is_being_captured_refuses_to_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    a, b = operands(*SHAPE)
    with pytest.raises(RuntimeError, match="tune: this problem was never timed"):
        tk.gemm(a, b, tune=True)


def test_on_a_cpu_the_shape_chooses() -> None:
    a, b = operands(1, 64, 64)
    assert torch.equal(tk.gemm(a, b, tune=True), tk.gemm(a, b))


def test_tune_takes_no_other_option() -> None:
    assert encode_options(tune=True) == TUNED
    assert encode_options(tune=False, split=2) == encode_options(split=2)
    with pytest.raises(ValueError, match="tune: chooses what split would force; give one of them"):
        encode_options(tune=True, split=2, tile=None)
    with pytest.raises(ValueError, match="tune: got 2, needs True or False"):
        encode_options(tune=2)  # type: ignore[typeddict-item]


@pytest.mark.parametrize("shape", [(3, 264, 608), (140, 264, 608)], ids=str)
def test_what_is_timed_is_built_and_right(shape: tuple[int, int, int]) -> None:
    a, b = operands(*shape)
    e4m3 = a.to(torch.float8_e4m3fn), b.t().contiguous().to(torch.float8_e4m3fn).t()
    calls: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
        "plain": (lambda **options: tk.gemm(a, b, **options), (a, b)),
        "epilogue": (lambda **options: tk.gemm(a, b, bias=torch.zeros_like(b[0]), **options), (a, b)),
        "fp8": (lambda **options: tk.gemm_fp8(*e4m3, **options), e4m3),
        "fp8 exact": (lambda **options: tk.gemm_fp8(*e4m3, fast_accum=False, **options), e4m3),
    }
    for name, (call, given) in calls.items():
        forced = list(tuning.forced(*shape, tuning.listed(lambda call=call: call(tile="1x1"))))
        assert len(forced) >= {"plain": 11, "epilogue": 1, "fp8": 4, "fp8 exact": 0}[name], name
        for options in forced:
            assert is_right(call(**options), *given), (name, options)


@pytest.mark.gpu
def test_on_a_gpu_what_is_chosen_is_right_and_fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TK_KERNELS_CACHE", str(tmp_path))
    monkeypatch.setattr(tuning, "_chosen", {})
    a, b = (one.cuda() for one in operands(96, 3584, 4096))
    for _ in range(2):
        assert is_right(tk.gemm(a, b, tune=True), a, b)
    times = json.loads(next((tmp_path / "tuned").iterdir()).read_text())["us"]
    assert min(times.values()) <= times["by shape"] == next(iter(times.values()))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = tk.gemm(a, b, tune=True)
    graph.replay()
    assert is_right(out, a, b)
