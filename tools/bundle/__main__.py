"""Command line of the bundle builder: ``python -m tools.bundle --help``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.bundle.assemble import Order, assemble, describe
from tools.bundle.errors import BundleError
from tools.bundle.plan import GROUPS_FILE, NODE_PACKAGES_FILE, choose, read_groups, read_node

ROOT = Path(__file__).resolve().parents[2]
MAX_MIB = 60.0


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m tools.bundle",
        description="Fill one folder with what a GPU node without a network lacks: the Python packages that are not "
        "in its image and the prebuilt kernels. On the node, bundle/run COMMAND uses it.",
    )
    p.add_argument("--output", type=Path, default=ROOT / "bundle", help="folder to fill (default: bundle/)")
    p.add_argument("--python", default="3.12", help="the node's Python, major.minor (default: 3.12)")
    p.add_argument("--torch", default="2.11", help="the node's torch, major.minor (default: 2.11)")
    p.add_argument(
        "--node-has",
        action="append",
        metavar="FILE|NAMES",
        help="distributions the node has: a file of names, or names joined by commas; may be repeated "
        "(default: tools/bundle/node_packages.txt)",
    )
    p.add_argument("--with", dest="with_", default="", metavar="PARTS", help="pack these parts too, such as wandb")
    p.add_argument(
        "--without", default="", metavar="PARTS", help="leave these parts out, such as quack (docs/bundle.md has all)"
    )
    p.add_argument("--minimal", action="store_true", help="core and kernels alone, for quick kernel work")
    p.add_argument("--max-mib", type=float, default=MAX_MIB, help=f"size limit in MiB (default: {MAX_MIB:g})")
    return p


def default_cache() -> Path:
    """Where fetched wheels and packed archives are kept: under $XDG_CACHE_HOME, else ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tk_bundle"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0 if a bundle was made, 1 with one sentence on standard error if not."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments)
    try:
        groups = read_groups(GROUPS_FILE, ROOT / "pyproject.toml")
        order = Order(
            root=ROOT,
            output=options.output.resolve(),
            cache=default_cache(),
            node=read_node(options.python, options.torch, options.node_has or [str(NODE_PACKAGES_FILE)]),
            groups=groups,
            parts=choose(groups, _names(options.with_), _names(options.without), options.minimal),
            max_mib=options.max_mib,
            command=shlex.join(["python", "-m", "tools.bundle", *arguments]),
        )
        sizes = assemble(order, lambda text: print(text, file=sys.stderr, flush=True))
    except BundleError as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bundle: {error.filename or options.output}: {error.strerror}; nothing was changed", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bundle: interrupted; the folder was left as it was", file=sys.stderr)
        return 130
    total = sum(sizes.values()) / (1 << 20)
    print(f"{order.output}: {total:.1f} MiB of {options.max_mib:g} ({describe(sizes)})")
    return 0


def _names(text: str) -> list[str]:
    return [name for name in text.replace(" ", ",").split(",") if name]


if __name__ == "__main__":
    sys.exit(main())
