"""A contestant alone on the board: rate, clock, power, and energy by a counter that moves in steps."""

import math

import pytest

from harness.timing.settled import BATCH_US, STILL_SECONDS, settle
from harness.timing.telemetry import Reading

CALL_US, WATTS, STEP = 400.0, 650.0, 0.1


class Board:
    """Takes CALL_US a call and WATTS; its energy counter shows what was drawn up to the last step of STEP seconds."""

    def __init__(self, step=STEP, watts=WATTS):
        self.seconds, self.waiting, self.ran, self._step, self._watts = 0.037, 0, [], step, watts

    def call(self, number):
        self.waiting += 1
        self.ran.append(number)

    def wait(self):
        self.seconds += self.waiting * CALL_US * 1e-6
        self.waiting = 0

    def read(self):
        assert self.waiting, "read while the board is at work"
        return Reading(1980.0 - 1000 * self.seconds, 480.0, ())

    def energy_j(self):
        return None if self._step is None else math.floor(self.seconds / self._step) * self._step * self._watts


def settled(board, seconds=0.5, sets=3):
    calls = [lambda n=n: board.call(n) for n in range(sets)]
    return settle(calls, CALL_US, seconds, board, board.energy_j, board.wait, clock=lambda: board.seconds)


def test_energy_is_that_of_the_counter_between_two_of_its_steps():
    """Guard: `until_it_moves`.  Read at any time, a counter of 0.1 s steps would here be off by 10 %."""
    seen = settled(Board(), seconds=0.45)
    assert seen.latency_us == pytest.approx(CALL_US)
    assert seen.power_w == pytest.approx(WATTS, rel=2 * BATCH_US * 1e-6 / 0.45)
    assert seen.energy_mj == pytest.approx(WATTS * CALL_US * 1e-3, rel=2 * BATCH_US * 1e-6 / 0.45)
    assert seen.calls * CALL_US * 1e-6 >= 0.45


def test_the_clock_is_that_after_settling():
    """Guard: `readings.clear()`: what was read before the board had settled does not count."""
    assert 1980 - 1250 < settled(Board()).sm_clock_mhz < 1980 - 750  # between 0.6 and 1.2 s, not from 0 on


def test_inputs_take_turns():
    board = Board()
    settled(board, sets=3)
    assert board.ran[:6] == [0, 1, 2, 0, 1, 2]


def test_a_board_that_does_not_count_gives_its_readings():
    seen = settled(Board(step=None))
    assert seen.energy_mj is None
    assert seen.power_w == 480.0
    assert seen.latency_us == pytest.approx(CALL_US)


def test_a_counter_that_stands_still_does_not_count():
    """Guard: STILL_SECONDS, without which this would run for ever."""
    board = Board(step=1e9)
    seen = settled(board)
    assert seen.energy_mj is None
    assert seen.power_w == 480.0
    assert board.seconds < 0.037 + 2 * 0.5 + 2 * STILL_SECONDS + 0.1
