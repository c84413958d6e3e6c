"""flash-linear-attention (fla): Triton kernels for Based, for linear attention with a decay, and so for Mamba-2.

Tuned in `prepare`, outside the clock, for each shape: the chunk size, and of the library's own lists of configurations
the part that `is_short` keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baselines.common.gpu import AMPERE, refuse_other_gpus
from baselines.common.layouts import token_major
from baselines.common.options import chosen
from baselines.common.problems import refuse
from baselines.common.sites import distribution_version, find, use_site
from baselines.linear import names
from baselines.linear.problem import BasedProblem, LinearAttentionProblem, Mamba2Problem, refuse_state
from baselines.linear.triton_autotune import shorten, tune_for, with_chunk

if TYPE_CHECKING:
    import torch

INSTALL = "pip install fla-core==0.6.0 triton"
CHUNKS = (32, 64, 128)
"""Chunk sizes tried for "auto"; at 256 the kernel spills and takes four times as long."""

MAX_FEATURES = 16
"""Of fused_chunk_based; parallel_based takes 128."""


class _Fla:
    """What the three have in common."""

    def available(self) -> str | None:
        """None, or how to install the library."""
        return find("fla", ["torch", "triton", "einops", "fla"], INSTALL)

    def version(self) -> str:
        """Versions of the library and of Triton, and the function."""
        use_site("fla")
        triton = distribution_version("triton", "pytorch-triton")
        return f"flash-linear-attention {distribution_version('fla-core')}, triton {triton}, {self._library_function()}"

    def _library_function(self) -> str:
        raise NotImplementedError


class Based(_Fla):
    """Based in (B, N, H, D) views of (B, H, N, D) memory, which is what its kernels read.

    Options:
        kernel: "parallel", quadratic in the length, or "fused_chunk", linear in it.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("fla", options, {"kernel": ("parallel", "fused_chunk")}, {"kernel": "parallel"})
        self._name = f"fla_{self._options['kernel']}"

    def _library_function(self) -> str:
        return f"{self._options['kernel']}_based"

    def supports(self, problem: BasedProblem, device: str) -> str | None:
        """bf16 problems without a returned state."""
        reason = refuse(problem, device, devices=("cuda",), name=self._name) or refuse_state(problem, self._name)
        if reason is None and self._options["kernel"] == "fused_chunk" and problem.F > MAX_FEATURES:
            reason = f"{self._name}: got F={problem.F}, it takes up to {MAX_FEATURES}"
        return reason or refuse_other_gpus(self._name, least=AMPERE)

    def kernel_names(self, problem: BasedProblem) -> tuple[str, ...]:
        """The one kernel that each has."""
        return (f"{self._options['kernel']}_based_fwd_kernel",)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels, and the other of the two."""
        other = {"parallel": "fused_chunk", "fused_chunk": "parallel"}[self._options["kernel"]]
        return (f"{other}_based_fwd_kernel", *names.others(names.FLA))

    def prepare(self, problem: BasedProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        """The library's function; its own division by the normaliser is in it."""
        use_site("fla")
        from fla.ops import based as library

        function = library.parallel_based if self._options["kernel"] == "parallel" else library.fused_chunk_based
        q, k, v = (inputs[name].transpose(1, 2) for name in ("q", "k", "v"))
        normalize = bool(problem.normalize)
        return lambda: function(q, k, v, use_norm=normalize).transpose(1, 2)


class LinearAttention(_Fla):
    """Linear attention with a scalar decay, on (B, N, H, D) copies.

    Options:
        kernel: "simple_gla" for every decay, with the best chunk size; "linear_attn" (chunk_linear_attn) for none.
        chunk: chunk size of "simple_gla", or "auto" for the fastest of `CHUNKS`.
    """

    def __init__(self, **options: Any) -> None:
        known = {"kernel": ("simple_gla", "linear_attn"), "chunk": ("auto", 16, 32, 64, 128, 256)}
        self._options = chosen("fla", options, known, {"kernel": "simple_gla", "chunk": "auto"})
        self._name = {"simple_gla": "simple_gla", "linear_attn": "fla_linear_attn"}[self._options["kernel"]]

    def _library_function(self) -> str:
        return f"chunk_{self._options['kernel']}"

    def supports(self, problem: LinearAttentionProblem, device: str) -> str | None:
        """bf16 problems; chunk_linear_attn has no decay."""
        reason = refuse(problem, device, devices=("cuda",), name=self._name)
        if reason is None and self._options["kernel"] == "linear_attn" and problem.decay != "none":
            reason = f"{self._name}: got decay={problem.decay}, it has none"
        return reason or refuse_other_gpus(self._name, least=AMPERE)

    def kernel_names(self, problem: LinearAttentionProblem) -> tuple[str, ...]:
        """States of all chunks first, then all outputs."""
        return (names.FLA_STATES, names.FLA_OUTPUT)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.FLA)

    def prepare(self, problem: LinearAttentionProblem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Tune for this shape unless that was done, then bind the copies."""
        use_site("fla")
        q, k, v = (token_major(inputs[name]) for name in ("q", "k", "v"))
        state, scale = bool(problem.return_final_state), problem.scale
        key = (problem.B, problem.H, problem.N, problem.D, problem.decay)
        if self._options["kernel"] == "linear_attn":
            from fla.ops.linear_attn import chunk_linear_attn

            tune_for(key, short_kernels())

            def call() -> Any:
                out, final = chunk_linear_attn(q, k, v, scale=scale, normalize=False, output_final_state=state)
                return (out.transpose(1, 2), final) if state else out.transpose(1, 2)

            call()
            return call
        decay: dict[str, torch.Tensor] = {}
        if problem.decay == "head":
            decay = {"g_gamma": inputs["log_decay"]}
        elif problem.decay == "step":
            decay = {"g": token_major(inputs["log_decay"])}

        def make(chunk: int) -> Callable[[], Any]:
            return simple_gla(q, k, v, decay, scale=scale, chunk=chunk, state=state, heads_first=True)

        return with_chunk(key, self._options["chunk"], CHUNKS, short_kernels(), make)


class Mamba2(_Fla):
    """Mamba-2 as linear attention with a decay per step, `chunk_simple_gla`.

    It reads (B, N, H, .) tensors with as many heads of keys and queries as of values: groups are expanded in `prepare`,
    outside the clock, and so are the copies in that layout. From raw inputs, x dt and A dt are computed inside the
    call, by one compiled function.

    Options:
        chunk: chunk size, or "auto" for the fastest of `CHUNKS`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = chosen("simple_gla", options, {"chunk": ("auto", 16, 32, 64, 128, 256)}, {"chunk": "auto"})

    def _library_function(self) -> str:
        return "chunk_simple_gla"

    def supports(self, problem: Mamba2Problem, device: str) -> str | None:
        """bf16 problems of either boundary."""
        reason = refuse(problem, device, devices=("cuda",), name="simple_gla")
        return reason or refuse_other_gpus("simple_gla", least=AMPERE)

    def kernel_names(self, problem: Mamba2Problem) -> tuple[str, ...]:
        """States of all chunks first, then all outputs; from raw inputs, what prepares them before."""
        own = (names.FLA_STATES, names.FLA_OUTPUT)
        return (*own, names.INDUCTOR) if problem.boundary == "raw" else own

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Everyone else's kernels."""
        return names.others(names.FLA, names.INDUCTOR)

    def prepare(self, problem: Mamba2Problem, inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
        """Tune for this shape unless that was done, then bind the copies."""
        use_site("fla")
        heads, state = problem.H // problem.G, bool(problem.return_final_state)
        raw = problem.boundary == "raw"
        if raw:
            k, q = (inputs[name].repeat_interleave(heads, 2) for name in ("B", "C"))
            x, dt, a = inputs["x"], inputs["dt"], inputs["A"]
            prepared = compiled_preparation(problem)
        else:
            q, k = (token_major(inputs[name]).repeat_interleave(heads, 2) for name in ("q", "k"))
            v, g = token_major(inputs["v"]), token_major(inputs["log_decay"])

        def make(chunk: int) -> Callable[[], Any]:
            if not raw:
                return simple_gla(q, k, v, {"g": g}, scale=1.0, chunk=chunk, state=state, heads_first=True)

            def call() -> Any:
                values, decay = prepared(x, dt, a)
                found = simple_gla(q, k, values, {"g": decay}, scale=1.0, chunk=chunk, state=state, heads_first=False)()
                return (found[0], found[1].transpose(2, 3)) if state else found

            return call

        key = (problem.B, problem.H, problem.N, problem.P, problem.S, problem.boundary)
        return with_chunk(key, self._options["chunk"], CHUNKS, short_kernels(), make)


def simple_gla(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: dict[str, torch.Tensor],
    *,
    scale: float,
    chunk: int,
    state: bool,
    heads_first: bool,
) -> Callable[[], Any]:
    """A call of `chunk_simple_gla` on (B, N, H, .); `heads_first` returns a (B, H, N, .) view of its output."""
    from fla.ops.simple_gla import chunk_simple_gla

    def call() -> Any:
        out, final = chunk_simple_gla(q, k, v, scale=scale, output_final_state=state, chunk_size=chunk, **decay)
        out = out.transpose(1, 2) if heads_first else out
        return (out, final) if state else out

    return call


def short_kernels() -> tuple[Any, ...]:
    """The library's kernels that are tuned, the longest list of 48 cut to eight."""
    from fla.ops.common import chunk_h, chunk_o
    from fla.ops.utils import cumsum

    shorten(chunk_h.chunk_fwd_kernel_h, is_short)
    return chunk_h.chunk_fwd_kernel_h, chunk_o.chunk_fwd_kernel_o, cumsum.chunk_local_cumsum_scalar_kernel


def is_short(config: Any) -> bool:
    """Tiles of 32 and 64, two or four warps, three stages: what was chosen in trials, and its neighbours."""
    return config.num_warps in (2, 4) and config.num_stages == 3


_preparations: dict[tuple[object, ...], Callable[..., Any]] = {}


def compiled_preparation(problem: Mamba2Problem) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """X (B, N, H, P), dt (B, N, H), A (H,) to x dt in bf16 and A dt in fp32, compiled for this shape."""
    from baselines.common.compiled import compile_alone

    key = (problem.B, problem.N, problem.H, problem.P)
    if key not in _preparations:
        _preparations[key] = compile_alone(_preparation, f"preparation_{'_'.join(map(str, key))}")
    return _preparations[key]


def _preparation(x: torch.Tensor, dt: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x * dt[..., None]).to(x.dtype), dt * a
