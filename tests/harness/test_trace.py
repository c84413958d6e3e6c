"""python -m harness trace on the CPU: what it writes, what it refuses, and that a wrong call leaves nothing."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from harness_support import HERE, ROOT, contestant, ending

from harness.command import trace as command
from harness.command.trace import trace
from harness.plan.help import FLAGS
from harness.plan.implementations import load
from harness.plan.planning import Candidate
from harness.records import provenance
from harness.records.errors import HarnessError
from tk_kernels.implementations import decode

main = ending(command.main)
PAGED = {
    "mla_decode": ["problem.B=2", "problem.Q=1", "problem.H=16", "problem.lengths=300+33"],
    "paged_attention_decode": ["problem.B=2", "problem.Q=1", "problem.H=4", "problem.lengths=300+33"],
}
SMALL = ["workload=mla_decode", "implementations=[tk]", "device=cpu", "seed=3", *PAGED["mla_decode"]]


def gemm(folder: Path, name: str, **options: object) -> list[str]:
    """The words that trace a contestant of harness_tracing.py on a small GEMM."""
    words = [word.replace("harness_fakes.", "harness_tracing.") for word in contestant("mine", name, **options)]
    sizes = ["problem.M=32", "problem.N=32", "problem.K=32"]
    return ["workload=gemm", *words, "implementations=[mine]", "device=cpu", *sizes, f"results_dir={folder}"]


def written(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


@pytest.mark.parametrize("workload", list(PAGED))
def test_a_trace_says_what_it_is_of(workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"workload={workload}", "implementations=[tk]", "device=cpu", "seed=3", "campaign=mine"]
    words += [*PAGED[workload], f"results_dir={tmp_path}"]
    assert main(words) == 0
    (path,) = written(tmp_path)
    assert capsys.readouterr().out.strip() == str(path)
    assert path.parent == tmp_path / "cpu" / "mine" / "traces"
    document = read(path)
    attended = [row for row in document["traceEvents"] if row["ph"] == "X" and row["cat"] == "attend"]
    assert {row["tid"] for row in attended} == {0, 1}, "loads and multiplies of each"
    about = document["otherData"]
    assert path.name == f"{about['trace_id']}.json.gz"
    assert {name: about[name] for name in ("campaign", "workload", "dtype", "direction", "contestant", "seed")} == {
        "campaign": "mine", "workload": workload, "dtype": "bf16", "direction": "fwd", "contestant": "tk", "seed": 3,
    }  # fmt: skip
    assert "lengths=300+33" in about["problem"]
    assert about["git_commit"] == provenance.source().git_commit
    assert about["git_dirty"] in (True, False)
    assert about["gpu"] is None
    assert about["libraries"]["torch"] == torch.__version__
    assert about["kernel"]["name"] == decode.RECORDS
    assert about["kernel"]["target"] == "cpu"
    assert 0 < about["rel_l2_error"] < 0.02
    assert about["started_utc"].endswith("Z")
    assert about["command"].startswith(f"python -m harness trace workload={workload} 'implementations=[tk]'")
    assert about["unit"] == "step", "what the recorder says of its clock is kept"


def test_the_first_problem_and_contestant_of_an_experiment_are_traced(tmp_path: Path) -> None:
    words = ["workload=mla_decode", "device=cpu", "implementations=[tk,torch]", f"results_dir={tmp_path}"]
    problems = ["{B: 1, lengths: 20, Q: 1, H: 16, page: 64}", "{B: 1, lengths: 40, Q: 1, H: 16, page: 64}"]
    about = read(trace([*words, f"problems=[{','.join(problems)}]"]))["otherData"]
    assert about["contestant"] == "tk"
    assert about["problem"] == "B=1;lengths=20;Q=1;H=16;page=64"


def test_the_same_call_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `mtime=0`; a file that is stored in git changes only with what it says."""
    monkeypatch.setattr(provenance, "utc_now", lambda: "2026-11-20T12:00:00Z")
    monkeypatch.setattr(provenance, "new_run_id", lambda: "20261120T120000Z-abcdef")
    path = trace([*SMALL, f"results_dir={tmp_path}"])
    first = path.read_bytes()
    assert first[4:8] == b"\0\0\0\0", "no time of packing"
    path.unlink()
    assert trace([*SMALL, f"results_dir={tmp_path}"]).read_bytes() == first


def test_times_have_four_decimals(tmp_path: Path) -> None:
    """Guard: `round` in `Trace.chrome`; a tenth of a nanosecond is finer than any clock, and half the file."""
    rows = read(trace([*SMALL, f"results_dir={tmp_path}"]))["traceEvents"]
    numbers = [row[name] for row in rows for name in ("ts", "dur") if name in row]
    assert numbers
    assert all(number == round(number, 4) for number in numbers)


def test_a_contestant_of_a_class_may_record(tmp_path: Path) -> None:
    """Guard: `_Completed.trace` hands the call on."""
    path = trace(gemm(tmp_path, "Tracing"))
    assert read(path)["otherData"]["workload"] == "gemm"
    assert read(path)["otherData"]["rel_l2_error"] < 0.01


def test_a_wrong_call_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(gemm(tmp_path, "Tracing", factor=1.1)) == 1
    assert "mine: the traced call is wrong: " in capsys.readouterr().err
    assert written(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["workload=gemm", "implementations=[cublas]"], 2, "cublas records nothing of gemm: decode from paged caches"),
        (["workload=mla_decode", "implementations=[torch]"], 2, "torch records nothing of mla_decode"),
        (["workload=mla_decode", "implementations=['tk[speed=1]']"], 2, "got the option 'speed', it takes"),
        (["workload=mla_decod"], 2, "Could not find 'workload/mla_decod'"),
        (["campain=x"], 2, "Could not override 'campain'"),
        (["implementations=[tk[blocks=1]]"], 2, "quote what holds brackets"),
        (["workload=3"], 2, "name a file of configs/"),
        (["workload=null"], 2, "name a file of configs/"),
        (["--lengths"], 2, "--lengths"),
    ],
)
def test_what_cannot_be_traced_is_one_sentence(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["problem.M=32", "problem.N=32", "problem.K=32"] if "workload=gemm" in words else []
    small = PAGED["mla_decode"] if "workload=mla_decode" in words else []
    assert main([*words, *sizes, *small, "device=cpu", f"results_dir={tmp_path}"]) == code
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""
    assert len(printed.err.strip().splitlines()) == 1
    assert written(tmp_path) == []


def test_a_problem_that_is_not_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(gemm(tmp_path, "Refusing")) == 1
    assert capsys.readouterr().err == "mine: got a problem, takes none\n"
    assert written(tmp_path) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="^device=cuda: torch sees no CUDA GPU here") as caught:
        trace([*SMALL, "device=cuda", f"results_dir={tmp_path}"])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("flag", FLAGS)
def test_help_is_the_modules_own_text(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload=mla_decode", flag]) == 0
    printed = capsys.readouterr().out
    assert "python -m harness trace workload=mla_decode 'implementations=[tk]' campaign=2026-11-paper" in printed
    assert "ui.perfetto.dev" in printed


def test_the_command_as_a_process(tmp_path: Path) -> None:
    """Guard: its exit code and its error are the process's."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}
    command = [sys.executable, "-m", "harness", "trace", *gemm(tmp_path, "Tracing", factor=2)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "the traced call is wrong" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("target", ["harness_fakes.Good", "harness_fakes.function"])
def test_who_does_not_say_how_records_nothing(target: str) -> None:
    """Guard: `trace` is optional in a class, and no function has it."""
    assert load(Candidate.of("mine", {"_target_": target})).trace(None, {}) is None
