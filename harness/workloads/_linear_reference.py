"""Linear attention in float64, chunk by chunk, and what its workloads have in common.

The tensors are those of (batch, head) pairs: queries and keys (P, rows, Dk), values (P, rows, Dv), given as functions
of the rows.  So no float64 copy of a whole input, and no feature map of one, is ever held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch

from harness.workloads._drawing import sample
from harness.workloads.spec import Expected, Magnitude

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


Tensors = dict[str, torch.Tensor]


def sequence_gradients(
    forward: Callable[[Tensors], torch.Tensor], inputs: Mapping[str, torch.Tensor], weights: str, *shared: str
) -> Iterator[tuple[Tensors, Tensors]]:
    """Sequence by sequence, its inputs in float64 and the gradients of sum(output * inputs[weights]), by autograd.

    forward: the output of a batch of one. shared: inputs without a batch dimension.
    """
    for batch in range(len(inputs[weights])):
        own = {name: (one if name in shared else one[batch : batch + 1]).double() for name, one in inputs.items()}
        leaves = {name: one.requires_grad_() for name, one in own.items() if name != weights}
        with torch.enable_grad():
            out = forward(leaves)
        found = torch.autograd.grad(out, list(leaves.values()), own[weights], allow_unused=True)
        gradients = dict(zip(leaves, found, strict=True))
        yield {name: one.detach() for name, one in own.items()}, gradients


FP32 = 2.0**-12
"""What sums in fp32 lose, in units of a rounding to bf16: 2^-15 for one, and more for many."""


def decay_terms(q: torch.Tensor, dq: torch.Tensor, k: torch.Tensor, dk: torch.Tensor) -> torch.Tensor:
    """Squared sizes (..., N) of a step's terms in the gradients of decays, from each head's (..., N, D).

    A decay's gradient is the sum of q_s . dq_s - k_s . dk_s over the steps s from its own on. What of both has its two
    rows there cancels: with strong decays almost all. The products are the same numbers in both, whatever was rounded
    before, so that what is left of them is the error of fp32.
    """
    return (q * dq).square().sum(-1) + (k * dk).square().sum(-1)


def later(tensor: torch.Tensor) -> torch.Tensor:
    """The sums (..., N) over all steps from each on."""
    return tensor.flip(-1).cumsum(-1).flip(-1)


def expected_column(output: str, values: torch.Tensor, squares: torch.Tensor, *, by_time: bool = False) -> Expected:
    """Numbers of steps or heads, (..., N), each a row of its own, with the squared sizes of what cancels in fp32.

    by_time: the output itself is (B, N, H), and neighbours are independent. Those of sums over later steps are not: a
    band of them may lie where the sum crosses 0, so that bands are not judged.
    """
    sizes = FP32 * squares.sqrt()
    magnitude = Magnitude(sizes, float(sizes.max()))

    def select(whole: torch.Tensor) -> torch.Tensor:
        return (whole.transpose(1, 2) if by_time else whole)[..., None]

    return Expected(output, values[..., None], select, cancelled=magnitude, bands="tiles" if by_time else "")


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of an output."""
    return tensor


def uniform(shape: tuple[int, ...], generator: torch.Generator, low: float, high: float) -> torch.Tensor:
    """A float32 tensor, U(low, high)."""
    return torch.empty(shape, dtype=torch.float32, device=generator.device).uniform_(low, high, generator=generator)
