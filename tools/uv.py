"""Run uv with what pip is told here of indexes and certificates: `python -m tools.uv pip install ...`."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

_OF_PIP = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "cert": "SSL_CERT_FILE"}


def environment() -> dict[str, str]:
    """Variables of uv: pip's settings, from its files or its own variables; those of uv that are set come first."""
    command = [sys.executable, "-m", "pip", "config", "list"]  # no pip, no settings
    listed = subprocess.run(command, check=False, capture_output=True, text=True)
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # pip's: the best version of all indexes
    for line in listed.stdout.splitlines():  # a variable's line comes before a file's, which it overrides
        key, _, value = line.partition("=")
        name = _OF_PIP.get(key.rpartition(".")[2])
        if name:
            found.setdefault(name, " ".join(ast.literal_eval(value).split()))
    return {**found, **os.environ}


if __name__ == "__main__":
    command = [sys.executable, "-m", "uv", *sys.argv[1:], "--python", sys.executable]
    sys.exit(subprocess.run(command, check=False, env=environment()).returncode)
