"""Hedgehog from the best parts there are, since no library has it as one kernel.

Its feature map and what joins the parts are under `torch.compile`, the states are flash-linear-attention's, the
window is FlexAttention. The paper's own baseline leaves the window out and is another function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from baselines.common.baseline import Baseline, Call, Inputs, Limits
from baselines.common.compiled import compile_alone, leave_room
from baselines.common.plain_torch import ROOM
from baselines.linear import hedgehog_steps, names
from baselines.linear.flash_linear_attention import FLA, short_kernels
from baselines.linear.hedgehog_steps import Tile
from baselines.linear.problem import HEDGEHOG, HedgehogProblem
from baselines.linear.triton_autotune import tuned_call

BLOCK = 64

# A process keeps what it compiled: a problem is asked for once per set of inputs.
_compiled: dict[tuple[object, ...], dict[str, Callable[..., Any]]] = {}


class Hedgehog(Baseline):
    """Five steps, all inside the call, on (B, H, N, D) tensors as they are.

    1. features of q and k, and the sums of the latter, block by block, compiled;
    2. the state before each block, `chunk_fwd_h` of flash-linear-attention, each head a sequence of its own;
    3. features times the state of two blocks ago, a batched product (cuBLAS);
    4. the window, FlexAttention with a mask of blocks and the fastest of `TILES`, which also returns the log-sum-exp
       and the largest score;
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

    def limits(self, problem: HedgehogProblem) -> Limits:
        none = "its states are in bf16 and none is the one after the last row"
        yield problem.return_state, f"got return_state=1, {none}"

    def prepare(self, problem: HedgehogProblem, inputs: Inputs) -> Call:
        """Compile and tune for this shape unless that was done, and run once."""
        chunk_h = self.library.load("fla.ops.common.chunk_h")
        key = (problem.B, problem.H, problem.N, problem.D, problem.F)
        if key not in _compiled:
            _compiled[key] = compile_steps(problem)
            leave_room(ROOM * sum(tensor.nbytes for tensor in inputs.values()))
        steps = _compiled[key]
        q, k, v, q_map, k_map, alpha, beta = (inputs[name] for name in HEDGEHOG)

        def windowed(tile: Tile) -> Call:
            window = hedgehog_steps.compiled_window(problem.N, problem.D, q.device, tile, f"{problem.B}_{problem.H}")
            return lambda: window(q, k, v)

        window = windowed(self.tuned(("window", *key), hedgehog_steps.TILES, windowed))

        def call() -> Tensor:
            phi_q, phi_k, far_weights = steps["features"](q, k, q_map, k_map)
            # A head as a sequence: (B H, N, 1, .) is the memory that is there.
            keys, values = (tensor.flatten(0, 1).unsqueeze(2) for tensor in (phi_k, v))
            states, _ = chunk_h.chunk_fwd_h(keys, values, chunk_size=BLOCK)
            near, logsumexp, largest = window()
            before = states.view(*phi_q.shape[:3], *states.shape[-2:])  # (B, H, blocks, 2F, D), before each block
            far = phi_q[:, :, 2:] @ before[:, :, 1:-1]
            return steps["join"](far, far_weights, near, logsumexp, largest, alpha, beta)

        return tuned_call(self, key, short_kernels(), lambda _: call)


def compile_steps(problem: HedgehogProblem) -> dict[str, Callable[..., Any]]:
    """The compiled features and the compiled join, for one shape."""
    name = "_".join(map(str, (problem.B, problem.H, problem.N, problem.D, problem.F)))
    return {
        "features": compile_alone(hedgehog_steps.features, f"features_{name}"),
        "join": compile_alone(hedgehog_steps.join, f"join_{name}"),
    }
