"""Command line: `python -m tk_kernels.toolchain build|manifest|hashes|export`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from .building import Build, BuildOptions, build_all, export, silent
from .errors import ToolchainError
from .loading import manifest
from .processes import at_once
from .targets import GPU, TARGETS, Target, find_targets
from .units import Unit, find_unit, open_units, unit_names

EXAMPLES = """\
examples:
  python -m tk_kernels.toolchain build                        every kernel, for GPUs and for the CPU
  python -m tk_kernels.toolchain build gemm --target cpu      one kernel, to verify without a GPU
  python -m tk_kernels.toolchain manifest gemm --target cpu   how it was built
"""


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(
        prog="python -m tk_kernels.toolchain",
        description="Compile the kernels. An operator builds its own at its first call; this builds them beforehand.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True)

    make = commands.add_parser("build", help="compile kernels into the cache")
    _add_selection(make)
    make.add_argument("-v", "--verbose", action="store_true", help="show every command line")

    show = commands.add_parser("manifest", help="print a kernel's build manifest as JSON, building it if need be")
    show.add_argument("name", help="a kernel, such as gemm")
    show.add_argument("--target", required=True, help=f"one of {', '.join(TARGETS)}")

    codes = commands.add_parser("hashes", help="print the hashes of kernels' machine code as JSON, building if need be")
    _add_selection(codes)

    copy = commands.add_parser("export", help="fill a folder for TK_KERNELS_PREBUILT")
    _add_selection(copy)
    copy.add_argument("--to", required=True, help="the folder to fill")
    return top


def _add_selection(command: argparse.ArgumentParser) -> None:
    """Options that say which kernels, for which targets, with how many compilers."""
    command.add_argument("names", nargs="*", help="kernels, by name or by the path of their folder; all if none")
    command.add_argument(
        "--target", action="append", help=f"one of {', '.join((*TARGETS, GPU))}; repeatable; gpu and cpu if none"
    )
    command.add_argument("--jobs", type=int, default=at_once(), help="compilers at work at once")


def select_kernels(names: list[str]) -> list[Unit]:
    """The named kernels, or all of them. A name with a slash is the path of a folder anywhere."""
    return [
        unit
        for name in names or unit_names()
        for unit in (open_units(Path(name).resolve()) if "/" in name else (find_unit(name),))
    ]


def chosen_pairs(kernels: list[Unit], targets: list[Target], named: bool) -> list[tuple[Unit, Target]]:
    """Every kernel with every target. Those that refuse one are told and left, unless they were `named`."""
    pairs = []
    for kernel in kernels:
        for target in targets:
            refusal = kernel.refusal(target.name)
            if refusal and not named:
                print(refusal, file=sys.stderr)
            else:
                pairs.append((kernel, target))
    return pairs


def machine_codes(builds: Iterable[Build]) -> dict[str, dict[str, dict[str, str]]]:
    """{kernel: {target: {compiler, binary_hash}}}: which machine code this tree's kernels have, and who made it.

    A unit without any, whose code is the host's, is left out.
    """
    codes: dict[str, dict[str, dict[str, str]]] = {}
    for one in sorted(builds, key=lambda one: (one.kernel, list(TARGETS).index(one.target))):
        if one.manifest["machine_codes"]:
            facts = {key: one.manifest[key] for key in ("compiler", "binary_hash")}
            codes.setdefault(one.kernel, {})[one.target] = facts
    return codes


def describe(built: Build) -> str:
    """One line about a finished build."""
    facts = built.manifest
    figures = []
    if facts["registers"] is not None:
        figures.append(f"{facts['registers']} registers, {facts['spills']} bytes spilled")
    if facts["hgmma_count"] is not None:
        figures.append(f"{facts['hgmma_count']} HGMMA, {facts['hmma_count']} HMMA")
    line = f"{built.kernel:<16} {built.target:<7} {'cached' if built.cached else 'built':<7} {', '.join(figures)}"
    return f"{line.rstrip()}  {built.library}"


def run(arguments: argparse.Namespace) -> int:
    """Carry out one command; returns the exit status."""
    if arguments.command == "manifest":
        print(json.dumps(manifest(arguments.name, arguments.target), indent=1))
        return 0
    if arguments.jobs < 1:
        raise ToolchainError(f"--jobs is {arguments.jobs}, must be at least 1")
    if arguments.command == "export" and not arguments.to:
        raise ToolchainError("--to is empty, must name a folder")
    kernels = select_kernels(arguments.names)
    every_gpu = arguments.command == "hashes" and not arguments.target
    asked = [name for name in TARGETS if TARGETS[name].cuda] if every_gpu else arguments.target or []
    targets = find_targets(asked)
    pairs = chosen_pairs(kernels, targets, named=bool(arguments.names) and not every_gpu)
    if arguments.command == "export":
        options = BuildOptions(jobs=arguments.jobs, portable=True)
        for target in targets:
            for copy in export([kernel for kernel, of in pairs if of == target], target, Path(arguments.to), options):
                print(copy)
        return 0
    if arguments.command == "hashes":
        builds: list[Build] = []
        failed = build_all(pairs, BuildOptions(jobs=arguments.jobs), builds.append)
        if failed:
            raise failed[0]
        print(json.dumps(machine_codes(builds), indent=1))
        return 0
    show = (lambda line: print(line, file=sys.stderr, flush=True)) if arguments.verbose else silent
    started, kept = time.monotonic(), 0

    def done(built: Build) -> None:
        nonlocal kept
        kept += built.cached
        if arguments.names or not built.cached:  # those that were kept are counted, and told where they are named
            print(describe(built), flush=True)

    def waiting(pending: list[str]) -> None:
        print(f"{time.monotonic() - started:.0f} s, building {', '.join(pending[:3])}", flush=True)

    failures = build_all(pairs, BuildOptions(jobs=arguments.jobs, show=show), done, waiting)
    for failure in dict.fromkeys(map(str, failures)):  # a cache that cannot be written fails each of them alike
        print(f"error: {failure}", file=sys.stderr)
    total = len(pairs)
    before = f", {kept} of them kept from before" if kept else ""
    print(f"{total - len(failures)} of {total} builds good{before}, {time.monotonic() - started:.1f} s")
    return 1 if failures else 0


def main(arguments: list[str] | None = None) -> int:
    """Entry point: errors are one sentence on stderr and exit status 1, Ctrl-C is 130."""
    try:
        return run(parser().parse_args(arguments))
    except ToolchainError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; finished builds are kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as of other commands, where the reader has seen enough
    sys.exit(main())
