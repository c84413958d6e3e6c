"""State shared by the jobs of one command: the run's name and folder, the worker, the machine's description.

A multirun calls the same task once a point; all points go to one run folder and are done by one worker.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.measure.ledger import Ledger, added, overhead_pct
from harness.measure.messages import Machine
from harness.measure.supervisor import Supervisor, Worker
from harness.plan.planning import Plan
from harness.records import provenance
from harness.records.datasheets import find_datasheet
from harness.records.errors import HarnessError
from harness.records.naming import gpu_slug
from harness.records.rows import FAILURES, IDLE
from harness.runs.library_sizes import library_sizes
from harness.runs.store import Store, run_folder


@dataclass
class Invocation:
    """State of one command.  arguments: as given, for the manifest and for resuming; folder: of a resumed run.

    For a job of a cluster (`harness.command.cluster`), multirun: the name of the whole; stored_elsewhere: groups that
    runs of it hold, which need no measuring.
    """

    run_id: str
    arguments: tuple[str, ...]
    folder: Path | None = None
    on_event: Callable[[object], None] = lambda event: None
    store: Store | None = None
    failures: int = 0
    ran: int = 0
    """Cases that ran, and groups that an earlier invocation had finished."""
    did_not_run: list[str] = field(default_factory=list)
    """Why the other cases did not run."""
    last_config: Mapping[str, Any] = field(default_factory=dict)
    multirun: str = ""
    made_by_jobs: list[Path] = field(default_factory=list)
    """Runs that jobs of a cluster have made for this command."""
    stored_elsewhere: tuple[Mapping[str, Any], ...] = ()
    worker: Worker = field(default_factory=Worker)
    """The worker of earlier commands, if it is kept."""
    ledger: Ledger = field(default_factory=Ledger)
    """Accounts for the time of this command."""
    _earlier_seconds: Mapping[str, float] = field(default_factory=dict)
    _machine: Machine | None = None

    def supervisor(self, device: Mapping[str, Any]) -> Supervisor:
        """The worker for this device, kept over jobs."""
        return self.worker.on(device, lambda event: self.on_event(event))

    def machine(self, device: Mapping[str, Any], roofs: int) -> Machine:
        """The machine, described once; the roofs, for so many ranks, are measured once a run."""
        worker = self.supervisor(device)
        if self._machine is None or (roofs and self._machine.timed and not self._machine.roofs):
            with self.ledger.during("start"):
                self._machine = worker.describe(roofs)
            self.ledger.move("start", "roofs", self._machine.roofs_seconds)
        return self._machine

    def account(self) -> dict[str, Any]:
        """Entries of the manifest: where the time of the run has gone, earlier commands included."""
        seconds = added(self._earlier_seconds, self.ledger.seconds())
        return {"seconds": seconds, "overhead_pct": overhead_pct(seconds)}

    def open_store(self, plan: Plan, config: Mapping[str, Any], machine: Machine) -> Store:
        """The run folder: made by the first job, reopened on resume, shared by later jobs."""
        if self.store is not None:
            if self.store.manifest["device"] != machine.kind:
                raise HarnessError("all jobs of a multirun share one run folder and so one device: give device= once")
            names = str(self.store.manifest["experiment"]).split(",")
            if plan.name not in names:
                self.store.update(experiment=",".join([*names, plan.name]))
            return self.store
        if self.folder is not None:
            self.store = _reopened(self.folder, machine)
            self._earlier_seconds = self.store.manifest.get("seconds", {})
            self.store.update(status="running", ended_utc=None)
            return self.store
        slug = gpu_slug(str(machine.gpu["name"])) if machine.gpu else machine.kind
        folder = run_folder(config["results_dir"], slug, str(config["campaign"]), self.run_id)
        self.store = Store.create(folder, _manifest(self, plan, config, machine))
        if machine.gpu and find_datasheet(str(machine.gpu["name"])) is None:
            self.store.note(f"no datasheet of {machine.gpu['name']}: only shares of the roofs measured here are given")
        return self.store

    def close(self, status: str) -> None:
        """Ends the worker and marks the manifest."""
        self.worker.leave(at_once=status != "completed")
        if self.store is not None:
            try:
                self.store.update(status=status, ended_utc=provenance.utc_now(), **self.account())
            finally:
                self.store.__exit__()

    def count(self, rows: Iterable[Any]) -> None:
        """Counts cases that have ended; each has the attributes of a `Measurement`."""
        for row in rows:
            self.failures += row.status in FAILURES
            self.ran += row.status not in IDLE
            if row.status in IDLE:
                self.did_not_run.append(f"{row.implementation}: {row.reason}")

    @property
    def folders(self) -> list[Path]:
        """The runs that this command has stored."""
        return [self.store.folder] if self.store is not None else self.made_by_jobs

    @property
    def resume_command(self) -> str:
        """The command that resumes the run, once it has a folder."""
        return f"python -m harness resume={shlex.quote(str(self.folders[0]))}"


def _manifest(invocation: Invocation, plan: Plan, config: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """The manifest of a run that begins."""
    sheet = find_datasheet(str(machine.gpu.get("name", "")))
    return {
        "run_id": invocation.run_id,
        "multirun": invocation.multirun or invocation.run_id,
        "campaign": str(config["campaign"]),
        "experiment": plan.name,
        **vars(provenance.source()),
        "command": shlex.join(["python", "-m", "harness", *invocation.arguments]),
        "arguments": list(invocation.arguments),
        "config": dict(config),
        "device": machine.kind,
        "gpu": machine.gpu or None,
        "libraries": machine.libraries,
        "library_sizes": library_sizes(),
        "kernel_builds": {},
        "roofs": machine.roofs,
        "datasheet": None if sheet is None else dict(vars(sheet)),
        "claim_files": provenance.claim_hashes(),
        "started_utc": provenance.utc_now(),
        "ended_utc": None,
        "status": "running",
    }


def _reopened(folder: Path, machine: Machine) -> Store:
    """The folder of an earlier invocation; refused if its results would not belong together with new ones."""
    store = Store.reopen(folder)
    manifest, source = store.manifest, provenance.source()
    was, now = manifest.get("gpu") or {}, machine.gpu
    try:
        if manifest["device"] != machine.kind or was.get("uuid_hash") != now.get("uuid_hash"):
            there, here = was.get("name", manifest["device"]), now.get("name", machine.kind)
            raise HarnessError(f"{folder} is of another board ({there}; this is {here}): start a new run")
        there, here = str(manifest["git_commit"]), source.git_commit
        if there != here:
            raise HarnessError(
                f"{folder} is of commit {there[:12]}, this is {here[:12]}: check that out, or start a new run"
            )
    except HarnessError:
        store.__exit__()
        raise
    return store
