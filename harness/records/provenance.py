"""Where a run comes from: commit, dirty flag, hashes of the declared claims, a name of its own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.records.places import CODE, DATA

ROOT = CODE
"""Root of the checkout or bundle, or the folder that a wheel was installed into."""

BUILD_INFO = "build_info.json"
"""Stamped into a bundle, and a wheel's data: {"git_commit": "...", "git_dirty": false}; TK_BUILD_INFO names another."""

FILES = "files.sha256"
"""Beside a bundle's stamp: the tracked files outside results/ as they were, a line each: SHA-256, two blanks, path."""

GIT_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE")
"""Environment variables that point git at another repository, as inside a git hook."""


@dataclass(frozen=True)
class Source:
    """git_commit: 40 hex digits or `unknown`; git_dirty: tracked files outside results/ differ, None if not known."""

    git_commit: str
    git_dirty: bool | None


def new_run_id(now: datetime | None = None) -> str:
    """UTC time and six random hex digits, `20261120T134501Z-3fa94c`: sorts by time, unique across machines."""
    return f"{(now or datetime.now(UTC)).strftime('%Y%m%dT%H%M%SZ')}-{secrets.token_hex(3)}"


def utc_now() -> str:
    """The time as the manifest writes it, ISO 8601 to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def source(root: Path = ROOT) -> Source:
    """Commit and dirty flag of the code that runs.

    Those of the bundle, where the files are the ones that it was made beside: a copy's git may know an earlier commit
    alone. Else git's, else the stamp's; without git, files that differ from a bundle's make it dirty.
    """
    data = DATA if root == CODE else root  # a bundle is stamped at its root, a wheel among its data
    stamp = Path(os.environ.get("TK_BUILD_INFO") or data / BUILD_INFO)
    same = _are_as_listed(root, stamp.with_name(FILES))
    commit = None if same else _git(root, "rev-parse", "HEAD")
    if commit is not None:
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
        return Source(commit, None if changed is None else bool(changed))
    try:
        info = json.loads(stamp.read_text())
        return Source(str(info["git_commit"]), bool(info["git_dirty"]) or same is False)
    except (OSError, ValueError, KeyError, TypeError):
        return Source("unknown", None)


def digest(file: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _are_as_listed(root: Path, listed: Path) -> bool | None:
    """Whether all files of a bundle's list are here as they were; None without a list."""
    try:
        lines = [line.split("  ", 1) for line in listed.read_text().splitlines()]
    except OSError:
        return None
    try:
        return all(digest(root / name) == known for known, name in lines)
    except (OSError, ValueError):
        return False


def claim_hashes(root: Path = ROOT) -> dict[str, str]:
    """{exhibit/claims.yaml: digest} as they are now: a verdict whose claim changed after the run can be told."""
    files = sorted((root / "paper_figures" / "exhibits").glob("*/claims.yaml"))
    return {f"{file.parent.name}/{file.name}": claims_digest(file) for file in files}


def claims_digest(file: Path) -> str:
    """sha256 of the claims of an exhibit with the rules that they name, which stand in `published/rules.yaml`."""
    text = file.read_bytes()
    named = set(re.findall(rb"rule: (\w+)", text))
    rules = (file.parents[2] / "published" / "rules.yaml").read_bytes() if named else b""
    used = [rule.strip() for rule in re.split(rb"\n(?=\w)", rules) if rule.partition(b":")[0] in named]
    return hashlib.sha256(b"\n".join([text, *used])).hexdigest()


def _git(root: Path, *arguments: str) -> str | None:
    if not (root / ".git").exists():  # a bundle inside somebody else's checkout is not that checkout
        return None
    environment = {name: value for name, value in os.environ.items() if name not in GIT_PLACES}
    command = ["git", "-c", "safe.directory=*", "-C", str(root), *arguments]  # of another owner too, as in a container
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
