"""The command: Hydra around `run_job`, and every way it can end as one sentence and an exit code.

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
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import hydra
import yaml
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness import cluster, results
from harness.console import Screen
from harness.errors import HarnessError, one_line
from harness.help import FLAGS, help_text
from harness.invocation import Invocation
from harness.naming import closest, nearest
from harness.places import CHECKOUT, CODE
from harness.places import CONFIGS as CONFIG_DIR
from harness.planning import make_plan
from harness.provenance import new_run_id, utc_now
from harness.publish import publish
from harness.records import FAILURES, IDLE
from harness.runner import run_job
from harness.store import Store
from harness.worker.supervisor import Worker

_HYDRA_FLAGS = ("--hydra-help", "--cfg", "-c", "--info", "-i", "--version", "--shell-completion", "-sc")
"""Requests that Hydra answers by itself: no run is made."""
_DELETED = re.compile(r"Could not delete from config\. '([^']+)' does not exist")
_KEY = re.compile(r"[+~]{0,2}[A-Za-z_][A-Za-z0-9_./@:-]*")
_QUOTES = "'\""
_RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
"""Readers take a folder whose name begins with a dot for one that is being made."""


def main(argv: Sequence[str] | None = None, worker: Worker | None = None) -> int:
    """Runs the command with these arguments (the process's own by default) and gives its exit code.

    worker: of the commands before, if it is kept; one of its own otherwise.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    screen = Screen()
    try:
        if any(word in FLAGS for word in arguments):
            print(help_text(arguments))
            return 0
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
    if len(resumed) > 1:
        raise HarnessError("resume is given twice: one run is resumed at a time")
    if named:
        raise HarnessError("resume and run_id exclude each other: a resumed run keeps its name")
    folder = Path(resumed[0])
    try:
        manifest = results.load_manifest(folder)
    except results.ResultsError as error:
        raise HarnessError(f"resume={resumed[0]}: {error}") from None
    kept = [word for word in manifest.get("arguments", []) if not word.startswith("run_id=")]
    return Invocation(str(manifest["run_id"]), (*kept, *further), folder)


def _run(invocation: Invocation, screen: Screen) -> int:
    with _Interrupts() as interrupts:
        code = _sweep(invocation, screen, interrupts)
    if interrupts.held is None or invocation.store is None:
        return _mirror(invocation, code)
    if _mirrored(invocation):  # Ctrl-C while the run was being closed, perhaps the second one: leave at once
        return _say(_not_mirrored(invocation, "interrupted"), 130)
    return code if code == 130 else _say("interrupted; the run is stored", 130)


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
            screen.unfinished()
            code = _say(f"interrupted; what was measured is stored; go on with: {invocation.resume_command}", 130)
    except HarnessError as error:
        advice = f"; go on with: {invocation.resume_command}" if invocation.store and error.exit_code == 1 else ""
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
    """Has each point measured by a job of its own, and merges what they stored, also when not all of them did."""
    defaults = OmegaConf.to_container(OmegaConf.load(CONFIG_DIR / "config.yaml"))
    assert isinstance(defaults, dict)
    order = cluster.order_of(invocation, str(defaults["results_dir"]))
    results_dir = order.parts.parents[1]
    if order.parts.exists():  # left by an invocation that was killed
        for store in cluster.merge(order.parts, results_dir):
            store.__exit__()
        shutil.rmtree(order.parts, ignore_errors=True)
    screen.status(f"waiting for the jobs; their logs are in {order.parts / 'submitit'}")
    ended: list[HarnessError] = []
    try:
        _hydra(invocation, cluster.task(order, _part), remote=True)
    except HarnessError as error:
        ended.append(error)
        cluster.wait_for_jobs(order.parts)  # the launcher does not wait for the others
    except KeyboardInterrupt:
        later = f"python -m harness.cluster {shlex.quote(str(order.parts))}"
        raise HarnessError(f"interrupted; jobs may still run; merge what they store with: {later}", 130) from None
    ended = [*cluster.mistakes(order.parts), *ended]
    stores = cluster.merge(order.parts, results_dir)
    if not stores and invocation.folder is not None:
        stores = [Store.reopen(invocation.folder)]  # nothing was missing
    for store in stores:
        rows = results.load_run(store.folder).measurements
        screen.merged(store, rows["status"].value_counts().to_dict())
        invocation.failures += int(rows["status"].isin([str(status) for status in FAILURES]).sum())
        idle = rows[rows["status"].isin([str(status) for status in IDLE])]
        invocation.did_not_run += [f"{row.implementation}: {row.reason}" for row in idle.itertuples()]
        invocation.ran += len(rows) - len(idle)
        if invocation.store is not None:  # a run of another board, complete as it is
            invocation.store.update(status="completed", ended_utc=utc_now())
            invocation.store.__exit__()
        invocation.take_over(store)
    if ended:
        raise ended[0]
    shutil.rmtree(order.parts, ignore_errors=True)


def _part(config: DictConfig, invocation: Invocation) -> None:
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

    if not CONFIG_DIR.is_dir():
        raise HarnessError(
            f"{CONFIG_DIR} is missing: install a wheel of the project again, or run in a checkout, with its configs/"
        )
    flags = get_args_parser().parse_known_args(words)[1] if own else []
    if flags:
        raise HarnessError(f"{flags[0]} is unknown: give key=value, or --help for what there is")
    sent = task if remote else job
    decorated = hydra.main(version_base="1.3", config_path=str(CONFIG_DIR), config_name="config")(sent)
    with _as_process(["harness", *words, *own]), warnings.catch_warnings():
        # Our files of the launchers have the names of the plugin's, whose types they are checked against.
        warnings.filterwarnings("ignore", message=r"\s*'hydra/launcher/.*validated against ConfigStore schema")
        try:
            decorated()
        except (HydraException, OmegaConfBaseException) as error:
            raise HarnessError(sentence(error)) from error
        except yaml.YAMLError as error:
            raise HarnessError(_unreadable(error)) from None
        except ValueError as error:  # Hydra's, for a group that is given a number or null
            which = f"name a file of {_shown(CONFIG_DIR)}/, as in timer=cuda_events"
            raise HarnessError(f"{sentence(error)}: {which}") from error
        except SystemExit as end:
            if raised:
                raise raised[0] from None
            if end.code not in (None, 0):
                raise HarnessError("the arguments cannot be read, see above", 2) from None
        except Exception as error:
            if not remote:
                raise
            raise HarnessError(f"a job did not come back: {' '.join(str(error).split())}", exit_code=1) from error


def sentence(error: BaseException) -> str:
    """Hydra's and OmegaConf's objections in a sentence that says what to do."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        options = sorted(error.options or [])
        return f"{group}={choice} is no choice: there is {', '.join(options)}{closest(choice, options)}"
    words = " ".join(str(error).split())
    if isinstance(error, OverrideParseException):
        key, equals, value = str(error.override or "").partition("=")
        if error.override and not equals:
            return f"{error.override} is no key=value: give one, or --help for what there is"
        if not _KEY.fullmatch(key):
            return f"{key!r} is no key: see --help for what there is"
        if value and not set("[]{}(),") & set(value):
            quoted = f'{key}="{value.strip(_QUOTES)}"'
            return f"{words}: quote the value, {shlex.quote(quoted)}"
        return f"{words}: quote what holds brackets or commas, 'implementations=[\"tk[stages=2]\",cublas]'"
    if isinstance(error, ConfigCompositionException) and error.__cause__ is not None:
        cause = " ".join(str(error.__cause__).split("\n")[0].split())
        near = _near_key(error.__cause__, words)
        there = _keys_there(error.__cause__) if not near else ""
        where = there or f"see {_shown(CONFIG_DIR / 'config.yaml')} for the keys"
        return f"{words.partition(' To append')[0].rstrip('.')} ({cause}); {where}{near}"
    if deleted := _DELETED.match(words):
        file = CONFIG_DIR / "config.yaml"
        known = [str(key) for key in yaml.safe_load(file.read_text())]
        return f"{words.rstrip('.')}; see {_shown(file)} for the keys{closest(deleted[1], known, '~')}"
    return words


def _unreadable(error: yaml.YAMLError) -> str:
    """A file of configs/ that is no YAML: which, where, and what is wrong there."""
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:
        return f"a file of configs/ cannot be read: {one_line(error)}"
    return f"{_shown(Path(mark.name))}, line {mark.line + 1}: {error.problem or 'this is no YAML'}"


def _shown(path: Path) -> str:
    """A path as one would type it: in a checkout from its root."""
    return str(path.relative_to(CODE)) if CHECKOUT and path.is_relative_to(CODE) else str(path)


def _near_key(error: BaseException, words: str) -> str:
    """`; did you mean X?` for a key that the configuration has not, where it has one like it, of as many parts.

    words: Hydra's, which quote the key as it was given; the error has it up to the part that is not there.
    """
    key, parent = getattr(error, "key", None), getattr(error, "parent_node", None)
    given = re.search(r"'([^']+)'", words)
    if not isinstance(key, str) or not isinstance(parent, DictConfig) or not given:
        return ""
    whole = str(getattr(error, "full_key", "") or key)
    prefix = whole.removesuffix(key)
    known = OmegaConf.to_container(parent, resolve=False)
    assert isinstance(known, dict)
    if not prefix:
        known = {**dict.fromkeys(("resume", *_groups())), **known}
    found = _near_path([key, *given[1].removeprefix(whole).split(".")[1:]], known)
    return f"; did you mean {prefix}{found}?" if found else ""


def _keys_there(error: BaseException) -> str:
    """`problem has M, N, K`, for a key within a group, whose keys config.yaml does not have; else empty."""
    key, parent = getattr(error, "key", None), getattr(error, "parent_node", None)
    group = str(getattr(error, "full_key", "") or "").removesuffix(f".{key}")
    if not isinstance(parent, DictConfig) or not len(parent) or group == getattr(error, "full_key", ""):
        return ""
    return f"{group} has {', '.join(map(str, parent))}"


def _near_path(parts: Sequence[str], known: object) -> str:
    """The key of these parts, each corrected to one that there is; empty where one is like none."""
    near = nearest(parts[0], [str(one) for one in known]) if isinstance(known, dict) else None
    if near is None or not isinstance(known, dict):
        return ""
    below = _near_path(parts[1:], known[near]) if parts[1:] else ""
    return f"{near}.{below}" if below else "" if parts[1:] else near


def _groups() -> list[str]:
    """The folders of configs/ from which one file is chosen: `timer`, `hydra/launcher`."""
    return sorted({path.parent.relative_to(CONFIG_DIR).as_posix() for path in CONFIG_DIR.glob("*/**/*.yaml")})


@contextmanager
def _as_process(words: list[str]) -> Iterator[None]:
    """sys.argv as Hydra reads it, and its exceptions whole instead of printed."""
    before, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = words, "1"
    try:
        yield
    finally:
        sys.argv = before
        if full is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full


class _Interrupts:
    """Ctrl-C, and SIGTERM, which batch systems send: each is a KeyboardInterrupt, or while `hold` is set only noted."""

    def __init__(self) -> None:
        self.hold = False
        self.held: int | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
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


def _mirrored(invocation: Invocation) -> bool:
    """Whether there is a run to publish, and it was asked for."""
    settings = invocation.last_config.get("wandb")
    return invocation.store is not None and settings is not None and settings["mode"] != "disabled"


def _mirror(invocation: Invocation, code: int) -> int:
    """Publishes the stored run to wandb; the results are safe whatever comes of it.  Gives the exit code."""
    if not _mirrored(invocation):
        return code
    assert invocation.store is not None
    try:
        with _Interrupts():
            publish(invocation.store.folder, **invocation.last_config["wandb"])
    except KeyboardInterrupt:
        return _say(_not_mirrored(invocation, "interrupted"), 130)
    except Exception as error:  # a mirror: network, login and disk are its troubles, not the run's
        _say(_not_mirrored(invocation, one_line(error)), code)
    return code


def _not_mirrored(invocation: Invocation, reason: str) -> str:
    assert invocation.store is not None
    later = f"python -m harness.publish {shlex.quote(str(invocation.store.folder))}"
    return f"the run is stored but not mirrored to wandb ({reason}); later: {later}"


def _say(text: str, exit_code: int) -> int:
    print(text, file=sys.stderr)
    return exit_code
