"""Checks that a call's outputs are plain tensors whose own memory holds the result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_OVERLAPS = 1  # torch._debug_has_internal_overlap: at::MemOverlap::Yes


def parts(outputs: object) -> tuple[object, ...]:
    """The outputs one by one, of a tensor, a tuple or a list; a sequence with an iterator of its own stays one thing.

    Such a sequence could compute while it is read, after the clock has stopped.
    """
    if isinstance(outputs, tuple) and type(outputs).__iter__ is tuple.__iter__:
        return tuple(tuple.__iter__(outputs))
    if isinstance(outputs, list) and type(outputs).__iter__ is list.__iter__:
        return tuple(list.__iter__(outputs))
    return (outputs,)


def snapshot(outputs: object) -> tuple[object, ...]:
    """Copies of the outputs, made in stream order; what is not a plain tensor is passed through."""
    return tuple(one.clone() if _is_plain(one) else one for one in parts(outputs))  # type: ignore[attr-defined]


def scribble(outputs: object) -> None:
    """Overwrites plain floating-point outputs with NaN, so that a reused buffer is noticed."""
    for one in parts(outputs):
        if _is_plain(one):
            fill_nan(one.data)  # type: ignore[attr-defined]


def fill_nan(tensor: torch.Tensor) -> None:
    """NaN in every element of a floating-point tensor; others stay as they are."""
    if tensor.dtype.is_floating_point:
        tensor.copy_(torch.full((), float("nan"), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape))


def unusable(name: str, tensor: torch.Tensor, inputs: Mapping[str, torch.Tensor]) -> str | None:
    """Why a tensor does not hold a result in memory of its own; None if it does."""
    if not _is_plain(tensor):
        if type(tensor) not in _PLAIN:
            return (
                f"{name} is a {type(tensor).__name__}, a kind of tensor that may compute when it is read: "
                "needs a plain torch.Tensor"
            )
        return f"{name} is yet to be computed when it is read (its memory does not hold it): needs a plain torch.Tensor"
    if torch._debug_has_internal_overlap(tensor) == _OVERLAPS:
        return f"{name} has elements that share memory (an expanded view): needs all of them written"
    device = next((one.device for one in inputs.values()), tensor.device)
    if tensor.device != device:
        return f"{name} is on {tensor.device}, its inputs are on {device}"
    for other, source in inputs.items():
        if tensor.numel() and tensor.untyped_storage().data_ptr() == source.untyped_storage().data_ptr():
            return f"{name} lies in the memory of the input {other}: needs memory of its own"
    return None


def _is_plain(one: object) -> bool:
    """Whether this is a tensor whose own memory holds its values: no subclass, no wrapper, no lazy bit."""
    if type(one) not in _PLAIN:
        return False
    assert isinstance(one, torch.Tensor)
    if one.layout is not torch.strided or one.is_quantized or one.is_neg() or one.is_conj() or one._is_zerotensor():
        return False
    with contextlib.suppress(RuntimeError, NotImplementedError):  # a wrapper has no storage
        span = sum((size - 1) * stride for size, stride in zip(one.shape, one.stride(), strict=True)) + 1
        needed = (one.storage_offset() + span) * one.element_size() if one.numel() else 0
        return not torch._is_functional_tensor(one) and one.untyped_storage().nbytes() >= needed
    return False
