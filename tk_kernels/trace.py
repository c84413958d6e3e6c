"""When each instruction of a call started, waited and ended: a Chrome trace, which ui.perfetto.dev opens.

    trace = record(plan, lambda: tk.mla_decode(q, cache, table, seqlens, plan=plan))
    Path("trace.json").write_text(json.dumps(trace.chrome()))

Of the operators that follow a plan: paged decode, and `tk.llama_decode`. `python -m harness trace` does so for a
problem of a workload.

On a GPU times are in microseconds: each multiprocessor's clock is fitted to the time that all of them share, and how
far it is off is in the file. On the CPU there is no time: what is shown is the order in which the emulator goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tk_kernels.kernels.decode.plan import HEADER_INTS, INSTRUCTION_INTS, DecodePlan
from tk_kernels.kernels.llama_decode.operator import LlamaPlan
from tk_kernels.ops.recording import recording

ROLES = ("loads", "multiplies")
LLAMA_ROLES = (*ROLES, "stores")
NUMBERS = 4
OPCODES = {1: "attend", 2: "reduce"}
LLAMA_OPCODES = {1: "qkv", 2: "attend", 3: "out", 4: "gate_up", 5: "down", 6: "head"}
COUNTER, LAST_REDUCES, FIRST_ROW, END_ROW = 7, 10, 11, 12
"""Of an instruction's fields, as decode's layout.h has them."""


@dataclass(frozen=True)
class Event:
    """An instruction as one role of one block carried it out. Times are in microseconds, or steps of the emulator.

    `waited` is when its first wait was over: for keys or for other blocks' parts; of a Llama's multiplies, when their
    input was made too. `fields` are the instruction's, as the `layout.h` of its kernel has them; `round` counts the
    tokens of a launch. Where the last block to store a part of a tile reduces it, that is within its attend.
    """

    block: int
    role: str
    opcode: str
    start: float
    waited: float
    end: float
    fields: tuple[int, ...]
    name: str
    """What a viewer writes on it."""
    round: int = 0


@dataclass(frozen=True)
class Trace:
    """A call's events. `residual_us`: the largest distance of a clock, as fitted, from the shared time.

    `unit` is "us" or "step"; steps have no residual.
    """

    events: tuple[Event, ...]
    unit: str
    residual_us: float | None

    def chrome(self) -> dict[str, Any]:
        """The trace-event format: a process a block, a thread a role, arrows from a signal to who waited for it.

        A Llama's blocks all wait for all: there are no arrows.
        """
        rows: list[dict[str, Any]] = []
        roles = [role for role in LLAMA_ROLES if any(event.role == role for event in self.events)]
        for block in sorted({event.block for event in self.events}):
            rows.append({"ph": "M", "name": "process_name", "pid": block, "args": {"name": f"block {block}"}})
            rows += [
                {"ph": "M", "name": "thread_name", "pid": block, "tid": tid, "args": {"name": role}}
                for tid, role in enumerate(roles)
            ]
        for event in self.events:
            place = {"pid": event.block, "tid": roles.index(event.role)}
            span = {"ph": "X", **place, "ts": round(event.start, 4), "dur": round(event.end - event.start, 4)}
            rows.append({**span, "name": event.name, "cat": event.opcode})
            if event.waited > event.start:
                rows.append({**span, "name": "waits", "cat": "wait", "dur": round(event.waited - event.start, 4)})
        if len(roles) == len(ROLES):
            rows += self._arrows()
        about = {"unit": self.unit, "clock_residual_us": self.residual_us}
        return {"traceEvents": rows, "displayTimeUnit": "ns", "otherData": about}

    def between(self, before: str, after: str) -> Tensor:
        """A Llama's hand-overs from an operation to the next of another one, (times, blocks).

        Each is from the last block's last page of `before` to a block's first page of `after`: what no page is used in,
        where one follows the other.
        """
        ends: dict[tuple[int, int], float] = {}
        begins: dict[tuple[int, int], list[float]] = {}
        for event in self.events:
            key = (event.round, event.fields[2])  # the counter that it signals
            if event.role == "multiplies" and event.opcode == before:
                ends[key] = max(ends.get(key, 0.0), event.end)
            if event.role == "multiplies" and event.opcode == after:
                begins.setdefault(key, []).append(event.waited)
        found = [
            [one - ends[max(had)] for one in begins[key]] for key in begins if (had := [e for e in ends if e < key])
        ]
        return torch.tensor(found)

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


def record(plan: DecodePlan | LlamaPlan, call: Callable[[], Any], rounds: int = 1) -> Trace:
    """The trace of a call of an operator with this plan, made by kernels that record.

    rounds: tokens a launch of `llama_decode`. Raises ValueError where the call launches nothing that follows the plan.
    """
    llama = isinstance(plan, LlamaPlan)
    roles, opcodes = (LLAMA_ROLES, LLAMA_OPCODES) if llama else (ROLES, OPCODES)
    size = (plan.blocks, len(roles), plan.capacity * rounds, NUMBERS)
    log = torch.zeros(size, dtype=torch.int64, device=plan.device)
    with recording(log):
        call()
    numbers = log.cpu()
    if not numbers.any():
        raise ValueError("call: launched no kernel that follows this plan")
    program = plan.program if isinstance(plan, LlamaPlan) else plan.buffer
    queues = program.cpu()[HEADER_INTS:].view(plan.blocks, plan.capacity, INSTRUCTION_INTS)
    lengths = (queues[..., 0] > 0).sum(1).tolist()
    on_gpu = plan.device.type == "cuda"
    times, residual = fit(numbers) if on_gpu else (numbers.double(), None)
    done = numbers[..., 3] > 0
    times = times[..., :3] - times[..., 0][done].min()
    events = []
    for block, role, nth in done.nonzero().tolist():
        n, place = divmod(nth, lengths[block])
        fields = tuple(queues[block, place].tolist())
        start, waited, end = times[block, role, nth].tolist()
        name = _name_in_llama(fields, n) if llama else _name(fields)
        events.append(Event(block, roles[role], opcodes[fields[0]], start, waited, end, fields, name, n))
    return Trace(tuple(events), "us" if on_gpu else "step", residual)


def _name(fields: tuple[int, ...]) -> str:
    sequence, head, tile, first, end = fields[1:6]
    opcode = OPCODES[fields[0]]
    rows = f"rows {fields[FIRST_ROW]}-{fields[END_ROW]}" if opcode == "reduce" else f"keys {first}-{end}"
    return f"{opcode} sequence {sequence}, head {head}, tile {tile}, {rows}"


def _name_in_llama(fields: tuple[int, ...], n: int) -> str:
    opcode, layer, first, count, last = LLAMA_OPCODES[fields[0]], fields[1], *fields[4:7]
    if opcode == "attend":
        return f"token {n}, layer {layer}, attend sequence {first}, head {count}, part {last}"
    where = "" if opcode == "head" else f"layer {layer}, "
    return f"token {n}, {where}{opcode} pages {first}-{first + count}"


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
