"""The run folder, written so that nothing stored is lost: files grow by whole groups, or are replaced as a whole.

A group is written in the order samples (beside the old ones), ratios, measurements, profile, manifest.  Only when the
manifest names it, with the size that each table then has, does it count as done; then the new samples take the old
ones' place.  Whatever else a crash leaves is taken back when the folder is opened again.  A folder is locked while it
is open, and has its name only once it is whole.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import io
import itertools
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pandas as pd

from harness.records.errors import HarnessError
from harness.records.rows import SCHEMA_VERSION, Measurement, ProfileMetric, Ratio, SettledBlock, Status, _Row
from harness.runs import samples as stored_samples
from harness.runs import stored as results
from harness.runs.samples import Samples

LOCK = ".lock"
"""Locked while the folder is open, and gone when it was closed; one that a killed process left is free."""

_TABLES: tuple[tuple[str, type[_Row]], ...] = (
    (results.MEASUREMENTS, Measurement),
    (results.RATIOS, Ratio),
    (results.PROFILE, ProfileMetric),
)


class StoreError(HarnessError):
    """The folder cannot be written or is in use; nothing that was stored before is lost."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, exit_code=1)


@dataclass(frozen=True)
class StoredGroup:
    """All records of one group. samples: by case id."""

    measurements: tuple[Measurement, ...]
    ratios: tuple[Ratio, ...]
    samples: Mapping[str, Samples]
    settled: tuple[SettledBlock, ...] = ()
    profile: tuple[ProfileMetric, ...] = ()
    energy_j: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by activity."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its settings that are not part of a case's name (`harness.plan.settings`)."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the manifest, such as the part of a cluster's run that it comes from."""


class Store:
    """An open run folder.  Use `create` or `reopen`, then as a context manager."""

    def __init__(self, folder: Path, manifest: dict[str, Any], lock: int) -> None:
        self.folder = folder
        self.manifest = manifest
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, manifest: Mapping[str, Any]) -> Self:
        """A new folder with empty files; raises `StoreError` if it cannot be made or exists."""
        beside = folder.with_name(f".{folder.name}.new")
        with _said(folder):
            if folder.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
            beside.mkdir(parents=True, exist_ok=True)  # perhaps from an invocation that was killed just here
        lock = _lock(beside)
        store = cls(beside, {"schema_version": SCHEMA_VERSION, **manifest, "groups": [], "notes": []}, lock)
        try:
            with _said(folder), undisturbed():
                for name, record in _TABLES[:2]:
                    _replace(beside / name, _csv([record.columns()]).encode())
                _replace(beside / results.SAMPLES, _parquet(stored_samples.empty()))
                store._write_manifest()
                os.rename(beside, folder)
                _sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            _unlock(beside, lock)
            raise
        store.folder = folder
        return store

    @classmethod
    def reopen(cls, folder: Path) -> Self:
        """A folder that an earlier invocation left, cut back to what its manifest says is stored."""
        if not folder.is_dir():
            raise HarnessError(f"resume={folder}: there is no such folder; give results/<gpu>/<campaign>/<run>")
        lock = _lock(folder)
        try:
            store = cls(folder, results.load_manifest(folder), lock)
            with _said(folder):
                store._finish_samples()
                for name, _ in _TABLES:
                    _cut_torn_line(folder / name)
                store._cut_uncommitted()
            store._forget_half_written()
        except results.ResultsError as error:
            _unlock(folder, lock)
            raise HarnessError(str(error)) from None
        except BaseException:
            _unlock(folder, lock)
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _unlock(self.folder, self._lock)

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])

    def covered(self, case_ids: Sequence[str]) -> bool:
        """Whether these cases are done, see `covers`."""
        return covers(self.manifest["groups"], case_ids)

    def update(self, **entries: Any) -> None:
        """Changes entries of the manifest and writes it."""
        self.manifest.update(entries)
        with _said(self.folder), undisturbed():
            self._write_manifest()

    def note(self, sentence: str) -> None:
        """Adds a remark about the run to the manifest, once."""
        if sentence not in self.manifest["notes"]:
            self.update(notes=[*self.manifest["notes"], sentence])

    def append(self, group: StoredGroup) -> None:
        """Stores a group; raises `StoreError` and leaves every file as it was if the disk does not take it."""
        first = group.measurements[0]
        groups = self.manifest["groups"]
        sizes = self._sizes()
        staged = {name: self._staged(name, len(groups) + 1) for name in (results.SAMPLES, results.SETTLED)}
        with _said(self.folder), undisturbed():
            try:
                case_ids = [m.case_id for m in group.measurements]
                _replace(staged[results.SAMPLES], _parquet(self._merged_samples(group.samples, case_ids)))
                if group.settled or (self.folder / results.SETTLED).exists():
                    _replace(staged[results.SETTLED], _parquet(self._merged_blocks(group.settled, case_ids)))
                _append(self.folder / results.RATIOS, group.ratios)
                _append(self.folder / results.MEASUREMENTS, group.measurements)
                if group.profile:
                    path = self.folder / results.PROFILE
                    if not path.exists():
                        _replace(path, _csv([ProfileMetric.columns()]).encode())
                    _append(path, group.profile)
                self.manifest["groups"] = [
                    *groups,
                    {
                        "workload": first.workload,
                        "problem": first.problem,
                        "seed": first.seed,
                        "case_ids": case_ids,
                        "passed": [m.case_id for m in group.measurements if m.status is Status.PASSED],
                        "energy_j": group.energy_j,
                        "seconds": dict(group.seconds),
                        "settings": dict(group.settings),
                        "bytes": self._sizes(),
                        **group.origin,
                    },
                ]
                self._write_manifest()
            except BaseException:
                self.manifest["groups"] = groups
                for path in staged.values():
                    path.unlink(missing_ok=True)
                for name, size in sizes.items():
                    os.truncate(self.folder / name, size)
                raise
            for name, path in staged.items():
                if path.exists():
                    os.replace(path, self.folder / name)

    def _sizes(self) -> dict[str, int]:
        """Bytes of each table that there is."""
        paths = [self.folder / name for name, _ in _TABLES]
        return {path.name: path.stat().st_size for path in paths if path.exists()}

    def _staged(self, name: str, number: int) -> Path:
        """Where a file of samples or blocks is while the manifest does not have that many groups yet."""
        return self.folder / f".{name}.{number}"

    def _merged_samples(self, samples: Mapping[str, Samples], case_ids: Sequence[str]) -> pd.DataFrame:
        """All stored samples, those of the group's cases replaced."""
        stored = stored_samples.completed(pd.read_parquet(self.folder / results.SAMPLES))
        kept = stored[~stored["case_id"].isin(list(case_ids))]
        new = [stored_samples.table(case, one) for case, one in samples.items() if len(one)]
        parts = [part for part in (kept, *new) if len(part)]
        return pd.concat(parts, ignore_index=True) if parts else kept

    def _merged_blocks(self, blocks: Sequence[SettledBlock], case_ids: Sequence[str]) -> pd.DataFrame:
        """All stored settled blocks, those of the group's cases replaced."""
        new = results.block_table(blocks)
        path = self.folder / results.SETTLED
        if not path.exists():
            return new
        stored = pd.read_parquet(path)
        parts = [part for part in (stored[~stored["case_id"].isin(list(case_ids))], new) if len(part)]
        return pd.concat(parts, ignore_index=True) if parts else new

    def _write_manifest(self) -> None:
        text = json.dumps(self.manifest, indent=2, sort_keys=True, default=str)
        _replace(self.folder / results.MANIFEST, f"{text}\n".encode())

    def _finish_samples(self) -> None:
        """Moves samples that the manifest counts into place, and drops what a killed process was writing."""
        for name in (results.SAMPLES, results.SETTLED):
            staged = self._staged(name, len(self.manifest["groups"]))
            if staged.exists():
                os.replace(staged, self.folder / name)
            for path in self.folder.glob(f".{name}.*"):
                path.unlink()
        for path in self.folder.glob(".*.new"):
            path.unlink()

    def _cut_uncommitted(self) -> None:
        """Cuts each table behind the last group that is whole; a group whose rows are not all there is due again."""
        sizes, groups = self._sizes(), self.manifest["groups"]
        whole = [
            group
            for group in groups
            if all(sizes.get(name, 0) >= size for name, size in group.get("bytes", {}).items())
        ]
        self.manifest["groups"] = whole
        if any("bytes" not in group for group in whole):  # written before tables were measured
            return
        for name in sizes:
            path = self.folder / name
            data = path.read_bytes()
            header = data.find(b"\n") + 1
            end = whole[-1]["bytes"].get(name, header) if whole else header
            if end < len(data) and data[:end].endswith(b"\n"):  # else somebody has edited the file
                os.truncate(path, end)

    def _forget_half_written(self) -> None:
        """Drops groups whose samples or ratios are not those that their rows call for.

        Their rows stay in the file, and the repetition of the group replaces them.
        """
        table = results._read_table(self.folder / results.MEASUREMENTS, Measurement)
        newest = dict(zip(table["case_id"], table["n_samples"], strict=True))
        counts = results._read_samples(self.folder / results.SAMPLES)["case_id"].value_counts()
        ratios = results._read_table(self.folder / results.RATIOS, Ratio)
        pairs = set(zip(ratios["case_id"], ratios["baseline_case_id"], strict=True))
        self.manifest["groups"] = [
            group
            for group in self.manifest["groups"]
            if all(int(newest.get(case, -1)) == int(counts.get(case, 0)) for case in group["case_ids"])
            and pairs >= set(itertools.permutations([case for case in group["passed"] if newest[case]], 2))
        ]


def in_use(folder: Path) -> bool:
    """Whether some invocation has the folder open."""
    try:
        with open(folder / LOCK, "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it is closed, or on a file system without locks
        pass
    return False


def newest_settings(groups: Sequence[Mapping[str, Any]], case_ids: Sequence[str]) -> Mapping[str, Any]:
    """The settings of the newest group in a manifest that holds one of these cases; empty if unknown."""
    wanted = set(case_ids)
    holding = [group for group in groups if wanted & set(group["case_ids"])]
    return holding[-1].get("settings", {}) if holding else {}


def covers(groups: Sequence[Mapping[str, Any]], case_ids: Sequence[str]) -> bool:
    """Whether these cases all have passes from one interleaved group, and none was timed again since.

    groups: of a manifest.  A contestant that could not run then (`unavailable`, `unsupported`) or failed does not pass:
    the group is due.
    """
    wanted = set(case_ids)
    newest = {case: number for number, group in enumerate(groups) for case in group["case_ids"]}
    homes = {newest.get(case) for case in wanted}
    home = homes.pop() if len(homes) == 1 else None
    return home is not None and wanted <= set(groups[home]["passed"])


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
        errno.EFBIG: "the limit on the size of files (ulimit -f) is too low",
        errno.EEXIST: "give another run_id, or resume it with resume=...",
        errno.ENOTEMPTY: "give another run_id, or resume it with resume=...",
    }
    try:
        yield
    except OSError as error:
        hint = advice.get(error.errno or 0, "give another folder, results_dir=...")
        raise StoreError(f"cannot write {error.filename or path}: {error.strerror or error}; {hint}") from None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Delays Ctrl-C and SIGTERM until the files are consistent again."""
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
    """An exclusive lock on a file in the folder, released when the process ends however it ends.

    A file that can be written: network file systems refuse an exclusive lock on what is open for reading, a folder.
    """
    path = folder / LOCK
    while True:
        with _said(folder):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StoreError(f"{folder} is in use by another invocation: wait for it, or start a new run") from None
        except OSError:  # a file system without locks: the random part of the run id keeps runs apart
            return descriptor
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)  # its owner has just closed the folder, and taken the file away


def _unlock(folder: Path, lock: int) -> None:
    with contextlib.suppress(OSError):
        (folder / LOCK).unlink()
    os.close(lock)


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
        _sync_folder(path.parent)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, where the file system knows how."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_or(undo: Callable[[], object], descriptor: int, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        undo()
        raise


def _parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


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
