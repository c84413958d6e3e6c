"""Pinned versions install on every Python that the project supports."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def test_pins_install_on_the_oldest_python() -> None:
    """Guard: a pin made on Python 3.11.7 needed 3.11.5, and Debian 12 has 3.11.2."""
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    pins = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1].isalnum()]
    assert len(pins) > 100
    checked, too_new = 0, []
    for pin in pins:
        if pin.marker and not pin.marker.evaluate({"python_full_version": f"{oldest}.2", "python_version": oldest}):
            continue
        try:
            needs = metadata(pin.name)["Requires-Python"]
        except PackageNotFoundError:  # of an extra that is not installed here
            continue
        checked += 1
        pinned = pin.specifier.contains(metadata(pin.name)["Version"])
        if needs and pinned and not SpecifierSet(needs).contains(f"{oldest}.2"):
            too_new.append(f"{pin} needs Python {needs}")
    assert checked > 50
    assert too_new == []
