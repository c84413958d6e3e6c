"""`python -m harness ...`, also installed as `tk-bench`: a measurement, or one of the commands on what was stored."""

from __future__ import annotations

import importlib
import sys

from harness.records.errors import ended

COMMANDS = {
    "batch": "harness.command.batch",
    "compare": "harness.command.compare",
    "dashboards": "harness.command.dashboards",
    "predecessors": "harness.between.predecessors",
    "publish": "harness.command.publish",
    "trace": "harness.command.trace",
}
"""By the first word. Any other words are keys of a measurement."""


def main() -> int:
    """The command; gives its exit code."""
    return ended(_run)


def _run() -> int:
    """Imports take seconds, and a spawned worker, which imports this module too, needs none of them."""
    module = COMMANDS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if module is not None:
        del sys.argv[1]
    elif {"--help", "-h"} & set(sys.argv):
        module = "harness.plan.help"
    return int(importlib.import_module(module or "harness.command.cli").main())


if __name__ == "__main__":  # a spawned worker imports this module under another name
    sys.exit(main())
