"""Attention's tensors in the layout that a library reads, made once and shared.

The flash-attn libraries read (B, N, H, D). Their copies of q, k, v and dout are the same bytes, so one copy serves all
of them: at N = 12288 a set of inputs is 6 GB.
"""

from __future__ import annotations

import torch
from torch.utils.weak import WeakTensorKeyDictionary

_copies = WeakTensorKeyDictionary()


def token_major(tensor: torch.Tensor) -> torch.Tensor:
    """(B, H, N, D) as a contiguous (B, N, H, D); the same copy as long as `tensor` lives."""
    if tensor not in _copies:
        _copies[tensor] = tensor.transpose(1, 2).contiguous()
    copy: torch.Tensor = _copies[tensor]
    return copy


def head_major(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """(B, N, H, D) as (B, H, N, D), views of the same memory."""
    return tuple(tensor.transpose(1, 2) for tensor in tensors)
