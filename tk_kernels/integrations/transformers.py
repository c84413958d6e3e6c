"""Attention for models of the `transformers` package: `attn_implementation="tk"`.

    from tk_kernels.integrations.transformers import register

    register()
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16, attn_implementation="tk")

Dense bfloat16 batches run, causal or not, with grouped heads and with a growing cache. What the kernel does not do is
refused in a sentence that names what to use instead; nothing goes to another implementation in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from tk_kernels.kernels.attention.operator import attention

NAME = "tk"
SDPA, VARLEN = "attn_implementation='sdpa'", "attn_implementation='flash_attention_2'"
"""What a refusal names: PyTorch's attention, and one that takes sequences of several lengths in one row."""

_PACKED = ("cu_seq_lens_q", "cu_seq_lens_k", "cu_seqlens_q", "cu_seqlens_k", "max_length_q", "max_length_k")
_UNSUPPORTED = {
    "softcap": ("caps its scores (softcap)", "attn_implementation='eager'"),
    "s_aux": ("has attention sinks (s_aux)", "attn_implementation='eager'"),
    "position_bias": ("adds a bias to its scores (position_bias)", SDPA),
    "cache": ("has a paged cache", SDPA),
}
"""Keyword -> what the model does, and what does it too."""
_SEVERAL = (
    "packs several sequences into a row (position_ids that start again), or has a mask of its own",
    f"one sequence a row, {VARLEN} for packed ones, or {SDPA} without a cache",
)


def register(name: str = NAME) -> None:
    """Offers the kernel to transformers as `attn_implementation=<name>`, for models that are made afterwards.

    Raises ImportError that says what to install where transformers is missing or too old.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        raise ImportError(
            "register: needs transformers 5 or newer, which is not installed: pip install 'transformers>=5'"
        ) from error
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, no_mask)


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as a layer of transformers calls it.

    query: (B, Hq, N, D), key and value: (B, Hkv, Nkv, D), bfloat16, D 64 or 128.  Returns (B, N, Hq, D) and no weights.
    Causal is aligned to the bottom right, so that queries see all of a cache.  Raises ValueError for what the kernel
    does not do: a mask, dropout, packed sequences, a window that is shorter than the keys, another dtype or head size.
    """
    if attention_mask is not None:
        raise _refusal("was given a mask of its own (4-D attention_mask)", SDPA)
    if dropout:
        raise _refusal(f"drops attention weights (dropout {dropout:g})", f"attention_dropout=0 or {SDPA}")
    if _starts_again(module, options.get("position_ids"), key.shape[2]):
        raise _refusal(*_SEVERAL)
    if any(options.get(key) is not None for key in _PACKED):
        raise _refusal("packs sequences of several lengths into one row (cu_seq_lens)", VARLEN)
    if sliding_window is not None and key.shape[2] > sliding_window:
        raise _refusal(f"has a window of {sliding_window} keys, and there are {key.shape[2]}", SDPA)
    for option, (what, instead) in _UNSUPPORTED.items():
        if options.get(option) is not None:
            raise _refusal(what, instead)
    if options.get("output_attentions"):
        raise _refusal("asks for the weights (output_attentions)", "attn_implementation='eager'")
    causal = bool(getattr(module, "is_causal", True)) if is_causal is None else is_causal
    try:
        out = cast(Tensor, attention(query, key, value, causal=causal, scale=scaling))
    except ValueError as error:
        raise _refusal(f"has other operands ({error})", f"dtype=torch.bfloat16 or {SDPA}") from None
    return out.transpose(1, 2), None


def no_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    **_: Any,
) -> None:
    """The mask of a batch, as transformers asks for it: None, where the kernel needs none; ValueError for all others.

    attention_mask: (B, Nkv or more) bool, False for padding.
    """
    if attention_mask is not None and not bool(attention_mask.all()):
        raise _refusal(
            "was given padding (attention_mask has zeros)", f"batches of one length, or {SDPA}; {VARLEN} drops padding"
        )
    name = getattr(mask_function, "__name__", "")
    if name != "bidirectional_mask_function" and q_offset + q_length != kv_offset + kv_length:
        raise _refusal("keeps its keys in a cache longer than what it has seen", f"a dynamic cache or {SDPA}")
    if local_size is not None and kv_length > local_size:
        raise _refusal(f"has a window of {local_size} keys, and there are {kv_length}", SDPA)
    plain = name in ("causal_mask_function", "bidirectional_mask_function")
    if not (allow_is_causal_skip or allow_is_bidirectional_skip or plain):
        raise _refusal(*_SEVERAL)


def _starts_again(module: torch.nn.Module, position_ids: Any, keys: int) -> bool:
    """Whether rows without a past pack sequences: transformers looks for them only in a model without a cache.

    Only the first layer looks, since on a GPU the answer is waited for; a compiled model cannot.
    """
    if not isinstance(position_ids, Tensor) or position_ids.ndim != 2 or position_ids.shape[1] != keys:
        return False
    if getattr(module, "layer_idx", 0) or torch.compiler.is_compiling():
        return False
    return bool((position_ids[:, 1:] < position_ids[:, :-1]).any())


def _refusal(what: str, instead: str) -> ValueError:
    return ValueError(f"attn_implementation='{NAME}': the model {what}, which the kernel does not take; use {instead}")
