"""Decode plans: what every schedule promises, and what a user hears of a wrong argument."""

from __future__ import annotations

import random
import re
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from decode_plans import (
    ATTEND,
    COUNTER,
    END_KEY,
    END_ROW,
    FIRST_KEY,
    FIRST_ROW,
    HEADER,
    KV_HEAD,
    OPCODE,
    REDUCE,
    ROW_TILE,
    SEQUENCE,
    SLOT,
    SLOTS,
    places,
    plan,
    queues,
)
from torch import Tensor

import tk_kernels as tk
from harness.workloads._paged import lengths_of
from tk_kernels import toolchain, trace
from tk_kernels.kernels.decode.plan import (
    COSTS,
    GQA_ROWS_PER_TILE,
    HEADER_INTS,
    INSTRUCTION_INTS,
    KEY_STEP,
    MLA_ROWS_PER_TILE,
    SCHEDULES,
    VERSION,
    gqa_rows_per_tile,
)
from tk_kernels.toolchain.units import INCLUDE_ROOT


def random_batch(chosen: random.Random) -> dict[str, Any]:
    """Sizes of a problem: few and many sequences, all kinds of lengths, blocks from 1 to more than tiles."""
    batch = chosen.choice((1, 2, 3, 5, 8, 20))
    scale = chosen.choice((1, 2, 70, 700, 5000, 70000))
    lengths = [
        chosen.choice((0, 1, 16, scale, chosen.randint(0, scale), chosen.randint(0, scale))) for _ in range(batch)
    ]
    kv_heads = chosen.choice((1, 1, 2, 3))
    sizes = [
        chosen.choice((1, 2, 3, 7, 16, 33, 132)),
        0,
        0,
        0,
        chosen.choice((16, 64, 128)),
        chosen.choice((16, 32, 64)),
    ]
    new_tokens, group = chosen.choice((1, 2, 4, 17)), chosen.choice((1, 4, 16, 33))
    row_tiles = -(-new_tokens * group // sizes[4])
    tiles = batch * kv_heads * row_tiles
    sizes[1:4] = [2 * -(-tiles // sizes[0]) + 6, sizes[0], 2 * sizes[0]]
    costs = [chosen.choice((0.0, 1.0, 3.0)), *(chosen.choice((0.01, 1.0)) for _ in range(6)), chosen.choice((1.0, 1.5))]
    return {
        "sizes": [*sizes, batch, kv_heads, row_tiles, new_tokens, group * kv_heads],
        "lengths": lengths,
        "costs": costs,
    }


def made_for(batch: dict[str, Any], schedule: int) -> tuple[Tensor, float]:
    """The buffer of a plan for a random batch, and the time that the planner says."""
    header = torch.tensor([VERSION, *batch["sizes"]], dtype=torch.int32)
    buffer = torch.empty(HEADER + 16 * batch["sizes"][0] * batch["sizes"][1], dtype=torch.int32)
    buffer[: len(header)] = header
    lengths = torch.tensor(batch["lengths"], dtype=torch.int32)
    library = toolchain.load("decode_plan", "cpu")
    said = library.make(schedule, torch.tensor(batch["costs"], dtype=torch.float64), lengths, buffer)
    assert library.verify(buffer, lengths) == "", batch
    return buffer, said


def replayed(batch: dict[str, Any], buffer: Tensor) -> float:
    """The time that a plan takes whose reductions are instructions, by its queues alone."""
    blocks, capacity, counters, _, rows_per_tile, key_step, _, kv_heads, _, new_tokens, heads = batch["sizes"]
    start, step, partial_row, output_row, reduce_start, reduce_row, hand_over, _ = batch["costs"]
    rows = heads // kv_heads * new_tokens
    free, ready = [0.0] * blocks, [0.0] * counters
    ones = [(b, one) for b, queue in enumerate(buffer[HEADER:].view(blocks, capacity, 16).tolist()) for one in queue]
    for block, one in ones:  # attends wait for nothing, and come first in each queue
        if one[OPCODE] == ATTEND:
            steps, whole = -(-(one[END_KEY] - one[FIRST_KEY]) // key_step), one[SLOT] < 0
            row_us = output_row if whole else partial_row
            free[block] += start + steps * step + min(rows_per_tile, rows - one[ROW_TILE] * rows_per_tile) * row_us
            if not whole:
                ready[one[COUNTER]] = max(ready[one[COUNTER]], free[block])
    for block, one in ones:
        if one[OPCODE] == REDUCE:
            took = reduce_start + one[SLOTS] * (one[END_ROW] - one[FIRST_ROW]) * reduce_row
            free[block] = max(free[block], ready[one[COUNTER]] + hand_over) + took
    return max(free)


def test_thousands_of_batches() -> None:
    """Every plan passes, costs what it says, and no makespan plan ends later than the static one."""
    chosen = random.Random(19)
    for number in range(5_000):
        batch = random_batch(chosen)
        said = []
        for schedule in range(len(SCHEDULES)):
            buffer, time = made_for(batch, schedule)
            said.append(time)
            if number < 500 and SCHEDULES[schedule] != "last":  # whose choice leaves out what a reduction delays
                assert replayed(batch, buffer) == pytest.approx(time, rel=1e-9), batch
        assert said[1] <= said[0] * (1 + 1e-9), batch


def test_few_long_sequences_fill_the_blocks() -> None:
    """One sequence on 132 blocks: each attends about as much, and many share its reduction."""
    made = plan([65536], blocks=132)
    steps = dict.fromkeys(range(132), 0)
    for block, index in places(made, ATTEND):
        one = queues(made)[block, index]
        steps[block] += -(-int(one[END_KEY] - one[FIRST_KEY]) // made.key_step)
    assert max(steps.values()) <= 17
    assert sum(steps.values()) == 2048
    assert len(places(made, REDUCE)) == 16
    assert made.predicted_us < plan([65536], "last", blocks=132).predicted_us


def test_blocks_that_have_enough_to_do_are_not_cut() -> None:
    for schedule in SCHEDULES:
        made = plan([4096] * 132, schedule, blocks=132, new_tokens=4)
        assert len(places(made, ATTEND)) == 132
        assert not places(made, REDUCE)
        assert bool((queues(made)[:, 0, SLOT] == -1).all())


def test_lengths_of_nothing_are_written_out() -> None:
    for schedule in SCHEDULES:
        made = plan([0, 0, 1], schedule)
        made.verify()
        assert len(places(made, ATTEND)) == 3


def test_refill_keeps_the_buffer() -> None:
    """Every length from nothing to much, in the place and the sizes that a graph has captured."""
    made = plan([100, 100, 100])
    address, sizes = made.buffer.data_ptr(), made.buffer[:12].clone()
    for lengths in ([0, 0, 0], [10**7, 1, 5], [64, 64, 65], [1, 10**6, 10**6]):
        made.refill(lengths).verify()
        assert made.lengths == tuple(lengths)
        assert made.buffer.data_ptr() == address
        assert torch.equal(made.buffer[:12], sizes)
        assert torch.equal(made.buffer, plan(lengths).buffer)
    with pytest.raises(ValueError, match="got 2 sequences, the plan is for 3"):
        made.refill([1, 2])
    with pytest.raises(ValueError, match="sequence 1 has -1 keys"):
        made.refill([1, -1, 2])
    made.verify()


def test_a_plan_for_another_call_is_refused() -> None:
    made = plan([100, 200])
    made.require(made.call, 2, torch.tensor([100, 200]))
    for different, words in (
        ({"kind": "gqa"}, "is for kind mla, the call has gqa"),
        ({"heads": 8}, "is for heads 16, the call has 8"),
        ({"kv_heads": 2}, "is for kv heads 1, the call has 2"),
        ({"device": torch.device("meta")}, "is for device cpu, the call has meta"),
    ):
        with pytest.raises(ValueError, match=words):
            made.require(made.call._replace(**different), 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is for sequences 2, the call has 3"):
        made.require(made.call, 3)
    with pytest.raises(ValueError, match="sequence 1 has 200 keys there and 201 in seqlens"):
        made.require(made.call, 2, torch.tensor([100, 201]))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seqlens": [3, -1]}, "seqlens: sequence 1 has -1 keys, needs 0 to 2147483647"),
        ({"seqlens": []}, r"seqlens: got shape \(0,\), needs one length for each sequence"),
        ({"seqlens": [1.5]}, "seqlens: needs whole numbers"),
        ({"seqlens": torch.ones(2)}, "seqlens: got torch.float32, needs int32 or int64"),
        ({"seqlens": torch.ones(2, dtype=torch.int32, device="meta")}, "seqlens: is on meta, planning needs them on"),
        ({"seqlens": [2**40]}, "seqlens: needs lengths from 0 to 2147483647"),
        ({"heads": 12, "kv_heads": 5}, "heads: got 12, needs a multiple of the 5 kv heads"),
        ({"heads": 0}, "heads: got 0, needs an integer from 1 to 65536"),
        ({"kv_heads": 2}, "kv_heads: got 2, MLA has 1"),
        ({"new_tokens": True}, "new_tokens: got True, needs an integer"),
        ({"kind": "mqa"}, "kind: got 'mqa', needs one of mla, gqa"),
        ({"schedule": "best"}, "schedule: got 'best', needs one of static, makespan, last"),
        ({"blocks": 0}, "blocks: got 0, needs an integer from 1 to 4096"),
        ({"device": "meta"}, "device: got meta, needs a CUDA device or the CPU"),
        ({"device": "gpu"}, "device: got 'gpu', needs a CUDA device or the CPU"),
        ({"costs": 3}, "costs: got a int, needs tk.DecodeCosts"),
    ],
)
def test_wrong_arguments_are_named(changed: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"seqlens": [3, 4], "new_tokens": 1, "heads": 16, "kv_heads": 1, "kind": "mla"}
    given = {**right, "device": "cpu", **changed}
    with pytest.raises(ValueError, match=words):
        tk.decode_plan(given.pop("seqlens"), **given)


def test_costs_decide() -> None:
    """Where a reduction costs much, sequences are cut less."""
    dear = tk.DecodeCosts(reduce_start_us=500.0)
    assert len(places(plan([4000, 100], costs=dear), ATTEND)) < len(places(plan([4000, 100]), ATTEND))
    assert plan([4000, 100], "static", costs=dear).predicted_us > plan([4000, 100], "static").predicted_us
    with pytest.raises(ValueError, match="step_us: got 0, needs more"):
        tk.DecodeCosts(step_us=0)
    with pytest.raises(ValueError, match="hand_over_us: got -1"):
        tk.DecodeCosts(hand_over_us=-1)
    with pytest.raises(ValueError, match=r"apart: got 0.5, needs 1 or more"):
        tk.DecodeCosts(apart=0.5)
    with pytest.raises(ValueError, match="step_us: got '1', needs 0 to a million"):
        tk.DecodeCosts(step_us="1")  # type: ignore[arg-type]


def test_mla_has_costs_of_its_own() -> None:
    """Those that an H200 said: its starts and reductions are dearer than those of grouped heads."""
    mla, gqa = plan([4000, 100]), plan([4000, 100], kind="gqa")
    assert (mla.costs.attend_start_us, mla.costs.reduce_start_us, mla.costs.reduce_row_us) == (4.0, 4.0, 0.05)
    assert (gqa.costs.attend_start_us, gqa.costs.reduce_start_us) == (3.0, 2.0)
    assert gqa.costs.reduce_row_us < mla.costs.reduce_row_us
    assert mla.costs != tk.DecodeCosts()


def test_tiles_are_those_of_the_kernels() -> None:
    few = [plan([5], kind="gqa", kv_heads=2, heads=8, new_tokens=n) for n in (1, 4, 5, 16)]
    assert [(one.rows_per_tile, one.row_tiles) for one in few] == [(16, 1), (16, 1), (64, 1), (64, 1)]
    many = [plan([5], kind="gqa", kv_heads=2, heads=8, new_tokens=n, blocks=4) for n in (17, 32, 33, 64, 65)]
    assert [(one.rows_per_tile, one.row_tiles) for one in many] == [(128, 1), (128, 1), (128, 2), (128, 2), (128, 3)]
    wide = plan([5], heads=128, new_tokens=4)
    assert (wide.rows_per_tile, wide.row_tiles, wide.key_step) == (64, 8, 32)


def test_few_heads_have_smaller_tiles() -> None:
    """Where 64 rows a tile are at most half as many tiles as blocks, unless one tile of 128 is three quarters full."""
    sizes = {(batch, rows): gqa_rows_per_tile(rows, 8 * batch, 132) for batch in (1, 4, 5, 16) for rows in (68, 128)}
    assert {case for case, size in sizes.items() if size == 64} == {(1, 128), (4, 128)}
    assert set(sizes.values()) == {64, 128}
    assert [gqa_rows_per_tile(rows, 1, 132) for rows in (16, 17, 64, 65, 96, 97)] == [16, 64, 64, 128, 128, 64]


def begun_together(planned: tk.DecodePlan) -> float:
    """The share of whole heads' tiles that are the same instruction of their blocks as the head's first tile."""
    begun = {}
    for block, index in places(planned, ATTEND):
        one = queues(planned)[block, index].tolist()
        if one[FIRST_KEY] == 0:
            begun[one[SEQUENCE], one[KV_HEAD], one[ROW_TILE]] = (block, index)
    later = [(place, begun[sequence, head, 0]) for (sequence, head, row_tile), place in begun.items() if row_tile > 0]
    return sum(at[1] == first[1] and at[0] != first[0] for at, first in later) / len(later)


def test_row_tiles_of_a_head_are_attended_side_by_side() -> None:
    """They read its keys from memory once. Guard: 128 rows and 4 went to one block, one after the other."""
    for tokens in (33, 48, 65):
        planned = plan([4097] * 16, kind="gqa", heads=32, kv_heads=8, new_tokens=tokens, blocks=132)
        assert planned.row_tiles > 1
        assert begun_together(planned) > 0.9
        planned.verify()


FOLDER = toolchain.find_unit("decode_plan").path
README = FOLDER / "README.md"
LAYOUT = "".join(path.read_text() for path in (INCLUDE_ROOT / "kittens" / "program" / "layout.h", FOLDER / "layout.h"))
PROMISES = README.read_text().partition("### What the schedules promise")[2].partition("\n### ")[0]


def layout(name: str) -> int:
    """A number of the two layout.h, which device code reads too."""
    [found] = re.findall(rf"\b{name} = (\d+)\b", LAYOUT)
    return int(found)


def test_python_has_the_layouts_numbers() -> None:
    assert (HEADER_INTS, INSTRUCTION_INTS) == (layout("header_ints"), layout("instruction_ints"))
    assert re.findall(r"\bversion = (\d+)", LAYOUT) == ["0", str(VERSION)]  # its place, and what stands there
    assert {kind: layout(f"{kind}_key_step") for kind in ("mla", "gqa")} == KEY_STEP
    assert MLA_ROWS_PER_TILE == layout("mla_rows_per_tile")
    assert GQA_ROWS_PER_TILE == tuple(layout(f"gqa_{which}rows_per_tile") for which in ("few_", "", "many_"))
    assert [trace.COUNTER, trace.LAST_REDUCES] == [layout("counter"), layout("last_reduces")]
    assert [trace.FIRST_ROW, trace.END_ROW] == [layout("first_row"), layout("end_row")]
    assert trace.OPCODES == {layout(name): name for name in ("attend", "reduce")}


def test_steps_cost_what_their_bytes_take() -> None:
    """A step of every block at 4.2 TB/s, on 132 blocks; other costs are a trial's, and stand in the class's words."""
    for kind, key_bytes, step in (
        ("mla", 2 * 576, layout("mla_key_step")),
        ("gqa", 2 * 2 * 128, layout("gqa_key_step")),
    ):
        assert COSTS[kind].step_us == pytest.approx(step * key_bytes * 132 / 4.2e6, abs=0.005)


PROMISED: dict[str, tuple[str, str, int, int, int]] = {  # row of the README -> kind, lengths, batch, new tokens, heads
    "MLA, 16 heads, B4 [4641, 45118, 1730, 1696], 4 new tokens": ("mla", "4641+45118+1730+1696", 4, 4, 16),
    "B1 65536, 1": ("mla", "65536", 1, 1, 16),
    "B64 256 to 1024 at random, 4": ("mla", "256-1024", 64, 4, 16),
    "B64 512, 2": ("mla", "512", 64, 2, 16),
    "B132 4096, 4": ("mla", "4096", 132, 4, 16),
    "B4 as above, 128 heads": ("mla", "4641+45118+1730+1696", 4, 4, 128),
    "grouped heads, 8 to 1, D 128, B64 256 to 1024, 4": ("gqa", "256-1024", 64, 4, 8),
}


def test_the_readme_has_what_the_schedules_promise() -> None:
    rows = [line.strip("| \n").split(" | ") for line in PROMISES.splitlines() if re.match(r"\|.*\d\.\d \|$", line)]
    assert [row[0] for row in rows] == list(PROMISED)
    for name, *numbers in rows:
        kind, lengths, batch, new_tokens, heads = PROMISED[name]
        of = list(lengths_of(lengths, batch))
        made = [plan(of, one, blocks=132, heads=heads, new_tokens=new_tokens, kind=kind) for one in SCHEDULES]
        assert numbers == [f"{one.predicted_us:.1f}" for one in made], name


def test_a_machine_without_a_gpu_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default device is a GPU; PyTorch says that it was not compiled for one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        ValueError, match="^device: got cuda, PyTorch finds no CUDA GPU here; device='cpu' emulates one"
    ):
        tk.decode_plan([3], new_tokens=1, heads=1, kv_heads=1)


@pytest.mark.parametrize("kind", ["mla", "gqa"])
def test_a_plan_is_made_in_a_tenth_of_a_millisecond(kind: str) -> None:
    """132 unlike sequences, with the Python around it; the best of many, since others share the machine."""
    lengths = torch.tensor(lengths_of("256-1024", 132), dtype=torch.int32)
    made = plan(lengths.tolist(), blocks=132, new_tokens=4, kind=kind)
    assert readme_us(lambda: made.refill(lengths)) < 100


LOOP_US = 24
"""What a loop of the interpreter takes on the README's processor: derived, since they double where it takes 50."""


def readme_us(call: Callable[[], object]) -> float:
    """What a call would take on the README's processor, by how long a loop takes on this one."""
    return best_us(call) / best_us(lambda: sum(n * n for n in range(1000))) * LOOP_US


def best_us(call: Callable[[], object], calls: int = 100) -> float:
    """The shortest of so many calls."""
    return 1e6 * min(timeit.repeat(call, number=1, repeat=calls))


PLANNED: dict[str, tuple[str, int, int]] = {  # row of the README -> kind, heads, kv heads
    "MLA, 16 heads: 4096 keys each; 256 to 1024; 1 to 8192": ("mla", 16, 1),
    "grouped heads, 8 to 1": ("gqa", 8, 1),
    "grouped heads, 32 to 8": ("gqa", 32, 8),
}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch copies more than 32768 elements by all of its threads, which took milliseconds where cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("row", PLANNED)
def test_planning_takes_what_the_readme_says(row: str) -> None:
    """Refilling and making one, for three kinds of lengths: at most thrice the README's medians, on a shared core."""
    (line,) = (line for line in README.read_text().splitlines() if line.startswith(f"| {row} |"))
    promised = [[int(number) for number in cell.split(", ")] for cell in line.strip("| ").split(" | ")[1:]]
    kind, heads, kv_heads = PLANNED[row]
    options: dict[str, Any] = {"blocks": 132, "new_tokens": 4, "kind": kind, "heads": heads, "kv_heads": kv_heads}
    for text, refilled, planned in zip(("4096", "256-1024", "1-8192"), *promised, strict=True):
        lengths = torch.tensor(lengths_of(text, 132), dtype=torch.int32)
        made = plan(lengths.tolist(), **options)
        assert readme_us(partial(made.refill, lengths)) < 3 * refilled, text
        assert readme_us(partial(tk.decode_plan, lengths, device="cpu", **options)) < 3 * planned, text
