"""A Llama that decodes by whole launches (`llama_decode`), with the weights of a model of the `transformers` package.

    model = Llama.from_transformers(AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).cuda())
    tokens = model.generate([prompt], new_tokens=128)

The prompt is computed by PyTorch, the tokens behind it sixteen to a launch. Who samples has a launch for each token,
and sees its logits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..kernels.llama_decode.operator import LlamaPlan, LlamaShape, llama_decode, llama_plan
from ..ops.options import integer

KINDS = ("llama", "qwen2", "qwen3")
ROTARY = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings whose angles do not depend on a sequence's length: a table has them."""


@dataclass
class LlamaCache:
    """Keys and values of a batch, (layers, batch, kv_heads, positions, dim) bfloat16, and how many there are.

    lengths: of each sequence, as the host knows them; `positions` has them on the device, (batch,) int32, where a
    replayed CUDA graph counts on.
    """

    k: Tensor
    v: Tensor
    positions: Tensor
    lengths: list[int]


@dataclass(frozen=True)
class Weights:
    """The operands of `llama_decode` by their names, bfloat16 but for the tables."""

    embedding: Tensor
    qkv: Tensor
    out: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    head: Tensor
    norms: Tensor
    cos: Tensor
    sin: Tensor
    bias: Tensor | None
    head_norms: Tensor | None


class Llama:
    """Weights, and the plan of a token for each batch that is decoded. Made by `from_transformers`."""

    def __init__(self, shape: LlamaShape, weights: Weights, epsilon: float) -> None:
        self.shape, self.weights, self.epsilon = shape._replace(batch=1), weights, epsilon
        self.device = weights.embedding.device
        self._plans: dict[int, LlamaPlan] = {}
        self._plan(1)

    @classmethod
    def from_transformers(cls, model: Any, positions: int | None = None) -> Llama:
        """A copy of a Llama's, Qwen2's or Qwen3's weights, a tensor an operation and not permuted, on its device.

        positions: the most that a cache will have, by default as many as the model was made for. Raises ValueError that
        says what of the model is not built here.
        """
        config = model.config
        _require_supported(config)
        body, layers = model.model, list(model.model.layers)
        positions = config.max_position_embeddings if positions is None else positions
        embedding = body.embed_tokens.weight
        dim = layers[0].self_attn.head_dim
        shape = LlamaShape(
            len(layers),
            config.hidden_size,
            config.intermediate_size,
            config.num_attention_heads,
            config.num_key_value_heads,
            dim,
            len(embedding),
        )
        for name, weight in model.named_parameters():
            if weight.dtype != torch.bfloat16:
                raise ValueError(f"{name}: is {weight.dtype}, needs bfloat16; use model.to(torch.bfloat16)")

        def every(of: Callable[[Any], Tensor]) -> Tensor:
            return torch.stack([of(layer).detach() for layer in layers])

        def projections(of: Callable[[Any], Tensor]) -> Tensor:
            return every(lambda layer: torch.cat([of(getattr(layer.self_attn, f"{one}_proj")) for one in "qkv"]))

        norms = [one.weight for each in layers for one in (each.input_layernorm, each.post_attention_layernorm)]
        biased = layers[0].self_attn.q_proj.bias is not None
        normed = []
        if config.model_type == "qwen3":
            normed = [one.weight for each in layers for one in (each.self_attn.q_norm, each.self_attn.k_norm)]
        numbers = torch.zeros(1, dtype=torch.float32, device=embedding.device)
        cos, sin = body.rotary_emb(numbers, torch.arange(positions, device=embedding.device)[None])
        weights = Weights(
            embedding=embedding.detach(),
            qkv=projections(lambda one: one.weight),
            out=every(lambda layer: layer.self_attn.o_proj.weight),
            gate=every(lambda layer: layer.mlp.gate_proj.weight),
            up=every(lambda layer: layer.mlp.up_proj.weight),
            down=every(lambda layer: layer.mlp.down_proj.weight),
            head=model.lm_head.weight.detach(),
            norms=torch.stack([*norms, body.norm.weight]).detach(),
            cos=cos[0, :, : dim // 2].contiguous(),
            sin=sin[0, :, : dim // 2].contiguous(),
            bias=projections(lambda one: one.bias) if biased else None,
            head_norms=torch.stack(normed).detach() if normed else None,
        )
        return cls(shape, weights, config.rms_norm_eps)

    def cache(self, batch: int = 1, positions: int = 4096) -> LlamaCache:
        """An empty cache. Raises ValueError for a batch that no kernel takes, or more positions than the model has."""
        self._plan(batch)
        if not 0 < positions <= len(self.weights.cos):
            raise ValueError(f"positions: got {positions}, needs 1 to {len(self.weights.cos)}")
        s = self.shape
        size = (s.layers, batch, s.kv_heads, positions, s.dim)
        k, v = (torch.zeros(size, dtype=torch.bfloat16, device=self.device) for _ in range(2))
        return LlamaCache(k, v, torch.zeros(batch, dtype=torch.int32, device=self.device), [0] * batch)

    @torch.no_grad()
    def step(self, tokens: Tensor, cache: LlamaCache) -> Tensor:
        """Logits (batch, vocabulary), float32, behind one more token of each sequence, (batch,) int32: one launch.

        The tokens' keys and values are appended. A CUDA graph captures a step; its replays count `cache.positions` on,
        and not `cache.lengths`. Raises ValueError where the cache is full or of another batch.
        """
        return self._launch(tokens, cache, None)

    @torch.no_grad()
    def steps(self, tokens: Tensor, cache: LlamaCache, count: int) -> Tensor:
        """The `count` tokens that follow one more of each sequence, (batch, count) int32: one launch.

        The largest logit decides, of equal ones the lowest token. `tokens` and the new ones but for the last are
        appended: that one begins the next call. All bits, CUDA graphs and errors are those of as many single steps.
        """
        integer("count", count, 1, 1 << 24)
        chosen = torch.empty((len(cache.lengths), count), dtype=torch.int32, device=self.device)
        self._launch(tokens, cache, chosen)
        return chosen

    @torch.no_grad()
    def prefill(self, prompts: Sequence[Tensor], cache: LlamaCache) -> Tensor:
        """Logits (batch, vocabulary), float32, behind a prompt of each sequence, by PyTorch; fills an empty cache."""
        if len(prompts) != len(cache.lengths):
            raise ValueError(f"prompts: got {len(prompts)}, the cache is for {len(cache.lengths)} sequences")
        if any(cache.lengths):
            raise ValueError("cache: is not empty; make another one for other prompts")
        lengths = [len(prompt) for prompt in prompts]
        if min(lengths) == 0 or max(lengths) > cache.k.shape[3]:
            raise ValueError(f"prompts: have {lengths} tokens, need 1 to {cache.k.shape[3]}, the cache's positions")
        logits = [self._prefilled(prompt.to(self.device), cache, i) for i, prompt in enumerate(prompts)]
        cache.positions.copy_(torch.tensor(lengths, dtype=torch.int32))
        cache.lengths = lengths
        return torch.stack(logits)

    def generate(
        self,
        prompts: Sequence[Tensor],
        new_tokens: int,
        *,
        tokens_a_launch: int = 16,
        sample: Callable[[Tensor], Tensor] | None = None,
        stop: Collection[int] = (),
    ) -> Tensor:
        """New tokens of each sequence behind its prompt, (batch, up to new_tokens) int32.

        prompts: a tensor of whole numbers each. sample: makes tokens (batch,) of logits (batch, vocabulary); without it
        the largest is taken, in launches of so many tokens. Ends early where every sequence has had a token of `stop`,
        which is looked for between launches: what a launch makes behind that is left out.
        """
        integer("new_tokens", new_tokens, 1, 1 << 24)
        integer("tokens_a_launch", tokens_a_launch, 1, 1 << 24)
        cache = self.cache(len(prompts), max(map(len, prompts)) + new_tokens)
        ends = torch.tensor(list(stop), dtype=torch.int32, device=self.device)
        choose = sample or (lambda logits: logits.argmax(-1))
        made = choose(self.prefill(prompts, cache)).to(torch.int32)[:, None]
        while True:
            goes_on = ~(torch.isin(made, ends).cumsum(1) > 0).all(0)  # behind each column
            if stop and not bool(goes_on[-1]):
                return made[:, : int(goes_on.sum()) + 1]
            count = min(tokens_a_launch, new_tokens - made.shape[1])
            if count == 0:
                return made
            last = made[:, -1].contiguous()
            more = self.steps(last, cache, count) if sample is None else sample(self.step(last, cache))[:, None]
            made = torch.cat([made, more.to(torch.int32)], 1)

    def _launch(self, tokens: Tensor, cache: LlamaCache, chosen: Tensor | None) -> Tensor:
        """Logits of the last of the tokens, of which there is one where none is `chosen`."""
        batch, full, count = len(cache.lengths), cache.k.shape[3], 1 if chosen is None else chosen.shape[1]
        if max(cache.lengths) + count > full:
            raise ValueError(
                f"cache: is full, it has {full} positions and {max(cache.lengths)} tokens; no {count} more fit, "
                "make a longer one"
            )
        logits = torch.empty((batch, self.shape.vocabulary), dtype=torch.float32, device=self.device)
        operands, plan = (logits, tokens, cache.positions, cache.k, cache.v), self._plan(batch)
        llama_decode(*operands, **vars(self.weights), plan=plan, chosen=chosen, epsilon=self.epsilon)
        cache.positions += count
        cache.lengths = [length + count for length in cache.lengths]
        return logits

    def _plan(self, batch: int) -> LlamaPlan:
        if batch not in self._plans:
            self._plans[batch] = llama_plan(self.shape._replace(batch=batch), device=self.device)
        return self._plans[batch]

    def _prefilled(self, prompt: Tensor, cache: LlamaCache, sequence: int) -> Tensor:
        """Logits behind a prompt; its keys and values go into the cache."""
        s, w, n = self.shape, self.weights, len(prompt)

        def norm(x: Tensor, weight: Tensor) -> Tensor:
            return functional.rms_norm(x, (x.shape[-1],), weight.float(), self.epsilon)

        def turned(x: Tensor) -> Tensor:  # (heads, n, dim)
            a, b = x.chunk(2, -1)
            return torch.cat([a * w.cos[:n] - b * w.sin[:n], b * w.cos[:n] + a * w.sin[:n]], -1).bfloat16()

        x = w.embedding[prompt.long()].float()
        for layer in range(s.layers):
            bias = None if w.bias is None else w.bias[layer]
            y = functional.linear(norm(x, w.norms[2 * layer]).bfloat16(), w.qkv[layer], bias)
            heads = y.view(n, -1, s.dim).transpose(0, 1).float()
            q, k, v = heads.split([s.heads, s.kv_heads, s.kv_heads])
            if w.head_norms is not None:
                q, k = norm(q, w.head_norms[2 * layer]), norm(k, w.head_norms[2 * layer + 1])
            q, k, v = turned(q), turned(k), v.bfloat16()
            cache.k[layer, sequence, :, :n], cache.v[layer, sequence, :, :n] = k, v
            o = functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
            x = x + functional.linear(o.transpose(0, 1).reshape(n, -1), w.out[layer]).float()
            y = norm(x, w.norms[2 * layer + 1]).bfloat16()
            y = functional.silu(functional.linear(y, w.gate[layer])) * functional.linear(y, w.up[layer])
            x = x + functional.linear(y, w.down[layer]).float()
        return functional.linear(norm(x[-1], w.norms[-1]).bfloat16(), w.head).float()


def _require_supported(config: Any) -> None:
    """Raises ValueError that says what of a transformers' model is not built here."""
    kind = getattr(config, "model_type", None)
    if kind not in KINDS:
        raise ValueError(f"model: is a {kind}; {', '.join(KINDS)} are built")
    rotary = (getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}).get("rope_type")
    for name, wrong in {
        "hidden_act": config.hidden_act != "silu" and f"is {config.hidden_act}; silu is built",
        "mlp_bias": getattr(config, "mlp_bias", False) and "is set; the MLP has no biases here",
        "attention_bias": getattr(config, "attention_bias", False)
        and "is set; only biases of q, k and v are built, as Qwen2 has them",
        "layer_types": "sliding_attention" in (getattr(config, "layer_types", None) or ())
        and "has sliding windows; only full attention is built",
        "rope_type": rotary not in (None, *ROTARY) and f"is {rotary}; {', '.join(ROTARY)} are built",
    }.items():
        if wrong:
            raise ValueError(f"model: {name} {wrong}")
