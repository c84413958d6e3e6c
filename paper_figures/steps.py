"""The steps of a reproduction that are other programs: building kernels, verifying and measuring with the harness."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.results import ResultsError, load_run
from paper_figures.campaign import ROOT
from paper_figures.cases import CONFIGS, Contestant
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibit import Exhibit
from paper_figures.keeping import QUICK, Place, absent, installed_since, newest_run, settings

OK, CASES_FAILED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes of the harness: all passed; a case failed and its row says why; wrong arguments; interrupted."""

STORING_SECONDS = 30
"""How long an interrupted process may take to store what it has."""

START_SECONDS = 9.0
"""What a run takes before its first problem and after its last: starting the worker, the machine's roofs, storing."""
RUN_MIB = 0.25
"""A run's folder at most: 3000 samples a case, as recorded."""
REPORT_MIB_A_CASE = 0.03
"""A case of the report: its details on the page and its samples as text, as recorded."""
BUILD_MIB = 30
"""The kernels of one target in their cache, as built."""
VERIFICATION = "outputs/verification"
"""Where runs without times go, within the repository: they are no results."""


@dataclass(frozen=True)
class Step:
    """A process to run: what it does, for the reader, and its command line."""

    title: str
    command: tuple[str, ...]
    resumes: bool = False
    """Whether it goes on with an unfinished run, which the harness may refuse."""

    @property
    def shown(self) -> str:
        """The command as one would type it."""
        return shlex.join(("python", *self.command[1:]))


def build_step(target: str) -> Step:
    """Compiles every kernel for a target; instant where the cache has it."""
    return Step(f"build the kernels for {target}", _python("-m", "tk_kernels.toolchain", "build", "--target", target))


def verified_contestants(exhibit: Exhibit) -> tuple[Contestant, ...]:
    """What is verified without a GPU: our kernel in all its variants. Baselines need not support the small problems."""
    return tuple(one for one in exhibit.load_experiment().contestants if one.implementation == "tk")


def verify_step(exhibit: Exhibit) -> Step:
    """Verifies the kernels of an exhibit on the CPU, on its small problems."""
    own = verified_contestants(exhibit)
    return Step(
        f"verify the kernels of {exhibit.where} on the cpu target",
        _python(
            "-m",
            "harness",
            f"experiment={exhibit.experiment or exhibit.id}",
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
    for folder in sorted((root / VERIFICATION).glob("cpu/verify/*"), key=lambda path: path.name, reverse=True):
        try:
            run = load_run(folder)
        except ResultsError:
            continue
        if run.manifest.get("experiment") == (exhibit.experiment or exhibit.id):
            return int((run.measurements["status"] == "passed").sum())
    return 0


def measure_step(exhibit: Exhibit, place: Place, quick: bool, resume: bool = True) -> Step | None:
    """Measures an exhibit's experiment, resumes the run of it that was left unfinished, or None if one is kept.

    Only runs of this campaign, GPU, code and settings count, and a complete one only if nobody who was absent then is
    installed now.  `quick` takes the exhibit's quick problems and contestants where it names any, and no profiler.
    """
    experiment = exhibit.experiment or exhibit.id
    found = newest_run(exhibit, place, quick)
    again = ""
    if found is not None and resume:
        again = found.refusal
        if not again and not found.complete:
            return Step(f"resume {exhibit.where}", _python("-m", "harness", f"resume={found.folder}"), resumes=True)
        if not again:
            came = installed_since(experiment, absent(found.folder))
            if not came:
                return None
            again = f"lacks {', '.join(came)}, installed since"
    words = (f"experiment={experiment}", "device=cuda", f"campaign={place.campaign}", f"results_dir={place.results}")
    title = f"verify and measure {exhibit.where}: {exhibit.title}"
    if found is not None and again:
        title += f" (again: {found.folder.name} {again})"
    return Step(title, _python("-m", "harness", *words, *(_quick_words(exhibit) if quick else ())))


def _quick_words(exhibit: Exhibit) -> tuple[str, ...]:
    words = [f"{key}={value}" for key, value in QUICK.items()]
    if exhibit.quick_problems:
        words.append(f"problems={_hydra_list([_hydra_mapping(problem) for problem in exhibit.quick_problems])}")
        words.append(f"implementations={_hydra_list([json.dumps(name) for name in exhibit.quick_contestants])}")
    return (*words, "profile=null")


def run_step(step: Step) -> int:
    """Runs a step with its own output on the terminal; returns its exit code, 130 for an interrupted one.

    The process gets Ctrl-C from the terminal too, and is waited for while it stores what it has.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    try:
        process = subprocess.Popen(step.command, cwd=ROOT, env=environment)
    except OSError as error:
        raise PaperFiguresError(f"cannot {step.title}: {step.command[0]} does not start ({error})") from None
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(timeout=STORING_SECONDS)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        return INTERRUPTED


def estimated_minutes(exhibits: Sequence[Exhibit], timed: bool, quick: bool = False, configs: Path = CONFIGS) -> float:
    """About how long the harness takes, from its own estimate of a case and the timer's budget."""
    if timed:
        return sum(_measuring_seconds(exhibit, quick, configs) for exhibit in exhibits) / 60
    case = float(_config(configs)["estimate"]["case_seconds"])
    return sum(case + len(exhibit.small_problems) for exhibit in exhibits) / 60  # starting, then a second a problem


def _measuring_seconds(exhibit: Exhibit, quick: bool, configs: Path) -> float:
    """One run: its start, and of each problem the cases' preparation, the warm-up and the timer's whole budget."""
    experiment = exhibit.load_experiment()
    own = yaml.safe_load((configs / "experiment" / f"{experiment.name}.yaml").read_text())
    asked = settings(exhibit, quick, configs)
    timer, contestants = asked["timer"], len(asked["implementations"])
    problems = len((quick and exhibit.quick_problems) or experiment.problems)
    case = float({**_config(configs)["estimate"], **(own.get("estimate") or {})}["case_seconds"])
    timing = float(timer["warmup_seconds"]) + float(timer["budget_seconds"])
    return START_SECONDS + problems * (contestants * (case + 2 * float(timer["settled_seconds"])) + timing)


def estimated_mib(exhibits: Sequence[Exhibit]) -> tuple[float, float]:
    """About how much disk the runs and the report take, and the kernels' cache, in MiB."""
    cases = 0
    for exhibit in exhibits:
        experiment = exhibit.load_experiment()
        cases += len(experiment.problems) * len(experiment.contestants)
    return len(exhibits) * RUN_MIB + cases * REPORT_MIB_A_CASE, BUILD_MIB


def _config(configs: Path) -> Any:
    return yaml.safe_load((configs / "config.yaml").read_text())


def hopper_gpu() -> str | None:
    """The name of the first GPU if it is a Hopper (compute capability 9.0), else None."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no driver, no library: the binding has one error class a cause
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        if tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)) != (9, 0):
            return None
        name = pynvml.nvmlDeviceGetName(handle)
        return name.decode() if isinstance(name, bytes) else str(name)
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
