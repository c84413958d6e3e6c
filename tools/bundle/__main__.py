"""Command line of the bundle builder: ``python -m tools.bundle --help``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.records.errors import ended
from tk_kernels.toolchain.errors import ToolchainError
from tk_kernels.toolchain.store import user_cache
from tk_kernels.toolchain.targets import GPU, TARGETS
from tools.bundle import needs, stamp
from tools.bundle.assemble import MIB, Order, assemble, describe
from tools.bundle.errors import BundleError
from tools.bundle.plan import GROUPS_FILE, KERNELS, NODE_PACKAGES_FILE, choose, find_build, read_groups, read_node
from tools.sources.libraries import read

ROOT = Path(__file__).resolve().parents[2]
MAX_MIB = 64.0


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m tools.bundle",
        description="Fill a folder with what a GPU node without a network needs: the Python packages that its image "
        "lacks, and prebuilt kernels. On the node, bundle/run COMMAND uses it. docs/bundle.md lists the parts.",
        epilog="example: python -m tools.bundle --for fig8_attention",
    )
    targets = [GPU, *(name for name, target in TARGETS.items() if target.cuda)]
    p.add_argument("--output", type=Path, default=ROOT / "bundle", help="folder to fill (default: bundle/)")
    p.add_argument("--python", default="3.12", help="Python of the node, major.minor (default: %(default)s)")
    p.add_argument("--torch", default="2.11", help="torch of the node, major.minor (default: %(default)s)")
    p.add_argument(
        "--target", default=GPU, choices=targets, help="target of the node's GPU (default: this machine's, else sm_90a)"
    )
    p.add_argument("--node-has", type=Path, default=NODE_PACKAGES_FILE, metavar="FILE", help="its packages, by name")
    wanted = "pack what the contestants of these experiments or exhibits need, such as fig8_attention, or fig8"
    p.add_argument("--for", dest="for_", type=_names, metavar="NAMES", help=wanted)
    p.add_argument("--with", dest="with_", type=_names, default=[], metavar="PARTS", help="pack these too")
    p.add_argument("--without", type=_names, default=[], metavar="PARTS", help="leave these out")
    limit = "limit of the bundle and the checkout's tracked files together (default: %(default)g)"
    p.add_argument("--max-mib", type=float, default=MAX_MIB, help=limit)
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0 if a bundle was made, 1 with one sentence on standard error if not."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments)
    try:
        order, absent = planned(options, shlex.join(["python", "-m", "tools.bundle", *arguments]))
        sizes = assemble(order, lambda text: print(text, file=sys.stderr, flush=True))
    except (BundleError, ToolchainError) as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bundle: {error.filename or options.output}: {error.strerror}; nothing was changed", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bundle: interrupted; the folder was left as it was", file=sys.stderr)
        return 130
    total, tracked = sum(sizes.values()), stamp.tracked_bytes(ROOT)
    print(f"{order.output}: {total / MIB:.1f} MiB ({describe(sizes)})")
    print(f"with {tracked / MIB:.1f} MiB of tracked files: {(total + tracked) / MIB:.1f} of {order.max_mib:g} MiB")
    if absent:
        print(f"not packed, so their rows will be unavailable: {', '.join(absent)} (--with NAME packs one)")
    return 0


def planned(options: argparse.Namespace, command: str) -> tuple[Order, list[str]]:
    """What to make, and the names of the parts that the experiments want and that are not packed.

    Raises:
        BundleError: A name that does not exist, or a build that is asked for and is not there.
    """
    groups, libraries = read_groups(GROUPS_FILE, ROOT / "pyproject.toml"), read()
    node = read_node(options.python, options.torch, options.node_has)
    if options.for_:
        wants = needs.needs(needs.contestants(options.for_, target=options.target), groups, libraries)
        base = wants.parts
    else:
        wants = needs.Needs(tuple(name for name in groups if groups[name].contestants), tuple(libraries))
        base = (*(name for name, group in groups.items() if group.default), KERNELS)
    builds = {name: folder for name in libraries if (folder := find_build(name, node))}
    if missing := {*options.with_} & {*libraries} - {*builds}:
        raise BundleError(
            f"there is no build of {', '.join(sorted(missing))} for Python {node.python} and torch {node.torch}; "
            "install one with python -m tools.sources install LIBRARY PATH"
        )
    here = (name for name in wants.libraries if name in builds)
    parts = choose(groups, (*base, *here), options.with_, options.without, libraries)
    order = Order(
        root=ROOT,
        output=options.output.resolve(),
        cache=user_cache("XDG_CACHE_HOME") / "tk_bundle",
        node=node,
        groups=groups,
        parts=parts,
        max_mib=options.max_mib,
        command=command,
        builds=builds,
        kernels=wants.kernels or {options.target: ()},
        objects=wants.objects,
    )
    return order, [name for name in (*wants.parts, *wants.libraries) if name not in parts]


def _names(text: str) -> list[str]:
    return text.replace(",", " ").split()


if __name__ == "__main__":
    sys.exit(ended(main))
