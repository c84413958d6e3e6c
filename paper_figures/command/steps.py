"""The steps of a reproduction that are other programs: building kernels, verifying and measuring with the harness."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from harness.records.naming import Contestant
from harness.records.places import CODE
from harness.records.provenance import Source, source
from harness.runs import ResultsError, Run, load_run
from paper_figures.command.kept_runs import QUICK, Place, absent, installed_since, newest_run, settings
from paper_figures.errors import PaperFiguresError
from paper_figures.labels import OURS
from paper_figures.recorded.campaign import ROOT
from paper_figures.recorded.configuration import CONFIGS, composed
from paper_figures.shown.exhibit import Exhibit

OK, CASES_FAILED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes of the harness: all passed; a case failed and its row says why; wrong arguments; interrupted."""

STORING_SECONDS = 30
"""How long an interrupted process may take to store what it has."""
ENDING_SECONDS = 10
"""How long a process of the harness may take to end when there is nothing left to do."""

START_SECONDS = 6.0
"""What a run takes before its first problem and after its last: asking who can run, the machine's roofs, storing."""
VERIFYING_SECONDS = 0.3
"""A small problem's verification on the CPU: 79 took 22 s with one start, on two cores that others used too."""
REPORT_SECONDS = 45.0
"""The report of all exhibits on one campaign: two took 85 s there."""
VERIFICATION = "outputs/verification"
"""Where runs without times go, within the repository: they are no results."""


@dataclass(frozen=True)
class Step:
    """A process to run: what it does, for the reader, and its command line."""

    title: str
    command: tuple[str, ...]
    resumes: bool = False
    """Whether it goes on with an unfinished run, which the harness may refuse."""
    harness_words: tuple[str, ...] | None = None
    """For a command of the harness, the words behind `python -m harness`."""

    @property
    def shown(self) -> str:
        """The command as one would type it."""
        return shlex.join(("python", *self.command[1:]))


def _harness_step(title: str, words: tuple[str, ...], resumes: bool = False) -> Step:
    """A command of the harness."""
    return Step(title, _python("-m", "harness", *words), resumes, words)


def build_step(target: str, kernels: Sequence[str] = ()) -> Step:
    """Compiles kernels for a target, every one where none is named; instant where the cache has them."""
    title = f"build {', '.join(kernels) or 'the kernels'} for {target}"
    return Step(title, _python("-m", "tk_kernels.toolchain", "build", *kernels, "--target", target))


def verified_kernels(exhibits: Sequence[Exhibit]) -> tuple[str, ...]:
    """The kernels that verifying these exhibits without a GPU loads, by name."""
    from harness.plan.planning import make_plan  # which a report does without
    from harness.plan.said import kernels

    found: dict[str, None] = {}
    for exhibit in exhibits:
        own = [str(one) for one in verified_contestants(exhibit)]
        problems = [dict(problem) for problem in exhibit.small_problems]
        config = composed(exhibit.id)
        plan = make_plan({**config, "implementations": own, "problems": problems})
        found.update(dict.fromkeys(kernels(plan, OURS, "cpu")))
    return tuple(found)


def verified_contestants(exhibit: Exhibit) -> tuple[Contestant, ...]:
    """What is verified without a GPU: our kernel in all its variants. Baselines need not support the small problems."""
    return tuple(one for one in exhibit.load_experiment().contestants if one.implementation == OURS)


def verify_step(exhibit: Exhibit) -> Step:
    """Verifies the kernels of an exhibit on the CPU, on its small problems."""
    own = verified_contestants(exhibit)
    return _harness_step(
        f"verify the kernels of {exhibit.where} on the cpu target",
        (
            f"experiment={exhibit.id}",
            "device=cpu",
            "campaign=verify",
            f"problems={_hydra_list([_hydra_mapping(problem) for problem in exhibit.small_problems])}",
            f"implementations={_hydra_list([json.dumps(str(one)) for one in own])}",
            "profile=null",
            "wandb=disabled",
            f"results_dir={VERIFICATION}",
        ),
    )


def passed_cases(exhibit: Exhibit, root: Path = ROOT) -> int:
    """How many cases passed in the newest verification of an exhibit; 0 where there is none that can be read."""
    run = _newest_verification(exhibit, root)
    return 0 if run is None else int((run.measurements["status"] == "passed").sum())


def not_passed(exhibit: Exhibit, root: Path = ROOT) -> list[str]:
    """The cases that did not pass in the newest verification of an exhibit, each with its reason."""
    run = _newest_verification(exhibit, root)
    rows = [] if run is None else run.measurements.to_dict("records")
    return [
        f"{Contestant(row['implementation'], row['variant'])} at {row['problem']}: {row['status']}, {row['reason']}"
        for row in rows
        if row["status"] != "passed"
    ]


def _newest_verification(exhibit: Exhibit, root: Path) -> Run | None:
    """The newest run that can be read, of those that verified an exhibit."""
    for folder in sorted((root / VERIFICATION).glob("cpu/verify/*"), key=lambda path: path.name, reverse=True):
        try:
            run = load_run(folder)
        except ResultsError:
            continue
        if run.manifest.get("experiment") == exhibit.id:
            return run
    return None


def measure_step(exhibit: Exhibit, place: Place, quick: bool, resume: bool = True) -> Step | None:
    """Measures an exhibit's experiment, resumes the run of it that was left unfinished, or None if one is kept.

    Only runs of this campaign, GPU, code and settings count, and a complete one only if nobody who was absent then is
    installed now.  `quick` takes the exhibit's quick problems and contestants where it names any, and no profiler.
    """
    experiment = exhibit.id
    found = newest_run(exhibit, place, quick)
    again = ""
    if found is not None and resume:
        again = found.refusal
        if not again and not found.complete:
            return _harness_step(f"resume {exhibit.where}", (f"resume={found.folder}",), resumes=True)
        if not again:
            came = installed_since(experiment, absent(found.folder))
            if not came:
                return None
            again = f"lacks {', '.join(came)}, installed since"
    words = (f"experiment={experiment}", "device=cuda", f"campaign={place.campaign}", f"results_dir={place.results}")
    title = f"verify and measure {exhibit.where}: {exhibit.title}"
    if found is not None and again:
        title += f" (again: {found.folder.name} {again})"
    return _harness_step(title, (*words, *(_quick_words(exhibit) if quick else ())))


def _quick_words(exhibit: Exhibit) -> tuple[str, ...]:
    words = [f"{key}={value}" for key, value in QUICK.items()]
    if exhibit.quick_problems:
        words.append(f"problems={_hydra_list([_hydra_mapping(problem) for problem in exhibit.quick_problems])}")
        words.append(f"implementations={_hydra_list([json.dumps(name) for name in exhibit.quick_contestants])}")
    return (*words, "profile=null")


def run_step(step: Step, harness: Harness | None = None) -> int:
    """Runs a step with its own output on the terminal; returns its exit code, 130 for an interrupted one.

    harness: runs the commands that are the harness's; without it each is a process of its own.
    """
    if harness is not None and step.harness_words is not None:
        return harness.run(step.harness_words)
    try:
        process = subprocess.Popen(step.command, cwd=ROOT, env=_environment())
    except OSError as error:
        raise PaperFiguresError(f"cannot {step.title}: {step.command[0]} does not start ({error})") from None
    try:
        return process.wait()
    except KeyboardInterrupt:
        return _interrupted(process)


class Harness:
    """A process that runs the harness's commands one after the other, so that what starting costs is paid once.

    It starts with the first command, and again after it has ended or the sources have changed, which it would not see.
    log: a file that takes what it says, which else is said on the terminal.  Use as a context manager.
    """

    def __init__(self, log: Path | None = None) -> None:
        self._running: _Running | None = None
        self._log = log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, words: Sequence[str]) -> int:
        """Runs a command with its output on the terminal; returns its exit code, 130 for an interrupted one."""
        now = source()
        if self._running is not None and (self._running.process.poll() is not None or self._running.source != now):
            self._end()
        self._running = running = self._running or _start_harness(now, self._log)
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended: that is its answer
                running.commands.write(f"{shlex.join(words)}\n")
                running.commands.flush()
            answer = running.answers.readline()
        except KeyboardInterrupt:
            self._close_commands()  # so that it does not wait for another one
            code = _interrupted(running.process)
            self._end()
            return code
        if answer:
            return int(answer)
        code = running.process.wait()
        self._end()
        return code or CASES_FAILED

    def _end(self) -> None:
        """Has the process end, and forgets it."""
        if self._running is None:
            return
        self._close_commands()
        try:
            self._running.process.wait(timeout=ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._running.process.kill()
            self._running.process.wait()
        self._running.answers.close()
        self._running = None

    def _close_commands(self) -> None:
        if self._running is not None:
            with contextlib.suppress(BrokenPipeError):  # a command that it did not live to read
                self._running.commands.close()


@dataclass(frozen=True)
class _Running:
    """A process of the harness: the pipe that takes commands, and the one that gives exit codes."""

    process: subprocess.Popen[str]
    commands: IO[str]
    answers: IO[str]
    source: Source
    """What the sources were when it started."""


def _start_harness(now: Source, log: Path | None) -> _Running:
    mine, theirs = os.pipe()
    command = _python("-m", "harness", "batch", "--answers", str(theirs))
    try:
        with contextlib.ExitStack() as opened:
            said = opened.enter_context(log.open("a")) if log else None
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                pass_fds=(theirs,),
                text=True,
            )
    except OSError as error:
        os.close(mine)
        raise PaperFiguresError(f"cannot start the harness: {command[0]} does not start ({error})") from None
    finally:
        os.close(theirs)  # so that its end is seen here as the end of the pipe
    assert process.stdin is not None
    return _Running(process, process.stdin, os.fdopen(mine), now)


def _interrupted(process: subprocess.Popen[Any]) -> int:
    """Waits while a process stores what it has, which got Ctrl-C from the terminal too."""
    try:
        process.wait(timeout=STORING_SECONDS)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        process.kill()
        process.wait()
    return INTERRUPTED


def _environment() -> dict[str, str]:
    """That of a step's process: it finds the repository's packages."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(CODE), os.environ.get("PYTHONPATH")]))}


def estimated_minutes(exhibits: Sequence[Exhibit], timed: bool, quick: bool = False, configs: Path = CONFIGS) -> float:
    """About how long the harness takes: with times from its own estimate of a case and the timer's budget, without
    them for one start and the small problems.
    """
    if timed:
        return sum(_measuring_seconds(exhibit, quick, configs) for exhibit in exhibits) / 60
    return (START_SECONDS + VERIFYING_SECONDS * sum(len(exhibit.small_problems) for exhibit in exhibits)) / 60


def _measuring_seconds(exhibit: Exhibit, quick: bool, configs: Path) -> float:
    """One run: its start, and of each problem the cases' preparation, the warm-up and the timer's whole budget."""
    from harness.plan.planning import make_plan  # which a report does without

    config = {**composed(exhibit.id, configs), **settings(exhibit, quick, configs)}
    return 60 * make_plan(config).estimated_minutes(timed=True)


LEAST_CAPABILITY = (8, 0)
"""What kernels are built for GPUs of, and newer ones."""
FULL_CAPABILITY = (9, 0)
"""What all kernels are built for: Hopper. Other GPUs run those for Ampere."""


@dataclass(frozen=True)
class Gpu:
    """The first GPU: its name as the driver reports it, and its compute capability."""

    name: str
    capability: tuple[int, int]

    @property
    def too_old(self) -> bool:
        """Whether no kernel runs on it."""
        return self.capability < LEAST_CAPABILITY

    @property
    def runs_all(self) -> bool:
        """Whether every kernel runs on it."""
        return self.capability == FULL_CAPABILITY


def find_gpu() -> Gpu | None:
    """The first GPU, or None where there is none, or none is visible."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no driver, no library: the binding has one error class a cause
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        return Gpu(pynvml.nvmlDeviceGetName(handle), (major, minor))
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _python(*words: str) -> tuple[str, ...]:
    return (sys.executable, *words)


def _hydra_list(items: Sequence[str]) -> str:
    return f"[{','.join(items)}]"


def _hydra_mapping(problem: Mapping[str, int | str]) -> str:
    return "{" + ",".join(f"{key}:{value}" for key, value in problem.items()) + "}"
