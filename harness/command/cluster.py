"""A multirun spread over a cluster: each point is measured by a job of its own, into a run of its own.

    python -m harness -m hydra/launcher=submitit_slurm experiment=fig7_gemm,fig8_attention

The runs are called `<run>-<job>` and lie in the campaign's folder, or that of another board's campaign, where readers
take them together.  A group of contestants is timed by one job on one GPU, so that ratios are paired as ever.
"""

from __future__ import annotations

import importlib.util
import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from harness import runs as results
from harness.records.errors import HarnessError
from harness.runs.invocation import Invocation
from harness.runs.store import in_use

JOBS = ".jobs"
_LAUNCHER = "hydra/launcher="


@dataclass(frozen=True)
class Order:
    """What every job is told.  stored: the runs that jobs of this multirun made before, which is gone on with."""

    run_id: str
    arguments: tuple[str, ...]
    results_dir: Path
    stored: tuple[Path, ...] = ()

    @property
    def logs(self) -> Path:
        """Where jobs leave their logs and mistakes."""
        return self.results_dir / JOBS / self.run_id

    def runs(self) -> list[Path]:
        """The runs that jobs have made, those made before left out."""
        found = (path.parent for path in self.results_dir.glob(f"*/*/{self.run_id}-*/{results.MANIFEST}"))
        return sorted(path for path in found if path not in self.stored)


def launcher(arguments: Sequence[str]) -> str | None:
    """The launcher that is asked for, unless it is Hydra's own; raises `HarnessError` where it cannot do its work."""
    named = [word.partition("=")[2] for word in arguments if word.startswith(_LAUNCHER)]
    if not named or named[-1] == "basic":
        return None
    if importlib.util.find_spec("submitit") is None or importlib.util.find_spec("hydra_plugins") is None:
        raise HarnessError(
            f"{_LAUNCHER}{named[-1]} needs hydra-submitit-launcher, which is not installed: "
            "pip install 'tk-kernels[cluster]'"
        )
    if not {"-m", "--multirun"} & set(arguments):
        raise HarnessError(f"{_LAUNCHER}{named[-1]} runs a job for each point of a multirun: add -m")
    return named[-1]


def order_of(invocation: Invocation, default_results_dir: str) -> Order:
    """What the jobs of this command are told; raises `HarnessError` while jobs of a command before still run."""
    named = [word for word in invocation.arguments if word.startswith("results_dir=")]
    results_dir = Path(OmegaConf.from_dotlist(named).get("results_dir", default_results_dir)).absolute()
    stored = Order(invocation.run_id, (), results_dir).runs()
    busy = next((path for path in stored if in_use(path)), None)
    if busy:
        raise HarnessError(f"{busy} is in use by a job: wait for it, or start a new run", exit_code=1)
    return Order(invocation.run_id, invocation.arguments, results_dir, tuple(stored))


def task(order: Order, run: Callable[[DictConfig, Invocation], None]) -> Callable[[DictConfig], None]:
    """The function that Hydra hands to every job, which is another process on perhaps another machine."""

    def job(config: DictConfig) -> None:
        measure_point(order, config, run)

    return job


def measure_point(order: Order, config: DictConfig, run: Callable[[DictConfig, Invocation], None]) -> None:
    """One job: measures its point into a run of its own.  A mistake is left as a file for the command to report."""
    name = f"{order.run_id}-{secrets.token_hex(4)}"
    elsewhere = [group for path in order.stored for group in results.load_manifest(path)["groups"]]
    invocation = Invocation(name, order.arguments, multirun=order.run_id, stored_elsewhere=tuple(elsewhere))
    status = "failed"
    try:
        run(config, invocation)
        status = "completed"
    except KeyboardInterrupt:
        status = "interrupted"
    except HarnessError as error:
        order.logs.mkdir(parents=True, exist_ok=True)
        said = {"sentence": str(error), "exit_code": error.exit_code}
        (order.logs / f"{name}.json").write_text(json.dumps(said))
    finally:
        invocation.close(status)


def mistakes(order: Order) -> list[HarnessError]:
    """What jobs could not do, as they said it."""
    said = [json.loads(path.read_text()) for path in sorted(order.logs.glob("*.json"))]
    return [HarnessError(one["sentence"], one["exit_code"]) for one in said]


def wait_for_jobs(order: Order, seconds: float = 2.0) -> None:
    """Returns when no job that has begun a run still writes into it."""
    while any(in_use(run) for run in order.runs()):
        time.sleep(seconds)
