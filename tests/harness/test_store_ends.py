"""However an invocation ends, the run folder holds what was stored: kills, torn files, full disks, Ctrl-C."""

import errno
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from harness_support import MANIFEST, edit, group

from harness.records.rows import ProfileMetric
from harness.runs import ResultsError, load_campaign, load_run, store
from harness.runs.group import encoded
from harness.runs.store import Store, StoreError

DEADLY = ("write", "fsync", "replace", "rename", "unlink", "open", "close", "mkdir")
"""Calls of the operating system, right before each of which the process is killed."""


def killed_after(calls, work):
    """Does the work in a process of its own, killed before its call number `calls`; gives whether it was killed."""
    child = os.fork()
    if child == 0:
        left = calls

        def deadly(real):
            def call(*args, **kwargs):
                nonlocal left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return real(*args, **kwargs)

            return call

        try:
            for name in DEADLY:
                setattr(os, name, deadly(getattr(os, name)))
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


TABLES = ("group-0001.json.gz", "group-0002.json.gz")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_kill_before_every_call_and_a_rerun_give_the_same_tables(tmp_path, monkeypatch):
    """Guards: the manifest commits a group; what it does not count is written again; a folder appears whole."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a kill takes nothing that is written
    metric = ProfileMetric(run_id="r", case_id="c", kernel_name="k", metric="m", value=1.5, unit="GB/s")
    groups = [group(), replace(group("M=9;N=9;K=9", cases=("c", "d")), profile=(metric,))]

    def sweep(folder):
        """What the command does: goes on where it was stopped, skips what is stored."""
        with Store.reopen(folder) if folder.exists() else Store.create(folder, MANIFEST) as opened:
            for one in groups:
                if not opened.covered([m.case_id for m in one.measurements]):
                    with open(folder.with_suffix(".log"), "a") as log:
                        log.write(f"{one.measurements[0].problem} {len(opened.manifest['groups'])}\n")
                    opened.append(one)

    undisturbed = tmp_path / "undisturbed"
    sweep(undisturbed)
    wanted = {name: (undisturbed / name).read_bytes() for name in TABLES}
    calls = 0
    while True:
        folder = tmp_path / "c" / str(calls)
        folder.parent.mkdir(exist_ok=True)
        was_killed = killed_after(calls, lambda folder=folder: sweep(folder))
        if folder.exists():
            assert len(json.loads((folder / "manifest.json").read_text())["groups"]) <= 2, "always whole"
        sweep(folder)
        assert {name: (folder / name).read_bytes() for name in TABLES} == wanted, calls
        assert sorted(path.name for path in folder.iterdir()) == sorted([*TABLES, "manifest.json"]), calls
        assert len(load_run(folder).measurements) == 4
        stored = [line.split() for line in folder.with_suffix(".log").read_text().splitlines()]
        assert len({tuple(line) for line in stored}) == 2, "a group that was stored was not measured again"
        if not was_killed:
            break
        calls += 1
    assert calls > 30, "as many places as there are calls"
    assert len(load_campaign(tmp_path / "c")) == calls + 1, "and none of the kills left a folder that is no run"


def profiled(stored):
    """The group with a metric of each case."""
    metrics = [
        ProfileMetric(run_id="r", case_id=m.case_id, kernel_name="k", metric="m", value=1.5, unit="GB/s")
        for m in stored.measurements
    ]
    return replace(stored, profile=tuple(metrics))


SECOND = "group-0002.json.gz"


def test_a_torn_group(folder):
    """Guard: a group whose file is cut anywhere is refused in words, and is measured again when the run is resumed."""
    second = profiled(group("M=9;N=9;K=9", cases=("c", "d")))
    with Store.create(folder, MANIFEST) as made:
        made.append(profiled(group()))
        made.append(second)
    saved = shutil.copytree(folder, folder.with_name("saved"))
    whole = (folder / SECOND).read_bytes()
    for end in (0, 1, 10, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        (folder / SECOND).write_bytes(whole[:end])
        with pytest.raises(ResultsError, match=rf"{SECOND} is truncated.*resume="):
            load_run(folder)
        with Store.reopen(folder) as again:
            assert again.covered(["a", "b"]), end
            assert not again.covered(["c"]), f"cut at {end} of {len(whole)}"
            again.append(second)
        assert (folder / "group-0003.json.gz").read_bytes() == whole, end
        assert (folder / SECOND).read_bytes() == whole[:end], "perhaps it can be restored"
        assert len(load_run(folder).measurements) == len(load_run(folder).ratios) == 4
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)


def test_a_group_that_is_gone_is_due_again(folder):
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
        made.append(group("M=9;N=9;K=9", cases=("c", "d")))
    (folder / "group-0001.json.gz").unlink()
    with pytest.raises(ResultsError, match=r"group-0001.json.gz is missing: resume the run with resume="):
        load_run(folder)
    with Store.reopen(folder) as again:
        assert not again.covered(["a", "b"])
        assert again.covered(["c", "d"])


def test_a_group_s_file_is_that_of_its_cases(folder):
    """Guard: `case_ids` in `read_group`; two files that changed places would be times of other groups."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
        made.append(group("M=9;N=9;K=9", cases=("c", "d")))
    shutil.copy(folder / "group-0001.json.gz", folder / SECOND)
    with pytest.raises(ResultsError, match=rf"{SECOND} holds cases \['a', 'b'\], the manifest says \['c', 'd'\]"):
        load_run(folder)


def test_what_a_crash_left_behind_the_last_group_does_not_count(folder):
    """Guard: a file that no manifest names is passed by, and the next group takes its place."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    other = group("M=9;N=9;K=9", cases=("c", "d"))
    (folder / SECOND).write_bytes(encoded(group("M=5;N=5;K=5", cases=("e",))))
    (folder / f".{SECOND}.new").write_bytes(b"half a gro")
    assert load_run(folder).measurements["case_id"].tolist() == ["a", "b"]
    with Store.reopen(folder) as again:
        assert again.covered(["a", "b"])
        assert not again.covered(["e"])
        again.append(other)
    assert load_run(folder).measurements["case_id"].tolist() == ["a", "b", "c", "d"]
    assert sorted(path.name for path in folder.iterdir()) == ["group-0001.json.gz", SECOND, "manifest.json"]


def test_a_group_whose_samples_and_rows_disagree_is_forgotten(folder):
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
        made.append(group("M=9;N=9;K=9", cases=("x",)))
    edit(folder / "group-0001.json.gz", lambda held: [column.pop() for column in held["samples"]["a"].values()])
    with pytest.raises(ResultsError, match="case a has 29 samples, its row says 30"):
        load_run(folder)
    with Store.reopen(folder) as again:
        assert not again.covered(["a", "b"])
        assert again.covered(["x"])
        again.append(group())
    assert len(load_run(folder).samples("a")) == 30


@pytest.mark.parametrize("stage", ["group-0002.json.gz", "manifest.json"])
def test_a_full_disk_loses_nothing_stored(opened, folder, monkeypatch, stage):
    opened.append(group())
    real_write, names = os.write, {}
    real_open = open

    def tracking_open(path, *args, **kwargs):
        file = real_open(path, *args, **kwargs)
        names[file.fileno()] = os.path.basename(path)
        return file

    def write(descriptor, data):
        if stage in names.get(descriptor, ""):
            real_write(descriptor, bytes(data)[:10])  # some of it fits
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(descriptor, data)

    monkeypatch.setattr(store, "open", tracking_open, raising=False)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StoreError, match="No space left on device; free some space") as caught:
        opened.append(group("M=9;N=9;K=9", cases=("c", "d")))
    assert caught.value.exit_code == 1
    monkeypatch.undo()
    run = load_run(folder)
    assert set(run.measurements["case_id"]) == {"a", "b"}
    assert len(run.ratios) == 2, "no ratios of a group that is not there"
    assert not list(folder.glob(".*.*"))
    opened.append(group("M=9;N=9;K=9", cases=("c", "d")))  # and once there is space, it goes on
    assert len(load_run(folder).measurements) == 4


def test_all_that_is_stored_is_on_the_disk_before_the_manifest_names_it(opened, folder, monkeypatch):
    """Guard: a file is synced before it gets its name, and the manifest comes last: a power cut loses no group."""
    real, synced = os.fsync, []

    def fsync(descriptor):
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    opened.append(profiled(group()))
    written = [path.name for path in synced if path != folder]
    assert written == [".group-0001.json.gz.new", ".manifest.json.new"]
    assert [path == folder for path in synced] == [False, True, False, True], "and so is each name"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_disk_full(folder):
    """Guard: what did not fit is taken back.  The limit is the kernel's own, on the size of every file."""
    import resource

    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    many = group("M=9;N=9;K=9", cases=tuple(f"case {n}" for n in range(12)), n=3000)

    def fill():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        with Store.reopen(folder) as again:
            for _ in range(2):
                with pytest.raises(StoreError, match=r"File too large; the limit on the size of files .* is too low"):
                    again.append(many)

    child = os.fork()
    if child == 0:
        try:
            fill()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with Store.reopen(folder) as again:
        again.append(many)
    assert len(load_run(folder).measurements) == 14


def test_ctrl_c_waits_for_a_group_to_be_whole(opened, folder, monkeypatch):
    real = store._replace

    def interrupted(path, data):
        os.kill(os.getpid(), signal.SIGINT)
        real(path, data)

    monkeypatch.setattr(store, "_replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened.append(group())
    monkeypatch.undo()
    assert len(load_run(folder).measurements) == 2
    assert opened.covered(["a", "b"])
