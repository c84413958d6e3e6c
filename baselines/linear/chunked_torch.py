"""The linear attentions in PyTorch, chunk by chunk; import it only inside methods.

Products are of bf16 matrices, as PyTorch multiplies them: accumulated in fp32 and rounded. Decays, sums over chunks and
normalisers are fp32. All chunks are computed together; what is carried from one to the next is a cumulative sum, or,
with decays, a product with the matrix of decays between chunks.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

ALIGNED = 8
"""Columns are padded to a multiple of this: cuBLAS's fast kernels want rows of 16 bytes."""

BLOCK = 64
"""Rows of a block of Hedgehog's window."""

FLOOR = 1e-6
"""Hedgehog's least feature; what Based and Hedgehog add to a sum of weights before it divides."""


def _chunks(tensor: Tensor, chunk: int, dim: int = 2) -> Tensor:
    """(..., N, ...) to (..., chunks, chunk, ...), with zeros after row N."""
    missing = -tensor.shape[dim] % chunk
    if missing:
        tensor = pad(tensor, (0, 0) * (tensor.ndim - 1 - dim) + (0, missing))
    return tensor.unflatten(dim, (-1, chunk))


def _with_ones(v: Tensor) -> Tensor:
    """The values, a column of ones whose sums are the normaliser, and zeros up to a multiple of `ALIGNED`."""
    width = v.shape[-1]
    padded = pad(v, (0, ALIGNED + -width % ALIGNED))
    column = torch.arange(padded.shape[-1], device=v.device) == width
    return torch.where(column, torch.ones_like(padded), padded)


def decayed(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None = None, *, scale: float, chunk: int, return_state: bool
) -> Tensor | tuple[Tensor, Tensor]:
    """Linear attention with a scalar decay.

    q, k: (B, G, N, S), v: (B, H, N, P) bf16, log_decay: (H,) or (B, H, N) fp32 -> out (B, H, N, P) bf16; with
    `return_state` also the state (B, H, S, P) fp32. Head h reads group h // (H / G).
    """
    batch, groups, length, _ = q.shape
    heads = v.shape[1]
    if log_decay is None:
        log_decay = torch.zeros(heads, device=v.device)
    if log_decay.ndim == 1:
        log_decay = log_decay[None, :, None].expand(batch, heads, length)
    q, k, v = (_chunks(tensor, chunk) for tensor in (q, k, v))
    total = _chunks(log_decay, chunk).cumsum(-1)  # (B, H, C, c)
    v, total = (tensor.unflatten(1, (groups, heads // groups)) for tensor in (v, total))  # (B, G, R, C, c, ...)
    last = total[..., -1:]
    hidden = torch.ones(chunk, chunk, dtype=torch.bool, device=v.device).triu(1)
    between = (total[..., :, None] - total[..., None, :]).masked_fill(hidden, -torch.inf).exp()
    weights = (q @ k.transpose(-1, -2)).unsqueeze(2) * between  # fp32
    inside = weights.to(v.dtype) @ v
    kept = (k.unsqueeze(2) * (last - total).exp()[..., None]).to(v.dtype)
    increments = (kept.transpose(-1, -2) @ v).float()  # (B, G, R, C, S, P)
    carried = _carry(increments, last[..., 0])
    before = q.unsqueeze(2) @ carried[:, :, :, :-1].to(v.dtype)
    out = (inside + before * total.exp()[..., None]) * scale
    out = out.to(v.dtype).flatten(3, 4).flatten(1, 2)[:, :, :length]
    return (out, carried[:, :, :, -1].flatten(1, 2)) if return_state else out


def _carry(increments: Tensor, last: Tensor) -> Tensor:
    """States before each chunk and after the last: (..., C, S, P) and log decays (..., C) to (..., C + 1, S, P)."""
    count = last.shape[-1]
    total = pad(last.cumsum(-1), (1, 0))  # before chunk i
    after = last.cumsum(-1)  # after chunk j
    hidden = torch.ones(count + 1, count, dtype=torch.bool, device=last.device).triu()
    between = (total[..., :, None] - after[..., None, :]).masked_fill(hidden, -torch.inf).exp()
    return (between @ increments.flatten(-2)).unflatten(-1, increments.shape[-2:])


def ssd(
    x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, *, chunk: int, return_state: bool
) -> Tensor | tuple[Tensor, Tensor]:
    """Mamba-2 from its raw inputs: x (B, N, H, P), dt (B, N, H), a (H,), b, c (B, N, G, S) -> y (B, N, H, P)."""
    v = (x * dt[..., None]).to(x.dtype).transpose(1, 2)
    decay = (dt * a).transpose(1, 2)
    found = decayed(c.transpose(1, 2), b.transpose(1, 2), v, decay, scale=1.0, chunk=chunk, return_state=return_state)
    if isinstance(found, tuple):
        return found[0].transpose(1, 2), found[1].transpose(2, 3)
    return found.transpose(1, 2)


def based(
    q: Tensor, k: Tensor, v: Tensor, *, normalize: bool, chunk: int, return_state: bool
) -> Tensor | tuple[Tensor, ...]:
    """Based: q, k (B, H, N, F), v (B, H, N, D) bf16 -> out bf16, and the states in fp32.

    The column of ones beside the values gives the normaliser; rows past the end have zeros there too.
    """
    (length, width), columns, dtype = q.shape[2:], v.shape[-1], v.dtype
    v = _with_ones(v) if normalize else v
    q, k, v = (_chunks(tensor, chunk) for tensor in (q, k, v))
    s = (q @ k.transpose(-1, -2)).float() * width**-0.5
    w = (1 + s + 0.5 * s * s).tril().to(dtype)
    phi_q, phi_k = _taylor(q), _taylor(k)
    increments = (phi_k.transpose(-1, -2) @ v).float()
    sums = increments.cumsum(2)
    carried = (sums - increments).to(dtype)
    out = ((w @ v).float() + (phi_q @ carried).float()).flatten(2, 3)[:, :, :length]
    if normalize:
        out = out[..., :columns] / (out[..., columns : columns + 1] + FLOOR)
    if not return_state:
        return out.to(dtype)
    orders = sums[:, :, -1, : 1 + width + width**2].split([1, width, width**2], 2)
    states = (orders[0][:, :, 0], orders[1], orders[2].unflatten(2, (width, width)))
    if normalize:
        states = (*(order[..., :columns] for order in states), *(order[..., columns] for order in states))
    return (out.to(dtype), *states)


def _taylor(x: Tensor) -> Tensor:
    """[1, x F^-1/4, x (x) x / sqrt(2 F)] in bf16, and zeros up to a multiple of `ALIGNED`."""
    width = x.shape[-1]
    wide = x.float()
    second = (wide[..., :, None] * wide[..., None, :]).flatten(-2) * (2 * width) ** -0.5
    features = torch.cat([torch.ones_like(wide[..., :1]), wide * width**-0.25, second], -1).to(x.dtype)
    return pad(features, (0, -features.shape[-1] % ALIGNED))


def hedgehog_features(x: Tensor, weight: Tensor) -> Tensor:
    """[softmax(x W), softmax(-x W)], at least `FLOOR`: (B, H, N, D) and (H, D, F) to (B, H, N, 2F), bf16."""
    projected = (x @ weight).float()
    both = torch.cat([projected.softmax(-1), (-projected).softmax(-1)], -1)
    return both.clamp_min(FLOOR).to(x.dtype)


def hedgehog(
    q: Tensor, k: Tensor, v: Tensor, q_map: Tensor, k_map: Tensor, alpha: Tensor, beta: Tensor, *, return_state: bool
) -> Tensor | tuple[Tensor, ...]:
    """Hedgehog: q, k, v (B, H, N, D) bf16 -> out bf16, and the states in fp32."""
    length, width = q.shape[2:]
    phi_q, phi_k = hedgehog_features(q, q_map), hedgehog_features(k, k_map)
    q, k, phi_q, phi_k, v = (_chunks(tensor, BLOCK) for tensor in (q, k, phi_q, phi_k, _with_ones(v)))
    seen_k, seen_v = (torch.cat([_before(tensor), tensor], 3) for tensor in (k, v))
    scores = (q @ seen_k.transpose(-1, -2)).float()
    scores = scores.masked_fill(_outside(q.shape[2], q.device), -torch.inf)
    window = ((scores - scores.amax(-1, keepdim=True)) * width**-0.5).exp() * beta[:, None, None, None]
    increments = (phi_k.transpose(-1, -2) @ v).float()  # (B, H, C, 2F, D and ones)
    sums = increments.cumsum(2)
    far = phi_q @ _before(_before(sums)).to(v.dtype)
    both = (window.to(v.dtype) @ seen_v).float() + far * alpha[:, None, None, None]
    both = both.flatten(2, 3)[:, :, :length]
    out = (both[..., :width] / (both[..., width : width + 1] + FLOOR)).to(v.dtype)
    if not return_state:
        return out
    whole = length // BLOCK - 1
    state = sums[:, :, whole - 1] if whole > 0 else torch.zeros_like(sums[:, :, 0])
    return out, state[..., width], state[..., :width]


def _before(tensor: Tensor) -> Tensor:
    """Of each block the one before it, zeros for the first: (B, H, C, ...)."""
    return torch.cat([torch.zeros_like(tensor[:, :, :1]), tensor[:, :, :-1]], 2)


def _outside(count: int, device: torch.device) -> Tensor:
    """(C, 64, 128): the keys of the block before and of the own block that a query does not see."""
    row, column = torch.arange(BLOCK, device=device)[:, None], torch.arange(2 * BLOCK, device=device)[None]
    first = torch.arange(count, device=device)[:, None, None] == 0
    return (column - BLOCK > row) | (first & (column < BLOCK))
