"""Calls that run the kernels which record when each instruction did what (see `tk_kernels.trace`)."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import torch
from torch import Tensor

from .library import compiled

_log: contextvars.ContextVar[Tensor | None] = contextvars.ContextVar("log", default=None)


@contextlib.contextmanager
def recording(log: Tensor) -> Iterator[None]:
    """Within, calls of this thread that follow a plan run kernels that record, into `log`.

    log: zeros, int64, (blocks, roles, instructions, 4), beside the tensors of the calls.
    """
    token = _log.set(log)
    try:
        yield
    finally:
        _log.reset(token)


def unit_for(unit: str, records: str, device: torch.device, blocks: int, instructions: int) -> str:
    """The unit of a call: `unit`, or `records`, which records into the log. Raises ValueError if too small."""
    log = _log.get()
    if log is None:
        return unit
    if log.shape[0] < blocks or log.shape[2] < instructions:
        raise ValueError("plan: is larger than the one that is recorded; record the call with its own plan")
    compiled(records, device, "record_into")(log)
    return records
