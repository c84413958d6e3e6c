"""What the exhibits of decode share."""

from __future__ import annotations

from collections.abc import Mapping

FLASHINFER = "FlashInfer (its wheel alone fills a bundle for a node without a network)"
"""Why it is not among the libraries; docs/adding_a_baseline.md has more."""


def sequences(keys: Mapping[str, str]) -> str:
    """Sequences and the keys of each, as short as an axis needs: lengths that are listed are `mixed`."""
    return f"{keys['B']} × {'mixed' if '+' in keys['lengths'] else keys['lengths']}"
