"""Blocks of calls back to back: rate, clock, power, and energy by a counter that moves in steps."""

import math
from dataclasses import replace

import pytest
from test_rounds import SETTINGS

from harness.devices.rounds import ContestantError, Series
from harness.devices.seats import few_orders
from harness.devices.selection import settled_rounds, who_settles
from harness.devices.settled import Alone, Board, settle
from harness.devices.telemetry import Reading

READ, LAUNCH, STEP = 0.004, 20e-6, 0.02
BLOCK, DROP = 0.5, 0.15


class Device:
    """A call of contestant i takes CALL_US[i]; a call takes the host LAUNCH seconds, a look at the board READ.

    For MEMORY seconds after another contestant's last call, a call takes `memory` times as long.  The energy counter
    shows what was drawn up to the last step of STEP seconds.
    """

    MEMORY = 0.1

    def __init__(self, call_us=(400.0, 400.0), watts=(650.0, 650.0), memory=1.0, step=STEP, launch=LAUNCH):
        self.launch = launch
        self.seconds = self.busy_until = 0.037
        self.call_us, self.watts, self.memory, self.step = call_us, watts, memory, step
        self.ran, self.idle, self.since, self.drawn = [], 0.0, -1.0, [(0.037, 0.0)]

    def call(self, index, number):
        self.seconds += self.launch
        self.idle += max(0.0, self.seconds - self.busy_until) if self.ran else 0.0
        begin = max(self.busy_until, self.seconds)
        if not self.ran or self.ran[-1][0] != index:
            self.since = begin
        slow = self.memory if begin - self.since < self.MEMORY else 1.0
        self.busy_until = begin + self.call_us[index] * slow * 1e-6
        self.drawn.append((self.busy_until, self.drawn[-1][1] + self.watts[index] * (self.busy_until - begin)))
        self.ran.append((index, number))

    def mark(self):
        end = self.busy_until

        def wait():
            self.seconds = max(self.seconds, end)

        return wait

    def read(self):
        assert self.busy_until > self.seconds or self.launch > LAUNCH, "read while the board is at work"
        self.seconds += READ
        return Reading(1980.0 - 100 * self.watts[self.ran[-1][0]] / 650, 480.0, ())

    def energy_j(self):
        if self.step is None:
            return None
        shown = math.floor(self.seconds / self.step) * self.step
        return max((joules for when, joules in self.drawn if when <= shown), default=0.0)

    def alone(self, sets=3):
        return [
            Alone([lambda i=i, n=n: self.call(i, n) for n in range(sets)], self.call_us[i])
            for i in range(len(self.call_us))
        ]

    @property
    def board(self):
        return Board(self, self.energy_j, self.mark, lambda: self.seconds)


def blocks(device, orders=((0, 1), (1, 0)), **kwargs):
    return settle(device.alone(**kwargs), orders, BLOCK, DROP, device.board)


def test_a_block_has_its_rate_power_and_energy():
    """Guard: energy over time between two steps of the counter: over whole blocks it would be off by a step."""
    seen = blocks(Device(call_us=(400.0, 500.0), watts=(650.0, 325.0)))
    for mine, call_us, watts in zip(seen, (400.0, 500.0), (650.0, 325.0), strict=True):
        assert len(mine) == 2
        for block in mine:
            assert block.latency_us == pytest.approx(call_us, rel=1e-3)
            assert block.power_w == pytest.approx(watts, rel=0.1)
            assert block.energy_mj == pytest.approx(block.power_w * call_us * 1e-3, rel=1e-3)
            assert BLOCK - DROP - 0.03 <= block.seconds <= BLOCK
    assert seen[0][0].sm_clock_mhz == 1880.0
    assert seen[1][0].sm_clock_mhz == 1930.0


def test_the_board_never_idles_between_batches_and_between_blocks():
    """Guard: the batch ahead, and at the end of a block the next contestant's first one."""
    device = Device()
    blocks(device, orders=[(0, 1), (1, 0), (0, 1), (1, 0)])
    assert device.idle == 0.0
    assert device.busy_until - 0.037 == pytest.approx(8 * BLOCK, rel=0.1)


@pytest.mark.parametrize(("launch", "starved"), [(20e-6, False), (220e-6, False), (320e-6, True), (500e-6, True)])
def test_a_device_that_runs_dry_is_noticed(launch, starved):
    """Guard: a call of 400 us reads 480 if launching it takes 320 and reading the board four of every ten ms."""
    seen = blocks(Device(launch=launch), orders=[(0, 1), (1, 0), (0, 1), (1, 0)])
    for block in (block for mine in seen for block in mine):
        assert block.starved == starved
        assert (block.latency_us > 410) == starved


@pytest.mark.parametrize("memory", [0.9, 1.1])
def test_what_the_predecessor_leaves_behind_is_dropped(memory):
    """Guard: `drop_seconds`; a memory of 10 % for a tenth of a second would be 2 % of a block otherwise."""
    device = Device(memory=memory)
    for mine in blocks(device):
        assert all(block.latency_us == pytest.approx(400.0, rel=1e-3) for block in mine)
    kept = settle(device.alone(), [(0, 1)], BLOCK, 0.0, device.board)[1]
    assert abs(kept[0].latency_us / 400.0 - 1) > 0.01


def test_blocks_know_their_place_and_who_was_before():
    seen = blocks(Device(), orders=[(0, 1), (1, 0)])
    assert [(b.round, b.position, b.predecessor) for b in seen[0]] == [(0, 0, -1), (1, 1, 1)]
    assert [(b.round, b.position, b.predecessor) for b in seen[1]] == [(0, 1, 0), (1, 0, 1)]


@pytest.mark.parametrize("call_us", [80_000.0, 400_000.0, 900_000.0])
def test_of_long_calls_two_count_at_least(call_us):
    seen = blocks(Device(call_us=(call_us, call_us)))
    assert all(block.calls >= 2 and block.latency_us == pytest.approx(call_us) for mine in seen for block in mine)


def test_inputs_take_turns():
    device = Device()
    blocks(device, sets=3)
    assert device.ran[:6] == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1), (0, 2)]


def test_a_board_that_does_not_count_gives_its_readings():
    (block, _), _ = blocks(Device(step=None))
    assert (block.energy_mj, block.power_w) == (None, 480.0)


def test_a_counter_that_stands_still_does_not_count():
    (block, _), _ = blocks(Device(step=1e9))
    assert (block.energy_mj, block.power_w) == (None, 480.0)


@pytest.mark.parametrize("where", ["call", "wait"])
def test_who_fails_is_named(where):
    device = Device()
    contestants = device.alone()

    def boom():
        raise RuntimeError("boom")

    entered = []
    if where == "call":
        contestants[1] = Alone([boom], 400.0)
    board = device.board if where == "call" else Board(device, device.energy_j, lambda: boom, lambda: device.seconds)
    with pytest.raises(ContestantError) as caught:
        settle(contestants, [(0, 1)], BLOCK, DROP, board, entered.append)
    assert caught.value.index == entered[-1] if where == "call" else caught.value.index == 0


def series(latency_us, *throttle):
    readings = [Reading(1980.0, 700.0, reasons) for reasons in throttle]
    return Series(latency_us=[latency_us], readings=readings)


AUTO = {"settled": "auto", "settled_own": ("tk",)}
NAMES = ["tk", "a", "b", "c", "d", "tk"]


@pytest.mark.parametrize(
    ("settled", "latencies", "throttle", "expected"),
    [
        ("auto", (900, 950, 990, 850, 5000, 900), (), []),
        ("auto", (900, 950, 990, 850, 5000, 900), ("sw_power_cap",), [0, 1, 2, 3, 5]),
        ("auto", (900, 950, 1001, 850, 5000, 900), (), []),  # neither of ours nor the fastest of the others
        ("auto", (900, 950, 1001, 850, 5000, 1001), (), [0, 1, 2, 3, 5]),
        ("auto", (900, 1050, 1100, 1001, 5000, 900), (), [0, 1, 2, 3, 5]),
        ("auto", (9, 9, 9, 8, 7, 9), ("sw_thermal",), []),
        ("always", (9, 9, 10, 8, 7, 9), (), [0, 1, 3, 4, 5]),
        ("never", (9000,) * 6, ("sw_power_cap",), []),
    ],
)
def test_own_contestants_and_the_fastest_others_are_settled_where_it_matters(settled, latencies, throttle, expected):
    settings = replace(SETTINGS, **AUTO | {"settled": settled})
    assert who_settles(settings, NAMES, [series(one, throttle, throttle) for one in latencies]) == expected


def test_a_board_that_was_seldom_at_its_limit_is_not_limited_by_it():
    seen = [series(9, *([("sw_power_cap",)] + [()] * 9))]
    assert who_settles(replace(SETTINGS, **AUTO), ["tk"], seen) == []


@pytest.mark.parametrize(("contestants", "rounds"), [(1, 8), (2, 8), (3, 6), (4, 4), (5, 4), (6, 4), (9, 4)])
def test_rounds_of_blocks_are_whole_designs_where_they_fit(contestants, rounds):
    assert settled_rounds(SETTINGS, contestants) == rounds
    assert len(few_orders(contestants, rounds, 3)) == rounds
