"""Several commands in one process: each a run of its own, one worker for all, every end with its exit code."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness_support import FAST, ROOT, contestant, small

from harness.command import batch as commands
from harness.command import cli
from harness.records import provenance
from harness.runs import load_run


def command(results, K, log="", fake="Good"):
    words = [*FAST, *small(), f"problem.K={K}", *contestant("mine", fake, **({"log": log} if log else {}))]
    return [*words, "implementations=[mine]", f"results_dir={results}"]


def run(given):
    codes = []
    return commands.run(given, codes.append), codes


def processes(log):
    """Of each preparation, in order, the process that did it."""
    return [line.split()[-1] for line in Path(log).read_text().splitlines()]


def test_commands_are_runs_of_their_own_with_one_worker(tmp_path):
    """Guard: the worker outlives a command; without that each run pays for starting one."""
    log = tmp_path / "log"
    assert run([command(tmp_path, 32, log), command(tmp_path, 64, log)]) == (0, [0, 0])
    runs = [load_run(path.parent) for path in sorted(tmp_path.glob("*/*/*/manifest.json"))]
    assert sorted(row.problem for one in runs for row in one.measurements.itertuples()) == [
        "M=64;N=48;K=32",
        "M=64;N=48;K=64",
    ]
    assert [one.manifest["status"] for one in runs] == ["completed"] * 2
    assert len(set(processes(log))) == 1
    assert not alive(int(processes(log)[0])), "the batch has ended, and its worker with it"


def test_what_ends_badly_is_the_exit_code_and_the_next_command_runs(tmp_path, capfd, monkeypatch):
    log = tmp_path / "log"

    def ends_badly(words, worker):
        if words[0] == "bug":
            raise ZeroDivisionError
        if words[0] == "leave":
            raise SystemExit("not like this")
        return cli_main(words, worker)

    cli_main = cli.main
    monkeypatch.setattr(cli, "main", ends_badly)
    given = [
        command(tmp_path, 32, fake="Raises"),
        ["workload=gem"],
        ["bug"],
        ["leave"],
        ["--help"],
        command(tmp_path, 64, log),
    ]
    assert run(given) == (2, [1, 2, 1, 1, 0, 0])
    said = capfd.readouterr()
    assert "'workload/gem'" in said.err
    assert "ZeroDivisionError" in said.err
    assert processes(log)


def test_an_interruption_ends_the_batch(monkeypatch):
    began = []

    def interrupted(words, worker):
        began.append(words)
        return 130

    monkeypatch.setattr(cli, "main", interrupted)
    assert run([["a=1"], ["a=2"]]) == (130, [130])
    assert began == [["a=1"]]


def test_a_reader_that_stops_early_ends_the_batch(monkeypatch):
    """Guard: a traceback, and the other commands ran for nobody."""

    def unread(words, worker):
        raise BrokenPipeError

    monkeypatch.setattr(cli, "main", unread)
    with pytest.raises(BrokenPipeError):
        run([["a=1"], ["a=2"]])


def test_a_command_after_a_change_of_the_sources_is_refused(monkeypatch, capfd):
    """Guard: what runs is what was imported at first; a manifest would name what is there now."""
    sources = iter([provenance.Source("a", False)] * 2 + [provenance.Source("b", False)])
    monkeypatch.setattr(provenance, "source", lambda: next(sources))
    monkeypatch.setattr(cli, "main", lambda words, worker: 0)
    assert run([["a=1"], ["a=2"]]) == (2, [0, 2])
    assert "the sources have changed" in capfd.readouterr().err


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "harness", "batch", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'harness'}"},
        start_new_session=True,
    )


def test_typed_lines_are_commands(tmp_path):
    """Guard: what a command starts does not eat the lines of the next, and comments are none."""
    lines = [
        "# a batch",
        "",
        shlex.join(command(tmp_path, 32, fake="HasNoInput")),
        "workload=gem   # today's",
        "'unbalanced",
        "workload=gem",
    ]
    said, errors = start().communicate("\n".join(lines), timeout=120)
    assert said.count("passed") == 1
    assert errors.count("'workload/gem'") == 1
    assert "'unbalanced: No closing quotation" in errors


def test_a_program_has_an_answer_to_each_line(tmp_path):
    lines = [["workload=gem"], command(tmp_path, 32)]
    child = start("--answers", "2")
    _, answers = child.communicate("\n".join(map(shlex.join, lines)), timeout=120)
    assert [line for line in answers.splitlines() if line.isdigit()] == ["2", "0"]
    assert child.returncode == 2


def test_ctrl_c_between_commands_and_within_one(tmp_path):
    """Guard: it ends the batch with 130, and no worker stays behind."""
    child = start()
    child.stdin.write("workload=gem\n")
    child.stdin.flush()
    assert "'workload/gem'" in child.stderr.readline(), "it waits for the next line"
    time.sleep(0.5)
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait(timeout=240) == 130

    log = tmp_path / "log"
    child = start()
    words = [word for word in command(tmp_path, 32, log, fake="HangsFirst") if "budget" not in word]
    child.stdin.write(shlex.join(words) + "\n")
    child.stdin.flush()
    deadline = time.monotonic() + 240
    while not (log.exists() and processes(log)) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait(timeout=240) == 130
    assert not alive(int(processes(log)[0]))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
