"""What surrounds torch.compile in the baselines."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from baselines.common.compiled import leave_room


@pytest.mark.parametrize("full", [False, True])
def test_the_peak_of_the_memory_is_raised_and_the_memory_given_back(
    monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """Guards: what is asked for is on the GPU, of the size that is needed; a GPU that has less is no error."""
    done: list[Any] = []

    def empty(size: int, *, dtype: torch.dtype, device: str) -> None:
        done.append((size * dtype.itemsize, device))
        if full:
            raise torch.OutOfMemoryError

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("given back"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    leave_room(1000)
    assert done == [], "a CPU tries nothing"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    leave_room(1000)
    assert done == [(1000, "cuda"), "given back"]
