"""Blocks of one launch that hand data to one another: right programs on every target, mistakes told in every seed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tile_compile import Run, caller, compile_library, ptx_of

RIGHT, MISTAKES = (Path(__file__).with_name(name) for name in ("exchange.cu", "exchange_mistakes.cu"))
BLOCKS, COUNTERS = 4, 8

READS = r"{} at .* reads global memory that {} at .*block 0, .* may still write: nothing orders the two"
WRITES = r"{} at .*block 0, .* writes global memory that {} at .* may still read: nothing orders the two"
READ_OTHER = r"{} at .* reads global memory that {} at .* may still {}: nothing orders the two; .*signals a counter"
WRITE_OTHER = r"{} at .* global memory that {} at .* may still read: nothing orders the two; who reads signals"
UNORDERED = r"(load|store)\w* at .* global memory that (load|store)\w* at .* may still \w+: nothing orders the two"
UNSURE = r"await at .*block 0, .* counter 0 of 8 holds 3, which it may without signal at .* may all come before"
UNDECLARED = r"load at .* reads global memory that store at .*block 0.*of another block.* is `exchanged`"
PLAINLY = (
    r"{} at .*block [0-2], .* reads global memory that store at .*block 3.*of another block, writes in the same launch"
)
IN_TURN = r"{} at .* in a launch whose blocks run one after another: launch_resident starts it"
STUCK = r"deadlock.*await at .* waits for counter {} of 8 to hold {}; it holds {}, {}"

# Program -> patterns, of which one must be found in every seed's report: which side comes first depends on the seed.
REPORTS = {
    "pass_no_await": [READS.format("load", "store"), WRITES.format("store", "load")],
    "pass_no_signal": [STUCK.format(0, 1, 0, "nobody has signalled it.*0/0, 0/1")],
    "pass_no_barrier_before": [READS.format("load", "store"), WRITES.format("store", "load")],
    "pass_no_barrier_after": [READS.format("load", "store"), WRITES.format("store", "load")],
    "pass_wrong_counter": [STUCK.format(0, 1, 0, "nobody has signalled it")],
    "pass_awaits_another": [READS.format("load", "store"), WRITES.format("store", "load")],
    "pass_signals_first": [READS.format("load", "store"), WRITES.format("store", "load")],
    "pass_undeclared_store": [UNDECLARED],
    "pass_undeclared_load": [UNDECLARED],
    "pass_not_retired": ["counter 0 of 8 still holds 1 .*signal at .*block 0, warp 0.*no block retires"],
    "pass_one_not_retired": ["counter 0 of 8 still holds 1 .*signal at .*block 0, warp 0.*only some blocks retire"],
    "pass_retired_twice": ["retire at .* retires after retire at .* of its own block"],
    "pass_retired_too_early": [
        "retire at .*warp 1. retires while (signal|await) at .*warp 0. of its own block may still be under way",
        "(signal|await) at .*warp 0. uses counter . after retire at .*warp 1. of its own block",
    ],
    "pass_used_after": ["signal at .* uses counter 1 after retire at .* of its own block"],
    "pass_no_such_counter": ["signal at .* names counter 8 of a set of 8 counters"],
    "pass_nothing_awaited": ["await at .* waits until a counter holds 0"],
    "pass_nothing_signalled": ["signal at .* raises a counter by 0: counters only rise"],
    "pass_overwritten": ["(signal|await) at .* finds 3 in counter 0 of 8, which should hold 0: something else writes"],
    "engine_read_wait": [READS.format("load_async", "store_async") + ".*store_wait .store_read_wait says only"],
    "engine_wait_after": [READS.format("load_async", "store_async") + ".*store_wait .store_read_wait says only"],
    "engine_one_pending": [READS.format("load_async", "store_async") + ".*store_wait .store_read_wait says only"],
    "engine_other_warp": [READS.format("load_async", "store_async"), WRITES.format("store_async", "load_async")],
    "engine_load_too_early": [READS.format("load_async", "store_async"), WRITES.format("store_async", "load_async")],
    "engine_own_unfenced": ["load_async at .* after store at .* without a fence: the copy engine may miss them"],
    "gather_too_low": [READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load")],
    "gather_too_high": [STUCK.format(0, 4, 3, "signalled by signal at .*block .*signal at .*block .*signal at")],
    "gather_signals_twice": [READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load"), UNSURE],
    "gather_by_two": [READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load"), UNSURE],
    "gather_early": [
        r"load at .*block 0, .* reads global memory that store at .*block 3, .* may still write",
        r"store at .*block 3, .* writes global memory that load at .*block 0, .* may still read",
    ],
    "gather_added_too_low": [
        READ_OTHER.format("load_packed", "store_add_async", "add to"),
        WRITE_OTHER.format("store_add_async", "load_packed"),
    ],
    "gather_added_wrongly": [
        "store_async at .*block 2.* writes global memory that store_add_async at .* may still add to",
        "store_add_async at .* adds to global memory that store_async at .*block 2.* may still write",
    ],
    "relay_does_not_wait": [READS.format("load", "store"), WRITES.format("store", "load")],
    "relay_order": [
        "deadlock.*block 0, .* counter 3 of 8 to hold 1.*block 1, .* counter 0 of 8 to.*block 3, .* counter 2 of 8"
    ],
    "stages_not_awaited": [
        WRITES.format("store_async", "load_async"), READS.format("load_async", "store_async"),
    ],
    "stages_freed_too_early": [WRITES.format("store_async", "load_async")],
    "stages_awaits_the_last": [WRITES.format("store_async", "load_async"), READS.format("load_async", "store_async")],
    "stages_full_not_awaited": [WRITES.format("store_async", "load_async"), READS.format("load_async", "store_async")],
    "meeting_too_early": [READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load")],
    "meeting_no_second": [READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load")],
    "meeting_skipped": [READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load")],
    "last_one_too_early": [READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load")],
    "last_everybody": [READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load")],
    "last_claimed": [UNORDERED],
    "last_other_counters": [UNORDERED],
    "last_no_barrier_before": [UNORDERED],
    "last_no_barrier_after": [r"load_number at .* reads count.*(nothing has written|while|after)", r"store_number at"],
    "last_not_retired": ["counter 0 of 8 still holds 4 .*signal_and_count at .*no block retires"],
    "last_engine_read_wait": [UNORDERED + ".*store_wait .store_read_wait says only"],
    "plain_load": [PLAINLY.format("load")],
    "plain_load_async": [PLAINLY.format("load_async")],
    "plain_copy": [PLAINLY.format("copy_async")],
    "plain_value": [PLAINLY.format("load_value")],
    "plain_signal": [IN_TURN.format("signal")],
    "plain_await": [IN_TURN.format("await")],
    "plain_retire": [IN_TURN.format("retire")],
    "queue_unordered": [
        READ_OTHER.format("load", "store", "write"), WRITE_OTHER.format("store", "load"),
        "store at .* writes global memory that store at .* may still write",
    ],
}  # fmt: skip
CORRECT = re.findall(r'\{"(\w+)", start_(?!crowd)', RIGHT.read_text())


class Memory:
    """What a program is given: its output, what its blocks exchange, cleared counters, a table and a queue."""

    def __init__(self, device: str) -> None:
        self.out = torch.zeros(64, 64 * BLOCKS, dtype=torch.bfloat16, device=device)
        self.mail = torch.zeros_like(self.out)
        self.sums = torch.zeros(256, device=device)
        self.words = torch.zeros(COUNTERS + 1, dtype=torch.int32, device=device)
        self.table = torch.tensor([2, 0, 3, 1], dtype=torch.int32, device=device)
        self.queue = torch.zeros(1, dtype=torch.int32, device=device)

    def give(self) -> tuple[torch.Tensor, ...]:
        return self.out, self.mail, self.sums, self.words, self.table, self.queue


def run_program(run: Run, name: str, device: str = "cpu") -> Memory:
    memory = Memory(device)
    run("run_program", name.encode(), *memory.give())
    return memory


def report(run: Run, name: str) -> str:
    """What is told of a program; "" where it ended without a report."""
    try:
        run_program(run, name)
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def mistakes() -> Run:
    return caller(MISTAKES, "cpu")


@pytest.mark.parametrize("name", REPORTS)
def test_mistake_is_reported_in_every_seed(mistakes: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for seed in range(20):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        found = report(mistakes, name)
        assert any(re.search(pattern, found, re.DOTALL) for pattern in REPORTS[name]), (
            f"seed {seed}: {found or 'no report'}"
        )


@pytest.mark.parametrize("name", CORRECT)
def test_correct_program_has_no_report(monkeypatch: pytest.MonkeyPatch, device: str, name: str) -> None:
    run = caller(RIGHT, device)
    for seed in range(100):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        memory = run_program(run, name, device)
        assert (memory.out[:16] == 2).all(), f"seed {seed}"
        assert not memory.words.any(), f"seed {seed}: the counters are not left cleared"


def test_clusters_wait_for_one_another(monkeypatch: pytest.MonkeyPatch, mistakes: Run) -> None:
    for seed in range(100):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        assert (run_program(mistakes, "clusters").out[:16] == 2).all()


def test_same_seed_gives_the_same_report(mistakes: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for seed in [*range(10)] * 2:
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        told.append(report(mistakes, "meeting_no_second"))
    assert told[:10] == told[10:]
    assert len(set(told)) > 3


def test_counters_that_nobody_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    run = caller(RIGHT, "cpu")
    for seed in range(20):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        memory = Memory("cpu")
        memory.words[1] = 3
        with pytest.raises(RuntimeError, match="finds 3 in counter 0 of 8, which should hold 0: a set of counters is"):
            run("run_program", b"pass_none", *memory.give())


def test_too_many_blocks_are_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match="launch_resident: got .* blocks that wait for one another; this device"):
        run_program(caller(RIGHT, device), "crowd", device)


@pytest.mark.parametrize(("target", "fence"), [("sm_90a", "fence.proxy.async;"), ("sm_80", None)])
def test_a_gpu_hands_over_by_release_and_acquire(tmp_path: Path, target: str, fence: str | None) -> None:
    instructions = ptx_of(RIGHT, target, tmp_path)
    used = [line for line in instructions if re.match(r"(@%p\d+ )?(ld|st|red|atom|fence|cp|bar)\b", line)]
    assert not any("ld.global.nc" in line for line in used), "a path that is not coherent"
    signals = [i for i, line in enumerate(used) if line.startswith("red.release.gpu.global.add.s32")]
    both = [i for i, line in enumerate(used) if line.startswith("atom.acq_rel.gpu.global.add.s32")]
    text = "\n".join(instructions)
    assert len(signals) >= 10
    assert text.count("ld.acquire.gpu.global.s32") >= 10
    assert len(both) >= 10
    assert "trap;" in text, "a wait is bounded in time"
    waits = re.findall(r"nanosleep.*?bra", text, re.DOTALL)
    assert len(waits) == text.count("nanosleep")
    for wait in waits:
        assert wait.find("%globaltimer") < wait.find("ld.acquire"), "the value is read behind the clock"
        assert "stalled" not in wait
    awaits, fences = text.count("nanosleep"), text.count("fence.proxy.async;")
    if fence is None:
        assert fences == 0
        return
    assert all(used[i - 1] == fence for i in signals)
    counts = [i for i in both if used[i - 1] == fence]  # the others are those of retire
    assert len(counts) >= 3
    assert all(used[i + 1] == fence for i in counts)
    assert fences == awaits + len(signals) + 2 * len(counts)


def test_the_programs_build_for_a_gpu() -> None:
    assert compile_library(RIGHT, "sm_90a").stat().st_size > 0


def test_every_program_is_tested() -> None:
    told = re.findall(r"^    (PASS|ENGINE|GATHER|RELAY|STAGES|MEETING|LAST|PLAIN)\((\w+)\)", MISTAKES.read_text(), re.M)
    others = re.findall(r"^    OTHER\((\w+),", MISTAKES.read_text(), re.M)
    assert {f"{kind.lower()}_{name}" for kind, name in told} | {*others} == {*REPORTS, "clusters"}
