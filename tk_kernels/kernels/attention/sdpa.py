"""`scaled_dot_product_attention`: PyTorch's function of that name, by `attention` where it can do the call."""

from __future__ import annotations

import functools
import logging
from typing import cast

import torch
from torch import Tensor

from ...ops.library import likely, unsupported_gpu
from .operator import HEAD_DIMS, LARGEST_SCALE, attention

__all__ = ["scaled_dot_product_attention"]

_log = logging.getLogger("tk_kernels")


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return what `torch.nn.functional.scaled_dot_product_attention` returns for these arguments.

    query: (B, Hq, N, D), key and value: (B, Hkv, Nkv, D). The kernel of `tk.attention` does it for bfloat16, D 64 or
    128, no mask, no dropout, a last dimension that is dense, on a CPU or a GPU since Ampere. PyTorch's `is_causal` is
    aligned to the top left and `tk.attention`'s to the bottom right: the kernel takes it where N = Nkv, where both
    are the same. Everything else is passed on to PyTorch: it says which reason sent the call there, once a reason,
    by the logger `tk_kernels` (a compiled call says nothing). Under `torch.autocast` the tensors are cast first, as
    PyTorch casts them. Values are not looked at: what `tk.attention` says of the range of scores and of a NaN in v
    holds here too.

    Raises ValueError that names the argument for one that is no tensor.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name}: got a {type(tensor).__name__}, needs a torch.Tensor")
    query, key, value = _autocast(query, key, value)
    reason = obstacle(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if reason is None:
        return cast(Tensor, attention(query, key, value, causal=is_causal, scale=scale))
    if not torch.compiler.is_compiling():
        _log_delegation(reason)
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def obstacle(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str | None:
    """Why `tk.attention` cannot do this call, or None."""
    if attn_mask is not None:
        return "a mask is given"
    if dropout_p != 0:
        return "dropout is asked for"
    tensors = (query, key, value)
    if any(tensor.dtype != torch.bfloat16 for tensor in tensors):
        return "the tensors are not bfloat16"
    if any(tensor.layout != torch.strided or tensor.is_nested for tensor in tensors):
        return "a tensor is not dense"
    if any(tensor.dim() != 4 for tensor in tensors) or value.shape != key.shape or key.shape[0] != query.shape[0]:
        return "the shapes are not (B, Hq, N, D) and twice (B, Hkv, Nkv, D)"
    if query.shape[3] not in HEAD_DIMS or key.shape[3] != query.shape[3]:
        return "the head dim is not 64 or 128"
    if not all(likely(size != 0) for tensor in (query, key) for size in tensor.shape):
        return "a tensor is empty"
    if query.shape[1] != key.shape[1] and not (enable_gqa and query.shape[1] % key.shape[1] == 0):
        return "query and key have different heads and enable_gqa is off, or one is no multiple of the other"
    if is_causal and query.shape[2] != key.shape[2]:
        return "is_causal is aligned to the top left, and the lengths of query and key differ"
    if scale is not None and not -LARGEST_SCALE <= scale <= LARGEST_SCALE:
        return "the scale is not finite in float32"
    if any(tensor.stride(3) != 1 for tensor in tensors):
        return "a last dimension is not dense"
    if any(tensor.device != query.device for tensor in tensors):
        return "the tensors are on different devices"
    return _unsupported_device(query.device)


def _unsupported_device(device: torch.device) -> str | None:
    """Why the kernel cannot run on this device, or None.

    A GPU cannot be asked while a call is traced: on one older than Ampere a compiled call ends in our error.
    """
    if device.type == "cuda":
        return None if torch.compiler.is_compiling() else unsupported_gpu(device)
    return None if device.type == "cpu" else f"there is no kernel for device type {device.type}"


def _autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in autocast's dtype, where autocast is on and would cast them."""
    device = tensors[0].device.type
    if device not in ("cuda", "cpu") or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) if t.is_floating_point() and t.dtype != torch.float64 else t for t in tensors)


@functools.cache
def _log_delegation(reason: str) -> None:
    """Tell, the first time in a process, that calls of a kind go to PyTorch."""
    _log.info("scaled_dot_product_attention: PyTorch's own is used, because %s", reason)
