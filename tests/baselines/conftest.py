"""A GPU that a baseline is asked about."""

from __future__ import annotations

import pytest

from baselines.common import gpu


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """An H200, as far as a baseline asks."""
    monkeypatch.setattr(gpu, "cuda_capability", lambda: (9, 0))
    monkeypatch.setattr(gpu, "memory_bytes", lambda: 141 * 10**9)
