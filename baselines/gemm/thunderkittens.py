"""The matrix products of the ThunderKittens authors' release: kernels/gemm/{bf16_h100,fp8_h100_scaled}."""

from __future__ import annotations

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Limits, multiples, options
from baselines.common.thunderkittens import WHOLE_TILES, function, released
from baselines.gemm.problem import Fp8Problem, GemmProblem

TILE = 64
"""Rows and columns of the tile that the template's sizes count; steps of K are as long."""

TILES = {"2x4x1": 204001, "2x4x8": 204008, "2x4x11": 204011, "2x4x12": 204012, "2x4x128": 204128}
"""Tiles that their benchmark names: rows and columns of 64, and rows of tiles that share the L2; and their numbers.

Those of 3 x 3, which it names as well, are left out: their three warpgroups of 232 registers a thread, beside one of
40, ask for 94208 registers. An SM has 65536, so that they wait for registers for ever.
"""

FP8_TILE = 128
"""Rows, columns and step of K of a block of the e4m3 kernel."""


class Gemm(Baseline):
    """C = A B, bf16, all row-major: gemm_bf16.so, gemm_bf16(a, b, c, M, N, K, tile).

    Options:
        tile: `2x4x8`, two by four tiles of 64 in super blocks of eight rows, and so on; `auto`, the default, is the
            fastest of those that divide the problem, tuned outside the clock.
    """

    library = released("gemm_bf16", "lcf.*matmul_template")
    choices = options(tile=("auto", *TILES))

    def limits(self, problem: GemmProblem) -> Limits:
        asked = self.options["tile"]
        rows, columns = _extent(next(iter(TILES)) if asked == "auto" else asked)
        got = f"got M={problem.M}, N={problem.N}"
        yield not self._dividing(problem), f"{got}, its tiles of {rows} x {columns} do not divide it"
        yield from multiples(problem, WHOLE_TILES, K=TILE)

    def prepare(self, problem: GemmProblem, inputs: Inputs) -> Call:
        """Tune unless that was done, and bind a: (M, K) and b: (K, N) as they are."""
        a, b = inputs["a"], inputs["b"]
        tiles = self._dividing(problem)
        key = ("thunderkittens", problem.M, problem.N, problem.K, *tiles)
        return _bind(a, b, self.tuned(key, tiles, lambda tile: _bind(a, b, tile)))

    def _dividing(self, problem: GemmProblem) -> list[str]:
        asked = self.options["tile"]
        tiles = TILES if asked == "auto" else (asked,)
        return [tile for tile in tiles if not (problem.M % _extent(tile)[0] or problem.N % _extent(tile)[1])]


def _extent(tile: str) -> tuple[int, int]:
    """Rows and columns of C that a block of this template computes."""
    rows, columns, _ = map(int, tile.split("x"))
    return rows * TILE, columns * TILE


def _bind(a: torch.Tensor, b: torch.Tensor, tile: str) -> Call:
    run = function("gemm_bf16", "gemm_bf16")
    m, n, k = a.shape[0], b.shape[1], a.shape[1]

    def call() -> torch.Tensor:
        c = torch.empty(m, n, dtype=a.dtype, device=a.device)
        run(a, b, c, m, n, k, TILES[tile])
        return c

    return call


class GemmFp8(Baseline):
    """C = scale_a scale_b A B of e4m3 matrices: gemm_fp8_scaled.so, gemm_fp8_scaled(a, bt, c, sa, sb, M, N, K).

    The kernel takes a scale a row of A and a column of B, in which a problem's one scale is repeated outside the clock,
    and writes fp32. PyTorch rounds that to the problem's type in the call: no other kernel of the release has scales.
    Their kernel with e4m3 out (kernels/gemm/fp8_h100), which the paper times, takes none, so it is another operation.
    """

    library = released("gemm_fp8_scaled", "lcf.*matmul_template")
    dtype = "e4m3"

    def limits(self, problem: Fp8Problem) -> Limits:
        yield from multiples(problem, WHOLE_TILES, M=FP8_TILE, N=FP8_TILE, K=FP8_TILE)

    def prepare(self, problem: Fp8Problem, inputs: Inputs) -> Call:
        """Repeat the scales, and bind a: (M, K) and the transpose of b: (K, N)."""
        a, bt = inputs["a"], inputs["b"].t()
        scale_a = inputs["scale_a"].expand(problem.M, 1).contiguous()
        scale_b = inputs["scale_b"].expand(1, problem.N).contiguous()
        run = function("gemm_fp8_scaled", "gemm_fp8_scaled")
        largest = torch.finfo(torch.float8_e4m3fn).max

        def call() -> torch.Tensor:
            c = torch.empty(problem.M, problem.N, dtype=torch.float32, device=a.device)
            run(a, bt, c, scale_a, scale_b, problem.M, problem.N, problem.K)
            if problem.out == "bf16":
                return c.bfloat16()
            return c.clamp_(-largest, largest).to(torch.float8_e4m3fn)

        return call
