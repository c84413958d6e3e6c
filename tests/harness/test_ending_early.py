"""Commands that end early, by an interrupt or a full disk, and what goes on with their runs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness_support import FAST, GOOD, ROOT, bench, contestant, main, of_this_commit, one_line, only_run, small

from harness.command import cli, runner
from harness.measure.supervisor import Supervisor
from harness.runs import load_run
from harness.runs.assemble import assemble


def wait_for_rows(results_dir, count, process, seconds=240):
    """Until the groups that a run folder holds have that many rows."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for path in Path(results_dir).rglob("manifest.json"):  # the last of a group's files to be written
            if sum(len(group["case_ids"]) for group in json.loads(path.read_text())["groups"]) >= count:
                return path.parent
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no rows")


def slow_sweep(tmp_path):
    log = tmp_path / "prepared.log"
    return [
        *FAST,
        *contestant("slow", "Slow", log=log),
        *contestant("other", "Good"),
        "implementations=[slow,other]",
        "problems=[{grid: {M: [8], N: [8], K: [8, 16, 24]}}]",
        "timer.budget_seconds=1",
        f"results_dir={tmp_path / 'results'}",
    ], log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting(tmp_path, number):
    arguments, _ = slow_sweep(tmp_path)
    process = bench(
        [word for word in arguments if not word.startswith("wandb")] + [f"wandb.dir={tmp_path}"], start_new_session=True
    )
    folder = wait_for_rows(tmp_path, 2, process)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"interrupted; what was measured is stored; go on with: python -m harness resume={folder}" in err
    run = load_run(folder)
    assert run.manifest["status"] == "interrupted"
    assert len(run.measurements) >= 2
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 2, "what there is, is mirrored"


MIRRORED = [word for word in FAST if not word.startswith("wandb")]
TWO = [*FAST, *contestant("good", "Good"), "implementations=[good]", "problems=[{grid: {M: [8], N: [8], K: [8, 16]}}]"]


def test_interrupting_the_statistics(tmp_path, monkeypatch, capsys):
    """Guard: the problem that was measured last was lost, where its samples had not reached the disk yet."""

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return assemble(*arguments)

    monkeypatch.setattr(runner, "assemble", interrupted)
    assert main([*TWO, f"results_dir={tmp_path}"]) == 130
    assert "interrupted; what was measured is stored" in capsys.readouterr().err
    run = load_run(only_run(tmp_path))
    assert len(run.manifest["groups"]) == len(run.measurements) == 1


def test_interrupting_before_the_next_problem_begins(tmp_path, monkeypatch):
    """Guard: a problem that waits for the next one to begin is stored where none does."""
    measured, measure = [], Supervisor.measure

    def once(self, group, timer, limits, meanwhile):
        if measured:
            raise KeyboardInterrupt
        measured.append(group)
        return measure(self, group, timer, limits, meanwhile)

    monkeypatch.setattr(Supervisor, "measure", once)
    assert main([*TWO, f"results_dir={tmp_path}"]) == 130
    assert len(load_run(only_run(tmp_path)).measurements) == 1


NOT_MIRRORED = "the run is stored but not mirrored to wandb (interrupted); later: python -m harness.publish"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_while_the_run_is_closed(tmp_path, number, monkeypatch, capsys):
    real = Supervisor.stop

    def stop(self):
        os.kill(os.getpid(), number)
        real(self)

    monkeypatch.setattr(Supervisor, "stop", stop)
    assert cli.main([*MIRRORED, *GOOD, *small(), f"results_dir={tmp_path}", f"wandb.dir={tmp_path}"]) == 130
    assert NOT_MIRRORED in one_line(capsys.readouterr().err)
    assert load_run(only_run(tmp_path)).manifest["status"] == "completed"
    assert not (tmp_path / "wandb").exists()
    assert cli.main([*FAST, *GOOD, *small(), f"results_dir={tmp_path / 'unmirrored'}"]) == 130
    assert "interrupted; the run is stored" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_the_mirror(tmp_path, number, monkeypatch, capsys):
    monkeypatch.setattr("harness.command.cli.publish", lambda folder, **settings: os.kill(os.getpid(), number))
    assert main([*MIRRORED, *GOOD, *small(), f"results_dir={tmp_path}"]) == 130
    assert NOT_MIRRORED in one_line(capsys.readouterr().err)
    assert load_run(only_run(tmp_path)).manifest["status"] == "completed"


def test_interrupting_the_imports():
    code = """
import sys
class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "harness.command.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Importing())
from harness.__main__ import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_resuming_refuses_what_does_not_belong_together(stored_run, tmp_path, capsys, monkeypatch):
    for name, changes, words in (
        ("board", {"gpu": {"name": "NVIDIA H200", "uuid_hash": "other"}}, "is of another board"),
        ("commit", {"git_commit": "0" * 40}, "is of commit 000000000000"),
        ("schema", {"schema_version": 99}, "schema_version: 99"),
        ("old", {"schema_version": 1}, "another version of the program wrote the run: start a new one"),
    ):
        copy = tmp_path / name
        shutil.copytree(stored_run, copy)
        path = copy / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        assert main([f"resume={copy}"]) == 2
        assert words in one_line(capsys.readouterr().err)


def test_resuming_a_complete_run_measures_nothing(stored_run, tmp_path, capsys):
    copy = tmp_path / stored_run.name
    shutil.copytree(stored_run, copy)
    before = {path.name: path.read_bytes() for path in copy.glob("group-*")}
    assert main([f"resume={of_this_commit(copy)}"]) == 0
    assert {path.name: path.read_bytes() for path in copy.glob("group-*")} == before


def test_a_full_disk_in_the_middle_is_said_with_the_way_on(tmp_path, capsys, monkeypatch):
    import errno

    from harness.runs import store

    real = store._replace

    def full(path, data):
        if path.name.startswith("group-"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, data)

    monkeypatch.setattr(store, "_replace", full)
    assert main([*FAST, *GOOD, *small(), f"results_dir={tmp_path}"]) == 1
    err = one_line(capsys.readouterr().err)
    assert "group-0001.json.gz: No space left on device; free some space; go on with: python -m harness resume=" in err
    assert load_run(only_run(tmp_path)).manifest["status"] == "failed"
