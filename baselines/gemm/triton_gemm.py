"""A GEMM in Triton, written for Hopper: what a Triton user gets with tensor maps, persistence and autotuning.

The paper compares with Triton's own tutorial GEMM of 2024; this one uses what Triton has since learned. It is tuned
in `Gemm.prepare`, outside the clock, over the short lists in `CONFIGS` and `POINTER_CONFIGS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from baselines.common.baseline import TRITON, Baseline, Call, Inputs, options
from baselines.common.gpu import cuda_capability
from baselines.gemm.problem import GemmProblem

TMA_ALIGNMENT = 8  # bf16 elements: rows described by a tensor map start at multiples of 16 bytes
MIN_TMA_CAPABILITY = (9, 0)


@dataclass(frozen=True)
class Config:
    """Tile sizes in elements, software stages, warps, tile rows a super-group, and parts of an epilogue."""

    block_m: int
    block_n: int
    block_k: int
    stages: int
    warps: int
    group: int = 8
    split: int = 1

    def __str__(self) -> str:
        tile = f"{self.block_m}x{self.block_n}x{self.block_k}"
        return f"{tile} stages={self.stages} warps={self.warps} group={self.group} split={self.split}"


CONFIGS = (
    Config(128, 256, 64, stages=3, warps=8),
    Config(128, 256, 64, stages=4, warps=8, split=2),
    Config(256, 128, 64, stages=3, warps=8),
    Config(128, 128, 64, stages=4, warps=8),
    Config(128, 128, 64, stages=4, warps=4),
    Config(128, 128, 128, stages=2, warps=8),
    Config(64, 128, 64, stages=5, warps=4),
    Config(64, 64, 128, stages=4, warps=4),
)

# Rows that start anywhere are read element by element: smaller tiles keep the addresses in registers.
POINTER_CONFIGS = (
    Config(128, 128, 32, stages=3, warps=8),
    Config(128, 64, 32, stages=3, warps=4),
    Config(64, 128, 32, stages=3, warps=4),
    Config(64, 64, 64, stages=3, warps=4),
    Config(64, 64, 32, stages=4, warps=4),
)


class Gemm(Baseline):
    """C (M, N) = A (M, K) B (K, N), bf16 with fp32 accumulation; any M, N, K.

    Options:
        tma: "auto" uses tensor maps where N and K are multiples of 8 and the GPU has them, 0 uses pointers.
        warp_specialize: 1 asks Triton to split loads and products between warps, where its version can.
    """

    library = replace(TRITON, install="pip install triton", foreign=("nvjet", "xmma_gemm", "kernel_cutlass", "kittens"))
    choices = options(tma=("auto", 0), warp_specialize=(0, 1))

    def kernel_names(self, problem: GemmProblem) -> tuple[str, ...]:
        """The kernel that this size takes."""
        return ("baseline_gemm_tma" if self._by_tensor_map(problem) else "baseline_gemm_pointers",)

    def prepare(self, problem: GemmProblem, inputs: Inputs) -> Call:
        """Tune for this shape unless that was done, then bind a: (M, K) and b: (K, N), both contiguous."""
        self.library.use()
        a, b = inputs["a"].contiguous(), inputs["b"].contiguous()
        by_tensor_map = self._by_tensor_map(problem)
        make = bind_tma if by_tensor_map else bind_pointers
        specialize = bool(self.options["warp_specialize"])
        key = ("triton", problem.M, problem.N, problem.K, by_tensor_map, specialize, a.device)
        configs = CONFIGS if by_tensor_map else POINTER_CONFIGS
        call = make(a, b, self.tuned(key, configs, lambda config: make(a, b, config, specialize)), specialize)
        call()
        return call

    def _by_tensor_map(self, problem: GemmProblem) -> bool:
        if self.options["tma"] == 0 or problem.N % TMA_ALIGNMENT or problem.K % TMA_ALIGNMENT:
            return False
        return (cuda_capability() or (0, 0)) >= MIN_TMA_CAPABILITY


def bind_tma(a: Tensor, b: Tensor, config: Config, warp_specialize: bool = False) -> Call:
    """A call of the kernel with tensor maps; a: (M, K), b: (K, N), contiguous, 16-bit, K and N multiples of 8."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    from baselines.gemm.triton_device import baseline_gemm_tma

    m, k, n = *a.shape, b.shape[1]
    programs = _programs(a, config, m, n)
    a_map = TensorDescriptor.from_tensor(a, [config.block_m, config.block_k])
    b_map = TensorDescriptor.from_tensor(b, [config.block_k, config.block_n])
    loops = {"SPLIT": config.split, "WARP_SPECIALIZE": warp_specialize, "FLATTEN": not warp_specialize}

    def call() -> Tensor:
        c = torch.empty((m, n), dtype=a.dtype, device=a.device)
        c_map = TensorDescriptor.from_tensor(c, [config.block_m, config.block_n // config.split])
        baseline_gemm_tma[(programs,)](a_map, b_map, c_map, m, n, k, **_constants(config, programs), **loops)
        return c

    return call


def bind_pointers(a: Tensor, b: Tensor, config: Config, warp_specialize: bool = False) -> Call:
    """A call of the kernel with pointers; a: (M, K), b: (K, N), contiguous, 16-bit. It has no warp specialisation."""
    from baselines.gemm.triton_device import baseline_gemm_pointers

    m, k, n = *a.shape, b.shape[1]
    programs = _programs(a, config, m, n)

    def call() -> Tensor:
        c = torch.empty((m, n), dtype=a.dtype, device=a.device)
        baseline_gemm_pointers[(programs,)](a, b, c, m, n, k, **_constants(config, programs))
        return c

    return call


def _constants(config: Config, programs: int) -> dict[str, int]:
    """Compile-time arguments that both kernels share, and Triton's own."""
    return {
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "BLOCK_K": config.block_k,
        "GROUP": config.group,
        "PROGRAMS": programs,
        "num_stages": config.stages,
        "num_warps": config.warps,
    }


def _programs(a: Tensor, config: Config, m: int, n: int) -> int:
    """Programs to launch: one a tile, but no more than run at once (one a multiprocessor)."""
    tiles = -(-m // config.block_m) * -(-n // config.block_n)
    if a.device.type != "cuda":  # Triton's interpreter: a few programs, so that each walks several tiles
        return min(tiles, 3)
    return min(tiles, torch.cuda.get_device_properties(a.device).multi_processor_count)
