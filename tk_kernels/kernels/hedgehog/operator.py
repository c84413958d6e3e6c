"""`hedgehog`: softmax attention within a window and linear attention beyond it, as a registered PyTorch operator."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ops.library import has_copy_engine, has_elements
from ...ops.operands import launch, like
from ...ops.operator import operator
from ...ops.options import integer

__all__ = ["hedgehog"]

HEAD_DIM = 128
FEATURE_DIM = 64  # of each sign
MOST_SEGMENTS = 64


@operator(
    q="B H N 128 bf16 dense",
    k="B H N 128 bf16 dense",
    v="B H N 128 bf16 dense",
    q_map="H 128 64 bf16",
    k_map="H 128 64 bf16",
    alpha="H fp32",
    beta="H fp32",
)
def hedgehog(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_map: Tensor,
    k_map: Tensor,
    alpha: Tensor,
    beta: Tensor,
    *,
    return_state: bool = False,
    segments: int | None = None,
) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return causal Hedgehog attention as LoLCATs has it: softmax in a window, linear attention on what is earlier.

    With phi(x) = [softmax(x W), softmax(-x W)], each over 64 entries and at least 1e-6. In blocks of 64 rows, query i
    of block I sees the keys j of the blocks I - 1 and I, causally. Their weight is beta exp((q_i.k_j - m_i) /
    sqrt(128)), m_i the largest of those scores. Keys of the blocks before have weight alpha phi(q_i).phi(k_j). The
    output is the sum of the weighted values, divided by (the sum of the weights + 1e-6).

    q_map, k_map: the matrices W of the two phi. alpha, beta are used as they are. All on one device: a GPU since Ampere
    (current stream; CUDA graphs can capture it) or the CPU (slow: it emulates the kernel and is for correctness).
    Returns out (B, H, N, 128) bfloat16, which lies in memory as q does: heads outside rows (contiguous), or rows
    outside heads.

    With `return_state` also (k_state, kv_state), float32: (B, H, 128), the sum of phi(k_j), and (B, H, 128, 128), that
    of phi(k_j) v_j^T. Both are over the key blocks up to floor(N / 64) - 2: for N a multiple of 64, all but the last 64
    rows.

    `segments` (1-64) forces into how many parts each sequence is cut; not given, it is chosen by shape, so that a few
    long sequences keep the GPU busy.

    The kernel reads q, k and v whose last dimension is dense, whose other strides are positive multiples of 8 elements
    and whose base is a multiple of 16 bytes. Maps, alpha and beta are contiguous. Other strides and bases go through a
    copy; the first is logged by the logger `tk_kernels`.

    Window scores need |q.k| / sqrt(128) <= 2^15: the window's weights are off by up to 2^-24 of that, relative to the
    linear part's and to the 1e-6, which is bf16's rounding at 2^15. Entries of x W need |x W| < 2^31 ln 2. Far beyond
    either the result is zeros or NaN, and no error is raised.

    A NaN or infinity in row j of v makes NaN of all rows from the first of its block of 64 on, those before j included.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank, shape or head dim; an empty tensor; or a
    last dimension of q, k or v that is not dense.
    """
    operands = {"q": q, "k": k, "v": v, "q_map": q_map, "k_map": k_map, "alpha": alpha, "beta": beta}
    count = -1 if segments is None else integer("segments", segments, 1, MOST_SEGMENTS)
    out, B = like(q), q.shape[0] if return_state else 0
    k_state = q.new_empty((B, q.shape[1], 2 * FEATURE_DIM), dtype=torch.float32)
    kv_state = q.new_empty((B, q.shape[1], 2 * FEATURE_DIM, HEAD_DIM), dtype=torch.float32)
    if has_elements(q):
        kernel = "hedgehog" if has_copy_engine(q.device) else "hedgehog_warps"
        launch(kernel, "hedgehog", operands, (out, k_state, kv_state, count))
    return (out, (k_state, kv_state)) if return_state else out
