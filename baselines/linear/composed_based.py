"""Based from the best parts there are: compiled features, and flash-linear-attention's chunked kernels on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from baselines.common.baseline import Baseline, Call, Inputs, Limits
from baselines.common.compiled import compile_alone
from baselines.linear import names
from baselines.linear.flash_linear_attention import CHUNKS, FLA, short_kernels, simple_gla
from baselines.linear.problem import BasedProblem, no_state
from baselines.linear.triton_autotune import tuned_call

ALIGNED = 8
"""Rows of features and of values are padded to a multiple, 16 bytes, so that kernels load vectors."""


class Based(Baseline):
    """Three steps, all inside the call, each head a sequence of its own, as it lies in memory.

    1. features of q and k, 153 of them at F = 16 since a product and its mirror image are one, compiled;
    2. states and outputs, `chunk_simple_gla` of flash-linear-attention with its chunk size tuned;
    3. the division by the normaliser, which is the sum of a column of ones beside the values, compiled.

    The column is added in `prepare`, as other contestants' copies in another layout are made.
    """

    library = replace(FLA, name="composed", kernels=(*FLA.kernels, names.INDUCTOR))
    library = replace(library, foreign=names.others(names.FLA, names.INDUCTOR))
    notes = ("chunk_simple_gla on compiled features",)

    def limits(self, problem: BasedProblem) -> Limits:
        yield from no_state(problem)

    def prepare(self, problem: BasedProblem, inputs: Inputs) -> Call:
        """Compile, and tune for this shape unless that was done."""
        self.library.use()
        q, k, v = (inputs[name] for name in "qkv")
        columns, normalize = problem.D, bool(problem.normalize)
        values = _sequences(_padded(torch.cat([v, torch.ones_like(v[..., :1])], -1)) if normalize else v)
        features, join = steps(problem.B, problem.H, problem.N, problem.F, problem.D, normalize)

        def make(chunk: int) -> Call:
            def call() -> Tensor:
                phi_q, phi_k = features(q, k)
                given = {"scale": 1.0, "chunk_size": chunk}
                out = simple_gla(phi_q, phi_k, values, state=False, heads_first=False, **given)()
                out = out.view(*v.shape[:3], -1)
                return join(out, columns) if normalize else out

            return call

        return tuned_call(self, (problem.B, problem.H, problem.N), short_kernels(), make, CHUNKS)


@cache
def steps(*shape: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The compiled features and the compiled division, for one shape."""
    name = "_".join(map(str, shape))
    return compile_alone(based_features, f"based_features_{name}"), compile_alone(divide, f"based_divide_{name}")


def based_features(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """(B, H, N, F) to (B H, N, 1, .): 1, x / F^(1/4), x_i x_i / sqrt(2 F), x_i x_j / sqrt(F) for i < j, and zeros."""
    return _sequences(_taylor(q)), _sequences(_taylor(k))


def _taylor(x: Tensor) -> Tensor:
    width = x.shape[-1]
    first, second = torch.triu_indices(width, width, 1, device=x.device)
    wide = x.float()
    orders = (
        torch.ones_like(wide[..., :1]),
        wide * width**-0.25,
        wide * wide * (2 * width) ** -0.5,
        wide[..., first] * wide[..., second] * width**-0.5,
    )
    return _padded(torch.cat(orders, -1).to(x.dtype))


def divide(out: Tensor, columns: int) -> Tensor:
    """The values' columns over the column of ones behind them."""
    return (out[..., :columns].float() / out[..., columns : columns + 1].float()).to(out.dtype)


def _padded(x: Tensor) -> Tensor:
    return pad(x, (0, -x.shape[-1] % ALIGNED))


def _sequences(x: Tensor) -> Tensor:
    """(B, H, N, W) as (B H, N, 1, W)."""
    return x.flatten(0, 1).unsqueeze(2)
