"""Files that a tool writes are what the tool writes today."""

from __future__ import annotations

from pathlib import Path

from tools.generate_wgmma import TARGET, generate

ROOT = Path(__file__).parents[2]


def test_wgmma_wrappers_are_up_to_date() -> None:
    assert (ROOT / TARGET).read_text() == generate(), "run python tools/generate_wgmma.py"
