"""Command line: ``python -m tools.sources --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from baselines.common import built
from harness.records.errors import ended
from tools.sources.errors import SourcesError
from tools.sources.install import install
from tools.sources.libraries import named, read

EXAMPLES = """\
examples:
  python -m tools.sources list
  python -m tools.sources install flash_attn_3 /tmp/flash_attn_3.tar.gz
"""


def parser() -> argparse.ArgumentParser:
    """The commands."""
    p = argparse.ArgumentParser(
        prog="python -m tools.sources",
        description="Libraries that are measured but have no wheel on PyPI: install a build of one where its baseline\n"
        "finds it, or list the libraries and the builds that are here.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = p.add_subparsers(dest="command", required=True)
    one = commands.add_parser("install", help="install a build of a library into the cache")
    one.add_argument("library", help="such as flash_attn_3; `list` shows all")
    one.add_argument("source", type=Path, help="a wheel, a site folder, or a tar archive with site/ and manifest.json")
    one.add_argument("--commit", help="commit that it was built from, if the source has no manifest.json")
    commands.add_parser("list", help="the libraries, and which build of each is in use here")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 1 with one sentence on standard error if it cannot be done."""
    options = parser().parse_args(argv)
    try:
        if options.command == "install":
            print(install(named(options.library), options.source, options.commit))
        else:
            print(listing())
    except SourcesError as error:
        print(f"sources: {error}", file=sys.stderr)
        return 1
    return 0


def listing() -> str:
    """Each library with its builds, the one in use and those that do not fit; and how one is installed."""
    lines = []
    for library in read().values():
        lines.append(f"{library.name}: {library.upstream} at {library.commit[:10]} ({library.licence})")
        lines += [f"    measured as built by: {library.built}", f"    its authors' build: {library.wheel}"]
        used = built.site(library.name)
        builds = built.manifests(library.name)
        for build, manifest in builds:
            state = "in use" if used == (build / "site").resolve() else built.misfit(manifest) or "older"
            commit = str(manifest.get("commit", "unknown"))[:10]
            lines.append(f"    {build}: commit {commit}, {state}")
        if not builds:
            lines.append(f"    not built here; it needs {library.needs}")
    lines.append(
        "A build is made as its authors say, anywhere, and installed with: "
        "python -m tools.sources install LIBRARY WHEEL|FOLDER|ARCHIVE --commit COMMIT"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(ended(main))
