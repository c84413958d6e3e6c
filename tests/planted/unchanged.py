"""Whether a change left alone what is measured: compare this tree with an earlier commit.

    python tests/planted/unchanged.py COMMIT               claims, recorded runs and machine code
    python tests/planted/unchanged.py COMMIT claims runs   without building a kernel
    python tests/planted/unchanged.py --facts claims runs  what is compared, of this tree, as JSON

claims    verdict, notes and every number of each claim, from the recorded campaign
runs      each recorded run that both trees have, as the table that `harness.runs.frame` reads from it
code      the machine code of each kernel for the GPU targets (builds what is not in the cache)

Each tree reads its own facts with its own code, so that files may move. Exit code 0 if nothing differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def claims() -> dict[str, Any]:
    """{claim: what the report says of it}, without the names of runs."""
    from harness.records.places import DATA, FIRST
    from paper_figures.exhibits import load_exhibits
    from paper_figures.shown.report.making import make_report

    return {
        one.claim.id: {
            "verdict": str(one.verdict),
            "notes": one.notes,
            "differs": one.differs,
            "points": [
                [str(p.measured), str(p.outcome), str(p.accept), p.unit, p.case_key, p.run_id] for p in one.points
            ],
        }
        for one in make_report(DATA / FIRST, load_exhibits()).results
    }


def runs() -> dict[str, Any]:
    """{run: the digest of its frame}, of every recorded run."""
    from harness.records.places import RECORDED
    from harness.runs import frame

    found = {}
    for manifest in sorted(RECORDED.glob("*/*/*/manifest.json")):
        text = frame(manifest.parent, newest=False).to_csv(index=False)
        found[manifest.parent.relative_to(RECORDED).as_posix()] = hashlib.sha256(text.encode()).hexdigest()
    return found


def code() -> dict[str, Any]:
    """{kernel target: the hash of its machine code}."""
    command = [sys.executable, "-m", "tk_kernels.toolchain", "hashes", "--target", "sm_90a", "--target", "sm_80"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
    kernels = json.loads(printed)
    return {f"{kernel} {target}": facts for kernel in kernels for target, facts in kernels[kernel].items()}


FACTS: dict[str, Callable[[], dict[str, Any]]] = {"claims": claims, "runs": runs, "code": code}


def facts_at(commit: str, wanted: list[str]) -> dict[str, dict[str, Any]]:
    """The facts of a commit, read by its own code in a clone."""
    with tempfile.TemporaryDirectory(prefix="unchanged-") as folder:
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", ROOT, folder], check=True)
        subprocess.run(["git", "checkout", "-q", "--detach", commit], cwd=folder, check=True)
        return facts_in(Path(folder), wanted)


def facts_in(tree: Path, wanted: list[str]) -> dict[str, dict[str, Any]]:
    """The facts of a checkout, from a process of its own."""
    command = [sys.executable, tree / Path(__file__).relative_to(ROOT), "--facts", *wanted]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return json.loads(subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def main() -> int:
    """Prints what differs; exit code 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", action="store_true", help="print this tree's")
    parser.add_argument("words", nargs="+", help="the commit to compare with, then which facts; all if none")
    arguments = parser.parse_args()
    if arguments.facts:
        json.dump({name: FACTS[name]() for name in arguments.words}, sys.stdout)
        return 0
    commit, *wanted = arguments.words
    wanted = wanted or list(FACTS)
    before, now = facts_at(commit, wanted), facts_in(ROOT, wanted)
    different = 0
    for name in wanted:
        gone, new = sorted(before[name].keys() - now[name].keys()), sorted(now[name].keys() - before[name].keys())
        changed = [key for key in before[name].keys() & now[name].keys() if before[name][key] != now[name][key]]
        different += len(changed)
        print(f"{name}: {len(now[name])} now, {len(changed)} changed, {len(gone)} gone, {len(new)} new")
        for key in sorted(changed):
            print(f"  {key}\n    before {before[name][key]}\n    now    {now[name][key]}")
        for word, keys in (("gone", gone), ("new", new)):
            print("".join(f"  {word}: {key}\n" for key in keys), end="")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
