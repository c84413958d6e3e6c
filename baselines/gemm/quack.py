"""The sm_90 GEMM of quack-kernels, written in CuTe DSL: the CUTLASS row of today.

The paper compares with CUTLASS's C++ GEMM. This is the same family of kernel (TMA, warp-specialised wgmma,
cooperative or ping-pong, persistent) in CUTLASS's Python dialect, and it is reported under its own name.
"""

from __future__ import annotations

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits, multiples, options
from baselines.common.gpu import HOPPER
from baselines.gemm.problem import GemmProblem

ALIGNMENT = 8  # bf16 elements, 16 bytes

# (tile_m, tile_n, ping-pong, (cluster_m, cluster_n), split_k). The library's own tuner walks over forty; these are
# its default, its largest tiles, and small ones with split-K for products that do not fill the GPU.
CONFIGS: tuple[tuple[int, int, bool, tuple[int, int], int], ...] = (
    (128, 192, True, (2, 1), 1),
    (128, 256, False, (2, 1), 1),
    (128, 256, False, (1, 2), 1),
    (256, 128, False, (2, 1), 1),
    (256, 128, False, (1, 2), 1),
    (256, 192, False, (2, 1), 1),
    (128, 128, True, (2, 1), 1),
    (128, 128, True, (1, 2), 1),
    (128, 128, True, (1, 1), 2),
)


class Gemm(Baseline):
    """C (M, N) = A (M, K) B (K, N), bf16 with fp32 accumulation; N and K multiples of 8.

    The library reads B in either order. By default it gets the row-major (K, N) that everyone in the comparison
    gets, so nothing is copied outside the clock.

    Options:
        b_layout: "n" as given; "k" stores B by columns, as the weight of a linear layer is. The copy is made in
            `prepare`, outside the clock.
        tuned: 1 tunes over `CONFIGS` in `prepare`, 0 takes the library's default configuration.
    """

    library = Library(
        "quack",
        "pip install 'quack-kernels==0.6.5' 'nvidia-cutlass-dsl[cu13]==4.8.1'",
        modules=("torch", "quack", "nvidia_cutlass_dsl"),
        packages=("quack-kernels", "nvidia-cutlass-dsl"),
        gpus=HOPPER,
        # CuTe DSL names a kernel after the module and class that it was traced from.
        kernels=("(?i)kernel_cutlass.*gemm",),
        foreign=("nvjet", "xmma_gemm", "triton", "baseline_gemm", "kittens"),
    )
    choices = options(b_layout=("n", "k"), tuned=(1, 0))

    def limits(self, problem: GemmProblem) -> Limits:
        yield from multiples(problem, "its tensor maps need a multiple of {}", N=ALIGNMENT, K=ALIGNMENT)

    def prepare(self, problem: GemmProblem, inputs: Inputs) -> Call:
        """Compile and tune for this shape unless that was done, and bind a: (M, K), b: (K, N)."""
        self.library.use()
        a, b = inputs["a"].contiguous(), inputs["b"].contiguous()
        if self.options["b_layout"] == "k":
            b = b.t().contiguous().t()
        if not self.options["tuned"]:
            call = bind(a, b, None)
        else:
            key = ("quack", problem.M, problem.N, problem.K, self.options["b_layout"], a.device)
            call = bind(a, b, self.tuned(key, CONFIGS, lambda config: bind(a, b, config)))
        call()
        return call


def bind(a: torch.Tensor, b: torch.Tensor, config: tuple[int, int, bool, tuple[int, int], int] | None) -> Call:
    """A call of the library on a: (M, K), b: (K, N) with an entry of `CONFIGS`; None for its own choice."""
    from quack.gemm_interface import gemm, gemm_tuned

    if config is None:
        return lambda: gemm(a, b, tuned=False)
    from quack.gemm_config import GemmConfig

    tile_m, tile_n, pingpong, (cluster_m, cluster_n), split_k = config
    library_config = GemmConfig(
        tile_m=tile_m,
        tile_n=tile_n,
        pingpong=pingpong,
        cluster_m=cluster_m,
        cluster_n=cluster_n,
        split_k=split_k,
        is_dynamic_persistent=False,
        device_capacity=HOPPER.start,
    )
    shape = (a.shape[0], b.shape[1])

    def call() -> torch.Tensor:
        c = torch.empty(shape, dtype=torch.bfloat16, device=a.device)
        gemm_tuned.fn(a, b, c, config=library_config, split_k=split_k)
        return c

    return call
