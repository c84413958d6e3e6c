"""flash-linear-attention (fla): Triton kernels for Based, for linear attention with a decay, and so for Mamba-2.

Tuned in `prepare`, outside the clock, for each shape: the chunk size, and of the library's own lists of configurations
the part that `is_short` keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from torch import Tensor

from baselines.common.autograd import gradient_call
from baselines.common.baseline import Baseline, Call, Inputs, Library, Limits, options
from baselines.common.compiled import compile_alone
from baselines.common.gpu import FROM_AMPERE
from baselines.common.layouts import token_major
from baselines.linear import names
from baselines.linear.problem import DIRECTIONS, BasedProblem, LinearAttentionProblem, Mamba2Problem, no_state
from baselines.linear.triton_autotune import shorten, sizes, tuned_call

FLA = Library(
    "fla",
    "pip install fla-core==0.6.0 triton",
    modules=("torch", "triton", "einops", "fla"),
    packages=("flash-linear-attention", "triton"),
    site="fla",
    gpus=FROM_AMPERE,
    kernels=(names.FLA_STATES, names.FLA_OUTPUT),  # states of all chunks first, then all outputs
    backward=(names.FLA_STATES, *names.FLA_BACKWARD),
    foreign=names.others(names.FLA),
)
CHUNKS = (32, 64, 128)
"""Chunk sizes tried for "auto"; at 256 the kernel spills and takes four times as long."""

MAX_FEATURES = 16
"""Of fused_chunk_based; parallel_based takes 128."""


class Based(Baseline):
    """Based in (B, N, H, D) views of (B, H, N, D) memory, which is what its kernels read.

    Options:
        kernel: "parallel", quadratic in the length; "fused_chunk", linear in it; or "chunk", the third mode of the
            library's own layer: its Taylor features, and its chunked linear attention on (B, N, H, .) copies.
    """

    library = FLA
    choices = options(kernel=("parallel", "fused_chunk", "chunk"))
    directions = DIRECTIONS

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        own = self.options["kernel"]
        modes = {"chunk": (FLA.kernels, FLA.backward)}
        for mode in ("parallel", "fused_chunk"):
            modes[mode] = ((f"{mode}_based_fwd_kernel",), (f"{mode}_based_bwd_kernel",))
        kernels, backward = modes.pop(own)
        foreign = (*(name for mode in modes.values() for names in mode for name in names), *FLA.foreign)
        self.library = replace(FLA, name=f"fla_{own}", kernels=kernels, backward=backward, foreign=foreign)
        self.notes = ("TaylorFeatureMap, chunk_linear_attn" if own == "chunk" else f"{own}_based",)

    def limits(self, problem: BasedProblem) -> Limits:
        yield from no_state(problem)
        beyond = self.options["kernel"] == "fused_chunk" and problem.F > MAX_FEATURES
        yield beyond, f"got F={problem.F}, it takes up to {MAX_FEATURES}"

    def prepare(self, problem: BasedProblem, inputs: Inputs) -> Call:
        """The library's function; its own division by the normaliser is in it."""
        normalize, chunked = bool(problem.normalize), self.options["kernel"] == "chunk"
        if chunked:
            linear = self.library.load("fla.ops.linear_attn").chunk_linear_attn
            features = self.library.load("fla.modules.feature_map").TaylorFeatureMap(problem.F)
            inputs = token_major_views(inputs)
        else:
            function = getattr(self.library.load("fla.ops.based"), *self.notes)

        def attend(given: Inputs) -> Tensor:
            q, k, v = (given[name].transpose(1, 2) for name in ("q", "k", "v"))
            if chunked:
                out: Tensor = linear(features(q), features(k), v, scale=1.0, normalize=normalize)[0]
            else:
                out = function(q, k, v, use_norm=normalize)
            return out.transpose(1, 2)

        def make(_: Any) -> Call:
            return (lambda: attend(inputs)) if problem.direction == "fwd" else gradient_call(attend, inputs)

        shape = (problem.direction, problem.B, problem.H, problem.N)
        return tuned_call(self, shape, short_kernels(), make) if chunked else make(None)


class LinearAttention(Baseline):
    """Linear attention with a scalar decay, on (B, N, H, D) copies.

    Backward through autograd, on Hopper with Triton 3.7.1 at least where decays are those of steps: before, it raises.

    Options:
        kernel: "simple_gla" for every decay, with the best chunk size; "linear_attn" (chunk_linear_attn) for none.
        chunk: chunk size of "simple_gla", or "auto" for the fastest of `CHUNKS`.
    """

    library = FLA
    choices = options(kernel=("simple_gla", "linear_attn"), chunk=("auto", 16, 32, 64, 128, 256))
    directions = DIRECTIONS

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        kernel = self.options["kernel"]
        self.notes = (f"chunk_{kernel}",)
        self.library = replace(FLA, name="fla_linear_attn" if kernel == "linear_attn" else kernel)

    def limits(self, problem: LinearAttentionProblem) -> Limits:
        linear = self.options["kernel"] == "linear_attn"
        yield linear and problem.decay != "none", f"got decay={problem.decay}, it has none"
        yield linear and problem.direction == "bwd", "its backward is that of simple_gla, which is compared"

    def prepare(self, problem: LinearAttentionProblem, inputs: Inputs) -> Call:
        """Tune for this shape unless that was done, then bind the copies."""
        self.library.use()
        q, k, v = (token_major(inputs[name]) for name in ("q", "k", "v"))
        state, scale = bool(problem.return_final_state), problem.scale
        key = (problem.direction, problem.B, problem.H, problem.N, problem.D, problem.decay)
        if self.options["kernel"] == "linear_attn":
            from fla.ops.linear_attn import chunk_linear_attn

            def call() -> Any:
                out, final = chunk_linear_attn(q, k, v, scale=scale, normalize=False, output_final_state=state)
                return (out.transpose(1, 2), final) if state else out.transpose(1, 2)

            return tuned_call(self, key, short_kernels(), lambda _: call)
        decay: dict[str, Tensor] = {}
        if problem.decay == "head":
            decay = {"g_gamma": inputs["log_decay"]}
        elif problem.decay == "step":
            decay = {"g": token_major(inputs["log_decay"])}

        def make(chunk: int) -> Call:
            return simple_gla(q, k, v, **decay, scale=scale, chunk_size=chunk, state=state, heads_first=True)

        def make_backward(chunk: int) -> Call:
            def attend(given: Inputs) -> Tensor:
                own: dict[str, Any] = dict(decay)
                if "g" in own:
                    own["g"] = given["log_decay"].transpose(1, 2)
                q, k, v = (given[name].transpose(1, 2) for name in ("q", "k", "v"))
                out: Tensor = simple_gla(q, k, v, **own, scale=scale, chunk_size=chunk, state=False, heads_first=True)()
                return out

            return gradient_call(attend, token_major_views(inputs), ("log_decay",) if problem.decay == "head" else ())

        make = make if problem.direction == "fwd" else make_backward
        return tuned_call(self, key, short_kernels(), make, sizes(self.options["chunk"], CHUNKS))


class Mamba2(Baseline):
    """Mamba-2 as linear attention with a decay per step, `chunk_simple_gla`.

    It reads (B, N, H, .) tensors with as many heads of keys and queries as of values: groups are expanded in `prepare`,
    outside the clock, and so are the copies in that layout. From raw inputs, x dt and A dt are computed inside the
    call, by one compiled function. Backward through autograd, of all that, the sums over a group's heads included.

    Options:
        chunk: chunk size, or "auto" for the fastest of `CHUNKS`.
    """

    library = replace(FLA, name="simple_gla", foreign=names.others(names.FLA, names.INDUCTOR))
    choices = options(chunk=("auto", 16, 32, 64, 128, 256))
    directions = DIRECTIONS
    notes = ("chunk_simple_gla",)

    def kernel_names(self, problem: Mamba2Problem) -> tuple[str, ...]:
        """States of all chunks first, then all outputs; from raw inputs, what prepares them before."""
        return (*super().kernel_names(problem), *([names.INDUCTOR] if problem.boundary == "raw" else []))

    def prepare(self, problem: Mamba2Problem, inputs: Inputs) -> Call:
        """Tune for this shape unless that was done, then bind the copies."""
        self.library.use()
        heads, state = problem.H // problem.G, bool(problem.return_final_state)
        raw = problem.boundary == "raw"
        if raw:
            k, q = (inputs[name].repeat_interleave(heads, 2) for name in ("B", "C"))
            x, dt, a = inputs["x"], inputs["dt"], inputs["A"]
            prepared = compiled_preparation(problem.B, problem.N, problem.H, problem.P)
        else:
            q, k = (token_major(inputs[name]).repeat_interleave(heads, 2) for name in ("q", "k"))
            v, g = token_major(inputs["v"]), token_major(inputs["log_decay"])

        def make(chunk: int) -> Call:
            if not raw:
                return simple_gla(q, k, v, g=g, scale=1.0, chunk_size=chunk, state=state, heads_first=True)

            def call() -> Any:
                values, decay = prepared(x, dt, a)
                given = {"g": decay, "scale": 1.0, "chunk_size": chunk}
                found = simple_gla(q, k, values, state=state, heads_first=False, **given)()
                return (found[0], found[1].transpose(2, 3)) if state else found

            return call

        def make_backward(chunk: int) -> Call:
            def scan(given: Inputs) -> Tensor:
                if raw:
                    v, g = prepared(given["x"], given["dt"], given["A"])
                    q, k = (given[name].repeat_interleave(heads, 2) for name in ("C", "B"))
                else:
                    q, k, v, g = (given[name].transpose(1, 2) for name in ("q", "k", "v", "log_decay"))
                    q, k = (one.repeat_interleave(heads, 2) for one in (q, k))
                rest: dict[str, Any] = {"scale": 1.0, "chunk_size": chunk, "state": False, "heads_first": not raw}
                out: Tensor = simple_gla(q, k, v, g=g, **rest)()
                return out

            return gradient_call(scan, inputs if raw else token_major_views(inputs))

        make = make if problem.direction == "fwd" else make_backward
        key = (problem.direction, problem.B, problem.H, problem.N, problem.P, problem.S, problem.boundary)
        return tuned_call(self, key, short_kernels(), make, sizes(self.options["chunk"], CHUNKS))


def token_major_views(inputs: Inputs) -> Inputs:
    """(B, H, N, .) as views of copies that lie as the library reads them; what has one dimension as it is."""
    return {name: one if one.dim() < 3 else token_major(one).transpose(1, 2) for name, one in inputs.items()}


def simple_gla(q: Tensor, k: Tensor, v: Tensor, *, state: bool, heads_first: bool, **given: Any) -> Call:
    """A call of `chunk_simple_gla` on (B, N, H, .), `given` its chunk size, scale, and decay `g` or `g_gamma`.

    `heads_first` returns a (B, H, N, .) view of its output.
    """
    from fla.ops.simple_gla import chunk_simple_gla

    def call() -> Any:
        out, final = chunk_simple_gla(q, k, v, output_final_state=state, **given)
        out = out.transpose(1, 2) if heads_first else out
        return (out, final) if state else out

    return call


def short_kernels() -> tuple[Any, ...]:
    """The library's kernels that are tuned, the longest list of 48 cut to eight."""
    from fla.ops.common import chunk_h, chunk_o
    from fla.ops.utils import cumsum

    states = (chunk_h.chunk_fwd_kernel_h, chunk_h.chunk_bwd_kernel_dh)
    for kernel in states:
        shorten(kernel, is_short)
    gradients = (chunk_o.chunk_bwd_kernel_dqkwg, chunk_o.chunk_bwd_kernel_dv)
    return (*states, chunk_o.chunk_fwd_kernel_o, *gradients, cumsum.chunk_local_cumsum_scalar_kernel)


def is_short(config: Any) -> bool:
    """Tiles of 32 and 64, two or four warps, three stages: what was chosen in trials, and its neighbours."""
    return config.num_warps in (2, 4) and config.num_stages == 3


@cache
def compiled_preparation(*shape: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """X (B, N, H, P), dt (B, N, H), A (H,) to x dt in bf16 and A dt in fp32, compiled for this shape."""
    return compile_alone(_preparation, f"preparation_{'_'.join(map(str, shape))}")


def _preparation(x: Tensor, dt: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    return (x * dt[..., None]).to(x.dtype), dt * a
