"""`reproduce-paper`: the paper's exhibits from this machine's GPU, or from the recorded runs where there is none."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from harness.records.errors import HarnessError
from harness.records.places import CHECKOUT, RECORDED
from harness.records.provenance import source
from harness.runs import Run
from paper_figures.command import digest, steps
from paper_figures.command.arguments import parser, spelled_now
from paper_figures.command.kept_runs import Place, unfinished_campaign
from paper_figures.command.left_out import asked_here, sentences
from paper_figures.command.missing import missing, missing_text
from paper_figures.command.progress import Working
from paper_figures.command.readme import outdated, update_readme
from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError
from paper_figures.exhibits import choose_exhibits
from paper_figures.judged.verdicts import counted
from paper_figures.recorded.campaign import MANIFEST, RESULTS, ROOT, carried, find_campaign, is_nightly, load_runs
from paper_figures.recorded.history import load_history
from paper_figures.shown.derived import AnyExhibit, borrowed_parts, measured_exhibits
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.page.campaigns import check_apart, together
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import Report
from paper_figures.shown.report.writing import refuse_foreign, write_report


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status: 0, 1 for what failed, 2 for wrong arguments, 130 when interrupted."""
    words = sys.argv[1:] if argv is None else list(argv)
    now = spelled_now(words)
    if now != words:
        print(f"the command comes first now: {shlex.join(['reproduce-paper', *now])}", file=sys.stderr)
    arguments = parser().parse_args(now)
    commands = {"measure": _measure_command, "report": _report, "check": _check, "missing": _missing}
    try:
        return commands[arguments.command](arguments)
    except (PaperFiguresError, HarnessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"error: cannot write {error.filename or arguments.output}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return steps.INTERRUPTED


def _output(arguments: argparse.Namespace, name: str) -> Path:
    """Where the report goes; one of some exhibits or of short measurements does not take the place of the whole one."""
    out: Path = arguments.output or ROOT / name
    refuse_foreign(out)
    return out


def _missing(arguments: argparse.Namespace) -> int:
    folder = _campaign(arguments.campaigns) if arguments.campaigns else _kept_campaign()
    measured = measured_exhibits(choose_exhibits(arguments.exhibit))
    print(missing_text(missing(folder, measured), folder.name, len(measured)))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    """Reports on 1..n campaigns; with `--keep`, what is made from the report in the repository is renewed."""
    exhibits = choose_exhibits(arguments.exhibit)
    folders = [_campaign(one) for one in arguments.campaigns]
    if all(map(is_nightly, folders)):
        folders.insert(0, _kept_campaign())
    if arguments.keep:
        _check_keep(folders, arguments.exhibit)
    out = _output(arguments, "report-part" if arguments.exhibit else "report")
    report, files = _made(folders, exhibits, out)
    if arguments.keep:
        digest.DIGESTS.write_text(digest.digest_text(out, files, _shown(folders[0])))
        print(f"digests of {len(digest.with_fixed_bytes(files))} files kept in {_shown(digest.DIGESTS)}")
        print(f"written: {', '.join(_shown(path) for path in update_readme(report, out, ROOT))}")
    return 0


def _check_keep(folders: Sequence[Path], some: Sequence[str] | None) -> None:
    """Raises `PaperFiguresError` where what is kept would not be the report on one whole campaign."""
    wrong = ""
    if not CHECKOUT:
        wrong = "writes into a checkout of the repository, and this is an installed package"
    elif some or len(folders) > 1:
        wrong = "keeps the whole report on one campaign: leave out --exhibit, and name one"
    elif (folders[0] / MANIFEST).exists():
        wrong = f"keeps the report on a whole campaign, and {folders[0]} is a single run: give its campaign's folder"
    if wrong:
        raise PaperFiguresError(f"--keep {wrong}", WRONG_ARGUMENTS)


def _check(arguments: argparse.Namespace) -> int:
    """Compares the report with the kept digests, and the repository's pages with what the report makes of them."""
    out = _output(arguments, "report")
    report, files = _made([_kept_campaign(digests=True)], choose_exhibits(None), out)
    found, pages = digest.differences(out, files, digest.DIGESTS), outdated(report, ROOT) if CHECKOUT else []
    if not found and not pages:
        print(f"all {len(digest.with_fixed_bytes(files))} files are byte for byte the recorded ones, PDF apart")
        return 0
    for line in (*found, *pages):
        print(line, file=sys.stderr)
    if not found:
        print(f"error: {len(pages)} pages differ from the report; write them anew with report --keep", file=sys.stderr)
        return 1
    note = digest.version_note(digest.DIGESTS)
    ending = f"; {note}" if note else "; after a change that was meant, keep new digests with report --keep"
    print(f"error: {len(found)} files differ from {_shown(digest.DIGESTS)}{ending}", file=sys.stderr)
    return 1


def _made(
    folders: Sequence[Path], exhibits: Sequence[AnyExhibit], out: Path, measured_here: bool = False
) -> tuple[Report, list[Path]]:
    """Writes the report on campaigns, of which the first leads, and says what came of it."""
    takes = _about(_making_minutes(sum(not is_nightly(one) for one in folders)))
    with Working(f"making the report on {_shown(folders[0])}, {takes} for all exhibits") as working:
        report = made_of(folders, exhibits)
        files = write_report(report, out, measured_here, working.say)
    _say_summary(report, out, measured_here)
    return report, files


def made_of(folders: Sequence[Path], exhibits: Sequence[AnyExhibit], runs: Sequence[Run] | None = None) -> Report:
    """The report on campaigns: the first one's, with the verdicts of the others beside its own.

    Those called `nightly...` decide no claim.  What they, or others of one GPU, measured again is the report's history.
    runs: those of the first, where they have been read.
    """
    first, *more = folders
    campaigns = [(first, load_runs(first) if runs is None else runs), *((one, load_runs(one)) for one in more)]
    check_apart([own for _, own in campaigns])
    leading, *others = [
        make_report(one, exhibits, own) for one, own in campaigns if one == first or not is_nightly(one)
    ]
    return replace(together(leading, others), history=tuple(load_history(campaigns)))


def _measure_command(arguments: argparse.Namespace) -> int:
    """Measures on this GPU and reports; without one, verifies on the CPU and reports on the recorded runs."""
    exhibits, there = choose_exhibits(arguments.exhibit), steps.find_gpu()
    out = _output(arguments, "report-quick" if arguments.quick else "report-part" if arguments.exhibit else "report")
    if there is None or there.too_old:
        return _verify_and_report(arguments, exhibits, out, there)
    measured = _run_here(_to_measure(exhibits, arguments), there)
    place = Place(RESULTS, arguments.campaign or "", there.name, source())
    if arguments.campaign is None:
        today = datetime.datetime.now(datetime.UTC).date()
        place = replace(place, campaign=default_campaign(measured, arguments.quick, place, today))
    failed = _measure(measured, place, arguments.quick)
    folder = find_campaign(RESULTS, place.campaign, place.folder.parent.name)
    _made([folder], exhibits, out, measured_here=True)
    return _ended(failed)


def _ended(failed: int) -> int:
    if failed:
        print(f"{failed} of the steps above failed: their output says why", file=sys.stderr)
    return 1 if failed else 0


def _verify_and_report(
    arguments: argparse.Namespace, exhibits: Sequence[AnyExhibit], out: Path, old: steps.Gpu | None
) -> int:
    """Verifies on the CPU while the report on the recorded runs is made; old: a GPU that is too old for the kernels."""
    folder = _campaign(arguments.campaign) if arguments.campaign else _kept_campaign()
    runs = load_runs(folder)  # what is wrong with the recorded runs is said before minutes are spent

    def make() -> Report:
        report = made_of([folder], exhibits, runs)
        write_report(report, out, measured_here=False)
        return report

    making = _meanwhile(make)
    failed = _verify([one for one in measured_exhibits(exhibits) if one.small_problems], _shown(folder), old)
    with Working(f"making the report on {_shown(folder)}, {_about(_making_minutes(1))} for all exhibits"):
        report = making()
    _say_summary(report, out, measured_here=False)
    return _ended(failed)


T = TypeVar("T")


def _meanwhile(make: Callable[[], T]) -> Callable[[], T]:
    """Begins to make something in a thread of its own, and gives the function that waits for it."""
    made: Future[T] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return made.result


def default_campaign(exhibits: Sequence[Exhibit], quick: bool, place: Place, day: datetime.date) -> str:
    """The newest campaign of this command that is unfinished, else one of the day; short measurements have their own.

    So the same command goes on where it stopped, past midnight too.
    """
    prefix = f"reproduce-{'quick-' if quick else ''}"
    return unfinished_campaign(exhibits, quick, place, prefix) or f"{prefix}{day.isoformat()}"


def _kept_campaign(digests: bool = False) -> Path:
    """The campaign whose digests are kept, else the one with the newest run; digests: without such, an error."""
    if digests or digest.DIGESTS.exists():
        return carried(ROOT / digest.recorded_campaign(digest.DIGESTS), ROOT)
    return find_campaign(RESULTS)


def _campaign(named: str) -> Path:
    """The campaign of a folder or a name, of an installed package also one that it carries."""
    if "/" in named or Path(named).is_dir():
        return carried(Path(named), ROOT)
    for results in (RESULTS,) if CHECKOUT or not RECORDED.is_dir() else (RESULTS, RECORDED):
        try:
            return find_campaign(results, named)
        except PaperFiguresError as error:
            wrong = PaperFiguresError(str(error), WRONG_ARGUMENTS)
    raise wrong


def _to_measure(exhibits: Sequence[AnyExhibit], arguments: argparse.Namespace) -> tuple[Exhibit, ...]:
    """The exhibits with an experiment. Of all of them, those of whole models are left out, and by `--quick` those that
    name nothing quick.
    """
    measured = measured_exhibits(exhibits)
    if others := borrowed_parts(exhibits):
        minutes = steps.estimated_minutes(others, timed=True, quick=arguments.quick)
        print(
            f"made from other exhibits, as far as the campaign has them: {', '.join(one.id for one in others)}; "
            f"to measure those too, {_about(minutes)}, name them with --exhibit"
        )
    if arguments.exhibit:
        return measured
    if arguments.quick:
        left_out = [one for one in measured if not one.quick_problems]
        print(f"--quick leaves out {', '.join(one.id for one in left_out)}: name one with --exhibit to measure it")
    else:
        left_out = [one for one in measured if one.by_name_only]
        takes = _about(steps.estimated_minutes(left_out, timed=True))
        print(f"left out, {takes}: {', '.join(one.id for one in left_out)}; name one with --exhibit to measure it")
    return tuple(one for one in measured if one not in left_out)


def _run_here(exhibits: Sequence[Exhibit], gpu: steps.Gpu) -> tuple[Exhibit, ...]:
    """Those of which a kernel of ours runs on this GPU; the others are named, with the reason.

    Raises `PaperFiguresError` if there are none.
    """
    if gpu.runs_all:
        return tuple(exhibits)
    refused = asked_here([one.id for one in exhibits])
    print(f"{gpu.name}: {_capability(gpu)}; it runs the kernels for Ampere GPUs, and its own roofs are measured")
    for line in sentences(refused):
        print(line)
    gone = {one.experiment for one in refused if one.whole}
    left = tuple(one for one in exhibits if one.id not in gone)
    if not left:
        raise PaperFiguresError(f"no kernel of these exhibits runs on {gpu.name}: name others with --exhibit")
    return left


def _capability(gpu: steps.Gpu) -> str:
    return f"compute capability {gpu.capability[0]}.{gpu.capability[1]}"


_KEPT = "kept, this campaign has a complete run of this code and these settings"


def _measure(exhibits: Sequence[Exhibit], place: Place, quick: bool) -> int:
    """Builds, then verifies and measures every exhibit; returns how many steps failed."""
    minutes = steps.estimated_minutes(exhibits, timed=True, quick=quick)
    print(
        f"{place.gpu}: verifying and measuring {len(exhibits)} exhibits takes {_about(minutes)}, kernels built; "
        f"campaign {place.campaign}"
    )
    _must(steps.build_step("gpu"))
    failed, kept = 0, 0
    with steps.Harness() as harness:
        for number, exhibit in enumerate(exhibits, start=1):
            step = steps.measure_step(exhibit, place, quick)
            own = _about(steps.estimated_minutes([exhibit], timed=True, quick=quick))
            before = f"[{number}/{len(exhibits)}, {own}] "
            if step is None:
                kept += 1
                print(f"{before}{exhibit.where}: {_KEPT}")
                continue
            code = _run_step(step, harness, before, accepted=(steps.MISTAKE,) if step.resumes else ())
            if code == steps.MISTAKE:  # the unfinished run is of another board, or no longer whole
                fresh = steps.measure_step(exhibit, place, quick, resume=False)
                assert fresh is not None
                code = _run_step(fresh, harness, "    it cannot be resumed: ")
            failed += code != steps.OK
    if kept:
        print(f"{kept} of {len(exhibits)} kept; to measure them again, name another campaign: --campaign NAME")
    return failed


def _verify(exhibits: Sequence[Exhibit], recorded: str, old: steps.Gpu | None) -> int:
    """Builds for the CPU and verifies the kernels of these exhibits; returns how many steps failed.

    recorded: the campaign that the report is made of. old: a GPU that is here, and too old for the kernels.
    """
    least = ".".join(map(str, steps.LEAST_CAPABILITY))
    why = "No GPU here" if old is None else f"{old.name} has {_capability(old)}, kernels are for {least} and newer"
    if not exhibits:
        print(f"{why}: these exhibits are only timed. The report is made from the runs recorded in {recorded}.")
        return 0
    minutes = steps.estimated_minutes(exhibits, timed=False) + _making_minutes(1)
    print(
        f"{why}: nothing is timed. The kernels of these exhibits are compiled for the CPU and verified on small "
        f"problems, and the report is made from the runs recorded in {recorded}. With the kernels built "
        f"this takes {_about(minutes)}."
    )
    _must(steps.build_step("cpu", steps.verified_kernels(exhibits)))
    log = ROOT / steps.VERIFICATION / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    failed, asked, passed = 0, 0, 0
    with steps.Harness(log) as harness:
        for number, exhibit in enumerate(exhibits, start=1):
            code, own, cases = _verify_one(exhibit, harness, f"[{number}/{len(exhibits)}] {exhibit.id}", log)
            failed, asked, passed = failed + (code != steps.OK), asked + cases, passed + own
    print(f"verified here, on the cpu target: {passed} of {asked} cases passed (all that was said: {_shown(log)})")
    return failed or int(passed < asked)


def _verify_one(exhibit: Exhibit, harness: steps.Harness, title: str, log: Path) -> tuple[int, int, int]:
    """Verifies an exhibit's kernels and says in a line what came of it, and of each case that did not pass why.

    Returns the step's exit status, how many cases passed, and how many there are.
    """
    step = steps.verify_step(exhibit)
    cases = len(exhibit.small_problems) * len(steps.verified_contestants(exhibit))
    with Working(title) as working:
        code = steps.run_step(step, harness)
        if code == steps.INTERRUPTED:
            raise KeyboardInterrupt
        if code not in (steps.OK, steps.CASES_FAILED):
            raise PaperFiguresError(f"cannot {step.title}: exit status {code}; why is at the end of {_shown(log)}")
        passed = steps.passed_cases(exhibit)
        working.outcome = f"{passed} of {cases} cases passed"
    if code != steps.OK or passed < cases:
        print("\n".join([f"    {step.shown}", *(f"    {line}" for line in steps.not_passed(exhibit))]))
    return code, passed, cases


def _making_minutes(campaigns: int) -> float:
    """About how long the report of all exhibits takes."""
    return campaigns * steps.REPORT_SECONDS / 60


def _about(minutes: float) -> str:
    """A duration in words."""
    return "about a minute" if minutes < 1.5 else f"about {minutes:.0f} minutes"


def _run_step(
    step: steps.Step, harness: steps.Harness | None = None, before: str = "", accepted: tuple[int, ...] = ()
) -> int:
    """Runs a step, says what it is and how long it took; returns its exit status.

    An interruption ends everything, and so does a status that is neither of the harness's two nor `accepted`.
    """
    print(f"{before}{step.title}\n    {step.shown}", flush=True)
    started = time.monotonic()
    code = steps.run_step(step, harness)
    if code == steps.INTERRUPTED:
        raise KeyboardInterrupt
    if code in accepted:
        return code
    if code not in (steps.OK, steps.CASES_FAILED):
        raise PaperFiguresError(f"cannot {step.title}: the command above ended with exit status {code}")
    outcome = "done" if code == steps.OK else "done, with failures"
    print(f"    {outcome} in {time.monotonic() - started:.0f} s", flush=True)
    return code


def _must(step: steps.Step) -> None:
    """Runs a step without which nothing else works."""
    if _run_step(step) != steps.OK:
        raise PaperFiguresError(f"cannot {step.title}: see the compiler's words above")


def _say_summary(report: Report, out: Path, measured_here: bool) -> None:
    """The verdicts in a line, and where the report is."""
    verdicts = counted([result.verdict for result in report.results])
    runs = "1 run" if len(report.used) == 1 else f"{len(report.used)} runs"
    origin = "measured on this machine" if measured_here else "recorded, not measured here"
    print(f"times: {origin} (campaign {report.campaign}, {runs})")
    print(f"claims: {verdicts or 'none'}")
    print(f"report: {out / 'index.html'}")


def _shown(path: Path) -> str:
    """A path relative to the repository where it is inside."""
    resolved = path.resolve()
    return resolved.relative_to(ROOT).as_posix() if resolved.is_relative_to(ROOT) else str(path)
