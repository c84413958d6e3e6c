"""The machine code that this tree's kernels have, by which a recorded time is known to be of an older kernel.

`machine_code.json` is what `python -m tk_kernels.toolchain hashes` prints; a test builds the kernels and compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

MACHINE_CODE = Path(__file__).with_suffix(".json")


def has_changed(build: Mapping[str, Any]) -> bool:
    """Whether a recorded build's kernel has other machine code now, by the same compiler.

    Of a kernel or target that the tree does not know, and of another compiler's code, nothing can be said: False.
    """
    today = _today().get(str(build.get("name")), {}).get(str(build.get("target")))
    same_compiler = today is not None and today["compiler"] == build.get("compiler")
    return today is not None and same_compiler and today["binary_hash"] != build.get("binary_hash")


@cache
def _today() -> dict[str, dict[str, dict[str, str]]]:
    """{kernel: {target: {compiler, binary_hash}}}."""
    codes: dict[str, dict[str, dict[str, str]]] = json.loads(MACHINE_CODE.read_text())
    return codes
