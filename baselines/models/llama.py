"""A Llama's step of decoding in PyTorch: eager, or `torch.compile` with more or less tuning.

What lies between the attentions of two layers is one function, which all layers share, so that it is compiled once:
output projection, feed-forward part, the next layer's projections, rotary embedding and the append to its cache.
Attention is SDPA over all keys of the cache, the query heads of a group as rows, on the first of `BACKENDS` that takes
it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from baselines.common.baseline import Call, Inputs, options
from baselines.common.compiled import MAX_AUTOTUNE, compile_alone
from baselines.common.plain_torch import PlainTorch
from baselines.models import names
from baselines.models.problem import Heads, LlamaProblem

BACKENDS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
TUNED: dict[Any, tuple[str | None, dict[str, Any]]] = {
    1: (None, {}),
    "max_autotune": (MAX_AUTOTUNE, {"mode": MAX_AUTOTUNE}),
    "descent": ("default with coordinate descent", {"options": {"coordinate_descent_tuning": True}}),
}
"""What `version` says of the mode, and the settings of `torch.compile`, by the option `compiled`."""
EPSILON = 1e-5

Pieces = tuple[Callable[..., tuple[Tensor, Tensor]], Callable[..., tuple[Tensor, Tensor]], Callable[..., Tensor]]


class LlamaDecode(PlainTorch):
    """A step with a cache of its own, which it appends to at the same place every time.

    Options:
        compiled: 0 runs it eagerly, 1 compiles it with Inductor's defaults; "max_autotune" tunes the products among
            cuBLAS and Triton's templates; "descent" tunes by coordinate descent, and makes reductions of products of
            one row.
    """

    choices = options(compiled=(0, *TUNED))
    algorithm, strangers = "SDPA", (names.TK,)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.mode = TUNED[self.options["compiled"]][0] if self.compiled else None

    def prepare(self, problem: LlamaProblem, inputs: Inputs) -> Call:
        """Bind the inputs; compiled, compile and run once."""
        first, between, last = pieces(Heads(problem.H, problem.Hkv, problem.D), str(problem), self.options["compiled"])
        caches = [functional.pad(inputs[name], (0, 0, 0, 1)) for name in ("k_cache", "v_cache")]
        at, norms = inputs["positions"].long(), inputs["norms"]
        place = (inputs["cos"][at, None], inputs["sin"][at, None], torch.arange(len(at), device=at.device), at)

        def projecting(layer: int) -> tuple[Any, ...]:
            bias, normed = (inputs.get(name) for name in ("bias", "head_norms"))
            of_heads = (None, None) if normed is None else (normed[2 * layer], normed[2 * layer + 1])
            own = (norms[2 * layer], inputs["qkv"][layer], None if bias is None else bias[layer], *of_heads)
            return (*own, *(one[layer] for one in caches), *place)

        def ending(layer: int) -> tuple[Tensor, ...]:
            return (inputs["out"][layer], norms[2 * layer + 1], inputs["up"][layer], inputs["down"][layer])

        layers = [(projecting(layer), ending(layer)) for layer in range(problem.L)]

        def attend(q: Tensor, layer: int) -> Tensor:
            k, v = caches
            return functional.scaled_dot_product_attention(q, k[layer], v[layer]).flatten(1)

        def call() -> tuple[Tensor, ...]:
            with torch.no_grad(), sdpa_kernel(BACKENDS, set_priority=True):
                x, q = first(inputs["tokens"], inputs["embedding"], *layers[0][0])
                for layer, (projected, _) in enumerate(layers[1:]):
                    x, q = between(x, attend(q, layer), *layers[layer][1], *projected)
                logits = last(x, attend(q, len(layers) - 1), *layers[-1][1], norms[-1], inputs["head"])
            return (logits, *(one[:, :, :, -1] for one in caches))

        if self.compiled:
            call()
        return call


@cache
def pieces(heads: Heads, problem: str, tuned: Any) -> Pieces:
    """What comes before the first attention, between two, and behind the last: compiled for one problem, or plain."""

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, EPSILON)

    def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], -1).to(x.dtype)

    def project(x: Tensor, weight: Tensor, qkv: Tensor, *given: Any) -> Tensor:
        """Queries by group, (B, Hkv, H / Hkv, D); keys and values are appended."""
        bias, q_norm, k_norm, k_cache, v_cache, cos, sin, rows, at = given
        projected = functional.linear(norm(x, weight), qkv, bias).unflatten(-1, (-1, heads.dim))
        q, k, v = projected.split([heads.queries, heads.keys, heads.keys], 1)
        if q_norm is not None:
            q, k = norm(q, q_norm), norm(k, k_norm)
        k_cache[rows, :, at], v_cache[rows, :, at] = turned(k, cos, sin), v
        return turned(q, cos, sin).unflatten(1, (heads.keys, -1))

    def end(x: Tensor, attended: Tensor, out: Tensor, weight: Tensor, up: Tensor, down: Tensor) -> Tensor:
        x = x + functional.linear(attended, out)
        gate, up = functional.linear(norm(x, weight), up).chunk(2, -1)
        return x + functional.linear(functional.silu(gate) * up, down)

    def first(tokens: Tensor, embedding: Tensor, *projecting: Any) -> tuple[Tensor, Tensor]:
        x = functional.embedding(tokens, embedding)
        return x, project(x, *projecting)

    def between(x: Tensor, attended: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
        x = end(x, attended, *given[:4])
        return x, project(x, *given[4:])

    def last(x: Tensor, attended: Tensor, *given: Any) -> Tensor:
        *ending, weight, head = given
        return functional.linear(norm(end(x, attended, *ending), weight), head).float()

    if not tuned:
        return first, between, last
    number = pieces.cache_info().misses
    one, two, three = (compile_alone(f, f"{f.__name__}_{number}", **TUNED[tuned][1]) for f in (first, between, last))
    return one, two, three
