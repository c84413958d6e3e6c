"""Several commands in one process: each a run of its own, one worker for all, every end with its exit code."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from harness_support import FAST, ROOT, contestant, small

from harness import cli
from harness.batch import commands
from harness.results import load_run


def command(results, K, log="", fake="Good"):
    words = [*FAST, *small(), f"problem.K={K}", *contestant("mine", fake, **({"log": log} if log else {}))]
    return shlex.join([*words, "implementations=[mine]", f"results_dir={results}"])


def run(lines):
    codes = []
    return commands.run(lines, codes.append), codes


def processes(log):
    """Of each preparation, in order, the process that did it."""
    return [line.split()[-1] for line in Path(log).read_text().splitlines()]


def test_commands_are_runs_of_their_own_with_one_worker(tmp_path):
    """Guard: the worker outlives a command; without that each run pays for starting one."""
    log = tmp_path / "log"
    lines = [command(tmp_path, 32, log), "", "# nothing", command(tmp_path, 64, log)]
    assert run(lines) == (0, [0, 0])
    runs = [load_run(path.parent) for path in sorted(tmp_path.glob("*/*/*/manifest.json"))]
    assert sorted(row.problem for one in runs for row in one.measurements.itertuples()) == [
        "M=64;N=48;K=32",
        "M=64;N=48;K=64",
    ]
    assert [one.manifest["status"] for one in runs] == ["completed"] * 2
    assert len(set(processes(log))) == 1
    assert not alive(int(processes(log)[0])), "the batch has ended, and its worker with it"


def test_what_ends_badly_is_the_exit_code_and_the_next_command_runs(tmp_path, capfd):
    log = tmp_path / "log"
    lines = [
        command(tmp_path, 32, fake="Raises"),
        "workload=gem",
        "'unbalanced",
        "--help",
        command(tmp_path, 64, log),
    ]
    assert run(lines) == (2, [1, 2, 2, 0, 0])
    said = capfd.readouterr()
    assert "did you mean gemm?" in said.err
    assert "'unbalanced: No closing quotation" in said.err
    assert processes(log)


def test_an_interruption_ends_the_batch(monkeypatch):
    began = []

    def interrupted(words, worker):
        began.append(words)
        return 130

    monkeypatch.setattr(cli, "main", interrupted)
    assert run(["a=1", "a=2"]) == (130, [130])
    assert began == [["a=1"]]


def test_the_command_reads_lines_and_answers_each(tmp_path):
    """Guard: what a command starts does not eat the lines of the next."""
    child = subprocess.Popen(
        [sys.executable, "-m", "harness.batch", "--answers", "1"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'harness'}"},
    )
    for line, code in (("workload=gem", "2"), (command(tmp_path, 32), "0")):
        child.stdin.write(f"{line}\n")
        child.stdin.flush()
        for said in child.stdout:
            if said.strip() == code:
                break
        else:
            pytest.fail(f"no answer to {line}")
    child.stdin.close()
    assert child.wait(timeout=60) == 2


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
