"""State of the sources a bundle is made from, for a node that has no git, or one that knows an earlier commit."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from harness.records.provenance import digest
from tools.bundle.errors import BundleError

NOT_FOR_A_NODE = ("results", "docs", ".ci", ".devcontainer", ".github")
"""Folders without which every command runs on a node; a night runs tests there."""


def git_commit(root: Path) -> str:
    """Full hash of the commit that is checked out in ``root``."""
    return _git(root, "rev-parse", "--verify", "HEAD").strip()


def git_dirty(root: Path) -> bool:
    """Whether a tracked file outside ``results/`` differs from the commit; new files do not count.

    Nor do files that a sparse checkout leaves out. Those that are here are compared, whatever git was told of them.
    """
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results").strip()
    return bool(changed) or any(_differs(root, name, known) for name, known in _passed_over(root).items())


def left_out(root: Path) -> dict[str, int]:
    """How many tracked files a sparse checkout leaves out, by the folder of ``root`` or, for one there, its name.

    Raises:
        BundleError: A file that a node needs is among them.
    """
    absent = [name for name in _passed_over(root, everywhere=True) if not _is_here(root / name)]
    if needed := [name for name in absent if name.partition("/")[0] not in NOT_FOR_A_NODE]:
        more = f" and {len(needed) - 1} more" if len(needed) > 1 else ""
        raise BundleError(
            f"a sparse checkout leaves out {needed[0]}{more}, and a node may do without {', '.join(NOT_FOR_A_NODE)} "
            "alone: git sparse-checkout disable brings all files back, but for those that git update-index has marked"
        )
    return dict(sorted(Counter(name.partition("/")[0] for name in absent).items()))


def tracked_bytes(root: Path) -> int:
    """Bytes of the tracked files of ``root`` as they lie there: what travels beside a bundle."""
    paths = [root / name for name in _git(root, "ls-files", "-z").split("\0") if name]
    return sum(path.lstat().st_size for path in paths if _is_here(path))


def listed_files(root: Path) -> str:
    """The tracked files outside ``results/`` that are here, as ``harness.records.provenance.FILES`` has them."""
    names = sorted(name for name in _git(root, "ls-files", "-z", "--", ".", ":(exclude)results").split("\0") if name)
    return "".join(f"{digest(root / name)}  {name}\n" for name in names if (root / name).is_file())


def _is_here(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _passed_over(root: Path, everywhere: bool = False) -> dict[str, str]:
    """Tracked files whose state git does not look at, each with its object: a sparse checkout's, and others so marked.

    everywhere: those in ``results/`` too.
    """
    where = () if everywhere else ("--", ".", ":(exclude)results")
    lines = [line for line in _git(root, "ls-files", "-v", "--stage", "-z", *where).split("\0") if line]
    entries = [line.split("\t", 1) for line in lines if line[0] == "S" or line[0].islower()]
    return {name: facts.split()[2] for facts, name in entries}


def _differs(root: Path, name: str, known: str) -> bool:
    """Whether a file is here with another content than git's object."""
    path = root / name
    if not path.is_file() or path.is_symlink():
        return False
    return _git(root, "hash-object", "--", name).strip() != known


def _git(root: Path, *arguments: str) -> str:
    try:
        command = ["git", "-c", "safe.directory=*", "-C", str(root), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise BundleError("git is not installed; a bundle records the commit it is made from") from error
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise BundleError(f"{root} is no git checkout with a commit, which a bundle records: git said {reason[0]!r}")
    return done.stdout
