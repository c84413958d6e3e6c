"""`python -m harness.compare RUN_A RUN_B`, or `--against CAMPAIGN RUN_B`: the table, and an exit code for automation.

- 0: no case under test is slower, or the alarm is suppressed: something else changed, and the controls moved too
- 1: a case is slower in two measurements, or fails that passed before, or is gone from the experiment
- 2: a mistake, or no case in common
- 3: slower in one measurement, and there is no second, or slower on another machine on which the controls are not
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.between.comparison import Comparison, compare, history
from harness.between.report import render
from harness.records.errors import HarnessError
from harness.records.naming import closest
from harness.runs import load_run

OURS = "tk"

LAST = 7


EXAMPLES = """\
examples:
  python -m harness.compare results/<gpu>/scratch/<before> results/<gpu>/scratch/<after>
  python -m harness.compare results/<gpu>/nightly/<run> --against results/<gpu>/nightly

exit code: 0 nothing is slower (or the controls are too, on another machine); 1 a regression seen twice, or a case
that fails now or is gone; 2 a mistake, or no case in common; 3 slower in one measurement (measure again and give
--again), or on another machine on which the controls are not
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives its exit code."""
    p = argparse.ArgumentParser(
        prog="python -m harness.compare",
        description="Compare a stored run with an earlier one, or with the last runs of a campaign.",
        epilog=EXAMPLES,
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
    try:
        comparison = _compare(p.parse_args(argv))
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
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
        earlier = history(arguments.against, new, LAST)
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
