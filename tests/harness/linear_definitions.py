"""The linear attentions by their definitions, in float64, and as a chunked kernel computes them, with its roundings.

Nothing here is written as the references under test are: weights as whole matrices, states by recurrence, row by row.
"""

from __future__ import annotations

import torch


def expand(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """(B, G, ...) to (B, H, ...)."""
    return tensor.repeat_interleave(heads // tensor.shape[1], 1)


def based(p, inputs):
    """All outputs, from the matrix of weights and from sums over the keys."""
    q, k, v = (inputs[name].double() for name in "qkv")
    s = q @ k.transpose(-1, -2) / p.F**0.5
    w = (1 + s + s**2 / 2).tril()
    out = w @ v
    if p.normalize:
        out = out / (w.sum(-1, keepdim=True) + 1e-6)
    if not p.return_state:
        return (out,)
    second = torch.einsum("bhni,bhnj->bhnij", k, k) / (2 * p.F) ** 0.5
    sums = [v.sum(2), torch.einsum("bhni,bhnd->bhid", k, v) / p.F**0.25, torch.einsum("bhnij,bhnd->bhijd", second, v)]
    if p.normalize:
        sums += [torch.full(v.shape[:2], float(p.N), dtype=torch.float64), k.sum(2) / p.F**0.25, second.sum(2)]
    return (out, *sums)


def recurrence(q, k, v, log_decay, scale):
    """(out, state) row by row; (B, H, N, .) and (B, H, N)."""
    state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], dtype=torch.float64)
    rows = []
    for t in range(q.shape[2]):
        state = log_decay[:, :, t].exp()[..., None, None] * state + k[:, :, t, :, None] * v[:, :, t, None, :]
        rows.append(scale * (q[:, :, t, None, :] @ state)[:, :, 0])
    return torch.stack(rows, 2), state


def linear_attention(p, inputs):
    q, k, v = (inputs[name].double() for name in "qkv")
    decay = inputs.get("log_decay", torch.zeros(p.H))
    decay = (decay[None, :, None] if decay.ndim == 1 else decay).double().expand(q.shape[:3])
    return recurrence(q, k, v, decay, p.D**-0.5)[: 1 + p.return_final_state]


def mamba2(p, inputs):
    if p.boundary == "prepared":
        q, k = (expand(inputs[name].double(), p.H) for name in "qk")
        found = recurrence(q, k, inputs["v"].double(), inputs["log_decay"].double(), 1.0)
        return found[: 1 + p.return_final_state]
    keys, queries = (expand(inputs[name].double().transpose(1, 2), p.H) for name in ("B", "C"))
    x, dt = (inputs[name].double().transpose(1, 2) for name in ("x", "dt"))
    decay = dt * inputs["A"].double()[:, None]
    out, state = recurrence(queries, keys, x * dt[..., None], decay, 1.0)
    return (out.transpose(1, 2), state.transpose(2, 3))[: 1 + p.return_final_state]


def hedgehog_features(x, weight):
    projected = torch.einsum("bhnd,hdf->bhnf", x, weight)
    return torch.cat([projected.softmax(-1), (-projected).softmax(-1)], -1).clamp_min(1e-6)


def hedgehog(p, inputs):
    """Both kinds of weights as whole matrices, under masks of blocks."""
    given = {name: tensor.double() for name, tensor in inputs.items()}
    q, k, v = (given[name] for name in "qkv")
    phi_q, phi_k = hedgehog_features(q, given["q_map"]), hedgehog_features(k, given["k_map"])
    block = torch.arange(p.N) // 64
    apart = block[:, None] - block[None, :]
    near = (apart <= 1) & torch.ones(p.N, p.N, dtype=torch.bool).tril()
    scores = (q @ k.transpose(-1, -2)).masked_fill(~near, -torch.inf)
    window = ((scores - scores.amax(-1, keepdim=True)) / p.D**0.5).exp() * given["beta"][:, None, None]
    linear = (phi_q @ phi_k.transpose(-1, -2)).masked_fill(apart < 2, 0) * given["alpha"][:, None, None]
    weights = window + linear
    out = weights @ v / (weights.sum(-1, keepdim=True) + 1e-6)
    if not p.return_state:
        return (out,)
    kept = max(0, p.N // 64 - 1) * 64
    return out, phi_k[:, :, :kept].sum(2), phi_k[:, :, :kept].transpose(-1, -2) @ v[:, :, :kept]


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.bfloat16().float()


def chunked(q, k, v, log_decay, chunk=64):
    """A chunked kernel's (out, state) in fp32: weights, decayed keys and the state that is multiplied are bf16."""
    state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    parts = []
    for first in range(0, q.shape[2], chunk):
        rows = slice(first, first + chunk)
        q_, k_, v_ = (tensor[:, :, rows] for tensor in (q, k, v))
        total = log_decay[:, :, rows].cumsum(-1)
        between = (total[..., :, None] - total[..., None, :]).tril()
        weights = ((q_ @ k_.transpose(-1, -2)) * between.exp()).tril()
        parts.append(rounded(weights) @ v_ + total.exp()[..., None] * (q_ @ rounded(state)))
        last = total[..., -1:]
        state = last.exp()[..., None] * state + rounded(k_ * (last - total).exp()[..., None]).transpose(-1, -2) @ v_
    return torch.cat(parts, 2), state


def emulated_linear_attention(p, inputs):
    q, k, v = (inputs[name].float() for name in "qkv")
    decay = inputs.get("log_decay", torch.zeros(p.H))
    decay = (decay[None, :, None] if decay.ndim == 1 else decay).expand(q.shape[:3])
    out, state = chunked(q, k, v, decay)
    return ((out * p.D**-0.5).bfloat16(), state)[: 1 + p.return_final_state]


def emulated_mamba2(p, inputs):
    if p.boundary == "prepared":
        q, k = (expand(inputs[name].float(), p.H) for name in "qk")
        out, state = chunked(q, k, inputs["v"].float(), inputs["log_decay"])
        return (out.bfloat16(), state)[: 1 + p.return_final_state]
    keys, queries = (expand(inputs[name].float().transpose(1, 2), p.H) for name in ("B", "C"))
    x, dt = (inputs[name].float().transpose(1, 2) for name in ("x", "dt"))
    out, state = chunked(queries, keys, rounded(x * dt[..., None]), dt * inputs["A"][:, None])
    return (out.transpose(1, 2).bfloat16(), state.transpose(2, 3))[: 1 + p.return_final_state]


def emulated_based(p, inputs, chunk=64):
    q, k, v = (inputs[name].float() for name in "qkv")

    def features(x):
        second = rounded((x[..., :, None] * x[..., None, :]).flatten(-2)) / (2 * p.F) ** 0.5
        return torch.cat([torch.ones_like(x[..., :1]), x / p.F**0.25, second], -1)

    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    state = torch.zeros(*q.shape[:2], 1 + p.F + p.F**2, v.shape[-1])
    parts = []
    for first in range(0, p.N, chunk):
        rows = slice(first, first + chunk)
        q_, k_, v_ = (tensor[:, :, rows] for tensor in (q, k, v))
        s = q_ @ k_.transpose(-1, -2) / p.F**0.5
        w = (1 + s + s**2 / 2).tril()
        operand = torch.cat([rounded(state[..., :-1]), state[..., -1:]], -1)
        inside = torch.cat([rounded(w) @ v_[..., :-1], w.sum(-1, keepdim=True)], -1)
        parts.append(inside + features(q_) @ operand)
        state = state + features(k_).transpose(-1, -2) @ v_
    sums = torch.cat(parts, 2)
    out = sums[..., :-1] / (sums[..., -1:] + 1e-6) if p.normalize else sums[..., :-1]
    if not p.return_state:
        return (out.bfloat16(),)
    orders = state.split([1, p.F, p.F**2], 2)
    shaped = [orders[0][:, :, 0], orders[1], orders[2].unflatten(2, (p.F, p.F))]
    states = [order[..., :-1].contiguous() for order in shaped]
    if p.normalize:
        states += [order[..., -1].contiguous() for order in shaped]
    return (out.bfloat16(), *states)


def emulated_hedgehog(p, inputs, in_memory=False):
    """As a fused kernel rounds, or with the projections and features in bf16 memory."""
    maybe = rounded if in_memory else lambda tensor: tensor
    q, k, v, q_map, k_map = (inputs[name].float() for name in ("q", "k", "v", "q_map", "k_map"))
    alpha, beta = (inputs[name][:, None, None] for name in ("alpha", "beta"))

    def features(x, weight):
        projected = maybe(torch.einsum("bhnd,hdf->bhnf", x, weight))
        return rounded(torch.cat([projected.softmax(-1), (-projected).softmax(-1)], -1).clamp_min(1e-6))

    phi_q, phi_k = features(q, q_map), features(k, k_map)
    k_state, kv_state = torch.zeros(p.B, p.H, 2 * p.F), torch.zeros(p.B, p.H, 2 * p.F, p.D)
    parts = []
    for block in range(-(-p.N // 64)):
        rows, seen = slice(64 * block, 64 * block + 64), slice(max(0, 64 * block - 64), 64 * block + 64)
        scores = q[:, :, rows] @ k[:, :, seen].transpose(-1, -2)
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.shape[-1] - scores.shape[-2])
        scores = scores.masked_fill(later, -torch.inf)
        window = beta * ((scores - scores.amax(-1, keepdim=True)) / p.D**0.5).exp()
        linear = phi_q[:, :, rows] @ rounded(kv_state)
        total = window.sum(-1) + alpha[..., 0] * (phi_q[:, :, rows] @ k_state[..., None])[..., 0]
        parts.append((rounded(window) @ v[:, :, seen] + alpha * linear) / (total[..., None] + 1e-6))
        if block >= 1 and block < p.N // 64:
            gone = slice(64 * block - 64, 64 * block)
            k_state = k_state + phi_k[:, :, gone].sum(2)
            kv_state = kv_state + phi_k[:, :, gone].transpose(-1, -2) @ v[:, :, gone]
    out = torch.cat(parts, 2).bfloat16()
    return (out, k_state, kv_state) if p.return_state else (out,)
