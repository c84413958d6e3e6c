"""Run the Triton kernels in Triton's interpreter; started by test_triton_device.py with TRITON_INTERPRET=1.

The interpreter multiplies bf16 as if it were an integer, so the operands are fp16. Prints one line a case:
kernel, M, N, K, relative L2 error.
"""

from __future__ import annotations

import itertools

import torch

from baselines.gemm.triton_gemm import Config, bind_pointers, bind_tma

ALIGNED = [(1, 8, 8), (64, 64, 64), (33, 72, 40), (200, 136, 264), (130, 264, 72)]
ODD = [(1, 1, 1), (17, 19, 23), (257, 129, 65)]
CONFIGS = [
    Config(32, 64, 32, stages=3, warps=4, group=2),
    Config(64, 32, 16, stages=3, warps=4, group=3, split=2),
]


def main() -> None:
    for bind, shapes in ((bind_tma, ALIGNED), (bind_pointers, ALIGNED + ODD)):
        for (m, n, k), config in itertools.product(shapes, CONFIGS):
            generator = torch.Generator().manual_seed(m + n + k)
            a = torch.randn(m, k, generator=generator).half()
            b = torch.randn(k, n, generator=generator).half()
            exact = a.double() @ b.double()
            error = (bind(a, b, config)().double() - exact).norm() / exact.norm()
            print(bind.__name__, m, n, k, float(error), flush=True)


if __name__ == "__main__":
    main()
