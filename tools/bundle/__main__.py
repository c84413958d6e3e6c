"""Command line of the bundle builder: ``python -m tools.bundle --help``."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.entry import ended
from tk_kernels.toolchain.targets import GPU, TARGETS
from tools.bundle import builds, needs, stamp
from tools.bundle.assemble import MIB, Order, assemble, describe
from tools.bundle.errors import BundleError
from tools.bundle.plan import GROUPS_FILE, KERNELS, NODE_PACKAGES_FILE, choose, default_parts, read_groups, read_node
from tools.sources import libraries
from tools.sources.errors import SourcesError

ROOT = Path(__file__).resolve().parents[2]
MAX_MIB = 64.0


EXAMPLES = """\
examples:
  python -m tools.bundle                                   the parts of the default, all kernels
  python -m tools.bundle --for fig8_attention              the kernel and the libraries of one exhibit
  python -m tools.bundle --python 3.11 --torch 2.13 --node-has my_node.txt
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m tools.bundle",
        description="Fill one folder with what a GPU node without a network lacks: the Python packages that are not\n"
        "in its image and the prebuilt kernels. On the node, bundle/run COMMAND uses it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--output", type=Path, default=ROOT / "bundle", help="folder to fill (default: bundle/)")
    p.add_argument("--python", default="3.12", help="the node's Python, major.minor (default: 3.12)")
    p.add_argument("--torch", default="2.11", help="the node's torch, major.minor (default: 2.11)")
    p.add_argument(
        "--target",
        default=GPU,
        choices=(GPU, *(name for name, target in TARGETS.items() if target.cuda)),
        help="what the node's GPU runs: sm_90a (Hopper) or sm_80 (others since Ampere) (default: as this machine's, "
        "else sm_90a)",
    )
    p.add_argument(
        "--node-has",
        action="append",
        metavar="FILE|NAMES",
        help="distributions the node has: a file of names, or names joined by commas; may be repeated "
        "(default: tools/bundle/node_packages.txt)",
    )
    parts = p.add_mutually_exclusive_group()
    parts.add_argument(
        "--for",
        dest="for_",
        metavar="NAMES",
        help="only the parts and kernels that the contestants of these experiments or exhibits want, such as "
        "fig8_attention, or fig8 for all of Figure 8",
    )
    parts.add_argument("--minimal", action="store_true", help="core and kernels alone, for quick kernel work")
    p.add_argument(
        "--with-built",
        action="store_true",
        help="pack the libraries built from source too, from the cache of tools.sources (of --for: those it wants)",
    )
    p.add_argument("--with", dest="with_", metavar="PARTS", help="pack these parts too, such as wandb")
    p.add_argument("--without", metavar="PARTS", help="leave these parts out, such as quack (docs/bundle.md has all)")
    p.add_argument(
        "--max-mib",
        type=float,
        default=MAX_MIB,
        help=f"limit in MiB of the bundle and the checkout's tracked files together (default: {MAX_MIB:g})",
    )
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
        order, wanted = planned(options, shlex.join(["python", "-m", "tools.bundle", *arguments]))
        sizes = assemble(order, lambda text: print(text, file=sys.stderr, flush=True))
        tracked = stamp.tracked_bytes(ROOT)
    except (BundleError, SourcesError) as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bundle: {error.filename or options.output}: {error.strerror}; nothing was changed", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bundle: interrupted; the folder was left as it was", file=sys.stderr)
        return 130
    total = sum(sizes.values())
    print(f"{order.output}: {total / MIB:.1f} MiB ({describe(sizes)})")
    print(
        f"travels with {tracked / MIB:.1f} MiB of tracked files: {(total + tracked) / MIB:.1f} of {order.max_mib:g} MiB"
    )
    if absent := [name for name in wanted if name not in order.parts]:
        print(
            f"not packed, as rows will say: {', '.join(absent)} (--with NAME; --with-built: what is built from source)"
        )
    return 0


def planned(options: argparse.Namespace, command: str) -> tuple[Order, tuple[str, ...]]:
    """What to make, and the names of all parts that the experiments want, packed or not.

    Raises:
        BundleError, SourcesError: A name that does not exist, a build that is not there, data that cannot be read.
    """
    if not 0 < options.max_mib < math.inf:
        raise BundleError(f"--max-mib: got {options.max_mib:g}, needed is a number of MiB above 0")
    for option, names in (("for", options.for_), ("with", options.with_), ("without", options.without)):
        if names is not None and not _names(names):
            raise BundleError(f"--{option}: got {names!r}, which names nothing")
    groups, built = read_groups(GROUPS_FILE, ROOT / "pyproject.toml"), libraries.read()
    node = read_node(options.python, options.torch, options.node_has or [str(NODE_PACKAGES_FILE)])
    if options.for_:
        wants = needs.needs(needs.contestants(_names(options.for_), target=options.target), groups, built)
        base = wants.parts
    else:
        wants = needs.Needs(tuple(name for name, group in groups.items() if group.contestants), tuple(built))
        base = ("core", KERNELS) if options.minimal else default_parts(groups)
    base += wants.libraries if options.with_built else ()
    parts = choose(groups, base, _names(options.with_ or ""), _names(options.without or ""), built)
    order = Order(
        root=ROOT,
        output=options.output.resolve(),
        cache=default_cache(),
        node=node,
        groups=groups,
        parts=parts,
        max_mib=options.max_mib,
        command=command,
        builds=tuple(builds.find(built[name], node, wants.files.get(name)) for name in parts if name in built),
        kernels=wants.kernels or {options.target: ()},
    )
    return order, (*wants.parts, *wants.libraries)


def _names(text: str) -> list[str]:
    return [name for name in text.replace(" ", ",").split(",") if name]


if __name__ == "__main__":
    sys.exit(ended(main))
