"""Plant each fault in a scratch clone, run the tests that should see it, and say which did.

    python tests/planted/run.py                            all of them
    python tests/planted/run.py harness/store judged/      those whose names begin so
    python tests/planted/run.py --jobs 1

A fault is a patch `tests/planted/<room>/<name>.patch` with two lines of its own above the first `---`:

    What: what the fault would do to a user, in one sentence
    Seen by: tests/harness/test_store_ends.py::test_a_torn_group (arguments of pytest: files, test ids, -k)

Every test that is named has to pass without the fault, and one has to fail with it: an error while tests are collected
counts as nothing seen. Only tests that `make test` runs may be named. The clone is of the working tree: files that git
knows, with changes that are not committed yet.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Fault:
    """One planted fault: its name `room/file`, what it does, the tests that should see it, and the patch."""

    name: str
    what: str
    seen_by: tuple[str, ...]
    path: Path


def read_fault(path: Path) -> Fault:
    """The fault in a patch file. Raises ValueError where one of its two lines is missing."""
    head = path.read_text().split("\n--- ", 1)[0]
    lines = {key: re.search(rf"^{key}: (.+)$", head, re.MULTILINE) for key in ("What", "Seen by")}
    missing = [key for key, found in lines.items() if found is None]
    if missing:
        raise ValueError(f"{path}: no line '{missing[0]}: ...' above the patch")
    what, seen_by = (found.group(1) for found in lines.values() if found)
    return Fault(f"{path.parent.name}/{path.stem}", what, tuple(shlex.split(seen_by)), path)


def all_faults() -> list[Fault]:
    """Every planted fault, by name."""
    return [read_fault(path) for path in sorted(HERE.glob("*/*.patch"))]


def git(*arguments: str, cwd: Path = ROOT) -> str:
    """What a git command prints."""
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def clone(to: Path) -> Path:
    """A scratch clone of the working tree: its last commit, with the changes of tracked files on top."""
    commit = git("stash", "create") or git("rev-parse", "HEAD")
    subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, to], check=True)
    git("checkout", "--quiet", "--detach", commit, cwd=to)
    return to


def run_tests(tree: Path, arguments: tuple[str, ...], log: Path) -> int:
    """pytest's exit code for these arguments in a clone."""
    paths = os.pathsep.join(filter(None, [str(tree), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    with log.open("w") as out:
        return subprocess.run(command, cwd=tree, env=environment, stdout=out, stderr=subprocess.STDOUT).returncode


def plant(fault: Fault, tree: Path, log: Path) -> str:
    """`caught`, `MISSED`, or what else happened, of one fault in a clone that is clean again afterwards."""
    if code := run_tests(tree, fault.seen_by, log):
        return f"NOT TRIED: its tests end with {code} without it"
    applied = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", fault.path], cwd=tree, capture_output=True, text=True
    )
    if applied.returncode:
        return f"NOT TRIED: {applied.stderr.strip()}"
    try:
        code = run_tests(tree, fault.seen_by, log)
    finally:
        git("checkout", "--quiet", "--", ".", cwd=tree)
        git("clean", "-fdq", cwd=tree)
    return {0: "MISSED", 1: "caught"}.get(code, f"NOT TRIED: pytest ends with {code} with it")


def main() -> int:
    """Exit code 0 if every fault was caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names, such as harness/ or judged/wrong_bound")
    parser.add_argument("--jobs", type=int, default=2, help="faults at once, each in a clone of its own")
    arguments = parser.parse_args()
    faults = [f for f in all_faults() if not arguments.names or f.name.startswith(tuple(arguments.names))]
    if not faults:
        parser.error("no planted fault has such a name")
    work = Path(tempfile.mkdtemp(prefix="planted-"))
    clones: SimpleQueue[Path] = SimpleQueue()
    for index in range(arguments.jobs):
        clones.put(clone(work / f"tree{index}"))

    def one(fault: Fault) -> str:
        tree, started = clones.get(), time.monotonic()
        log = work / f"{fault.name.replace('/', '-')}.log"
        try:
            verdict = plant(fault, tree, log)
        finally:
            clones.put(tree)
        print(f"{verdict:8} {fault.name:40} {time.monotonic() - started:5.0f} s  {fault.what}", flush=True)
        return verdict

    with ThreadPoolExecutor(arguments.jobs) as pool:
        verdicts = list(pool.map(one, faults))
    caught = verdicts.count("caught")
    print(f"{caught} of {len(faults)} caught")
    if caught == len(faults):
        shutil.rmtree(work)
        return 0
    print(f"the tests' output is in {work}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
