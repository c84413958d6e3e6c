"""Small GEMM problems for compute-sanitizer: each built kernel, a divided K, e4m3 and epilogues, against float64."""

from __future__ import annotations

from collections.abc import Iterator

import test_gemm
import test_gemm_epilogue
import test_gemm_fp8
import torch
from sanitized import command_line, finish

import tk_kernels as tk

SIZES = ((137, 264, 200), (65, 129, 333))
"""M, N, K. Operands as they are, then through aligned copies; tails in every dimension of every tile."""


DIVIDED = (137, 264, 2121)
"""K is long enough for parts of a tile: each has four steps of 64 at least."""


def products(device: str, target: str) -> Iterator[str]:
    """Each kernel of `tk.gemm`, then, in clusters, swapped ones that divide K, and divided last rounds."""
    built = test_gemm.BUILT_FOR_SM_80 if target else test_gemm.BUILT
    kernels = [(kernel, test_gemm.forced(kernel)) for kernel in built]
    swapped = [options for kernel, options in kernels if kernel.endswith("swapped")]
    divided = [{**options, "split": split} for options in swapped for split in (2, 3) if not target]
    for M, N, K in SIZES:
        a, b = test_gemm.matrix(M, K, device), test_gemm.matrix(K, N, device, seed=1)
        for options in [options for _, options in kernels] + divided:
            test_gemm.assert_good(tk.gemm(a, b, **options), a, b)
            yield f"{M} {N} {K} {options}"
    M, N, K = DIVIDED
    a, b = test_gemm.matrix(M, K, device), test_gemm.matrix(K, N, device, seed=1)
    for options in [options for kernel, options in kernels if kernel.endswith("divided")]:
        for split in (2, 3, 4, 8):
            test_gemm.assert_good(tk.gemm(a, b, **{**options, "split": split}), a, b)
            yield f"{M} {N} {K} {options} in {split} parts"


def e4m3(device: str, target: str) -> Iterator[str]:
    """On Hopper GPUs. Both outputs and both kinds of sums, scales of rows and columns, a divided K."""
    tile = {"tile": "16x128", "schedule": "swapped", "split": 3}
    cases = (
        (65, 129, 144, torch.bfloat16, "both", {}),
        (65, 129, 1040, torch.bfloat16, "both", {"fast_accum": False}),
        (137, 264, 208, torch.float8_e4m3fn, "both", {}),
        (13, 130, 336, torch.bfloat16, "tensor", tile),
        (13, 130, 336, torch.float8_e4m3fn, "tensor", tile),
    )
    for M, N, K, dtype, scaled, options in () if target else cases:
        a, w = test_gemm_fp8.quantised(M, K, device), test_gemm_fp8.quantised(N, K, device, 1)
        given = test_gemm_fp8.scales(scaled, M, N, device)
        test_gemm_fp8.check(a, w, given, out_dtype=dtype, **options)
        yield f"{M} {N} {K} {dtype}"


def epilogues(device: str, target: str) -> Iterator[str]:
    """All parts at once, at both sizes."""
    for M, N, K in SIZES:
        a, b = test_gemm_epilogue.normal(M, K, device=device), test_gemm_epilogue.normal(K, N, device=device, seed=1)
        test_gemm_epilogue.check(a, b, test_gemm_epilogue.arguments("all", M, N, device))
        yield f"{M} {N} {K}"


if __name__ == "__main__":
    given = command_line(__doc__ or "").parse_args()
    parts = (products, e4m3, epilogues)
    finish((one for problems in parts for one in problems(given.device, given.target)), given.target)
