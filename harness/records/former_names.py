"""Earlier names of implementations, as old runs recorded them.

A stored row keeps the name and the case id that it was measured under; a reader sees the name of today.
"""

from __future__ import annotations

import pandas as pd

TODAY: dict[tuple[str, str], str] = {
    ("attention", "torch_compile"): "torch_unfused",  # Inductor's pattern for fused attention is off
    ("hedgehog", "fla"): "composed",  # put together here; only its states are flash-linear-attention's
}
"""The name of today by workload and by the name in files that were recorded until 2026-11-22."""


def today(measurements: pd.DataFrame) -> pd.DataFrame:
    """The table with the names of today in its column ``implementation``; nothing else changes."""
    pairs = zip(measurements["workload"], measurements["implementation"], strict=True)
    return measurements.assign(implementation=[TODAY.get(pair, pair[1]) for pair in pairs])
