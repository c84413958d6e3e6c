"""The run folder: what is written survives torn lines, full disks, Ctrl-C and other invocations."""

import errno
import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from harness_support import MANIFEST, VERIFIED, group

from harness import results, store
from harness.errors import HarnessError
from harness.records import Measurement, ProfileMetric, Status
from harness.results import ResultsError, load_campaign, load_run
from harness.store import Store, StoredGroup, StoreError, run_folder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "c" / MANIFEST["run_id"]


@pytest.fixture
def opened(folder):
    with Store.create(folder, MANIFEST) as made:
        yield made


def test_a_new_run_is_readable_before_anything_is_measured(opened, folder):
    run = load_run(folder)
    assert run.measurements.empty
    assert list(run.measurements.columns) == list(Measurement.columns())
    assert run.samples("a").size == 0
    assert run.manifest["groups"] == []
    assert run.manifest["schema_version"] == 1


def test_a_group_reads_back(opened, folder):
    metric = ProfileMetric(run_id="r", case_id="a", kernel_name="k", metric="m", value=1.5, unit="GB/s")
    opened.append(replace(group(), profile=(metric,)))
    run = load_run(folder)
    assert [Measurement.from_row(row) for row in _rows(folder / "measurements.csv")] == list(group().measurements)
    assert run.measurements["case_id"].tolist() == ["a", "b"]
    assert run.measurements["tflops"].dtype == np.float64
    assert len(run.ratios) == 2
    assert run.profile.iloc[0]["value"] == 1.5
    np.testing.assert_allclose(run.samples("a"), np.linspace(9, 11, 30))
    assert run.rounds("b").tolist() == list(range(30))
    assert run.manifest["groups"][0]["energy_j"] == 12.0


def _rows(path):
    import csv

    with open(path) as file:
        return list(csv.DictReader(file))


def test_timing_again_replaces_what_readers_see(opened, folder):
    opened.append(group())
    opened.append(group(n=40, tflops=800.0))
    run = load_run(folder)
    assert run.measurements["n_samples"].tolist() == [40, 40]
    assert run.measurements["tflops"].tolist() == [800.0, 800.0]
    assert len(run.samples("a")) == 40
    assert len(run.ratios) == 2
    assert len(_rows(folder / "measurements.csv")) == 4  # appended, never edited


def test_what_covers_a_group(opened):
    opened.append(group(cases=("a", "b", "c")))
    assert opened.covered(["a", "b"])
    assert opened.covered(["c"])
    assert not opened.covered(["a", "d"])
    opened.append(group(cases=("a", "d")))  # `a` was timed again, apart from `b`
    assert opened.covered(["a", "d"])
    assert not opened.covered(["a", "b"])
    assert opened.covered(["b", "c"])


def test_a_failure_covers_nothing(opened):
    failed = replace(VERIFIED, case_id="b", status=Status.ERROR, reason="x")
    opened.append(StoredGroup((group().measurements[0], failed), (), {"a": group().samples["a"]}))
    assert opened.covered(["a"])
    assert not opened.covered(["a", "b"])


@pytest.mark.parametrize("name", ["measurements.csv", "ratios.csv"])
def test_torn_csv(folder, name):
    """Guard: resuming cuts a torn line, and measures again what it was the row of.  Readers refuse it in words."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
        first = (folder / name).stat().st_size
        made.append(group("M=9;N=9;K=9", cases=("c", "d")))
    whole = (folder / name).read_bytes()
    saved = folder.with_name("saved")
    shutil.copytree(folder, saved)
    rows = whole[first:].splitlines(keepends=True)
    ends = {first + 1, len(whole) - 1, first + len(rows[0]) - 1, first + len(rows[0]), first + len(rows[0]) + 9}
    for end in sorted(ends):
        (folder / name).write_bytes(whole[:end])
        if whole[end - 1 : end] != b"\n":
            with pytest.raises(ResultsError, match=rf"{name} is truncated.*resume="):
                load_run(folder)
        with Store.reopen(folder) as again:
            assert again.covered(["a", "b"]), end
            assert not again.covered(["c"]), f"cut at {end} of {len(whole)}: a row is missing"
            again.append(group("M=9;N=9;K=9", cases=("c", "d")))
        assert (folder / name).read_bytes() == whole, end
        assert len(load_run(folder).measurements) == len(load_run(folder).ratios) == 4
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)


@pytest.mark.parametrize("name", ["measurements.csv", "ratios.csv"])
def test_torn_csv_of_an_older_run(folder, name):
    """As above, where the manifest does not say how long the tables are: guards are the line and the number of rows."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
        made.append(group("M=9;N=9;K=9", cases=("c", "d")))
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for one in manifest["groups"]:
        del one["bytes"]
    path.write_text(json.dumps(manifest))
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-9])
    with Store.reopen(folder) as again:
        assert again.covered(["a", "b"])
        assert not again.covered(["c", "d"])
        again.append(group("M=9;N=9;K=9", cases=("c", "d")))
    assert len(load_run(folder).measurements) == len(load_run(folder).ratios) == 4


@pytest.mark.parametrize("name", ["measurements.csv", "ratios.csv"])
def test_what_a_crash_left_behind_the_last_group_is_cut(folder, name):
    """Guard: rows that no group of the manifest counts are cut when the folder is opened again."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole + whole.splitlines(keepends=True)[-1] + b"half a ro")
    with Store.reopen(folder) as again:
        assert again.covered(["a", "b"])
    assert (folder / name).read_bytes() == whole


def test_a_group_whose_samples_and_rows_disagree_is_forgotten(folder):
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
        made.append(group("other", cases=("x",)))
        other = made._merged_samples({"a": (np.ones(5), np.arange(5))}, ["a"])
    store._replace(folder / "samples.parquet", store._parquet(other))
    with pytest.raises(ResultsError, match="holds 5 samples of case a"):
        load_run(folder)
    with Store.reopen(folder) as again:
        assert not again.covered(["a", "b"])
        assert again.covered(["x"])
        again.append(group())
    assert len(load_run(folder).samples("a")) == 30


@pytest.mark.parametrize("stage", ["samples.parquet", "ratios.csv", "measurements.csv", "manifest.json"])
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


def test_two_invocations_never_share_a_folder(opened, folder):
    with pytest.raises(StoreError, match="is in use by another invocation"):
        Store.reopen(folder)


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


def test_resuming_what_is_not_there(tmp_path):
    with pytest.raises(HarnessError, match="there is no such folder"):
        Store.reopen(tmp_path / "nowhere")


@pytest.mark.parametrize("campaign", ["", "a/b", "..", ".hidden", "/abs"])
def test_campaigns_are_plain_names(campaign):
    with pytest.raises(HarnessError, match="plain folder name"):
        run_folder("results", "h200-sxm", campaign, "r")
    assert str(run_folder("results", "h200-sxm", "2026-11-paper", "r")) == "results/h200-sxm/2026-11-paper/r"


def test_notes_are_kept_once(opened, folder):
    for _ in range(2):
        opened.note("no ncu here")
    assert json.loads((folder / "manifest.json").read_text())["notes"] == ["no ncu here"]


# ---- ends of every kind

DEADLY = ("write", "fsync", "replace", "rename", "truncate", "unlink", "open", "close", "mkdir")
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


TABLES = ("measurements.csv", "ratios.csv", "profile.csv", "samples.parquet")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_kill_before_every_call_and_a_rerun_give_the_same_tables(tmp_path):
    """Guards: the manifest commits a group; reopening takes back what it does not count; a folder appears whole."""
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


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_disk_full(folder):
    """Guard: what did not fit is taken back.  The limit is the kernel's own, on the size of every file."""
    import resource

    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    many = group("M=9;N=9;K=9", cases=tuple(f"case {n}" for n in range(12)))

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


# ---- readers of damaged folders


def damage_manifest(folder, drop="", **changes):
    path = folder / "manifest.json"
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key != drop}
    path.write_text(json.dumps({**kept, **changes}))


def test_a_file_from_before_the_optional_columns_reads_them_as_empty(folder):
    """Guard: `optional` in harness/records.py; recorded runs stay readable."""
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    path = folder / "measurements.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.drop(columns=list(Measurement.optional())).to_csv(path, index=False)
    run = load_run(folder)
    assert tuple(run.measurements.columns) == Measurement.columns()
    assert run.measurements["settled_energy_mj"].isna().all()
    table.drop(columns=["settled_energy_mj"]).to_csv(path, index=False)
    with pytest.raises(ResultsError, match="settled_energy_mj"):
        load_run(folder)


def drop_column(folder):
    table = pd.read_csv(folder / "measurements.csv")
    table.drop(columns="tflops").to_csv(folder / "measurements.csv", index=False)


def short_row(folder):
    with open(folder / "ratios.csv", "a") as file:
        file.write("only,three,cells\n")


def bad_number(folder):
    path = folder / "ratios.csv"
    path.write_text(path.read_text() + "r,c,b,fast,0.9,1.1,SAME\n")


DAMAGES = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "is not a run folder"),
    "half a manifest": (lambda f: (f / "manifest.json").write_text('{"run_id": '), "truncated or damaged"),
    "a list": (lambda f: (f / "manifest.json").write_text("[]"), "holds a list"),
    "other schema": (
        lambda f: damage_manifest(f, schema_version=99),
        "schema version 99, this program reads version 1",
    ),
    "binary": (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe\x00"), "cannot be read"),
    "no run id": (lambda f: (f / "manifest.json").write_text('{"schema_version": 1}'), "lacks run_id"),
    "no config": (lambda f: damage_manifest(f, drop="config"), "manifest.json lacks config: restore"),
    "no groups": (lambda f: damage_manifest(f, drop="groups"), "manifest.json lacks groups"),
    "groups": (lambda f: damage_manifest(f, groups=3), "has groups = 3, needs a list"),
    "a group": (lambda f: damage_manifest(f, groups=[{"case_ids": ["a"]}]), "has groups without lists of case_ids"),
    "no list of groups": (lambda f: damage_manifest(f, groups=[3]), "has groups without lists of case_ids"),
    "builds": (lambda f: damage_manifest(f, kernel_builds=[]), r"has kernel_builds = \[\], needs an object"),
    "a build": (lambda f: damage_manifest(f, kernel_builds={"tk": 3}), "has kernel_builds that are no objects"),
    "arguments": (lambda f: damage_manifest(f, arguments=[3]), "has arguments that are no texts"),
    "gpu": (lambda f: damage_manifest(f, gpu="H200"), "has gpu = 'H200', needs an object or null"),
    "no measurements": (lambda f: (f / "measurements.csv").unlink(), "measurements.csv is missing"),
    "empty": (lambda f: (f / "measurements.csv").write_text(""), "measurements.csv is truncated"),
    "column gone": (drop_column, "tflops differ"),
    "short row": (short_row, "has 3 cells, needs 7"),
    "bad number": (bad_number, "ratios.csv, column ratio_p50"),
    "no samples": (lambda f: (f / "samples.parquet").unlink(), "samples.parquet is missing: .* in a new run"),
    "half the samples": (
        lambda f: (f / "samples.parquet").write_bytes((f / "samples.parquet").read_bytes()[:-20]),
        "samples.parquet is truncated or damaged .* in a new run",
    ),
    "other samples": (
        lambda f: pd.DataFrame({"x": [1]}).to_parquet(f / "samples.parquet"),
        r"has columns \['x'\]",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_one_sentence(folder, name):
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    damage, words = DAMAGES[name]
    damage(folder)
    with pytest.raises(ResultsError, match=words) as caught:
        load_run(folder)
    assert "\n" not in str(caught.value)
    if "resume=" not in str(caught.value):  # what resuming does not repair, it refuses
        refusal = ""
        try:
            with Store.reopen(folder) as again:
                assert again.covered(["a", "b"])
            assert len(load_run(folder).ratios) == 2
        except HarnessError as refused:
            refusal = str(refused)
        cut = name in ("short row", "bad number")  # behind the last group
        assert refusal == ("" if cut else str(caught.value))


def test_a_campaign_is_its_runs_newest_first(tmp_path, folder):
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    later = folder.with_name("20261121T120000Z-000000")
    shutil.copytree(folder, later)
    damage_manifest(later, run_id=later.name, started_utc="2026-11-21T12:00:00Z")
    (folder.parent / "notes.txt").write_text("not a run")
    assert [run.run_id for run in load_campaign(folder.parent)] == [later.name, MANIFEST["run_id"]]
    with pytest.raises(ResultsError, match="is not a folder"):
        load_campaign(tmp_path / "nowhere")
    (later / "manifest.json").unlink()
    with pytest.raises(ResultsError, match=f"{later.name} is not a run folder: it has no manifest.json"):
        load_campaign(folder.parent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultsError, match="holds no run"):
        load_campaign(tmp_path / "empty")


def test_the_reader_needs_neither_torch_nor_hydra():
    import subprocess
    import sys

    code = "import sys, harness.results; sys.exit(any(name in sys.modules for name in ('torch', 'hydra', 'wandb')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=results.__file__.rsplit("/", 2)[0]).returncode == 0
