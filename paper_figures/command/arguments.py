"""The options of `reproduce-paper`, and which of them go together."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.records.places import CHECKOUT
from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError
from paper_figures.recorded.campaign import MANIFEST

EXAMPLES = """\
examples:
  reproduce-paper                                               everything; an interrupted one goes on where it was
  reproduce-paper --quick                                       one or two problems an exhibit, with short timing
  reproduce-paper --exhibit fig8_attention table2               these exhibits, in report-part/
  reproduce-paper --recorded                                    the report of the recorded runs, nothing measured
  reproduce-paper --from results/<gpu>/<campaign>               the same of other runs
  reproduce-paper --from results/<gpu>/<campaign> --beside results/<other>/<campaign>
                                                                with another GPU's verdicts, and its report, beside
  reproduce-paper --missing                                     what the recorded campaign lacks, with commands
  reproduce-paper --check                                       whether that report is byte for byte the kept one

exit codes: 0, 1 (something failed or differs), 2 (a mistake in the arguments), 130 (interrupted)
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    top = argparse.ArgumentParser(
        prog="reproduce-paper",
        description="Measure the exhibits of the paper on a GPU and write the report: all of them on a Hopper GPU,\n"
        "on another since Ampere those whose kernels run there. Without a GPU, verify every kernel on the CPU\n"
        "and write the report from the recorded runs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--exhibit", nargs="+", metavar="NAME", help="only these, such as table2 or fig7_gemm")
    top.add_argument("--quick", action="store_true", help="measure for a shorter time, with wider intervals")
    top.add_argument("--campaign", metavar="NAME", help="the named set of runs to measure into, or to report on")
    top.add_argument(
        "--from", dest="source", type=Path, metavar="FOLDER", help="report alone, from results/<gpu>/<campaign>"
    )
    top.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where the report goes: report/, or report-quick/ with --quick, or report-part/ with --exhibit",
    )
    top.add_argument(
        "--beside",
        type=Path,
        metavar="FOLDER",
        help="another GPU's campaign, whose verdicts stand beside the recorded ones, and whose report is written too",
    )
    top.add_argument(
        "--recorded",
        action="store_true",
        help="report alone, on the campaign that the project keeps",
    )
    top.add_argument(
        "--nights",
        type=Path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="campaigns of nights, such as results/<gpu>/nightly, for a page of trends and regressions",
    )
    top.add_argument(
        "--site", default="", metavar="URL", help="the address that the report will have, for pictures of shared links"
    )
    top.add_argument(
        "--check", action="store_true", help="report alone, and compare it byte for byte with report.sha256"
    )
    top.add_argument(
        "--missing", action="store_true", help="list what the campaign lacks, with commands and minutes; exit code 0"
    )
    top.add_argument("--write-digests", action="store_true", help="keep the report's digests in report.sha256")
    top.add_argument("--readme", action="store_true", help="rewrite the results in README.md and docs/results.md")
    return top


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises `PaperFiguresError` for options that do not go together: one would do harm, or nothing, in silence.

    Also for folders that are not there and are read at the end.
    """
    writes = ("beside", "nights", "site", "quick", "check", "write_digests", "readme")
    if arguments.missing and any(getattr(arguments, name) for name in writes):
        raise PaperFiguresError(
            "--missing only lists: beside it, --exhibit, --campaign and --from alone mean something",
            WRONG_ARGUMENTS,
        )
    if arguments.recorded and (arguments.source or arguments.campaign or arguments.quick):
        raise PaperFiguresError(
            "--recorded names the campaign itself: leave out --from, --campaign and --quick", WRONG_ARGUMENTS
        )
    if arguments.beside and not (arguments.source or arguments.recorded):
        raise PaperFiguresError("--beside stands beside recorded runs: give --from or --recorded", WRONG_ARGUMENTS)
    if arguments.beside and (arguments.check or arguments.write_digests or arguments.readme):
        raise PaperFiguresError(
            "--check, --write-digests and --readme keep the report on one campaign: leave out --beside", WRONG_ARGUMENTS
        )
    if arguments.nights and (arguments.check or arguments.write_digests or arguments.readme):
        raise PaperFiguresError(
            "--nights adds a page that has no digest: leave out --check, --write-digests and --readme", WRONG_ARGUMENTS
        )
    if arguments.check and (arguments.exhibit or arguments.write_digests or arguments.readme):
        raise PaperFiguresError(
            "--check compares the whole report: leave out --exhibit, --write-digests and --readme", WRONG_ARGUMENTS
        )
    if arguments.quick and (arguments.check or arguments.source):
        beside = "--check" if arguments.check else "--from"
        raise PaperFiguresError(f"{beside} measures nothing: leave out --quick", WRONG_ARGUMENTS)
    for folder in arguments.nights:
        if not folder.is_dir():
            raise PaperFiguresError(
                f"{folder} is not a folder: give the folder of a campaign, results/<gpu>/<campaign>", WRONG_ARGUMENTS
            )
    keeps = next((name for name in ("write_digests", "readme") if getattr(arguments, name)), None)
    if keeps is not None:
        option = f"--{keeps.replace('_', '-')}"
        if not CHECKOUT:
            raise PaperFiguresError(
                f"{option} writes into a checkout of the repository, and this is an installed package", WRONG_ARGUMENTS
            )
        if arguments.exhibit:
            raise PaperFiguresError(f"{option} keeps the whole report: leave out --exhibit", WRONG_ARGUMENTS)
        if arguments.source and (arguments.source / MANIFEST).exists():
            raise PaperFiguresError(
                f"{option} keeps the report on a whole campaign, and {arguments.source} is a single run: "
                "give the folder of its campaign",
                WRONG_ARGUMENTS,
            )
