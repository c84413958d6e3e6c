# mypy: disable-error-code="no-untyped-def"
"""Device code of the Triton GEMM. Import it only where Triton is installed.

Both kernels are persistent: `PROGRAMS` programs walk all output tiles. They go in super-groups of `GROUP` tile rows so
that the tiles at work at one time share rows of A and columns of B in L2. They differ in how they reach memory. One
compiled kernel serves all sizes: nothing in it depends on whether M, N or K is 1 or a multiple of 16.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile_of(index, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Tile row and column of the `index`-th tile: down the rows of a group, then one column on."""
    per_group = GROUP * tiles_n
    first = (index // per_group) * GROUP
    rows = min(tiles_m - first, GROUP)
    within = index % per_group
    return first + within % rows, within // rows


@triton.jit(do_not_specialize=["M", "N", "K"])
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
    FLATTEN: tl.constexpr,
):
    """C = A B through tensor maps, which fill with zero and clip at the edges."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_tile = tl.program_id(0)
    # Flattened, the two loops become one pipeline: the next tile's loads start before this tile is stored.
    for index in tl.range(first_tile, tiles_m * tiles_n, PROGRAMS, flatten=FLATTEN, warp_specialize=WARP_SPECIALIZE):
        tile_m, tile_n = _tile_of(index, tiles_m, tiles_n, GROUP)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            left = a.load([row, step * BLOCK_K])
            right = b.load([step * BLOCK_K, column])
            total = tl.dot(left, right, total)
        if SPLIT == 1:
            c.store([row, column], total.to(c.dtype))
        else:  # half of the columns at a time needs half of the shared memory: one more stage fits
            halves = tl.permute(tl.reshape(total, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            first, second = tl.split(halves)
            c.store([row, column], first.to(c.dtype))
            c.store([row, column + BLOCK_N // 2], second.to(c.dtype))


@triton.jit(do_not_specialize=["M", "N", "K"])
def baseline_gemm_pointers(
    a,  # (M, K), contiguous
    b,  # (K, N), contiguous
    c,  # (M, N), contiguous
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
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        inner = tl.arange(0, BLOCK_K)
        # Rows and columns past the end read the first ones again and are not stored: no mask for them in the loop.
        left_at = a + (rows % M).to(tl.int64)[:, None] * K + inner[None, :]
        right_at = b + inner.to(tl.int64)[:, None] * N + (columns % N)[None, :]
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            left_of_k = K - step * BLOCK_K
            left = tl.load(left_at, mask=inner[None, :] < left_of_k, other=0.0)
            right = tl.load(right_at, mask=inner[:, None] < left_of_k, other=0.0)
            total = tl.dot(left, right, total)
            left_at += BLOCK_K
            right_at += BLOCK_K * N.to(tl.int64)
        inside = (rows < M)[:, None] & (columns < N)[None, :]
        to = c + rows.to(tl.int64)[:, None] * N + columns[None, :]
        tl.store(to, total.to(c.dtype.element_ty), mask=inside)
