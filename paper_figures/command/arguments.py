"""The commands of `reproduce-paper` and their options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

EXAMPLES = """\
examples:
  reproduce-paper measure                                    everything; an interrupted one goes on where it was
  reproduce-paper measure --quick                            one or two problems an exhibit, with short timing
  reproduce-paper measure --exhibit fig8_attention table2    these exhibits, in report-part/
  reproduce-paper report                                     the report of the recorded runs, nothing measured
  reproduce-paper report results/<gpu>/<campaign>            the same of other runs
  reproduce-paper report results/<gpu>/<campaign> results/<other>/<campaign> results/<gpu>/nightly
                                                             with the verdicts of another, and what nights changed
  reproduce-paper missing                                    what the recorded campaign lacks, with commands
  reproduce-paper check                                      whether its report is byte for byte the kept one

exit codes: 0, 1 (something failed or differs), 2 (a mistake in the arguments), 130 (interrupted)
"""
_CAMPAIGN = "a folder of runs, results/<gpu>/<campaign>, or its name"


def parser() -> argparse.ArgumentParser:
    """The commands with their options."""
    top = argparse.ArgumentParser(
        prog="reproduce-paper",
        description="Reproduce the exhibits of the paper on a GPU, and report on recorded runs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    measure = commands.add_parser(
        "measure",
        help="measure the exhibits on this GPU and write the report",
        description="Measure the exhibits on a GPU and write the report: all of them on a Hopper GPU, on another since "
        "Ampere those whose kernels run there. Without a GPU, verify every kernel on the CPU and report on the "
        "recorded runs.",
    )
    measure.add_argument("--quick", action="store_true", help="measure for a shorter time, with wider intervals")
    measure.add_argument("--campaign", metavar="NAME", help="the named set of runs to measure into, or to report on")
    report = commands.add_parser("report", help="write the report on recorded runs; nothing is measured")
    report.add_argument(
        "campaigns",
        nargs="*",
        metavar="CAMPAIGN",
        help=f"{_CAMPAIGN}. The first one leads; without one, or with nights alone (`nightly...`), the project's kept "
        "one does. Each other one, of whatever GPU, has its verdicts beside the first one's and a report of its own. "
        "What one GPU measured again, such as nights, has a page",
    )
    report.add_argument(
        "--keep",
        action="store_true",
        help="keep its digests in report.sha256, and rewrite the results in README.md and docs/results.md",
    )
    check = commands.add_parser("check", help="compare the kept campaign's report with report.sha256, PDF apart")
    missing = commands.add_parser("missing", help="list what a campaign lacks, with commands and minutes")
    missing.add_argument("campaigns", nargs="?", metavar="CAMPAIGN", help=_CAMPAIGN)
    for one in (measure, report, missing):
        one.add_argument("--exhibit", nargs="+", metavar="NAME", help="only these, such as table2 or fig7_gemm")
    for one in (measure, report, check):
        one.add_argument(
            "--output",
            type=Path,
            metavar="FOLDER",
            help="where the report goes: report/, or report-quick/ with --quick, or report-part/ with --exhibit",
        )
    return top


_FOLDERS = ("--from", "--beside", "--nights")
_EARLIER = {"--missing": "missing", "--check": "check", **dict.fromkeys(("--recorded", *_FOLDERS), "report")}
_KEEPS = ("--write-digests", "--readme")


def spelled_now(words: Sequence[str]) -> list[str]:
    """The words of a command, those of version 0.1 as they are written now.  Goes with 0.3."""
    if words and (not words[0].startswith("-") or words[0] in ("-h", "--help")):
        return list(words)
    keeps = ["--keep"] if any(one in _KEEPS for one in words) else []
    command = next((new for old, new in _EARLIER.items() if old in words), "report" if keeps else "measure")
    folders: list[str] = []
    rest: list[str] = []
    place = rest
    for word in words:
        if word.startswith("--"):
            place = folders if word in _FOLDERS else rest
        if word not in (*_EARLIER, *_KEEPS):
            place.append(word)
    return [command, *folders, *rest, *keeps]
