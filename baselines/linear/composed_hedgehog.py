"""Hedgehog from the best parts there are, since no library has it as one kernel.

Its feature map and what joins the parts are under ``torch.compile``, the states are flash-linear-attention's, the
window is FlexAttention. The paper's own baseline leaves the window out and is another function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from baselines.common.baseline import Baseline, Call, Inputs, Limit
from baselines.common.compiled import leave_room
from baselines.common.plain_torch import ROOM
from baselines.linear import names
from baselines.linear.flash_linear_attention import FLA, short_kernels
from baselines.linear.problem import HedgehogProblem
from baselines.linear.triton_autotune import tune_for

if TYPE_CHECKING:
    import torch

BLOCK = 64

# A process keeps what it compiled: a problem is asked for once per set of inputs.
_compiled: dict[tuple[object, ...], dict[str, Callable[..., Any]]] = {}


class Hedgehog(Baseline):
    """Five steps, all inside the call, on (B, H, N, D) tensors as they are.

    1. features of q and k, and the sums of the latter, block by block, compiled;
    2. the state before each block, `chunk_fwd_h` of flash-linear-attention, each head a sequence of its own;
    3. features times the state of two blocks ago, a batched product (cuBLAS);
    4. the window, FlexAttention with a mask of blocks, which also returns the log-sum-exp and the largest score;
    5. both parts and the normaliser joined, compiled.
    """

    # The library's states, Inductor's fused steps, and FlexAttention's template.
    library = replace(
        FLA,
        name="composed",
        packages=("flash-linear-attention", "FlexAttention of torch", "triton"),
        kernels=(names.FLA_STATES, "triton_(poi|per|red)", "(?i)triton_tem|flex_attention"),
        foreign=names.others(names.FLA, names.INDUCTOR),
    )

    def limits(self, problem: HedgehogProblem) -> Iterator[Limit]:
        none = "its states are in bf16 and none is the one after the last row"
        yield problem.return_state, f"got return_state=1, {none}"

    def prepare(self, problem: HedgehogProblem, inputs: Inputs) -> Call:
        """Compile and tune for this shape unless that was done, and run once."""
        chunk_h = self.library.load("fla.ops.common.chunk_h")
        key = (problem.B, problem.H, problem.N, problem.D, problem.F)
        if key not in _compiled:
            _compiled[key] = compile_steps(problem, inputs["q"].device)
            leave_room(ROOM * sum(tensor.nbytes for tensor in inputs.values()))
        steps = _compiled[key]
        q, k, v, q_map, k_map, alpha, beta = (
            inputs[name] for name in ("q", "k", "v", "q_map", "k_map", "alpha", "beta")
        )
        tune_for(key, short_kernels())

        def call() -> torch.Tensor:
            phi_q, phi_k, far_weights = steps["features"](q, k, q_map, k_map)
            # A head as a sequence: (B H, N, 1, .) is the memory that is there.
            keys, values = (tensor.flatten(0, 1).unsqueeze(2) for tensor in (phi_k, v))
            states, _ = chunk_h.chunk_fwd_h(keys, values, chunk_size=BLOCK)
            near, logsumexp, largest = steps["window"](q, k, v)
            return join(steps, phi_q, states, far_weights, near, logsumexp, largest, alpha, beta)

        call()
        return call


def join(
    steps: dict[str, Callable[..., Any]],
    phi_q: torch.Tensor,
    states: torch.Tensor,
    far_weights: torch.Tensor,
    near: torch.Tensor,
    logsumexp: torch.Tensor,
    largest: torch.Tensor,
    alpha: torch.Tensor,
    beta: torch.Tensor,
) -> torch.Tensor:
    """Steps 3 and 5.

    phi_q: (B, H, blocks, 64, 2F) bf16; states: (B H, blocks, 1, 2F, D), before each block; far_weights: (B, H, N), the
    sums of the linear weights; near (B, H, N, D), logsumexp and largest (B, H, N): the window's softmax.
    """
    before = states.view(*phi_q.shape[:3], *states.shape[-2:])
    far = phi_q[:, :, 2:] @ before[:, :, 1:-1]
    joined: torch.Tensor = steps["join"](far, far_weights, near, logsumexp, largest, alpha, beta)
    return joined


def compile_steps(problem: HedgehogProblem, device: torch.device) -> dict[str, Callable[..., Any]]:
    """The compiled steps for one shape."""
    from baselines.common.compiled import compile_alone
    from baselines.linear import hedgehog_steps

    name = "_".join(map(str, (problem.B, problem.H, problem.N, problem.D, problem.F)))
    return {
        "features": compile_alone(hedgehog_steps.features, f"features_{name}"),
        "window": hedgehog_steps.compiled_window(problem.N, problem.D, device, f"window_{name}"),
        "join": compile_alone(hedgehog_steps.join, f"join_{name}"),
    }
