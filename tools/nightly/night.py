"""The steps of a night, in order, and their outcome.  Every step is a command that can be repeated by hand."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.between.cases import Row
from harness.between.comparison import MISTAKE, NOTHING, SUSPECTED, Comparison, compare, history
from harness.between.report import render
from harness.records.errors import HarnessError
from harness.records.provenance import new_run_id
from harness.records.rows import Status
from harness.runs import Run, load_run
from tk_kernels.toolchain import SM_80
from tools.nightly.preflight import DEVICE_ORDER, Preflight

STEPS = ("preflight", "build", "verify", "measure", "compare")
SUBJECTS = ("tk",)
OTHER_TARGET = SM_80.name
"""The target for other GPUs since Ampere, whose kernels a Hopper GPU runs too: nothing else tests them."""

BUILD_SECONDS, VERIFY_SECONDS, MEASURE_SECONDS = 1800.0, 1800.0, 3600.0

Execute = Callable[[str, Sequence[str], Mapping[str, str], float], int]
"""Runs a command under a name, with further environment variables and a time limit in seconds; gives its exit code."""


@dataclass(frozen=True)
class Options:
    """What is done where.

    results: as the harness's results_dir; campaign: where this night's runs go; against: the campaign of the nights
    before it; report: folder for the pages and logs; last: nights compared with; skip: steps left out, which the report
    says; slowed: percent, for a build that is slower on purpose; prebuilt: folder of prebuilt kernels; overrides: for
    the harness.
    """

    root: Path
    results: Path
    campaign: str
    against: str
    report: Path
    last: int
    experiments: tuple[str, ...]
    skip: tuple[str, ...] = ()
    slowed: float | None = None
    prebuilt: Path | None = None
    overrides: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """What the commands of this night have in their environment beside the caller's."""
        found = {"CUDA_DEVICE_ORDER": DEVICE_ORDER}
        if self.slowed is not None:
            found["TK_SLOWED_PERCENT"] = f"{self.slowed:g}"
        if self.prebuilt is not None:
            found["TK_KERNELS_PREBUILT"] = str(self.prebuilt)
        return found


@dataclass
class Night:
    """A night in progress: the summary of each step, the pages of its comparisons, and whether anything failed."""

    options: Options
    execute: Execute
    said: list[str] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)
    failed: bool = False

    def say(self, step: str, words: str, bad: bool = False) -> None:
        """Adds a line to the summary."""
        self.failed |= bad
        self.said.append(f"- {step}: {'**' + words + '**' if bad else words}")
        print(f"nightly: {step}: {words}", file=sys.stderr, flush=True)


def run_night(options: Options, execute: Execute, look: Callable[[], Preflight]) -> Night:
    """All steps; a night that cannot be measured stops there, and whatever happened is in the summary."""
    night = Night(options, execute)
    _clear(options.report)
    options.report.mkdir(parents=True, exist_ok=True)
    (options.report / MARK).touch()
    if _preflight(night, look) and _build(night) and _verify(night):
        for experiment in options.experiments:
            _experiment(night, experiment)
    write_report(night)
    return night


MARK = ".nightly"
"""An empty file that marks a folder as a night's report, since other tools use the names `logs` and `runs` too."""


def holds_others(report: Path) -> bool:
    """Whether a folder holds files but no report of a night, so that clearing it would delete something else."""
    if not report.is_dir() or (report / MARK).is_file():
        return False
    before_marks = (report / "preflight.json").is_file() and (report / "summary.md").is_file()
    return not before_marks and any(report.iterdir())


def _clear(report: Path) -> None:
    """Removes what an earlier night left in the folder of its report, and nothing else."""
    for name in ("logs", "runs"):
        shutil.rmtree(report / name, ignore_errors=True)
    for pattern in ("nightly_*.md", "summary.md", "preflight.json"):
        for path in report.glob(pattern):
            path.unlink()


def _preflight(night: Night, look: Callable[[], Preflight]) -> bool:
    if _skipped(night, "preflight"):
        return True
    found = look()
    night.options.report.mkdir(parents=True, exist_ok=True)
    (night.options.report / "preflight.json").write_text(json.dumps(found.facts, indent=1) + "\n")
    for complaint in found.complaints:
        night.say("preflight", complaint, bad=True)
    if found.complaints:
        return False
    facts = found.facts
    night.say(
        "preflight",
        f"one idle {facts['name']}, driver {facts['driver']}, SM {facts['sm_clock_mhz']} of "
        f"{facts['sm_clock_max_mhz']} MHz, {facts['celsius']} degrees C, power limit {facts['power_limit_w']:g} W",
    )
    return True


def _build(night: Night) -> bool:
    if _skipped(night, "build"):
        return True
    command = ["-m", "tk_kernels.toolchain", "build", "--target", "gpu", "--target", OTHER_TARGET]
    if night.options.prebuilt is not None:
        night.say("build", f"nothing is built, the kernels of {night.options.prebuilt} are used")
        return True
    return _done(night, "build", command, BUILD_SECONDS, f"every kernel is built for this GPU and for {OTHER_TARGET}")


def _verify(night: Night) -> bool:
    if _skipped(night, "verify"):
        return True
    command = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "tests/tk_kernels"]
    if not _done(night, "verify", command, VERIFY_SECONDS, "the kernels' tests pass on the GPU"):
        return False
    step, prebuilt = f"verify-{OTHER_TARGET}", night.options.prebuilt
    if prebuilt is not None and not any(prebuilt.glob(f"*-{OTHER_TARGET}-*")):
        night.say(step, f"not run, {prebuilt} has no kernels for {OTHER_TARGET}")
        return True
    command += ["--target", OTHER_TARGET]
    return _done(night, step, command, VERIFY_SECONDS, f"the same tests pass with the kernels for {OTHER_TARGET}")


def _experiment(night: Night, experiment: str) -> None:
    """Measures, compares with the nights before, and measures again what is slower."""
    folder = _measured(night, experiment, night.options.campaign, ())
    if folder is None or _skipped(night, "compare"):
        return
    try:
        new = load_run(folder)
        _require_passes(night, experiment, new)
        earlier = history(folder.parent.parent / night.options.against, new, night.options.last)
        if not earlier:
            night.say(experiment, "the first night: there is nothing to compare with")
            return
        comparison = compare(new, earlier, SUBJECTS)
        if comparison.exit_code == SUSPECTED:
            comparison = _again(night, experiment, comparison)
    except HarnessError as error:
        night.say(experiment, str(error), bad=True)
        return
    night.pages[experiment] = render(comparison)
    night.say(experiment, *_verdict(comparison))


def _require_passes(night: Night, experiment: str, run: Run) -> None:
    """Cases under test must have passed, on the first night too: a night without a built kernel is not quiet."""
    rows = run.measurements
    for row in rows[rows["implementation"].isin(SUBJECTS) & (rows["status"] != Status.PASSED)].itertuples():
        night.say(experiment, f"{row.implementation} on {row.problem} is {row.status}: {row.reason}", bad=True)
    if not rows["implementation"].isin(SUBJECTS).any():
        night.say(experiment, f"holds no case of {', '.join(SUBJECTS)}", bad=True)


def _again(night: Night, experiment: str, first: Comparison) -> Comparison:
    """The comparison with a second measurement of the problems in which something is slower."""
    slower = (*first.suspects, *first.unexplained)
    problems = f"problems=[{','.join(dict.fromkeys(problem_override(first, row) for row in slower))}]"
    night.say(experiment, f"{len(slower)} cases are slower, and are measured again")
    folder = _measured(night, experiment, f"{night.options.campaign}-again", (problems,))
    if folder is None:
        return first
    return compare(first.new, first.earlier, SUBJECTS, [load_run(folder)])


def _verdict(comparison: Comparison) -> tuple[str, bool]:
    """(the outcome in a few words, whether it is bad)."""
    counts = [
        (len(comparison.failures), "fail or are gone that passed before"),
        (len(comparison.regressions), "are slower in two measurements"),
        (len(comparison.suspects), "are slower, and a second measurement could not settle it"),
        (len(comparison.unexplained), "are slower on a machine that is not the same, while the controls are not"),
    ]
    bad = [f"{count} cases {what}" for count, what in counts if count]
    if not comparison.complete:
        bad.append("the run did not complete")
    if bad:
        return "; ".join(bad), True
    if comparison.exit_code == MISTAKE:
        return "nothing is compared: no case was timed alike before, as when an experiment has new problems", False
    assert comparison.exit_code == NOTHING
    compared = comparison.compared
    words = f"{compared} cases compared with {len(comparison.earlier)} earlier runs, none is slower"
    if comparison.suppressed:
        words = f"{compared} cases compared; no alarm is raised, because of {comparison.found[0]}"
    return words, False


def problem_override(comparison: Comparison, row: Row) -> str:
    """One problem as an item of the override `problems=[...]`, with its direction."""
    table = comparison.new.measurements
    stored = table[table["case_id"] == row.case_id].iloc[0]
    keys = [item.partition("=") for item in str(stored["problem"]).split(";")]
    words = [f"{key}: {value}" for key, _, value in keys] + [f"direction: {stored['direction']}"]
    return "{" + ", ".join(words) + "}"


def _measured(night: Night, experiment: str, campaign: str, overrides: Sequence[str]) -> Path | None:
    """The folder of a run of the experiment; None if it could not be stored."""
    if _skipped(night, "measure"):
        return None
    run_id, results = new_run_id(), night.options.results
    if results.is_relative_to(night.options.root):  # the harness runs there, and a manifest keeps the arguments
        results = results.relative_to(night.options.root)
    words = [
        f"experiment={experiment}",
        "device=cuda",
        f"campaign={campaign}",
        f"results_dir={results}",
        f"run_id={run_id}",
        "wandb=disabled",
        *night.options.overrides,
        *overrides,
    ]
    command = [sys.executable, "-m", "harness", *words]
    code = night.execute(f"measure-{campaign}-{experiment}", command, night.options.environment, MEASURE_SECONDS)
    folders = list(night.options.results.glob(f"*/{campaign}/{run_id}"))
    if not folders or code not in (0, 1):
        night.say(experiment, f"not measured, exit code {code}: {shlex.join(['python', *command[1:]])}", bad=True)
        return None
    if code:
        night.say(experiment, "a case failed: see the log and the table", bad=True)
    shutil.copytree(folders[0], night.options.report / "runs" / campaign / run_id)
    return folders[0]


def _done(night: Night, step: str, command: Sequence[str], seconds: float, good: str) -> bool:
    code = night.execute(step, [sys.executable, *command], night.options.environment, seconds)
    night.say(step, good if code == 0 else f"exit code {code}: {shlex.join(['python', *command])}", bad=code != 0)
    return code == 0


def _skipped(night: Night, step: str) -> bool:
    if step not in night.options.skip:
        return False
    line = f"- {step}: skipped as asked"
    if line not in night.said:
        night.said.append(line)
    return True


def write_report(night: Night) -> None:
    """`summary.md` with everything, and a page an experiment."""
    folder = night.options.report
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in night.pages.items():
        (folder / f"{name}.md").write_text(page)
    slowed = night.options.slowed
    head = ["# Night: " + ("not good" if night.failed else "good"), ""]
    if slowed is not None:
        head += [f"The build is slowed by {slowed:g} % on purpose.", ""]
    lines = [*head, *night.said, "", *(re.sub("^#", "##", page, flags=re.MULTILINE) for page in night.pages.values())]
    (folder / "summary.md").write_text("\n".join(lines).rstrip() + "\n")
