"""Compares a stored run with an earlier one, or with the last runs of a campaign: a table, and an exit code.

examples:
    python -m harness.compare results/<gpu>/scratch/<before> results/<gpu>/scratch/<after>
    python -m harness.compare results/<gpu>/nightly/<run> --against results/<gpu>/nightly

- 0: no case under test is slower, or the alarm is suppressed: something else changed, and the controls moved too
- 1: a case is slower in two measurements, or fails that passed before, or is gone from the experiment
- 2: a mistake, or no case in common
- 3: slower in one measurement, and there is no second, or slower on another machine on which the controls are not
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.between.comparison import LAST, Comparison, compare, history
from harness.between.report import render
from harness.records.errors import HarnessError
from harness.records.naming import closest
from harness.runs import load_run

OURS = "tk"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives its exit code.  Raises `HarnessError`."""
    p = argparse.ArgumentParser(
        prog="python -m harness.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="RUN_A RUN_B, or with --against RUN_B alone")
    p.add_argument("--against", type=Path, metavar="CAMPAIGN", help=f"the last {LAST} runs of results/<gpu>/<campaign>")
    p.add_argument(
        "--again", nargs="*", type=Path, default=[], metavar="RUN", help="second measurements of what RUN_B measured"
    )
    p.add_argument(
        "--subject",
        nargs="*",
        metavar="NAME",
        help="implementations under test; all others are controls (default: tk)",
    )
    comparison = _compare(p.parse_args(argv))
    print(render(comparison))
    return comparison.exit_code


def _compare(arguments: argparse.Namespace) -> Comparison:
    wanted = 1 if arguments.against else 2
    if len(arguments.runs) != wanted:
        what = "--against CAMPAIGN and the one new run" if arguments.against else "two runs, the earlier one first"
        raise HarnessError(f"got {len(arguments.runs)} runs, needs {what}")
    new = load_run(arguments.runs[-1])
    if arguments.against:
        if not arguments.against.is_dir():
            raise HarnessError(f"--against {arguments.against} is no folder: give results/<gpu>/<campaign>")
        earlier = history(arguments.against, new)
        if not earlier:
            what = f"completed run of experiment {new.manifest['experiment']} before {new.run_id}"
            raise HarnessError(f"{arguments.against} holds no {what}")
    else:
        earlier = [load_run(arguments.runs[0])]
    known = sorted({str(name) for run in (new, *earlier) for name in run.measurements["implementation"]})
    subjects = [OURS] if arguments.subject is None else arguments.subject
    for name in subjects:
        if name not in known:
            given = f"{OURS}, which is under test by default," if arguments.subject is None else f"--subject {name}"
            raise HarnessError(f"{given} is in none of the runs: there is {', '.join(known)}{closest(name, known)}")
    return compare(new, earlier, subjects, [load_run(path) for path in arguments.again])
