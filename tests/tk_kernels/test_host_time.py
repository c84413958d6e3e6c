"""python -m tools.host_time, on a host whose clock is a number."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from harness.workloads.attention import Problem
from tools import host_time
from tools.host_time import Calls, Timed


def of(B: int, N: int, D: int, causal: bool = False) -> Problem:
    return Problem(dtype="bf16", direction="fwd", B=B, H=32, Hkv=8, N=N, Nkv=4097, D=D, causal=causal)


class Host:
    """Calls that take the host a while and the device longer, and a wait for it."""

    def __init__(self) -> None:
        self.now_us = 0.0
        self.device_us = 0.0

    def clock(self) -> float:
        return self.now_us * 1e-6

    def wait(self) -> None:
        self.now_us = max(self.now_us, self.device_us)

    def call(self, *microseconds: float) -> Callable[[], None]:
        """A call that takes these in turn, the last ones ever after; the device takes a millisecond for it."""
        times = itertools.chain(microseconds, itertools.repeat(microseconds[-1]))

        def run() -> None:
            self.now_us += next(times)
            self.device_us = max(self.device_us, self.now_us) + 1000.0

        return run


def test_the_device_is_not_waited_for_and_the_first_call_does_not_count() -> None:
    """Guards: a plan is made in the first call; a loop that waits has the kernels' time in it."""
    host = Host()
    assert host_time.host_us(host.call(5000.0, 20.0), host.wait, host.clock) == pytest.approx(20.0)


def test_a_hiccup_of_the_host_does_not_count() -> None:
    host = Host()
    hiccup = [20.0] * (2 * host_time.CALLS) + [90_000.0]
    assert host_time.host_us(host.call(*hiccup, 20.0), host.wait, host.clock) == pytest.approx(20.0)


def test_each_call_is_timed_by_itself() -> None:
    host = Host()
    row = host_time.timed(of(1, 1, 128), Calls(host.call(15.0), host.call(30.0), host.call(2.0)), host.wait, host.clock)
    assert (row.whole_us, row.decode_us, row.question_us) == pytest.approx((15.0, 30.0, 2.0))


def test_the_median_difference_decides_and_what_is_taken_then_is_said() -> None:
    """The kernels are predicted to differ by 34.0 us at head dim 128 and by 28.5 at 64."""
    rows = [
        Timed(of(1, 1, 128), 14.0, 44.04, 2.5),
        Timed(of(1, 17, 64, causal=True), 15.0, 44.0, 2.5),
        Timed(of(16, 1, 128), 1000.0, 1500.0, 2.5),
    ]
    lines = host_time.report(rows, "a GPU", 132).splitlines()
    assert lines[0] == "a GPU: us that the host takes for a call"
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "1 1 no 128 14.0 44.0 30.0 2.5 yes, its kernel is predicted to take 20, the other 54",
        "1 17 yes 64 15.0 44.0 29.0 2.5 no, its kernel is predicted to take 19, the other 48",
        "16 1 no 128 1000.0 1500.0 500.0 2.5 yes, its kernel is predicted to take 107, the other 203",
        "HOST_MORE_US = 30.0",
    ]


def test_of_an_even_number_of_problems_the_middle_two_decide() -> None:
    """One of them is faster by this path; the difference of the medians would be 9.5."""
    rows = [Timed(of(1, 1, 128), whole, decode, 2.5) for whole, decode in ((10, 40), (50, 43), (20, 26), (44, 46))]
    assert host_time.report(rows, "a GPU", 132).splitlines()[-1] == "HOST_MORE_US = 4.0"


def test_its_problems_are_the_experiments() -> None:
    problems = host_time.problems()
    assert len(set(problems)) == 12
    assert of(16, 17, 64, causal=True) in problems
    assert of(1, 1, 128) in problems


def test_without_a_gpu_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert host_time.main([]) == 2
    assert capsys.readouterr().err == "tools.host_time: needs a CUDA GPU, PyTorch finds none here\n"


@pytest.mark.gpu
def test_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """The limit is for a host that few share. Beside 11 other workers under --target it was 111 us."""
    if request.config.getoption("--target"):
        pytest.skip("the constant is of the operators as they choose for themselves, not of code for --target")
    monkeypatch.setattr(host_time, "problems", lambda: [of(1, 1, 128)])
    assert host_time.main([]) == 0
    assert -100 < float(capsys.readouterr().out.split()[-1]) < 100
