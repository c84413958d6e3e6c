"""A contestant alone on the board: rate, clock, power, and energy by a counter that moves in steps."""

import math

import pytest

from harness.timing.settled import BATCH_US, STILL_SECONDS, settle
from harness.timing.telemetry import Reading

CALL_US, WATTS, STEP = 400.0, 650.0, 0.1


READ, LAUNCH = 0.004, 20e-6


class Board:
    """Takes CALL_US a call, and WATTS while it is at work; a call takes the host LAUNCH seconds, a look at it READ.

    Its energy counter shows what was drawn up to the last step of STEP seconds.
    """

    def __init__(self, step=STEP, watts=WATTS):
        self.seconds = self.busy_until = 0.037
        self.given, self.ran, self._step, self._watts = 0.037, [], step, watts

    def call(self, number):
        self.seconds += LAUNCH
        self.busy_until = max(self.busy_until, self.seconds) + CALL_US * 1e-6
        self.given += CALL_US * 1e-6
        self.ran.append(number)

    def mark(self):
        end = self.busy_until

        def wait():
            self.seconds = max(self.seconds, end)

        return wait

    def read(self):
        assert self.busy_until > self.seconds, "read while the board is at work"
        self.seconds += READ
        return Reading(1980.0 - 1000 * self.seconds, 480.0, ())

    def energy_j(self):
        worked = self.given - max(0.0, self.busy_until - self.seconds)
        return None if self._step is None else math.floor(worked / self._step) * self._step * self._watts


def settled(board, seconds=0.5, sets=3):
    calls = [lambda n=n: board.call(n) for n in range(sets)]
    return settle(calls, CALL_US, seconds, board, board.energy_j, board.mark, clock=lambda: board.seconds)


def test_energy_is_that_of_the_counter_between_two_of_its_steps():
    """Guards: `until_it_moves`, since a counter of 0.1 s steps would here be off by 10 % if it was read at any time;
    the batch ahead, without which the board would idle between two of them."""
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
