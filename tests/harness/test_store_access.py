"""Who may write a run folder: one invocation at a time, and only where the system lets it."""

import errno
import os
import shutil
import time

import pytest
from harness_support import MANIFEST, group

from harness.records.errors import HarnessError
from harness.runs import MANIFEST as MANIFEST_NAME
from harness.runs import load_run, store
from harness.runs.store import Store, StoreError


def test_two_runs_into_one_folder(folder):
    """Guard: the folder is locked from before it has its name; the second is refused and changes nothing."""
    with Store.create(folder, MANIFEST) as first:
        first.append(group())
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(StoreError, match="give another run_id, or resume it"):
            Store.create(folder, MANIFEST)
        with pytest.raises(StoreError, match="is in use by another invocation"):
            Store.reopen(folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        first.append(group("M=9;N=9;K=9", cases=("c",)))
    beside = folder.with_name(f".{folder.name}.new")
    beside.mkdir()
    lock = store._lock(beside)  # somebody is just making it
    shutil.rmtree(folder)
    with pytest.raises(StoreError, match="is in use by another invocation"):
        Store.create(folder, MANIFEST)
    os.close(lock)
    with Store.create(folder, MANIFEST):
        pass
    assert not beside.exists()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_writers_of_several_processes_store_one_after_the_other(folder):
    """Guard: whoever finds the folder in use, half made or just made by another is refused; nobody's group is lost."""

    def write(number):
        with Store.reopen(folder) if folder.exists() else Store.create(folder, MANIFEST) as opened:
            opened.append(group(f"M={number + 1};N=9;K=9", cases=(f"c{number}",)))

    children = []
    for number in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            for _ in range(2000):
                try:
                    write(number)
                    os._exit(0)
                except StoreError:
                    time.sleep(0.002)
                except BaseException as error:
                    os.write(2, repr(error).encode())
                    break
            os._exit(1)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert set(load_run(folder).measurements["case_id"]) == {f"c{number}" for number in range(4)}
    assert sorted(path.name for path in folder.iterdir()) == [
        *(f"group-{n:04}.json.gz" for n in range(1, 5)),
        MANIFEST_NAME,
    ]


def test_a_lock_is_not_taken_on_a_file_that_is_gone(folder, monkeypatch):
    """Guard: the lock is on the file that has the name now; its last owner may have removed it meanwhile."""
    with Store.create(folder, MANIFEST):
        pass
    real = store.fcntl.flock
    removed = []

    def flock(descriptor, how):
        real(descriptor, how)
        if not removed:
            removed.append(1)
            (folder / store.LOCK).unlink()

    monkeypatch.setattr(store.fcntl, "flock", flock)
    with Store.reopen(folder), pytest.raises(StoreError, match="in use"):
        Store.reopen(folder)
    assert not (folder / store.LOCK).exists()


def test_a_file_system_without_locks_is_used_all_the_same(folder, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store.fcntl, "flock", none)
    with Store.create(folder, MANIFEST):
        assert not store.in_use(folder)


def test_a_folder_is_free_again_after_closing(folder):
    with Store.create(folder, MANIFEST):
        pass
    with Store.reopen(folder) as again:
        assert again.run_id == MANIFEST["run_id"]
    with pytest.raises(StoreError, match="give another run_id, or resume it"):
        Store.create(folder, MANIFEST)


def test_a_failed_reopening_leaves_no_lock(folder):
    with Store.create(folder, MANIFEST):
        pass
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text("{")
    for _ in range(2):
        with pytest.raises(HarnessError, match="truncated or damaged"):
            Store.reopen(folder)
    (folder / "manifest.json").write_text(text)
    with Store.reopen(folder):
        pass


@pytest.mark.parametrize(("number", "words"), [(errno.EROFS, "Read-only"), (errno.EACCES, "Permission denied")])
def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, number, words):
    def refuse(self, *args, **kwargs):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(store.Path, "mkdir", refuse)
    with pytest.raises(StoreError, match=f"{words}.*results_dir="):
        Store.create(tmp_path / "x", MANIFEST)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_read_only_results(tmp_path):
    """Guard: a refusal of the operating system is a sentence, said before anything is measured."""
    if os.getuid() != 0:
        tmp_path.chmod(0o555)
        with pytest.raises(StoreError, match="Permission denied; give a folder that can be written, results_dir="):
            Store.create(tmp_path / "c" / "run", MANIFEST)
        tmp_path.chmod(0o755)
        return
    for folder in (tmp_path, *tmp_path.parents[:-2]):  # root is refused nothing, so be nobody
        folder.chmod(0o755)
    with Store.create(tmp_path / "run", MANIFEST) as made:
        made.append(group())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        for attempt in (lambda: Store.create(tmp_path / "c" / "run", MANIFEST), lambda: Store.reopen(tmp_path / "run")):
            try:
                attempt()
                os.write(writer, b"no refusal\n")
            except BaseException as error:
                os.write(writer, f"{type(error).__name__} {error}\n".encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader) as file:
        said = file.read().splitlines()
    assert len(said) == 2
    for line in said:
        assert line.startswith("StoreError cannot write ")
        assert line.endswith("Permission denied; give a folder that can be written, results_dir=...")
    assert len(load_run(tmp_path / "run").measurements) == 2, "and it can still be read"


def test_resuming_what_is_not_there(tmp_path):
    with pytest.raises(HarnessError, match="there is no such folder"):
        Store.reopen(tmp_path / "nowhere")
