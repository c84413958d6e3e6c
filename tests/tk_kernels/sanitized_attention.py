"""Small attention problems, forward and backward, for compute-sanitizer; ends with an error where a result is wrong.

With --out-of-bounds, one forward pass that writes where it may not.
"""

from __future__ import annotations

import itertools

import torch
from sanitized import command_line, finish

import tk_kernels as tk
from tk_kernels import toolchain

SHAPES = ((2, 2, 65, 65), (4, 1, 200, 200), (2, 2, 129, 257), (1, 1, 512, 512), (2, 1, 300, 100))
"""Heads of queries and of keys, queries, keys; with more queries than keys and the mask, some see none."""


def relative_error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got.detach().double() - wanted.detach()).norm() / wanted.detach().norm())


def run(device: str, shape: tuple[int, int, int, int], D: int, causal: bool, deterministic: bool) -> None:
    H, heads_kv, N, N_kv = shape
    q = torch.randn(1, H, N, D, device=device).bfloat16().requires_grad_()
    k, v = (torch.randn(1, heads_kv, N_kv, D, device=device).bfloat16().requires_grad_() for _ in range(2))
    out = tk.attention(q, k, v, causal=causal, deterministic=deterministic)
    dout = torch.randn_like(out)
    out.backward(dout)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    keys, values = (x.repeat_interleave(H // heads_kv, 1) for x in exact[1:])
    empty = max(0, N - N_kv) if causal else 0  # rows that see no key
    scores = exact[0][:, :, empty:] @ keys.mT / D**0.5
    if causal:
        visible = torch.ones(N - empty, N_kv, dtype=torch.bool, device=device).tril(N_kv - N + empty)
        scores = scores.masked_fill(~visible, -torch.inf)
    wanted = torch.nn.functional.pad(scores.softmax(-1) @ values, (0, 0, empty, 0))
    wanted.backward(dout.double())
    errors = [relative_error(out, wanted)]
    for mine, theirs in zip((q, k, v), exact, strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        errors.append(relative_error(mine.grad, theirs.grad))
    assert max(errors) < 2e-2, (shape, D, causal, deterministic, errors)


def write_out_of_bounds() -> None:
    """The exported function on a log-sum-exp of 16 KB that has 256 bytes of memory."""
    q, k, v = (torch.randn(1, 1, 4096, 64, device="cuda").bfloat16() for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(1, 1, 4096, device="cuda")
    lse.untyped_storage().resize_(256)
    toolchain.load("attention", "sm_90a").attention_forward(q, k, v, out, lse, False, 0.125, -1, -1, -1)
    torch.cuda.synchronize()


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument("--out-of-bounds", action="store_true", help="write where it may not, on a Hopper GPU")
    given = parser.parse_args()
    torch.manual_seed(0)
    if given.out_of_bounds:
        write_out_of_bounds()
    else:
        cases = itertools.product((given.device,), SHAPES, (64, 128), (False, True), (False, True))
        finish((run(*case) for case in cases), given.target)
