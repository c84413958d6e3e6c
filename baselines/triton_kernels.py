# mypy: disable-error-code="no-untyped-def"
"""Device code of the Triton GEMM. Import it only where Triton is installed.

Both kernels are persistent: `PROGRAMS` programs walk all output tiles, in super-groups of `GROUP` tile rows so that
the tiles at work at one time share rows of A and columns of B in L2. They differ in how they reach memory.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile_of(index, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Tile row and column of the ``index``-th tile: down the rows of a group, then one column on."""
    per_group = GROUP * tiles_n
    first = (index // per_group) * GROUP
    rows = min(tiles_m - first, GROUP)
    within = index % per_group
    return first + within % rows, within // rows


@triton.jit
def baseline_gemm_tma(
    a,  # tensor descriptor of A (M, K), block (BLOCK_M, BLOCK_K)
    b,  # tensor descriptor of B (K, N), block (BLOCK_K, BLOCK_N)
    c,  # tensor descriptor of C (M, N), block (BLOCK_M, BLOCK_N // SPLIT)
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr,
    SPLIT: tl.constexpr,
    WARP_SPECIALIZE: tl.constexpr,
):
    """C = A B through tensor maps, which fill with zero and clip at the edges."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for index in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, warp_specialize=WARP_SPECIALIZE):
        tile_m, tile_n = _tile_of(index, tiles_m, tiles_n, GROUP)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            left = a.load([row, step * BLOCK_K])
            right = b.load([step * BLOCK_K, column])
            total = tl.dot(left, right, total)
        if SPLIT == 1:
            c.store([row, column], total.to(tl.bfloat16))
        else:  # half of the columns at a time needs half of the shared memory: one more stage fits
            halves = tl.permute(tl.reshape(total, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            first, second = tl.split(halves)
            c.store([row, column], first.to(tl.bfloat16))
            c.store([row, column + BLOCK_N // 2], second.to(tl.bfloat16))


@triton.jit
def baseline_gemm_pointers(
    a,  # bf16 (M, K), contiguous
    b,  # bf16 (K, N), contiguous
    c,  # bf16 (M, N), contiguous
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """C = A B through masked pointers, for sizes whose rows no tensor map can describe."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for index in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS):
        tile_m, tile_n = _tile_of(index, tiles_m, tiles_n, GROUP)
        rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
        columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            inner = (step * BLOCK_K + tl.arange(0, BLOCK_K)).to(tl.int64)
            in_a = (rows < M)[:, None] & (inner < K)[None, :]
            in_b = (inner < K)[:, None] & (columns < N)[None, :]
            left = tl.load(a + rows[:, None] * K + inner[None, :], mask=in_a, other=0.0)
            right = tl.load(b + inner[:, None] * N + columns[None, :], mask=in_b, other=0.0)
            total = tl.dot(left, right, total)
        inside = (rows < M)[:, None] & (columns < N)[None, :]
        tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=inside)
