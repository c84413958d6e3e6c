"""The run folder, written so that nothing stored is lost: one file a group, none of which is ever changed.

A file is written aside, made durable and renamed; the manifest, which names the groups that count, comes last.  So a
crash leaves at most a file that no manifest names, and the next group takes its place.  A folder is locked while it is
open, and has its name only once it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from harness.records.errors import HarnessError, ResultsError
from harness.records.rows import Status
from harness.runs.group import StoredGroup, encoded, read_group
from harness.runs.stored import MANIFEST, SCHEMA_VERSION, load_manifest

LOCK = ".lock"
"""Locked while the folder is open, and gone when it was closed; one that a killed process left is free."""
_PREFIX = "group-"


class StoreError(HarnessError):
    """The folder cannot be written or is in use; nothing that was stored before is lost."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, exit_code=1)


class Store:
    """An open run folder.  Use `create` or `reopen`, then as a context manager."""

    def __init__(self, folder: Path, manifest: dict[str, Any], lock: int) -> None:
        self.folder = folder
        self.manifest = manifest
        self._lock = lock
        self._last = max((int(one["file"].split(".")[0][len(_PREFIX) :]) for one in manifest["groups"]), default=0)
        """The number of the last file that a manifest has named."""

    @classmethod
    def create(cls, folder: Path, manifest: Mapping[str, Any]) -> Self:
        """A new folder without groups; raises `StoreError` if it cannot be made or exists."""
        beside = folder.with_name(f".{folder.name}.new")
        with _said(folder):
            if folder.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
            beside.mkdir(parents=True, exist_ok=True)  # perhaps from an invocation that was killed just here
        lock = _lock(beside)
        store = cls(beside, {"schema_version": SCHEMA_VERSION, **manifest, "groups": [], "notes": []}, lock)
        try:
            with _said(folder), undisturbed():
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
        """A folder that an earlier invocation left, of which the groups count that can be read."""
        if not folder.is_dir():
            raise HarnessError(f"resume={folder}: there is no such folder; give results/<gpu>/<campaign>/<run>")
        lock = _lock(folder)
        try:
            manifest = load_manifest(folder)
            if manifest["schema_version"] != SCHEMA_VERSION:
                raise HarnessError(f"resume={folder}: another version of the program wrote the run: start a new one")
            with _said(folder):
                for path in folder.glob(".*.new"):
                    path.unlink()
            store = cls(folder, manifest, lock)
            manifest["groups"] = [one for one in manifest["groups"] if _whole(folder, one)]
            return store
        except BaseException:
            _unlock(folder, lock)
            raise

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
        first, groups = group.measurements[0], self.manifest["groups"]
        path = self.folder / f"{_PREFIX}{self._last + 1:04}.json.gz"
        entry = {
            "workload": first.workload,
            "problem": first.problem,
            "seed": first.seed,
            "case_ids": group.case_ids,
            "passed": [m.case_id for m in group.measurements if m.status is Status.PASSED],
            "energy_j": group.energy_j,
            "seconds": dict(group.seconds),
            "settings": dict(group.settings),
            "file": path.name,
        }
        with _said(self.folder), undisturbed():
            try:
                _replace(path, encoded(group))
                self.manifest["groups"] = [*groups, entry]
                self._write_manifest()
            except BaseException:
                self.manifest["groups"] = groups
                path.unlink(missing_ok=True)
                raise
        self._last += 1

    def _write_manifest(self) -> None:
        text = json.dumps(self.manifest, indent=2, sort_keys=True, default=str)
        _replace(self.folder / MANIFEST, f"{text}\n".encode())


def _whole(folder: Path, entry: Mapping[str, Any]) -> bool:
    """Whether a group can be read; one that cannot is due again."""
    try:
        read_group(folder / entry["file"], entry["case_ids"])
    except ResultsError:
        return False
    return True


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
    try:
        yield
    except OSError as error:
        hint = "give a folder that can be written, results_dir=..."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some space"
        if error.errno == errno.EFBIG:
            hint = "the limit on the size of files (ulimit -f) is too low"
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            hint = "give another run_id, or resume it with resume=..."
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


def _replace(path: Path, data: bytes) -> None:
    """Writes a file beside the old one, then puts it in its place: a reader sees the old or the new one."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with open(beside, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[os.write(file.fileno(), view) :]
            os.fsync(file.fileno())
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
