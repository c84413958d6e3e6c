"""`llama_decode`: tokens of a Llama, for each sequence of a batch, in one launch; and `llama_plan`, its program."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from ...ops.library import compiled, has_elements
from ...ops.operands import launch
from ...ops.operator import operator
from ...ops.operator_form import Form, Parts
from ...ops.options import integer
from ...ops.recording import unit_for

__all__ = ["LlamaPlan", "LlamaShape", "llama_decode", "llama_plan"]

HEADER_INTS, INSTRUCTION_INTS, BLOCKS, CAPACITY, COUNTERS = 16, 16, 1, 2, 3
"""Of a program, as layout.h and kittens/program/layout.h have them."""
CPU_BLOCKS, GPU_BLOCKS, MOST_BLOCKS = 4, 128, 4096
"""Blocks of a plan, at most: each of the CPU's is emulated. 128 divide the row blocks of most widths evenly."""
IN_FLIGHT, IN_FLIGHT_HEAD = 2, 4
"""Pages that a block asks for at once: whatever blocks hand over waits behind them, and fewer starve the memory."""


class LlamaShape(NamedTuple):
    """The sizes of a Llama, and of a batch: `inner` is the MLP's width, `dim` a head's."""

    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    dim: int
    vocabulary: int
    batch: int = 1


class LlamaPlan:
    """The program of a token, on the device of the kernel that reads it, and what its blocks hand over in.

    It serves every position, so that a CUDA graph replays a call as the sequences grow. Calls with one plan run one
    after the other, on one stream: `words`, the counters, and `scratch` are theirs. `blocks` are those of the launch;
    results depend on their number in the last bits, and on nothing else but the operands.
    """

    def __init__(self, shape: LlamaShape, device: torch.device, blocks: int) -> None:
        self.shape, self.device, self.blocks = shape, device, blocks
        self.header = torch.zeros(HEADER_INTS, dtype=torch.int32, device="cpu")
        self.header[BLOCKS] = blocks
        self.header[4 : 4 + len(shape)] = torch.tensor(shape, dtype=torch.int32, device="cpu")
        if words := str(self._function("refusal")(self.header)):
            raise ValueError(f"llama_plan: {words}")
        self._function("make")(self.header)
        self.capacity = int(self.header[CAPACITY])
        ints = HEADER_INTS + INSTRUCTION_INTS * blocks * self.capacity
        whole = torch.zeros(ints, dtype=torch.int32, device="cpu")
        whole[:HEADER_INTS] = self.header
        self._function("make")(whole)
        self.program = whole.to(device)
        self.words = torch.zeros(1 + int(self.header[COUNTERS]), dtype=torch.int32, device=device)
        floats = int(self._function("scratch_floats")(self.header))
        self.scratch = torch.zeros(floats, dtype=torch.float32, device=device)

    def verify(self) -> None:
        """Replay the queues; raises ValueError that says which wait would never end."""
        if words := str(self._function("check")(self.program.cpu())):
            raise ValueError(f"plan: {words}")

    def _function(self, name: str) -> Any:
        return compiled("llama_decode", self.device, name)


def llama_plan(shape: LlamaShape, *, device: torch.device | str = "cuda", blocks: int | None = None) -> LlamaPlan:
    """Make the plan of `llama_decode` for a Llama's sizes and a batch.

    blocks: of the launch, by default as many as the device has multiprocessors, up to 128. Raises ValueError for sizes
    that no kernel takes.
    """
    for name, size in zip(shape._fields, shape, strict=True):
        integer(name, size, 1, 1 << 24)
    where = torch.device(device)
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", torch.cuda.current_device())
    if blocks is None:
        many = where.type == "cuda"
        blocks = min(GPU_BLOCKS, torch.cuda.get_device_properties(where).multi_processor_count) if many else CPU_BLOCKS
    return LlamaPlan(shape, where, integer("blocks", blocks, 1, MOST_BLOCKS))


class PlanParts(NamedTuple):
    """What a launch takes of a `LlamaPlan`."""

    program: Tensor
    header: Tensor
    words: Tensor
    scratch: Tensor


def _parts(logits: Tensor, *rest: Tensor, plan: LlamaPlan, **options: Any) -> PlanParts:
    """The plan of a call, if it is one for that; raises ValueError."""
    _, _, k_cache, _, _, _, out, gate, _, _, head, *_ = rest
    if not isinstance(plan, LlamaPlan):
        raise ValueError(f"plan: got a {type(plan).__name__}, needs what tk.llama_plan returns")
    L, B, Hkv, _, D = k_cache.shape
    call = LlamaShape(L, out.shape[1], gate.shape[1], out.shape[2] // D, Hkv, D, head.shape[0], B)
    for name, own, wanted in zip(call._fields, plan.shape, call, strict=True):
        if own != wanted:
            raise ValueError(f"plan: is for {name} {own}, the call has {wanted}; make another plan")
    if plan.device != logits.device:
        raise ValueError(f"plan: is on {plan.device}, the call on {logits.device}; make another plan")
    return PlanParts(plan.program, plan.header, plan.words, plan.scratch)


@operator(
    Form("llama_decode", where={"chosen": None}, changes=("logits", "k_cache", "v_cache")),
    Form("llama_decode_tokens", changes=("logits", "k_cache", "v_cache", "chosen")),
    parts=Parts("plan", PlanParts, _parts),
    logits="B V fp32",
    tokens="B int32",
    positions="B int32",
    k_cache="L B Hkv N D bf16",
    v_cache="L B Hkv N D bf16",
    embedding="V W bf16",
    qkv="L rows W bf16",
    out="L W queries bf16",
    gate="L F W bf16",
    up="L F W bf16",
    down="L W F bf16",
    head="V W bf16",
    norms="all_norms W bf16",
    cos="T half fp32",
    sin="T half fp32",
    chosen="B rounds int32",
    bias="L rows bf16",
    head_norms="pairs D bf16",
    where=(
        "queries % D == 0",
        "rows == queries + 2 * Hkv * D",
        "all_norms == 2 * L + 1",
        "pairs == 2 * L",
        "2 * half == D",
        ("T >= N", "a row for each position of the cache, {N}"),
    ),
)
def llama_decode(
    logits: Tensor,
    tokens: Tensor,
    positions: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    embedding: Tensor,
    qkv: Tensor,
    out: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    head: Tensor,
    norms: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    plan: LlamaPlan,
    chosen: Tensor | None = None,
    bias: Tensor | None = None,
    head_norms: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Write the logits of the token behind `tokens`, and append their keys and values; returns logits.

    tokens, positions: of each sequence, its newest token and where it stands. The caches have the keys and values of
    the positions before; those of `positions` are written, others behind them may hold anything.

    chosen: where it is given, (B, rounds), the launch goes on for so many tokens of each sequence: the token of the
    largest logit, the lowest of equal ones, follows. They are written to `chosen`; logits are those that its last
    column was chosen by. All bits are as by so many calls. The caller moves `positions` on.

    All are contiguous and on one device: a Hopper GPU (current stream; CUDA graphs can capture it) or the CPU (slow:
    it emulates the kernel and is for correctness).

    qkv: the projections to queries, keys and values, one below the other, as `bias` is. norms: the weights of both
    norms of each layer, in turn, and the last one. head_norms: those of queries and keys of each layer, in turn
    (Qwen3). cos, sin: of each position's angles; heads turn half-split, as in transformers, whose weights are taken as
    they are. `head` may be `embedding`.

    plan: what `llama_plan` made for these sizes. The same call with as many blocks gives the same bits every time.
    Activations are rounded to bf16 where they are multiplied by weights, keys and values where they are stored; the
    residual stream stays float32.

    There is no backward. Raises ValueError that names the argument for a wrong dtype, device, rank or shape, a tensor
    that is not contiguous, and a plan of another call. Tokens and positions on a GPU are not looked at: the caller
    answers for their ranges.
    """
    program, header, words, scratch = cast(PlanParts, plan)
    if has_elements(logits):
        N, V, rounds = k_cache.shape[3], head.shape[0], 1 if chosen is None else chosen.shape[1]
        if rounds > N:
            raise ValueError(f"chosen: got room for {rounds} tokens, the cache has {N} positions")
        if positions.is_cpu and not bool(((positions >= 0) & (positions <= N - rounds)).all()):
            raise ValueError(
                f"positions: got {positions.tolist()}, needs 0 to {N - rounds}: the cache has {N} positions"
                f"{f', and {rounds} are appended' if rounds > 1 else ''}"
            )
        if tokens.is_cpu and not bool(((tokens >= 0) & (tokens < V)).all()):
            raise ValueError(f"tokens: got {tokens.tolist()}, needs 0 to {V - 1}")
        operands = (tokens, positions, k_cache, v_cache, embedding, qkv, out, gate, up, down, head, norms, cos, sin)
        rest = (chosen, bias, head_norms, program, header, words, scratch, float(epsilon), IN_FLIGHT, IN_FLIGHT_HEAD)
        blocks, instructions = int(header[BLOCKS]), int(header[CAPACITY]) * rounds
        unit = unit_for("llama_decode", "llama_decode_trace", logits.device, blocks, instructions)
        launch(unit, "llama_decode", {"logits": logits}, (*operands, *rest))
    return logits
