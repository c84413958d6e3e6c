"""`decode_plan`: which block of a paged decode kernel attends which keys, worked out on the host before the launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...ops.library import compiled
from ...ops.options import choice, integer

__all__ = ["DecodeCosts", "DecodePlan", "decode_plan"]

VERSION, HEADER_INTS, INSTRUCTION_INTS = 1, 16, 16
"""Of a plan's buffer, as layout.h has them; so are the next ones."""
KEY_STEP = {"mla": 32, "gqa": 64}
MLA_ROWS_PER_TILE, GQA_ROWS_PER_TILE = 64, (16, 64, 128)
"""The rows that a tile can have. Of grouped heads it has 64 at most on GPUs other than Hopper's (`tiles.cuh`)."""
GQA_ONE_TILE = 96
"""So many rows get one tile of 128 instead of two of 64, however few heads there are."""
SCHEDULES = ("static", "makespan", "last")
CPU_BLOCKS = 4
"""Blocks of a plan for CPU tensors: each is emulated."""
LARGEST = 2**31 - 1
MOST_BLOCKS = 4096


@dataclass(frozen=True)
class DecodeCosts:
    """Times in microseconds of one block, by which schedules are compared, and `apart`, a factor.

    `step_us` is a key step of all blocks at 4.2 TB/s, which an H200 reads at, on 132 blocks: 32 keys of 1152 bytes for
    MLA, 64 keys of 512 bytes for grouped heads of 128. The others are what ThunderMLA's scheduler was fitted with on an
    H100 (its blog of 2025-03-04 and its code). A partial starts in 3.0 and stores 64 rows in 4.5. A reduction starts in
    2.0 and reads 16 rows of a source in 0.4. A signal takes 0.5. An output has half of a partial's bytes. Rows of
    grouped heads have a quarter of the bytes of MLA's. A step of 128 rows is taken for as long as one of 64, which the
    memory bounds.

    `MLA_COSTS` are dearer than those where an H200 said so: starts of 4 us, 0.8 for 16 rows. 64 sequences of 256 to
    1024 keys then take 40.4 us instead of 43.2, and four other problems what they took (README.md).

    `apart` is what a partition's time counts where blocks attend the row tiles of a head one after another. Where they
    are begun together they read its keys from memory once. One H100, grouped heads of 128, 16 sequences of 4097 keys:
    two tiles of 64 rows took 184 us the one way and 112 the other. MLA, 128 heads, 32 sequences of 1000 to 9000 keys:
    170 us the one way and 124 the other.
    """

    attend_start_us: float = 3.0
    step_us: float = 1.16
    partial_row_us: float = 4.5 / 64
    output_row_us: float = 4.5 / 128
    reduce_start_us: float = 2.0
    reduce_row_us: float = 0.4 / 16
    hand_over_us: float = 0.5
    apart: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e6:
                raise ValueError(f"{name}: got {value!r}, needs 0 to a million microseconds")
        if self.step_us == 0:
            raise ValueError("step_us: got 0, needs more")
        if self.apart < 1:
            raise ValueError(f"apart: got {self.apart!r}, needs 1 or more")


MLA_COSTS = DecodeCosts(attend_start_us=4.0, reduce_start_us=4.0, reduce_row_us=0.8 / 16, apart=1.25)
GQA_COSTS = DecodeCosts(
    step_us=1.03,
    partial_row_us=DecodeCosts.partial_row_us / 4,
    output_row_us=DecodeCosts.output_row_us / 4,
    reduce_row_us=DecodeCosts.reduce_row_us / 4,
    apart=1.5,
)
COSTS = {"mla": MLA_COSTS, "gqa": GQA_COSTS}


class PlannedCall(NamedTuple):
    """What a plan is for, but for the sequences."""

    kind: str
    device: torch.device
    heads: int
    kv_heads: int
    new_tokens: int


class DecodePlan:
    """A plan for one batch of lengths, on the device of the kernel that reads it.

    `buffer` (int32) has a header of 16 numbers and then a queue of instructions for each block; the layout is in
    `tk_kernels/kernels/decode/layout.h`. Its address and sizes stay, so that a CUDA graph that was captured with it
    runs the plan of the last `refill`. `counters` and `slots` are the sizes of the kernel's scratch memory, whatever
    the lengths; `sizes` are those of a launch, with the blocks and the capacity of a queue. `words` are the counters:
    zero, and left so by each launch. So launches with one plan run one after the other, on one stream: two graphs that
    share a plan must not be replayed at once. `predicted_us` is what the costs say; `longest` is the most keys of a
    sequence.
    """

    def __init__(self, call: PlannedCall, lengths: Tensor, schedule: str, blocks: int, costs: DecodeCosts) -> None:
        self.call, self.batch, self.schedule, self.blocks, self.costs = call, len(lengths), schedule, blocks, costs
        self.kind, self.device, self.heads, self.kv_heads, self.new_tokens = call
        kind, device, heads, kv_heads, new_tokens = call
        rows = heads // kv_heads * new_tokens
        self.rows_per_tile, self.key_step = MLA_ROWS_PER_TILE, KEY_STEP[kind]
        if kind == "gqa":
            most = int(self._function("gqa_most_tile_rows")())
            self.rows_per_tile = gqa_rows_per_tile(rows, self.batch * kv_heads, blocks, most)
        self.row_tiles = -(-rows // self.rows_per_tile)
        tiles = self.batch * kv_heads * self.row_tiles
        if tiles > LARGEST // 4:
            raise ValueError(f"seqlens: {tiles} tiles of {self.rows_per_tile} rows are more than a plan can number")
        self.capacity = 2 * -(-tiles // blocks) + 6  # `usual_capacity` of decode_plan.h
        self.counters, self.slots = blocks, 2 * blocks
        self.sizes = [blocks, self.capacity, self.counters, self.slots, self.rows_per_tile]
        header = [VERSION, *self.sizes, self.key_step, self.batch, kv_heads, self.row_tiles, new_tokens, heads]
        self._costs = torch.tensor(astuple(costs), dtype=torch.float64, device="cpu")
        ints = HEADER_INTS + INSTRUCTION_INTS * blocks * self.capacity
        self._host = torch.empty(ints, dtype=torch.int32, device="cpu", pin_memory=device.type == "cuda")
        self._host[: len(header)] = torch.tensor(header, dtype=torch.int32, device="cpu")
        self.words = torch.zeros(1 + self.counters, dtype=torch.int32, device=device)
        self._make(lengths)
        self.buffer = self._host.clone() if device.type == "cpu" else self._host.to(device)

    def refill(self, seqlens: Sequence[int] | Tensor) -> DecodePlan:
        """Plan for other lengths of as many sequences, into the same buffer; returns self.

        The copy is ordered on the current stream. Raises ValueError as `decode_plan` does, and changes nothing then.
        """
        lengths = _lengths(seqlens)
        if len(lengths) != self.batch:
            raise ValueError(f"seqlens: got {len(lengths)} sequences, the plan is for {self.batch}; make another plan")
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()  # an earlier copy may still read the host's buffer
        self._make(lengths)
        self.buffer.copy_(self._host, non_blocking=True)
        return self

    def verify(self) -> None:
        """Replay the queues of `buffer`; raises ValueError that says what is wrong with them.

        A plan that passes attends every key of every tile once, writes every row once, and cannot wait for ever.
        """
        words = self._function("verify")(self.buffer.cpu(), self._lengths)
        if words:
            raise ValueError(f"plan: {words}")

    def require(self, call: PlannedCall, batch: int, lengths: Tensor | None = None) -> None:
        """Raise ValueError where the plan is for another call; `lengths` where the host knows them."""
        if (self.call, self.batch) != (call, batch):
            both = zip((*call._fields, "sequences"), (*self.call, self.batch), (*call, batch), strict=True)
            name, own, wanted = next(one for one in both if one[1] != one[2])
            name = name.replace("_", " ")
            raise ValueError(f"plan: is for {name} {own}, the call has {wanted}; make another plan")
        if lengths is not None:
            given = _lengths(lengths)
            different = (given != self._lengths).nonzero()
            if len(different):
                i = int(different[0, 0])
                raise ValueError(
                    f"plan: is for other lengths, sequence {i} has {int(self._lengths[i])} keys there and "
                    f"{int(given[i])} in seqlens; call its refill"
                )

    @property
    def lengths(self) -> tuple[int, ...]:
        """What it was made for, or last refilled for."""
        return tuple(self._lengths.tolist())

    def __repr__(self) -> str:
        return (
            f"DecodePlan({self.kind}, {self.schedule}, {self.batch} sequences, heads {self.heads}:{self.kv_heads}, "
            f"new tokens {self.new_tokens}, {self.blocks} blocks, {self.device}, {self.predicted_us:.1f} us predicted)"
        )

    def _function(self, name: str) -> Any:
        return compiled("decode_plan", self.device, name)

    def _make(self, lengths: Tensor) -> None:
        make = self._function("make")
        self.predicted_us = float(make(SCHEDULES.index(self.schedule), self._costs, lengths, self._host))
        self._lengths, self.longest = lengths, int(lengths.max())


def decode_plan(
    seqlens: Sequence[int] | Tensor,
    *,
    new_tokens: int,
    heads: int,
    kv_heads: int,
    kind: str = "gqa",
    schedule: str = "makespan",
    blocks: int | None = None,
    costs: DecodeCosts | None = None,
    device: torch.device | str = "cuda",
) -> DecodePlan:
    """Plan a call of `mla_decode` (kind "mla") or `paged_attention_decode` ("gqa") for these lengths.

    seqlens: the keys of each sequence, `new_tokens` new ones among them; whole numbers, or a CPU tensor of them. heads:
    query heads, a multiple of kv_heads, which is 1 for MLA. blocks: of the launch, by default as many as the device has
    multiprocessors.

    schedule: "makespan" takes the partition that ends first by `costs`; "last" lets the last block to finish a sequence
    reduce it; "static" cuts equal pieces without a cost model. Raises ValueError that names the argument.
    """
    integer("new_tokens", new_tokens, 1, 1 << 16)
    integer("heads", heads, 1, 1 << 16)
    integer("kv_heads", kv_heads, 1, heads)
    choice("kind", kind, tuple(COSTS))
    choice("schedule", schedule, SCHEDULES)
    if heads % kv_heads:
        raise ValueError(f"heads: got {heads}, needs a multiple of the {kv_heads} kv heads")
    if kind == "mla" and kv_heads != 1:
        raise ValueError(f"kv_heads: got {kv_heads}, MLA has 1")
    if costs is not None and not isinstance(costs, DecodeCosts):
        raise ValueError(f"costs: got a {type(costs).__name__}, needs tk.DecodeCosts")
    where = _device(device)
    if blocks is None:
        many = where.type == "cuda"
        blocks = torch.cuda.get_device_properties(where).multi_processor_count if many else CPU_BLOCKS
    integer("blocks", blocks, 1, MOST_BLOCKS)
    call = PlannedCall(kind, where, heads, kv_heads, new_tokens)
    return DecodePlan(call, _lengths(seqlens), schedule, blocks, costs or COSTS[kind])


def gqa_rows_per_tile(rows: int, heads: int, blocks: int, most: int = GQA_ROWS_PER_TILE[-1]) -> int:
    """Rows of a tile for so many rows of each of so many kv heads, all sequences' together.

    most: what the target has. Over 64 rows the most, so that a head's keys are read once for twice as many rows. But
    where few heads are divided among the blocks, tiles of 64 have fewer partials, and what they read twice is in the L2
    cache. One H100, 32:8 heads, 4097 keys, head dims 64 and 128: tiles of 128 make 68 rows 1.73 and 1.86 times as fast
    with 16 sequences and 1.2 times with one; 128 rows 1.5 and 1.1 times with 16, and 0.82 and 0.76 times with one.
    """
    for enough in GQA_ROWS_PER_TILE[:-1]:
        if rows <= enough:
            return enough
    many = heads * -(-rows // enough) > blocks // 2
    return most if rows <= GQA_ONE_TILE or many else enough


def _device(device: torch.device | str) -> torch.device:
    """The CPU or a GPU with its number. Raises ValueError."""
    try:
        where = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device: got {device!r}, needs a CUDA device or the CPU") from error
    if where.type not in ("cpu", "cuda"):
        raise ValueError(f"device: got {where}, needs a CUDA device or the CPU")
    if where.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device: got cuda, PyTorch finds no CUDA GPU here; device='cpu' emulates one")
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", torch.cuda.current_device())
    return where


def _lengths(seqlens: Sequence[int] | Tensor) -> Tensor:
    """The lengths as an int32 tensor of the host's. Raises ValueError."""
    if isinstance(seqlens, Tensor):
        if seqlens.device.type != "cpu":
            raise ValueError(f"seqlens: is on {seqlens.device}, planning needs them on the host; pass seqlens.tolist()")
        if seqlens.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"seqlens: got {seqlens.dtype}, needs int32 or int64")
        lengths = seqlens
    else:
        listed = list(seqlens)
        if any(isinstance(one, bool) or not isinstance(one, int) for one in listed):
            raise ValueError("seqlens: needs whole numbers")
        if any(abs(one) > LARGEST for one in listed):
            raise ValueError(f"seqlens: needs lengths from 0 to {LARGEST}")
        lengths = torch.tensor(listed, dtype=torch.int64, device="cpu")
    if lengths.dim() != 1 or len(lengths) == 0:
        raise ValueError(f"seqlens: got shape {tuple(lengths.shape)}, needs one length for each sequence")
    wrong = ((lengths < 0) | (lengths > LARGEST)).nonzero()
    if len(wrong):
        i = int(wrong[0, 0])
        raise ValueError(f"seqlens: sequence {i} has {int(lengths[i])} keys, needs 0 to {LARGEST}")
    return lengths.to(torch.int32, copy=True).contiguous()
