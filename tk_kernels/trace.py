"""When each instruction of a paged decode call started, waited and ended: a Chrome trace, which ui.perfetto.dev opens.

    python -m tk_kernels.trace --lengths 4641+45118+1730+1696 --new-tokens 4 --heads 16 --out trace.json

On a GPU times are in microseconds: each multiprocessor's clock is fitted to the time that all of them share, and how
far it is off is in the file. On the CPU there is no time: what is shown is the order in which the emulator goes.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tk_kernels.kernels.decode.call import recording
from tk_kernels.kernels.decode.mla import WIDTH, mla_decode
from tk_kernels.kernels.decode.paged import paged_attention_decode
from tk_kernels.kernels.decode.plan import HEADER_INTS, INSTRUCTION_INTS, SCHEDULES, DecodePlan, decode_plan
from tk_kernels.toolchain import ToolchainError

ROLES = ("loads", "multiplies")
NUMBERS = 4
OPCODES = {1: "attend", 2: "reduce"}
COUNTER, LAST_REDUCES, FIRST_ROW, END_ROW = 7, 10, 11, 12
"""Of an instruction's fields, as layout.h has them."""


@dataclass(frozen=True)
class Event:
    """An instruction as one role of one block carried it out. Times are in microseconds, or steps of the emulator.

    `waited` is when its first wait was over: for keys or for other blocks' parts. `fields` are the instruction's, as
    `tk_kernels/kernels/decode/layout.h` has them. Where the last block to store a part of a tile reduces it, that
    is within its attend.
    """

    block: int
    role: str
    opcode: str
    start: float
    waited: float
    end: float
    fields: tuple[int, ...]

    @property
    def name(self) -> str:
        """What a viewer writes on it."""
        sequence, head, tile, first, end = self.fields[1:6]
        rows = (
            f"rows {self.fields[FIRST_ROW]}-{self.fields[END_ROW]}"
            if self.opcode == "reduce"
            else f"keys {first}-{end}"
        )
        return f"{self.opcode} sequence {sequence}, head {head}, tile {tile}, {rows}"


@dataclass(frozen=True)
class Trace:
    """A call's events. `residual_us`: the largest distance of a clock, as fitted, from the shared time.

    `unit` is "us" or "step"; steps have no residual.
    """

    events: tuple[Event, ...]
    unit: str
    residual_us: float | None

    def chrome(self) -> dict[str, Any]:
        """The trace-event format: a process a block, a thread a role, arrows from a signal to who waited for it."""
        rows: list[dict[str, Any]] = []
        for block in sorted({event.block for event in self.events}):
            rows.append({"ph": "M", "name": "process_name", "pid": block, "args": {"name": f"block {block}"}})
            rows += [
                {"ph": "M", "name": "thread_name", "pid": block, "tid": tid, "args": {"name": role}}
                for tid, role in enumerate(ROLES)
            ]
        for event in self.events:
            place = {"pid": event.block, "tid": ROLES.index(event.role)}
            span = {"ph": "X", **place, "ts": round(event.start, 4), "dur": round(event.end - event.start, 4)}
            rows.append({**span, "name": event.name, "cat": event.opcode})
            if event.waited > event.start:
                rows.append({**span, "name": "waits", "cat": "wait", "dur": round(event.waited - event.start, 4)})
        rows += self._arrows()
        about = {"unit": self.unit, "clock_residual_us": self.residual_us}
        return {"traceEvents": rows, "displayTimeUnit": "ns", "otherData": about}

    def _arrows(self) -> list[dict[str, Any]]:
        """From each attend that signals a counter to whoever merges what it stored: a reduction, or the last attend."""
        computed = [event for event in self.events if event.role == ROLES[1] and event.fields[COUNTER] >= 0]
        sources: dict[int, list[Event]] = {}
        for event in computed:
            if event.opcode == "attend":
                sources.setdefault(event.fields[COUNTER], []).append(event)
        merging = [event for event in computed if event.opcode == "reduce"]
        merging += [max(them, key=lambda one: one.end) for them in sources.values() if them[0].fields[LAST_REDUCES]]
        arrows: list[dict[str, Any]] = []
        for to in merging:
            for source in sources[to.fields[COUNTER]]:
                if source is not to:
                    both = {"cat": "counter", "name": f"counter {to.fields[COUNTER]}", "id": len(arrows) // 2, "tid": 1}
                    arrows.append({"ph": "s", **both, "pid": source.block, "ts": round(source.end, 4)})
                    arrows.append(
                        {"ph": "f", "bp": "e", **both, "pid": to.block, "ts": round(max(to.waited, source.end), 4)}
                    )
        return arrows


def record(plan: DecodePlan, call: Callable[[], Any]) -> Trace:
    """The trace of a call of `mla_decode` or `paged_attention_decode` with this plan, made by kernels that record.

    Raises ValueError where the call launches nothing that follows the plan.
    """
    log = torch.zeros(plan.blocks, len(ROLES), plan.capacity, NUMBERS, dtype=torch.int64, device=plan.device)
    with recording(log):
        call()
    numbers = log.cpu()
    if not numbers.any():
        raise ValueError("call: launched no paged decode kernel with this plan")
    queues = plan.buffer.cpu()[HEADER_INTS:].view(plan.blocks, plan.capacity, INSTRUCTION_INTS)
    on_gpu = plan.device.type == "cuda"
    times, residual = fit(numbers) if on_gpu else (numbers.double(), None)
    done = numbers[..., 3] > 0
    times = times[..., :3] - times[..., 0][done].min()
    events = []
    for block, role, nth in done.nonzero().tolist():
        fields = tuple(queues[block, nth].tolist())
        start, waited, end = times[block, role, nth].tolist()
        events.append(Event(block, ROLES[role], OPCODES[fields[0]], start, waited, end, fields))
    return Trace(tuple(events), "us" if on_gpu else "step", residual)


def fit(log: Tensor) -> tuple[Tensor, float]:
    """Times in microseconds of a log (block, role, instruction, number) of clocks, and the fit's largest residual.

    Blocks have a multiprocessor each. Their clocks run at one frequency and began at different times. So there is one
    slope for all and an offset for each, by least squares over the instructions' ends, whose shared time is known.
    """
    done = log[..., 3] > 0
    first_tick, first_time = log[..., 2][done].min(), log[..., 3][done].min()
    clock = (log[..., :3] - first_tick).double()
    shared = (log[..., 3] - first_time).double() / 1000
    ends, weights = clock[..., 2], done.double()
    count = weights.sum((1, 2), keepdim=True).clamp_min(1)
    mean_clock = (ends * weights).sum((1, 2), keepdim=True) / count
    mean_shared = (shared * weights).sum((1, 2), keepdim=True) / count
    from_mean, shared_from_mean = (ends - mean_clock) * weights, (shared - mean_shared) * weights
    slope = (from_mean * shared_from_mean).sum() / (from_mean**2).sum().clamp_min(1)
    fitted = mean_shared[..., None] + slope * (clock - mean_clock[..., None])
    residual = ((fitted[..., 2] - shared) * weights).abs().max()
    return fitted, float(residual)


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace one call on random inputs and write the file."""
    parser = argparse.ArgumentParser(
        prog="python -m tk_kernels.trace",
        description="Trace a paged decode call: when each instruction started, waited and ended. ui.perfetto.dev "
        "opens it.",
        epilog="example: python -m tk_kernels.trace --lengths 4641+45118+1730+1696 --new-tokens 4 --out trace.json",
    )
    parser.add_argument("--kind", choices=("mla", "gqa"), default="mla", help="latent attention or grouped heads")
    parser.add_argument("--lengths", default="700+33", help="keys of each sequence, joined by plus signs")
    parser.add_argument("--new-tokens", type=int, default=1, help="queries of each sequence")
    parser.add_argument("--heads", type=int, default=16, help="query heads")
    parser.add_argument("--kv-heads", type=int, default=1, help="key and value heads, of kind gqa")
    parser.add_argument("--page", type=int, default=64, help="keys of a page of the cache")
    parser.add_argument("--schedule", choices=SCHEDULES, default="makespan", help="how the work is dealt out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--out", type=Path, default=Path("trace.json"), help="the trace (default: trace.json)")
    given = parser.parse_args(arguments)
    try:
        lengths = [int(one) for one in given.lengths.split("+")]
    except ValueError:
        parser.error(f"argument --lengths: got {given.lengths!r}, needs whole numbers joined by plus signs")
    if given.page < 1:
        parser.error(f"argument --page: got {given.page}, needs 1 key at least")
    if not given.out.parent.is_dir():
        parser.error(f"there is no folder {given.out.parent} for {given.out.name}")
    if given.out.is_dir():
        parser.error(f"{given.out} is a folder, needs the name of a file")
    heads = {"new_tokens": given.new_tokens, "heads": given.heads, "kv_heads": given.kv_heads}
    try:
        plan = decode_plan(lengths, **heads, kind=given.kind, schedule=given.schedule, device=given.device)
        call = _call(given.kind, plan, given.page)
        record(plan, call)  # what a first launch takes is not shown
        trace = record(plan, call)
    except ValueError as error:
        parser.error(str(error))
    except ToolchainError as error:
        return _failed(parser, str(error))
    except KeyboardInterrupt:
        return _failed(parser, "interrupted; nothing was written", 130)
    try:
        given.out.write_text(json.dumps(trace.chrome()))
    except OSError as error:
        return _failed(parser, f"{given.out} cannot be written: {error.strerror}")
    last = max(event.end for event in trace.events)
    clocks = "" if trace.residual_us is None else f"; clocks fit within {trace.residual_us:.3f} us"
    print(f"{given.out}: {len(trace.events)} events of {plan.blocks} blocks, {last:.1f} {trace.unit}s in all{clocks}")
    return 0


def _failed(parser: argparse.ArgumentParser, words: str, code: int = 1) -> int:
    print(f"{parser.prog}: {words}", file=sys.stderr)
    return code


def _call(kind: str, plan: DecodePlan, page: int) -> Callable[[], Any]:
    """A call with this plan on random inputs."""
    device, generator = plan.device, torch.Generator().manual_seed(0)
    widest = max(1, -(-plan.longest // page))
    table = torch.arange(plan.batch * widest, dtype=torch.int32, device=device).view(plan.batch, widest)
    seqlens = torch.tensor(plan.lengths, dtype=torch.int32, device=device)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device, torch.bfloat16)

    if kind == "mla":
        q, cache = random(plan.batch, plan.new_tokens, plan.heads, WIDTH), random(table.numel(), page, WIDTH)
        return lambda: mla_decode(q, cache, table, seqlens, plan=plan)
    q = random(plan.batch, plan.new_tokens, plan.heads, 128)
    k, v = (random(table.numel(), page, plan.kv_heads, 128) for _ in range(2))
    return lambda: paged_attention_decode(q, k, v, table, seqlens, plan=plan)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as of other commands, where the reader has seen enough
    sys.exit(main())
