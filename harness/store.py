"""The run folder, written so that nothing stored is lost: files grow by whole groups, or are replaced as a whole.

A group is written in the order samples, ratios, measurements, profile, manifest; only when the manifest names it does
it count as done.  The folder is locked while it is open.
"""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from harness import results
from harness.errors import HarnessError
from harness.records import SAMPLE_COLUMNS, SCHEMA_VERSION, Measurement, ProfileMetric, Ratio, Status, _Row


class StoreError(HarnessError):
    """The folder cannot be written or is in use; nothing that was stored before is lost."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, exit_code=1)


@dataclass(frozen=True)
class StoredGroup:
    """Everything of one group.  samples: case id -> (latency_us (n,), rounds (n,))."""

    measurements: tuple[Measurement, ...]
    ratios: tuple[Ratio, ...]
    samples: Mapping[str, tuple[np.ndarray, np.ndarray]]
    profile: tuple[ProfileMetric, ...] = ()
    energy_j: float | None = None


class Store:
    """An open run folder.  Use `create` or `reopen`, then as a context manager."""

    def __init__(self, folder: Path, manifest: dict[str, Any], lock: int) -> None:
        self.folder = folder
        self.manifest = manifest
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, manifest: Mapping[str, Any]) -> Self:
        """A new folder with empty files; raises `StoreError` if it cannot be made or exists."""
        with _said(folder):
            folder.mkdir(parents=True, exist_ok=False)
        store = cls(folder, {"schema_version": SCHEMA_VERSION, **manifest, "groups": [], "notes": []}, _lock(folder))
        with _said(folder), _undisturbed():
            for name, record in ((results.MEASUREMENTS, Measurement), (results.RATIOS, Ratio)):
                _replace(folder / name, _csv([record.columns()]).encode())
            store._write_samples(pd.DataFrame(columns=list(SAMPLE_COLUMNS)))
            store._write_manifest()
        return store

    @classmethod
    def reopen(cls, folder: Path) -> Self:
        """A folder that an earlier invocation left, torn last lines removed and half-written groups forgotten."""
        if not folder.is_dir():
            raise HarnessError(f"resume={folder}: there is no such folder; give results/<gpu>/<campaign>/<run>")
        lock = _lock(folder)
        try:
            with _said(folder):
                for name in (results.MEASUREMENTS, results.RATIOS, results.PROFILE):
                    _cut_torn_line(folder / name)
            store = cls(folder, results.load_manifest(folder), lock)
            results._read_table(folder / results.RATIOS, Ratio)  # what no reader could load is not added to
            store._forget_half_written()
        except results.ResultsError as error:
            os.close(lock)
            raise HarnessError(str(error)) from None
        except BaseException:
            os.close(lock)
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])

    def covered(self, case_ids: Sequence[str]) -> bool:
        """Whether these cases all have passes from one interleaved group, and none was timed again since.

        A contestant that could not run then (`unavailable`, `unsupported`) or failed does not pass: the group is due.
        """
        wanted = set(case_ids)
        newest = {case: number for number, group in enumerate(self.manifest["groups"]) for case in group["case_ids"]}
        homes = {newest.get(case) for case in wanted}
        if len(homes) != 1 or None in homes:
            return False
        return wanted <= set(self.manifest["groups"][homes.pop()]["passed"])

    def update(self, **entries: Any) -> None:
        """Changes entries of the manifest and writes it."""
        self.manifest.update(entries)
        with _said(self.folder), _undisturbed():
            self._write_manifest()

    def note(self, sentence: str) -> None:
        """Adds a remark about the run to the manifest, once."""
        if sentence not in self.manifest["notes"]:
            self.update(notes=[*self.manifest["notes"], sentence])

    def append(self, group: StoredGroup) -> None:
        """Stores a group; raises `StoreError` and leaves every file as it was if the disk does not take it."""
        first = group.measurements[0]
        with _said(self.folder), _undisturbed():
            self._write_samples(self._merged_samples(group.samples, [m.case_id for m in group.measurements]))
            _append(self.folder / results.RATIOS, group.ratios)
            _append(self.folder / results.MEASUREMENTS, group.measurements)
            if group.profile:
                path = self.folder / results.PROFILE
                if not path.exists():
                    _replace(path, _csv([ProfileMetric.columns()]).encode())
                _append(path, group.profile)
            self.manifest["groups"].append(
                {
                    "workload": first.workload,
                    "problem": first.problem,
                    "case_ids": [m.case_id for m in group.measurements],
                    "passed": [m.case_id for m in group.measurements if m.status is Status.PASSED],
                    "energy_j": group.energy_j,
                }
            )
            self._write_manifest()

    def _merged_samples(
        self, samples: Mapping[str, tuple[np.ndarray, np.ndarray]], case_ids: Sequence[str]
    ) -> pd.DataFrame:
        """All stored samples, those of the group's cases replaced."""
        stored = pd.read_parquet(self.folder / results.SAMPLES)
        kept = stored[~stored["case_id"].isin(list(case_ids))]
        new = [
            pd.DataFrame({"case_id": case, "round": rounds.astype(np.int32), "latency_us": latency})
            for case, (latency, rounds) in samples.items()
            if len(latency)
        ]
        parts = [part for part in (kept, *new) if len(part)]
        return pd.concat(parts, ignore_index=True) if parts else kept

    def _write_samples(self, table: pd.DataFrame) -> None:
        typed = table.astype({"case_id": str, "round": np.int32, "latency_us": np.float64})
        buffer = io.BytesIO()
        typed.to_parquet(buffer, index=False)
        _replace(self.folder / results.SAMPLES, buffer.getvalue())

    def _write_manifest(self) -> None:
        text = json.dumps(self.manifest, indent=2, sort_keys=True, default=str)
        _replace(self.folder / results.MANIFEST, f"{text}\n".encode())

    def _forget_half_written(self) -> None:
        """Drops groups whose samples are not as many as their rows say: a crash fell between the two files.

        Their rows stay in the file, and the repetition of the group replaces them.
        """
        table = results._read_table(self.folder / results.MEASUREMENTS, Measurement)
        newest = dict(zip(table["case_id"], table["n_samples"], strict=True))
        counts = results._read_samples(self.folder / results.SAMPLES)["case_id"].value_counts()
        whole = [
            group
            for group in self.manifest["groups"]
            if all(int(newest.get(case, -1)) == int(counts.get(case, 0)) for case in group["case_ids"])
        ]
        self.manifest["groups"] = whole


def run_folder(results_dir: str | Path, slug: str, campaign: str, run_id: str) -> Path:
    """`<results_dir>/<gpu>/<campaign>/<run>`; raises `HarnessError` for a campaign that is no plain folder name."""
    if not campaign or campaign != Path(campaign).name or campaign.startswith("."):
        raise HarnessError(f"campaign is {campaign!r}, needs a plain folder name such as 2026-11-paper")
    return Path(results_dir) / slug / campaign / run_id


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """An operating system's refusal as one sentence that says what to do."""
    advice = {
        errno.ENOSPC: "free some space",
        errno.EDQUOT: "free some of your quota",
        errno.EROFS: "give a folder that can be written, results_dir=...",
        errno.EACCES: "give a folder that can be written, results_dir=...",
        errno.EPERM: "give a folder that can be written, results_dir=...",
        errno.EEXIST: "give another run_id, or resume it with resume=...",
    }
    try:
        yield
    except OSError as error:
        hint = advice.get(error.errno or 0, "give another folder, results_dir=...")
        raise StoreError(f"cannot write {error.filename or path}: {error.strerror or error}; {hint}") from None


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Holds Ctrl-C and SIGTERM back until the files are consistent again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    handlers = {
        number: signal.signal(number, lambda caught, frame: held.append(caught))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def _lock(folder: Path) -> int:
    """An exclusive lock on the folder itself, released when the process ends however it ends."""
    with _said(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreError(f"{folder} is in use by another invocation: wait for it, or start a new run") from None
    except OSError:  # a file system without locks: the random part of the run id keeps runs apart
        pass
    return descriptor


def _append(path: Path, records: Sequence[_Row]) -> None:
    """Appends rows and makes them durable; on failure the file is cut back to what it was."""
    data = _csv([list(record.to_row().values()) for record in records]).encode()
    with open(path, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        _write_or(lambda: file.truncate(size), file.fileno(), data)


def _replace(path: Path, data: bytes) -> None:
    """Writes a file beside the old one, then puts it in its place: a reader sees the old or the new one."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with open(beside, "wb", buffering=0) as file:
            _write_or(lambda: None, file.fileno(), data)
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _write_or(undo: Callable[[], object], descriptor: int, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        undo()
        raise


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _cut_torn_line(path: Path) -> None:
    """Removes what follows the last line break: a row of which only a part reached the disk."""
    if not path.exists():
        return
    whole, torn = results.complete_lines(path.read_text(errors="replace"))
    if torn:
        _replace(path, whole.encode())
