"""`torch.compile` of a matmul with max-autotune: the best of cuBLAS and Inductor's Triton templates.

Which of the two won is in the kernel names of the case: `triton_tem_...` is a template, anything else is cuBLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from baselines.common.baseline import TORCH_COMPILE, Baseline, Call, Inputs, options
from baselines.common.compiled import MAX_AUTOTUNE, compile_alone
from baselines.gemm.names import CUBLAS_KERNELS
from baselines.gemm.problem import GemmProblem

Compiled = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Gemm(Baseline):
    """C (M, N) = A (M, K) B (K, N), bf16, compiled for exactly this shape.

    The search is Inductor's default space (some twenty Triton configurations and cuBLAS), not the exhaustive one,
    which takes minutes a problem. CUDA graphs are left to the harness, which times them beside, not inside, a call.

    Options:
        tma: 1 adds Inductor's persistent templates with tensor maps, which are off by default in PyTorch.
    """

    # A Triton template, or one of cuBLAS's families; a shape of one may become an Inductor reduction.
    library = replace(
        TORCH_COMPILE,
        kernels=(f"triton|{CUBLAS_KERNELS}",),
        foreign=("kernel_cutlass", "kittens", "baseline_gemm"),
    )
    choices = options(tma=(0, 1))
    notes = (f"mode {MAX_AUTOTUNE}",)

    def prepare(self, problem: GemmProblem, inputs: Inputs) -> Call:
        """Compile and tune for this shape unless that was done, and run once."""
        a, b = inputs["a"], inputs["b"]
        key = (problem.M, problem.N, problem.K, self.options["tma"])
        function = compile_matmul(f"gemm_{'_'.join(map(str, key))}", tma=bool(self.options["tma"]))
        function(a, b)
        return lambda: function(a, b)


def inductor_options(*, tma: bool) -> dict[str, Any]:
    """Inductor's settings: those of `MAX_AUTOTUNE`, with the search space named.

    `torch.compile` refuses an unknown one.
    """
    import torch._inductor

    return {
        **torch._inductor.list_mode_options(MAX_AUTOTUNE),
        "max_autotune_gemm_search_space": "DEFAULT",
        "max_autotune_gemm_backends": "ATEN,TRITON",
        "triton.enable_persistent_tma_matmul": tma,
    }


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


@cache
def compile_matmul(name: str, *, tma: bool) -> Compiled:
    """The matmul, compiled by itself under this name; a process keeps it for further sets of inputs."""
    from torch._inductor import select_algorithm

    if hasattr(select_algorithm, "PRINT_AUTOTUNE"):
        select_algorithm.PRINT_AUTOTUNE = False  # twenty lines a problem on stderr, in the middle of progress bars
    return compile_alone(_matmul, name, options=inductor_options(tma=tma))
