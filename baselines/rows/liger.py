"""Liger-Kernel's Triton kernel for the rotary embedding, which turns q and k together and in place.

It is imported without the packages above it: `liger_kernel.ops` imports every kernel of the library.

Its normalisations are no baselines of dropout-add-layernorm: its layer norm adds no residual, what adds one
(`fused_add_rms_norm`) subtracts no mean and has no bias, and none drops.
"""

from __future__ import annotations

from typing import Any

import torch

from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits
from baselines.common.gpu import FROM_AMPERE
from baselines.rows import names
from baselines.rows.problem import RotaryProblem


class Rotary(Baseline):
    """`rope_forward`, on copies: (B, H, N, D) views of (B, N, H, D) memory, which it turns where they are.

    `prepare` makes the tensors of its layout, and tables as wide as a head, whose halves are the same.  The workload
    keeps its inputs, so each call copies q and k first: that is in its time.  It multiplies in the tables' bf16.
    """

    library = Library(
        "liger",
        "pip install liger-kernel==0.8.5",
        modules=("torch", "triton", "liger_kernel"),
        packages=("liger-kernel", "triton"),
        file="liger_kernel/ops/rope.py",
        complaint="has no rotary embedding",
        gpus=FROM_AMPERE,
        kernels=(names.LIGER_ROPE,),
        foreign=names.others(names.LIGER_ROPE),
    )

    def limits(self, problem: RotaryProblem) -> Limits:
        yield problem.tensors != 2, f"got tensors={problem.tensors}, it takes q and k together (tensors=2)"
        yield problem.interleaved, "got interleaved=1, it pairs entries half a head apart (interleaved=0)"

    def prepare(self, problem: RotaryProblem, inputs: Inputs) -> Call:
        """Bind the inputs in the library's layout, and compile."""
        turn = self.library.load("liger_kernel.ops.rope", "liger_kernel", "liger_kernel.ops").rope_forward
        heads_first = problem.layout == "bhnd"
        q, k = inputs["q"], inputs["k"]
        if heads_first:  # a clone and not contiguous(), which of N = 1 keeps the strides, and the kernel goes by those
            q, k = (tensor.transpose(1, 2).clone(memory_format=torch.contiguous_format) for tensor in (q, k))
        cos, sin = (inputs[name].repeat(1, 2)[None] for name in ("cos", "sin"))

        def call() -> Any:
            turned = turn(q.clone().transpose(1, 2), k.clone().transpose(1, 2), cos, sin)[:2]
            return turned if heads_first else tuple(tensor.transpose(1, 2) for tensor in turned)

        call()
        return call
