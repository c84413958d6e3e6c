"""Attention for models of the `transformers` package: `attn_implementation="tk"`.

    from tk_kernels.integrations.transformers import register

    register()
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16, attn_implementation="tk")

Dense bfloat16 batches run, causal or not, with grouped heads, a growing cache and causal sliding windows (Mistral's,
Qwen's, Gemma's). What the kernel does not do is refused in a sentence that names what to use instead; nothing goes to
another implementation in silence.

    with mamba2_scans(model):
        logits = model(tokens).logits

Mamba-2 layers of such models scan with `tk.mamba2`; a step of decode stays the model's own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor

from tk_kernels.kernels.attention.operator import attention
from tk_kernels.kernels.linear_attention.mamba2 import mamba2

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
    Causal is aligned to the bottom right, so that queries see all of a cache, or the last `sliding_window` keys.
    Raises ValueError for what the kernel does not do: a mask, dropout, packed sequences, a window that is not causal,
    another dtype or head size.
    """
    if attention_mask is not None:
        raise _refusal("was given a mask of its own (4-D attention_mask)", SDPA)
    if dropout:
        raise _refusal(f"drops attention weights (dropout {dropout:g})", f"attention_dropout=0 or {SDPA}")
    if _starts_again(module, options.get("position_ids"), key.shape[2]):
        raise _refusal(*_SEVERAL)
    if any(options.get(key) is not None for key in _PACKED):
        raise _refusal("packs sequences of several lengths into one row (cu_seq_lens)", VARLEN)
    for option, (what, instead) in _UNSUPPORTED.items():
        if options.get(option) is not None:
            raise _refusal(what, instead)
    if options.get("output_attentions"):
        raise _refusal("asks for the weights (output_attentions)", "attn_implementation='eager'")
    causal = bool(getattr(module, "is_causal", True)) if is_causal is None else is_causal
    window = sliding_window if sliding_window is not None and key.shape[2] > sliding_window else None
    if window is not None and not causal:
        raise _refusal(f"has a window of {window} keys in both directions, and there are {key.shape[2]}", SDPA)
    try:
        out = cast(Tensor, attention(query, key, value, causal=causal, scale=scaling, window=window))
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
    if local_size is not None and kv_offset + kv_length > local_size and not _slides(mask_function):
        raise _refusal(f"has a window of {local_size} keys that is cut into chunks, or not causal", SDPA)
    plain = name in ("causal_mask_function", "bidirectional_mask_function")
    if not (allow_is_causal_skip or allow_is_bidirectional_skip or plain):
        raise _refusal(*_SEVERAL)


SCAN = "mamba2_chunk_scan"
"""What a module of transformers calls its scan, for which Mamba-2's own package may stand in."""


@contextmanager
def mamba2_scans(model: torch.nn.Module) -> Iterator[None]:
    """Within it all models of this one's class scan their Mamba-2 layers with the kernel, in training too.

    Raises ValueError for a model without such layers.
    """
    modules = {sys.modules[type(layer).__module__] for layer in model.modules()}
    before = {one: getattr(one, SCAN) for one in modules if hasattr(one, SCAN)}
    if not before:
        raise ValueError(f"mamba2_scans: {type(model).__name__} has no layer of transformers with a {SCAN}")
    try:
        for one in before:
            setattr(one, SCAN, mamba2_scan)
        yield
    finally:
        for one, scan in before.items():
            setattr(one, SCAN, scan)


def mamba2_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int,
    D: Tensor | None = None,
    z: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """`tk.mamba2` as transformers calls `mamba_chunk_scan_combined`.

    hidden_states: (batch, N, H, 64) bfloat16, dt: (batch, N, H), A: (H,), B and C: (batch, N, G, S), S 64 or 128. The
    convolution in plain PyTorch leaves them with the steps dense; then they are copied. Raises ValueError for a gate in
    the scan, packed sequences and what `tk.mamba2` does not take.
    """
    if z is not None:
        raise ValueError("mamba2_scan: got a gate (z), which the kernel does not take; gate the output")
    packed = [name for name in ("seq_idx", "cu_seqlens") if options.get(name) is not None]
    if packed:
        raise ValueError(f"mamba2_scan: got packed sequences ({packed[0]}); give one sequence a row, or use mamba_ssm")
    x, B, C = (one if one.stride(-1) == 1 else one.contiguous() for one in (hidden_states, B, C))
    given: dict[str, Any] = {
        "D": D,
        "dt_bias": dt_bias,
        "dt_softplus": dt_softplus,
        "dt_limit": dt_limit,
        "chunk_size": chunk_size,
    }
    initial = None if initial_states is None else initial_states.float()
    return mamba2(x, dt, A, B, C, **given, initial_state=initial, return_final_state=return_final_states)


def _slides(mask_function: Callable[..., Any] | None) -> bool:
    """Whether a mask is transformers' causal sliding window: of these two masks, by their names."""
    if not inspect.isfunction(mask_function):
        return False
    parts = inspect.getclosurevars(mask_function).nonlocals.get("mask_functions", ())
    return {part.__qualname__.split(".")[0] for part in parts} == {"sliding_window_overlay", "causal_mask_function"}


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
