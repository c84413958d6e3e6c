"""Linear attention in float64, chunk by chunk, and what its workloads have in common.

The tensors are those of (batch, head) pairs: queries and keys (P, rows, Dk), values (P, rows, Dv), given as functions
of the rows.  So no float64 copy of a whole input, and no feature map of one, is ever held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from harness.workloads._drawing import sample

CHUNK = 128
"""Rows taken together: within them the weights are a matrix, before them a state."""

FULL_CHECK_FLOPS = {"cuda": 2**44, "cpu": 2**31}
"""Largest problem checked in full, by the operations of its reference: 2^44 is above the paper's largest, less than a
second of float64 on data-center GPUs; 2^31 takes about a second on two CPU cores. Beyond, (batch, head) pairs are
sampled."""

MIN_PAIRS = 4
"""(batch, head) pairs that a sampled check computes at least; the first and the last are among them."""

Rows = Callable[[slice], torch.Tensor]


class Pairs:
    """The (batch, head) pairs of a problem that are checked: all, or a seeded sample of as many as can be afforded.

    flops: operations of the reference for all pairs.
    """

    def __init__(self, batches: int, heads: int, flops: int, seed: int, device: torch.device) -> None:
        count = batches * heads
        affordable = max(MIN_PAIRS, count * FULL_CHECK_FLOPS[device.type] // max(1, flops))
        chosen = sample(count, affordable, seed)
        self.note = "" if len(chosen) == count else f"checked on {len(chosen)} of {count} (batch, head) pairs"
        self.batch = torch.div(chosen, heads, rounding_mode="floor").to(device)
        self.head = (chosen % heads).to(device)
        self._heads = heads

    def __len__(self) -> int:
        return len(self.batch)

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """(B, H, ...) to (pairs, ...)."""
        return tensor[self.batch, self.head]

    def rows(self, tensor: torch.Tensor) -> Rows:
        """Rows of (B, G, N, ...), of which H / G heads read one group, in float64: (pairs, rows, ...)."""
        group = torch.div(self.head * tensor.shape[1], self._heads, rounding_mode="floor")
        return lambda rows: tensor[:, :, rows][self.batch, group].double()

    def rows_by_time(self, tensor: torch.Tensor) -> Rows:
        """As `rows`, of a tensor (B, N, G, ...)."""
        return self.rows(tensor.transpose(1, 2))


def chunks(length: int, size: int | None = None) -> Iterator[slice]:
    """Slices of `size` rows, of `CHUNK` if not given, that cover `length` rows."""
    size = size or CHUNK
    for first in range(0, length, size):
        yield slice(first, min(first + size, length))


def scan(
    length: int,
    queries: Rows,
    keys: Rows,
    values: Rows,
    log_decay: Rows | None = None,
    initial_state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (P, N, Dv), state (P, Dk, Dv)), float64: state_t = exp(g_t) state_{t-1} + k_t (x) v_t, o_t = q_t state_t.

    Within a chunk o_i = sum over j <= i of exp(c_i - c_j) (q_i . k_j) v_j, c the running sum of g; the differences are
    taken before the exponential, which is never of a positive number.
    """
    state = initial_state
    parts = []
    for rows in chunks(length):
        q, k, v = queries(rows), keys(rows), values(rows)
        g = log_decay(rows) if log_decay is not None else torch.zeros(q.shape[:2], dtype=q.dtype, device=q.device)
        total = g.cumsum(-1)
        between = total[:, :, None] - total[:, None, :]
        later = torch.ones(between.shape[1:], dtype=torch.bool, device=q.device).triu(1)
        weights = (q @ k.transpose(1, 2)) * between.masked_fill(later, -torch.inf).exp()
        out = weights @ v
        if state is not None:
            out += total.exp()[:, :, None] * (q @ state)
        parts.append(out)
        last = total[:, -1:]
        increment = (k * (last - total).exp()[:, :, None]).transpose(1, 2) @ v
        state = increment if state is None else last.exp()[:, :, None] * state + increment
    assert state is not None
    return torch.cat(parts, dim=1), state


def uniform(shape: tuple[int, ...], generator: torch.Generator, low: float, high: float) -> torch.Tensor:
    """A float32 tensor, U(low, high)."""
    return torch.empty(shape, dtype=torch.float32, device=generator.device).uniform_(low, high, generator=generator)
