"""Command line of the night: `python -m tools.nightly --help`.

0: every step was good and no case is slower; 1: a step failed, a case fails or is slower in two measurements, or the
machine is not fit; 2: a mistake in the command; 130: interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.records.errors import ended
from tools.nightly.night import STEPS, Options, holds_others, run_night
from tools.nightly.preflight import preflight
from tools.nightly.processes import Runner

ROOT = Path(__file__).resolve().parents[2]
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Where automation wants the summary added."""


def experiments(root: Path = ROOT) -> tuple[str, ...]:
    """Every experiment that is made for the night: configs/experiment/nightly_*.yaml."""
    return tuple(sorted(path.stem for path in (root / "configs" / "experiment").glob("nightly_*.yaml")))


EXAMPLES = """\
examples:
  python -m tools.nightly                                                  the whole night
  python -m tools.nightly --experiment nightly_gemm --skip verify timer.budget_seconds=2
  python -m tools.nightly --slowed 3                                       whether a slower build is seen

exit code: 0 good, 1 not good (or the machine is not fit), 2 a mistake in the command
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m tools.nightly",
        description="One night on a machine with one idle Hopper GPU: preflight, build, verify, measure,\n"
        "compare with the nights before, report.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="for python -m harness, such as timer.budget_seconds=2"
    )
    p.add_argument("--results", type=Path, default=Path("results"), help="where runs are stored (default: results)")
    p.add_argument("--report", type=Path, default=Path("nightly"), help="folder for pages and logs (default: nightly)")
    p.add_argument("--campaign", help="of this night's runs (default: nightly, or nightly-slowed with --slowed)")
    p.add_argument("--against", default="nightly", help="campaign of the nights compared with (default: nightly)")
    p.add_argument("--last", type=int, default=7, help="nights compared with at most (default: 7)")
    p.add_argument("--experiment", nargs="+", metavar="NAME", help="experiments (default: every nightly_*)")
    p.add_argument("--skip", nargs="+", default=[], choices=STEPS, help="steps to leave out; the report says so")
    p.add_argument("--slowed", type=float, metavar="PERCENT", help="use a build that is this much slower on purpose")
    p.add_argument(
        "--prebuilt", type=Path, metavar="DIR", help="kernels built elsewhere (default: TK_KERNELS_PREBUILT)"
    )
    return p


def options(argv: Sequence[str]) -> Options:
    """The options of a command line; ends the process with exit code 2 and a sentence if they are wrong."""
    p = parser()
    given = p.parse_args(argv)
    if given.last < 1:
        p.error(f"--last is {given.last}, needs to be at least 1")
    if given.slowed is not None and not 0 < given.slowed <= 100:
        p.error(f"--slowed is {given.slowed:g}, needs to be above 0 and at most 100")
    campaign = given.campaign or ("nightly" if given.slowed is None else "nightly-slowed")
    if given.slowed is not None and campaign == given.against:
        p.error(f"--campaign {campaign}: a slowed build may not become part of what nights are compared with")
    wrong = [word for word in given.overrides if "=" not in word]
    if wrong:
        p.error(f"{wrong[0]} is not of the form KEY=VALUE")
    known = experiments()
    unknown = [name for name in given.experiment or () if name not in known]
    if unknown:
        p.error(f"--experiment {unknown[0]} is no nightly experiment: there is {', '.join(known)}")
    results = given.results.expanduser()  # quoted, as the workflow has it, a shell leaves ~ as it is
    if results.exists() and not results.is_dir():
        p.error(f"--results {given.results} is a file, needs to be a folder")
    if holds_others(given.report):
        p.error(f"--report {given.report} is not empty and is no report of a night: give another folder, or empty it")
    for option, name in (("campaign", campaign), ("against", given.against)):
        if not name or name != Path(name).name or name.startswith("."):
            p.error(f"--{option} is {name!r}, needs a plain folder name such as nightly")
    named = os.environ.get("TK_KERNELS_PREBUILT")
    prebuilt = given.prebuilt or (Path(named) if named else None)
    return Options(
        root=ROOT,
        results=results.resolve(),
        campaign=campaign,
        against=given.against,
        report=given.report.resolve(),
        last=given.last,
        experiments=tuple(given.experiment or known),
        skip=tuple(given.skip),
        slowed=given.slowed,
        prebuilt=prebuilt.resolve() if prebuilt else None,
        overrides=tuple(given.overrides),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives its exit code."""
    asked = options(sys.argv[1:] if argv is None else argv)
    try:
        night = run_night(asked, Runner(asked.root, asked.report / "logs"), preflight)
    except KeyboardInterrupt:
        print("nightly: interrupted; what was measured is stored", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"nightly: {error.filename or asked.report}: {error.strerror}", file=sys.stderr)
        return 1
    summary = (asked.report / "summary.md").read_text()
    print(summary)
    wanted = os.environ.get(SUMMARY_VARIABLE)
    if wanted:
        with open(wanted, "a") as file:
            file.write(summary)
    return 1 if night.failed else 0


if __name__ == "__main__":
    sys.exit(ended(main))
