"""What the paged decode workloads share: lengths written as text, page tables, and what lies behind the end.

Each of B sequences has Q new tokens at its end, which are the queries; new token t, 0 the oldest, sees the keys
j < length - (Q - 1 - t).  A token that sees none has an output of 0.  Keys lie in pages of `page` rows, the i-th of
which is page block_table[b, i] of the cache.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch

from harness.records.errors import HarnessError
from harness.workloads._drawing import draw
from harness.workloads._rounding import roundings
from harness.workloads.spec import Expected, ProblemSpec, Tolerance

PAGES = (16, 32, 64, 128, 256)

DISTRIBUTIONS = ("normal", "poisoned", "zeros")
"""normal: N(0, 1) with needles (`add_needles`), in unused pages too, and table entries behind the end that are pages.
poisoned: as normal, with NaN in unused pages and in the tails of last pages, and table entries behind the end that are
no pages.  zeros: all zero."""

LARGEST_ENTRY = 2**31 - 1
"""What poisoned tables have behind the end."""

NEEDLE, TILE = 0.1, 64
"""Weight of a needle, of that of all ordinary keys together; keys of a tile."""

SPARE = 16
"""One page in so many of the cache belongs to no sequence; one at least."""

_RANDOM = re.compile(r"(\d+)-(\d+)(?:@(\d+))?")


@lru_cache(maxsize=256)
def lengths_of(text: str, batch: int) -> tuple[int, ...]:
    """The lengths that a problem's text stands for; raises `HarnessError`.

    `4096`: all sequences are that long.  `5+0+17`: one after another, as many as there are sequences.  `256-1024`:
    drawn evenly from 256 to 1024, always the same for a batch size; `256-1024@3` is draw 3.
    """
    if text.isdigit():
        lengths = [int(text)] * batch
    elif match := _RANDOM.fullmatch(text):
        low, high, draw = int(match[1]), int(match[2]), int(match[3] or 0)
        if low > high:
            raise HarnessError(f"problem: lengths is {text!r}, its first number has to be the smaller one")
        chosen = random.Random(f"{batch} {low} {high} {draw}")
        lengths = [low + int(chosen.random() * (high - low + 1)) for _ in range(batch)]
    elif re.fullmatch(r"\d+(\+\d+)+", text):
        lengths = [int(one) for one in text.split("+")]
    else:
        raise HarnessError(f"problem: lengths is {text!r}, needs to be like 4096, 5+0+17, 256-1024 or 256-1024@3")
    if len(lengths) != batch:
        raise HarnessError(f"problem: lengths is {text!r}, {len(lengths)} sequences, and B is {batch}")
    if max(lengths) >= 2**31:
        raise HarnessError(f"problem: lengths is {text!r}, needs lengths below 2^31")
    return tuple(lengths)


@dataclass(frozen=True, kw_only=True)
class PagedProblem(ProblemSpec):
    """B sequences of `lengths` (see `lengths_of`), Q new tokens each, H query heads; the last key is `page`, one of
    `PAGES`.
    """

    B: int
    lengths: str
    Q: int
    H: int

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths_of(self.lengths, self.B)
        if (page := vars(self)["page"]) not in PAGES:
            raise HarnessError(f"problem: page is {page}, needs to be one of {', '.join(map(str, PAGES))}")

    @property
    def seqlens(self) -> tuple[int, ...]:
        """Keys of each sequence."""
        return lengths_of(self.lengths, self.B)


def pages_of(length: int, page: int) -> int:
    """Pages that a sequence takes."""
    return -(-length // page)


def pages_in_cache(lengths: tuple[int, ...], page: int) -> int:
    """Pages of the cache: those of all sequences, and spare ones."""
    used = sum(pages_of(length, page) for length in lengths)
    return used + max(1, used // SPARE)


def make_table(
    lengths: tuple[int, ...], page: int, generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """block_table (B, most pages) and seqlens (B,), int32 on the generator's device; pages in random order."""
    device = generator.device
    pages = pages_in_cache(lengths, page)
    order = torch.randperm(pages, generator=generator, device=device, dtype=torch.int32)
    behind = LARGEST_ENTRY if distribution == "poisoned" else 0
    width = max(1, *(pages_of(length, page) for length in lengths))
    table = torch.full((len(lengths), width), behind, dtype=torch.int32, device=device)
    taken = 0
    for sequence, length in enumerate(lengths):
        count = pages_of(length, page)
        table[sequence, :count] = order[taken : taken + count]
        taken += count
    return {"block_table": table, "seqlens": torch.tensor(lengths, dtype=torch.int32, device=device)}


def make_cache(
    shape: tuple[int, ...],
    lengths: tuple[int, ...],
    table: torch.Tensor,
    generator: torch.Generator,
    distribution: str,
) -> torch.Tensor:
    """A cache (pages, page, ...) in bfloat16, poisoned where the distribution says so."""
    cache = draw(shape, generator, distribution, DISTRIBUTIONS)
    if distribution != "poisoned":
        return cache
    page, used = shape[1], torch.zeros(shape[0], dtype=torch.bool, device=cache.device)
    for sequence, length in enumerate(lengths):
        count = pages_of(length, page)
        used[table[sequence, :count].long()] = True
        if length % page:
            cache[int(table[sequence, count - 1]), length % page :] = torch.nan
    cache[~used] = torch.nan
    return cache


def add_needles(
    lengths: tuple[int, ...],
    scale: float,
    q: torch.Tensor,
    keys: torch.Tensor,
    table: torch.Tensor,
    generator: torch.Generator,
) -> torch.Tensor:
    """Changes q and keys so that some keys carry about a tenth of the weight each; returns which heads look for them.

    q: (B, Q, H, D); keys: (pages, page, Hkv, D); half of the heads look, at random, and the others see all keys alike.
    Needles are the last key of each new token, and of each sequence, at random, any key, a page's first and last and a
    tile's last. They differ from other keys along one direction, which is drawn and which the heads look into. Other
    keys have low scores there, and needles ordinary ones, so that rounded scores are no worse than without.
    """
    (batch, tokens, heads, width), page, device = q.shape, keys.shape[1], q.device
    length = torch.tensor(lengths, device=device)[:, None]
    some = (torch.rand((batch, 4), generator=generator, device=device) * length).long()
    some[:, 1] += page - 1 - some[:, 1] % page
    some[:, 2] += TILE - 1 - some[:, 2] % TILE
    some[:, 3] -= some[:, 3] % page
    last = length - 1 - torch.arange(tokens, device=device)
    used = length[:, 0] > 0
    positions = torch.cat([last, some], 1).clamp(min=0).minimum(length - 1)[used]
    where = table[used].gather(1, positions // page).long(), positions % page
    direction = torch.randn((keys.shape[2], width), generator=generator, device=device)
    direction /= torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    above = (NEEDLE * torch.e * length[used]).log().clamp(min=0)  # whose exponential is a tenth of all the others'
    most = float(above.max()) if len(above) else 0.0
    needles = keys[where].float()
    needles += ((above - most)[..., None, None] - (needles * direction).sum(-1, keepdim=True)) * direction
    keys -= (most * direction).to(keys.dtype)
    keys[where] = needles.to(keys.dtype)
    look = torch.randperm(heads, generator=generator, device=device) < -(-heads // 2)
    q[:, :, look] += (direction / scale).repeat_interleave(heads // keys.shape[2], 0)[look].to(q.dtype)
    return look


def tolerance(problem: ProblemSpec, expected: Expected) -> Tolerance:
    """Five times what rounding the exact output to bf16 costs, as `attention` explains."""
    return roundings(expected, "as for attention")


def of_heads(out: torch.Tensor) -> Expected:
    """The output (B, Q, H, Dv), of which each head of each token is judged by itself: some have small outputs."""
    return Expected("out", out[..., None, :], lambda whole: whole[..., None, :])


def keys_of(cache: torch.Tensor, inputs: Mapping[str, torch.Tensor], sequence: int, length: int) -> torch.Tensor:
    """The first `length` rows of a sequence, (length, ...), in float64."""
    pages = inputs["block_table"][sequence, : pages_of(length, cache.shape[1])].long()
    return cache[pages].flatten(0, 1)[:length].double()


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """softmax(scale q k^T) v of one sequence, (Q, H, Dv) float64, by the explicit formula.

    q: (Q, H, D), k: (Hkv, length, D), v: (Hkv, length, Dv); query head h reads key head h // (H / Hkv).
    """
    tokens, heads = q.shape[:2]
    key_heads, length, width = k.shape[0], k.shape[1], v.shape[2]
    rows = q.double().unflatten(1, (key_heads, heads // key_heads)).permute(1, 0, 2, 3).flatten(1, 2)
    scores = scale * rows @ k.mT
    token = torch.arange(tokens, device=q.device).repeat_interleave(heads // key_heads)
    hidden = torch.arange(length, device=q.device) >= (length - (tokens - 1 - token))[:, None]
    scores.masked_fill_(hidden, -torch.inf)
    if length:
        scores -= scores.amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float64).min)
    weights = scores.exp_()
    total = weights.sum(-1, keepdim=True)
    out = (weights @ v).div_(total.masked_fill(total == 0, 1.0))
    return out.unflatten(1, (tokens, heads // key_heads)).permute(1, 0, 2, 3).reshape(tokens, heads, width)
