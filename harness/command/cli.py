"""The command line: composes the Hydra configuration, runs the jobs, and maps each outcome to a message and an exit
code.

0: every case passed or cannot run here; 1: a case failed, none could run, or the run could not be stored; 2: the
user's mistake; 130: interrupted.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness import runs as results
from harness.command import cluster
from harness.command.console import Screen
from harness.command.publish import publish
from harness.command.runner import run_job
from harness.measure.supervisor import Worker
from harness.plan.planning import make_plan
from harness.records.errors import HarnessError, one_line
from harness.records.places import CONFIGS as CONFIG_DIR
from harness.records.provenance import new_run_id
from harness.runs.invocation import Invocation

_HYDRA_FLAGS = ("--hydra-help", "--cfg", "-c", "--info", "-i", "--version", "--shell-completion", "-sc")
"""Requests that Hydra answers by itself: no run is made."""
OBJECTIONS = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError)
"""What is raised where a configuration cannot be composed. ValueError: a group is given a number or null."""
_RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
"""Readers skip folders whose names begin with a dot: they are being written."""


def main(argv: Sequence[str] | None = None, worker: Worker | None = None) -> int:
    """Runs the command with these arguments (the process's own by default) and gives its exit code.

    worker: kept from earlier commands, if any; else a new one.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    screen = Screen()
    try:
        if not __debug__:
            raise HarnessError("Hydra reads no list or mapping under python -O: unset PYTHONOPTIMIZE")
        invocation = _invocation(arguments)
        invocation.worker = worker or invocation.worker
        invocation.on_event = screen.event
        return _run(invocation, screen)
    except HarnessError as error:
        return _say(str(error), error.exit_code)
    except KeyboardInterrupt:  # before the sweep, or again while an interruption is being reported
        return _say("interrupted", 130)


def _invocation(arguments: list[str]) -> Invocation:
    """A new run, or with `resume=<run>` the run that the folder holds, with its own arguments and any further ones."""
    resumed = [word.partition("=")[2] for word in arguments if word.startswith("resume=")]
    further = [word for word in arguments if not word.startswith("resume=")]
    named = [word.partition("=")[2] for word in further if word.startswith("run_id=")]
    if not resumed:
        if named and not _RUN_ID.fullmatch(named[-1]):
            raise HarnessError(
                f"run_id is {named[-1]!r}, needs a plain folder name: letters, digits, '-', '_' and '.', no '.' first"
            )
        return Invocation(named[-1] if named else new_run_id(), tuple(further))
    folder = Path(resumed[-1])
    manifest = results.load_manifest(folder)
    kept = [word for word in manifest.get("arguments", []) if not word.startswith("run_id=")]
    return Invocation(str(manifest.get("multirun", manifest["run_id"])), (*kept, *further), folder)


def _run(invocation: Invocation, screen: Screen) -> int:
    with _Interrupts() as interrupts:
        code = _sweep(invocation, screen, interrupts)
    return _mirror(invocation, code, held=interrupts.held is not None)


def _sweep(invocation: Invocation, screen: Screen, interrupts: _Interrupts) -> int:
    """Runs the jobs and closes the run folder, which no interruption disturbs; gives the exit code."""
    status, code = "failed", 1
    try:
        with screen:
            if cluster.launcher(invocation.arguments):
                _spread(invocation, screen)
            else:
                _hydra(invocation, lambda config: _job(config, invocation, screen))
        interrupts.hold = True
        status, code = "completed", 1 if invocation.failures else 0
        if invocation.did_not_run and not invocation.ran:
            code = _say(f"nothing could run here: {'; '.join(dict.fromkeys(invocation.did_not_run))}", 1)
    except KeyboardInterrupt:
        interrupts.hold = True
        status = "interrupted"
        if invocation.store is None:
            code = _say("interrupted; nothing had been stored", 130)
        else:
            code = _say(f"interrupted; what was measured is stored; go on with: {invocation.resume_command}", 130)
    except HarnessError as error:
        advice = f"; go on with: {invocation.resume_command}" if invocation.folders and error.exit_code == 1 else ""
        code = _say(f"{error}{advice}", error.exit_code)
    finally:
        interrupts.hold = True
        try:
            invocation.close(status)
        except HarnessError as error:  # the disk is full: the data before it are safe
            code = _say(str(error), code or 1)
    if invocation.store is not None:
        screen.account(invocation.store)
    return code


def _spread(invocation: Invocation, screen: Screen) -> None:
    """Has each point measured by a job of its own, and says what they stored, also when not all of them did."""
    order = cluster.order_of(invocation, str(OmegaConf.load(CONFIG_DIR / "config.yaml").results_dir))
    shutil.rmtree(order.logs, ignore_errors=True)  # of a command before
    screen.status(f"waiting for the jobs; their logs are in {order.logs / 'submitit'}")
    ended: list[HarnessError] = []
    try:
        _hydra(invocation, cluster.task(order, _point), remote=True)
    except HarnessError as error:
        ended.append(error)
        cluster.wait_for_jobs(order)  # the launcher does not wait for the others
    except KeyboardInterrupt:
        raise HarnessError(f"interrupted; jobs may still run and store in {order.results_dir}", 130) from None
    invocation.made_by_jobs = order.runs()
    for folder in invocation.made_by_jobs:
        run = results.load_run(folder)
        screen.of_a_job(run)
        invocation.last_config = run.manifest["config"]
        invocation.count(run.measurements.itertuples())
    ended = [*cluster.mistakes(order), *ended]
    if ended:
        raise ended[0]
    invocation.ran += len(order.stored)
    shutil.rmtree(order.logs, ignore_errors=True)


def _point(config: DictConfig, invocation: Invocation) -> None:
    """What a job of a cluster does: one point, shown in the job's log."""
    with Screen() as screen:
        invocation.on_event = screen.event
        _job(config, invocation, screen)


def _job(config: DictConfig, invocation: Invocation, screen: Screen) -> None:
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    overrides = [word for word in HydraConfig.get().overrides.task if not word.startswith("run_id=")]
    settings = {str(key): value for key, value in plain.items()}
    if isinstance(settings.get("device"), Mapping):
        invocation.supervisor(settings["device"]).begin()  # it imports torch while planning does
    with invocation.ledger.during("start"):
        plan = make_plan(settings, overrides)
    run_job(plan, settings, invocation, screen)


def _hydra(invocation: Invocation, task: Callable[[DictConfig], None], *, remote: bool = False) -> None:
    """Composes the configuration and calls the task once a job; what Hydra objects to is a `HarnessError`.

    remote: a launcher sends the task to other processes, and raises whatever it likes when one does not return.
    """
    own = [] if any(word in invocation.arguments for word in _HYDRA_FLAGS) else [f"run_id={invocation.run_id}"]
    words = [word for word in invocation.arguments if not word.startswith("run_id=")]
    raised: list[BaseException] = []

    def job(config: DictConfig) -> None:
        try:
            task(config)
        except Exception as error:  # Hydra would wrap it, or in a multirun collect it and go on
            raised.append(error)
            raise SystemExit(1) from error

    sent = task if remote else job
    decorated = hydra.main(version_base="1.3", config_path=str(CONFIG_DIR), config_name="config")(sent)
    before, sys.argv = sys.argv, ["harness", *words, *own]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # its exceptions whole instead of printed
    try:
        with warnings.catch_warnings():
            # Our files of the launchers have the names of the plugin's, whose types they are checked against.
            warnings.filterwarnings("ignore", message=r"\s*'hydra/launcher/.*validated against ConfigStore schema")
            decorated()
    except OBJECTIONS as error:
        raise HarnessError(sentence(error)) from error
    except SystemExit as end:
        if raised:
            raise raised[0] from None
        if end.code not in (None, 0):
            raise HarnessError("the arguments cannot be read, see above", 2) from None
    except Exception as error:
        if not remote:
            raise
        raise HarnessError(f"a job did not come back: {' '.join(str(error).split())}", exit_code=1) from error
    finally:
        sys.argv = before


def sentence(error: BaseException) -> str:
    """An objection of Hydra's in one line."""
    if isinstance(error, OverrideParseException):
        quoted = "'implementations=[\"tk[stages=2]\",cublas]'"
        return f"{error.override} is no key=value: quote what holds brackets, commas or other letters, {quoted}"
    group = ": name a file of configs/, as in timer=cuda_events" if type(error) is ValueError else ""
    return f"{one_line(error)}{group}; see --help"


class _Interrupts:
    """Ctrl-C, and SIGTERM, which batch systems send: each is a KeyboardInterrupt, or while `hold` is set only noted."""

    def __init__(self) -> None:
        self.hold = False
        self.held: int | None = None

    def __enter__(self) -> Self:
        # In another thread, as a notebook's or a server's, Python lets nobody listen.
        heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self._before = {number: signal.getsignal(number) for number in heard}
        for number, handler in self._before.items():
            if handler != signal.SIG_IGN:  # a job in the background is not Ctrl-C's concern
                signal.signal(number, self._arrived)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _arrived(self, number: int, frame: object) -> None:
        if not self.hold:
            raise KeyboardInterrupt
        self.held = number


def _mirror(invocation: Invocation, code: int, *, held: bool) -> int:
    """Publishes the stored runs to wandb; the results are safe whatever comes of it.  Gives the exit code.

    held: Ctrl-C came while the run was being closed, perhaps the second one: leaves at once.
    """
    folders, settings = invocation.folders, invocation.last_config.get("wandb")
    if not folders or settings is None or settings["mode"] == "disabled":
        return _say("interrupted; the run is stored", 130) if held and folders and code != 130 else code
    try:
        with _Interrupts():
            if held:
                raise KeyboardInterrupt
            for folder in folders:
                publish(folder, **settings)
        return code
    except KeyboardInterrupt:
        code, reason = 130, "interrupted"
    except Exception as error:  # a mirror: network, login and disk are its troubles, not the run's
        reason = one_line(error)
    later = "; ".join(f"python -m harness.publish {shlex.quote(str(folder))}" for folder in folders)
    return _say(f"the run is stored but not mirrored to wandb ({reason}); later: {later}", code)


def _say(text: str, exit_code: int) -> int:
    print(text, file=sys.stderr)
    return exit_code
