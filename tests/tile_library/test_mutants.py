"""What the cpu target catches in real code: each kernel, and the pipeline that it is in, with one mistake.

The mistakes come by rules (mutation_rules.py) from the kernel's sources, and from a list of what is a kernel's own
(mutants_by_hand.py). A new kernel needs a driver in mutants/, which runs it, and nothing else. By default one mistake
of each kind is made in each kernel, in its first schedule that tells, with --long all in all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from mutation import Carrier, drivers
from mutation_rules import SEEN, edits

KERNEL = """
template <typename T> struct example {
    semaphore turn[2];
    kittens_device static void step(ring_reader<tiles>& tiles, position at, int own, const globals& g) {
        if (own == 1) wait(turn[own], at.parity);  // in turn
        warpgroup::mma_wait<1>(sums);
        tiles.release();
        store_through(g.out, sums, [&](int row) { sync_named(own, 8); return coord{0, row, 2}; });
        prefetch_maps(g.in);
    }
};
"""


def test_what_the_rules_find() -> None:
    found = {
        (edit.kind, " ".join(KERNEL[edit.begin : edit.end].split()), " ".join(edit.new.split()))
        for edit in edits("example.cuh", KERNEL)
    }
    stored = "store_through(g.out, sums, [&](int row) { sync_named(own, 8); return coord{0, row, 2}; });"
    assert found == {
        ("wait", "wait(turn[own], at.parity);", ""),
        ("parity", "at.parity", "0"),
        ("parity", "at.parity", "1"),
        ("parity", "at.parity", "1 - (at.parity)"),
        ("place", "own", "0"),
        ("group", "warpgroup::mma_wait<1>(sums);", ""),
        ("group", "warpgroup::mma_wait<1>(sums);", "warpgroup::mma_wait<(1) + 1>(sums);"),
        ("release", "tiles.release();", ""),
        ("release", "tiles.release();", "tiles.release();tiles.release();"),
        ("early", "warpgroup::mma_wait<1>(sums); tiles.release();", "tiles.release(); warpgroup::mma_wait<1>(sums);"),
        ("operation", stored, ""),
        ("barrier", "sync_named(own, 8);", ""),
        ("barrier", "sync_named(own, 8);", "kittens::warpgroup::sync(9 + kittens::warpgroup_index());"),
        ("barrier", "sync_named(own, 8);", "kittens::sync_named(own, (8) + kittens::warpgroup_warps);"),
        ("coordinate", "row", "0"),
    }


@pytest.mark.parametrize("driver", drivers())
def test_every_seed_tells_of_a_mistake_and_none_of_the_kernel_itself(
    driver: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    carrier, every = Carrier(driver, tmp_path), request.config.getoption("--long")
    wanted: set[int] = set()  # mistakes that make a difference, and are not told yet
    told: set[int] = set()
    for schedule in carrier.schedules:
        itself = carrier.run(schedule, 0, seeds=40)
        assert {line for line in itself if not line.isdigit()} == {"right"}
        here = {int(line) for line in itself if line.isdigit()}
        if every:
            wanted |= here - told
        elif schedule == carrier.schedules[0]:
            wanted = set(first_of_each_kind(carrier, here))
        now = {number for number in wanted & here if is_told(carrier, number, schedule)}
        told |= now
        wanted -= now
        if not wanted and not every:
            break
    missed = [carrier.told(number) for number in sorted(wanted)]
    assert told
    assert not missed, f"{len(missed)} of {len(missed) + len(told)} mistakes are not told:\n" + "\n".join(missed)


def first_of_each_kind(carrier: Carrier, numbers: Iterable[int]) -> list[int]:
    return list({carrier.kind(number): number for number in sorted(numbers, reverse=True)}.values())


def is_told(carrier: Carrier, number: int, schedule: int) -> bool:
    seeds = 5 if carrier.kind(number) in SEEN else 20
    return carrier.is_told(number, carrier.run(schedule, number, seeds))
