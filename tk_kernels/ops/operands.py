"""Operands of a kernel: copied where the kernel cannot read them in place.

What a kernel reads in place has a dense last dimension, other strides that are positive multiples of 16 bytes, and a
base that is one too. One rule says what becomes of the rest:

- a dtype, layout, device, rank or shape that is wrong is a ValueError that names the argument (see `contract`);
- so is, for q, k and v of every attention (x, B and C of `mamba2`), a last dimension that is not dense. There it is a
  transpose by mistake (`dense` in the declaration);
- everything else goes through a copy, which is logged once a kernel. That is other strides and bases of those tensors,
  any of the other tensors', a transposed matrix, the channels-last sequences of `fft_conv`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .library import compiled

_log = logging.getLogger("tk_kernels")
_copies_logged: set[str] = set()


def launch(kernel: str, export: str, operands: Mapping[str, Tensor | None], rest: tuple[Any, ...]) -> None:
    """Call an exported function of `kernel`, with dense copies of the operands that it asks them of.

    The function is called with the operands and then `rest`, on the device of the first operand; None stands for an
    operand that is left out. It returns 0 when it has launched, else launches nothing and returns a bit for each
    operand that it needs a copy of.
    """
    first = next(iter(operands.values()))
    assert first is not None
    device = first.device
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch(kernel, export, operands, rest)
    function = compiled(kernel, device, export)
    copies = function(*operands.values(), *rest)
    if copies:
        asked = {
            name: tensor
            for bit, (name, tensor) in enumerate(operands.items())
            if copies >> bit & 1 and tensor is not None
        }
        log_copies_once(kernel, asked)
        dense = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in asked.items()}
        remaining = function(*{**operands, **dense}.values(), *rest)
        if remaining:
            raise RuntimeError(f"{kernel}: dense copies were refused (code {remaining}); this is a bug in tk_kernels")
    return None


def rows_of(kernel: str, name: str, tensor: Tensor) -> Tensor:
    """(..., D) as (rows, D): a view where its leading dimensions lie one inside the other, else a dense copy."""
    rows = tensor.reshape(-1, tensor.shape[-1])
    if rows.data_ptr() != tensor.data_ptr():
        log_copies_once(kernel, {name: tensor})
    return rows


def log_copies_once(
    kernel: str,
    copied: dict[str, Tensor],
    how: str = "a dense copy; strides of multiples of 16 bytes and an aligned base avoid it",
) -> None:
    """Tell, the first time in a process that it happens to a kernel, that an operand is copied."""
    if kernel in _copies_logged:
        return
    _copies_logged.add(kernel)
    named = [f"{name} {tuple(tensor.shape)} with strides {tensor.stride()}" for name, tensor in copied.items()]
    _log.info("%s: %s goes through %s", kernel, ", ".join(named), how)


def like(tensor: Tensor) -> Tensor:
    """Uninitialised dense tensor of the same shape: rows outside heads where `tensor` has them so, else contiguous."""
    B, H, N, D = tensor.shape
    if tensor.stride(1) < tensor.stride(2):
        return tensor.new_empty((B, N, H, D)).transpose(1, 2)
    return tensor.new_empty((B, H, N, D))
