"""State of the sources a bundle is made from, for a node that has no git, or one that knows an earlier commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.provenance import digest
from tools.bundle.errors import BundleError


def git_commit(root: Path) -> str:
    """Full hash of the commit that is checked out in ``root``."""
    return _git(root, "rev-parse", "--verify", "HEAD").strip()


def git_dirty(root: Path) -> bool:
    """Whether a tracked file outside ``results/`` differs from the commit; new files do not count."""
    return bool(_git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results").strip())


def tracked_bytes(root: Path) -> int:
    """Bytes of the tracked files of ``root`` as they lie there: what travels beside a bundle."""
    paths = [root / name for name in _git(root, "ls-files", "-z").split("\0") if name]
    return sum(path.lstat().st_size for path in paths if path.is_symlink() or path.is_file())


def listed_files(root: Path) -> str:
    """The tracked files outside ``results/`` that are here, as ``harness.provenance.FILES`` has them."""
    names = sorted(name for name in _git(root, "ls-files", "-z", "--", ".", ":(exclude)results").split("\0") if name)
    return "".join(f"{digest(root / name)}  {name}\n" for name in names if (root / name).is_file())


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise BundleError("git is not installed; a bundle records the commit it is made from") from error
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise BundleError(f"{root} is no git checkout with a commit, which a bundle records: git said {reason[0]!r}")
    return done.stdout
