"""Command line: ``python -m tools.hub --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.records.errors import ended
from tk_kernels import toolchain
from tools.hub.layout import HubError, write

DEFAULT = toolchain.SM_90A.name


EXAMPLES = """\
examples:
  python -m tools.hub /tmp/tk-kernels rotary dropout_add_layernorm     these two prebuilt
  python -m tools.hub /tmp/tk-kernels rotary --target cpu              for a machine without a GPU
"""


def parser() -> argparse.ArgumentParser:
    """The one command."""
    p = argparse.ArgumentParser(
        prog="python -m tools.hub",
        description="Writes a repository for Hugging Face's kernel hub: our operators, with prebuilt kernels.\n"
        "Nothing is uploaded.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("folder", type=Path, help="an empty or a new one")
    p.add_argument("kernels", nargs="*", help="what is prebuilt; all that the target has where none is named")
    p.add_argument("--target", choices=sorted(toolchain.TARGETS), default=DEFAULT, help=f"default: {DEFAULT}")
    p.add_argument("--cuda", default="cu130", help="PyTorch's CUDA on the machines that load it; default: cu130")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Write the repository; 1 with one sentence on standard error if it cannot be done."""
    options = parser().parse_intermixed_args(argv)
    names = options.kernels or [
        name for name in toolchain.unit_names() if not toolchain.find_unit(name).refusal(options.target)
    ]
    try:
        print(write(options.folder, options.target, names, options.cuda))
    except (HubError, toolchain.ToolchainError) as error:
        print(f"hub: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"hub: interrupted; what {options.folder} holds is incomplete, empty it", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
