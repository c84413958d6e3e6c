"""A night's steps: what runs in which order, when it stops, what it comes to.  Runs are synthetic, the rest is real."""

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness_replay import record
from harness_support import running

from tools.nightly import __main__ as command
from tools.nightly.night import Options, holds_others, run_night
from tools.nightly.preflight import Preflight
from tools.nightly.processes import TIMED_OUT, Runner

FIT = Preflight(
    {"name": "NVIDIA H200", "driver": "580", "sm_clock_mhz": 345, "sm_clock_max_mhz": 1980, "celsius": 33,
     "power_limit_w": 700.0},
    (),
)  # fmt: skip
_nights = itertools.count(1)


class Machine:
    """Stands for the processes of a night: `python -m harness` stores a synthetic run with the next of `speeds`.

    `night` says in which folder they run: without one nothing can be stored, in the checkout least of all.
    """

    def __init__(self, *speeds, codes=None):
        self.speeds = list(speeds)
        self.codes = codes or {}
        self.commands = []

    def __call__(self, name, words, environment, seconds):
        self.commands.append((name, list(words), dict(environment)))
        code = next((code for part, code in self.codes.items() if part in name), 0)
        if words[2] == "harness" and code in (0, 1):
            given = dict(word.partition("=")[::2] for word in words[3:])
            problems = [word for word in words if word.startswith("problems=")]
            record(
                self.root / given["results_dir"],
                given["run_id"],
                seed=next(_nights),
                speed=self.speeds.pop(0),
                campaign=given["campaign"],
                overrides=[f"name={given['experiment']}", *problems],
            )
        return code

    def named(self, part):
        return [words for name, words, _ in self.commands if part in name]


def options(folder, **other):
    base = {
        "root": folder,
        "results": folder / "results",
        "campaign": "nightly",
        "against": "nightly",
        "report": folder / "report",
        "last": 7,
        "experiments": ("nightly_gemm",),
    }
    return Options(**{**base, **other})


def night(folder, machine, look=FIT, **other):
    machine.root = folder
    return run_night(options(folder, **other), machine, lambda: look)


def summary(folder):
    return (folder / "report" / "summary.md").read_text()


def test_steps_come_in_order_and_a_first_night_is_good(tmp_path):
    machine = Machine(1.0)
    assert not night(tmp_path, machine).failed
    assert [name.partition("-")[0] for name, _, _ in machine.commands] == ["build", "verify", "verify", "measure"]
    assert "results_dir=results" in machine.named("measure")[0], "no path of the machine, which a manifest would keep"
    assert "the first night: there is nothing to compare with" in summary(tmp_path)
    assert json.loads((tmp_path / "report" / "preflight.json").read_text())["driver"] == "580"


def test_the_kernels_for_other_gpus_are_built_and_run_too(tmp_path):
    """Guard: nothing else runs the code for GPUs since Ampere."""
    machine = Machine(1.0)
    night(tmp_path, machine)
    assert machine.named("build")[0][-4:] == ["--target", "gpu", "--target", "sm_80"]
    tests, same = machine.named("verify")
    assert ("gpu" in tests, "tests/tk_kernels" in tests) == (True, True)
    assert same == [*tests, "--target", "sm_80"]
    assert "- verify-sm_80: the same tests pass with the kernels for sm_80" in summary(tmp_path)


def test_two_equal_nights_are_good(tmp_path):
    night(tmp_path, Machine(1.0))
    machine = Machine(1.0)
    assert not night(tmp_path, machine).failed
    assert "2 cases compared with 1 earlier runs, none is slower" in summary(tmp_path)
    assert len(machine.named("measure")) == 1
    assert len(list((tmp_path / "report" / "runs" / "nightly").glob("*/group-0001.json.gz"))) == 1
    assert "| gemm M=64 N=48 K=64 " in (tmp_path / "report" / "nightly_gemm.md").read_text()


def test_a_night_of_other_problems_says_that_nothing_is_compared(tmp_path):
    """Guard: quiet is said of cases that were compared, and of no others."""
    night(tmp_path, Machine(1.0))
    assert not night(tmp_path, Machine(1.0), overrides=("problems=[{M: 32, N: 32, K: 32}]",)).failed
    assert "nothing is compared: no case was timed alike before" in summary(tmp_path)
    assert "none is slower" not in summary(tmp_path)


def test_a_slower_night_is_measured_again_and_is_bad(tmp_path):
    """Guard: the second measurement, of the slower problems alone, with their controls, in a campaign of its own."""
    night(tmp_path, Machine(1.0))
    machine = Machine(1 / 1.03, 1 / 1.03)
    assert night(tmp_path, machine).failed
    first, second = machine.named("measure")
    assert "campaign=nightly-again" in second
    expected = "problems=[{M: 64, N: 48, K: 64, direction: fwd},{M: 64, N: 48, K: 128, direction: fwd}]"
    assert expected in second
    assert not any(word.startswith("problems=") for word in first)
    assert "**2 cases are slower in two measurements**" in summary(tmp_path)
    assert "# Night: not good" in summary(tmp_path)


def test_what_a_second_measurement_does_not_see_is_no_regression(tmp_path):
    night(tmp_path, Machine(1.0))
    assert not night(tmp_path, Machine(1 / 1.03, 1.0)).failed
    assert "SLOWER, SAME the second time" in summary(tmp_path)


def test_a_suspicion_that_cannot_be_settled_is_bad(tmp_path):
    """Guard: failing closed when the second measurement does not come about."""
    night(tmp_path, Machine(1.0))
    assert night(tmp_path, Machine(1 / 1.03, codes={"nightly-again": 137})).failed
    assert "a second measurement could not settle it" in summary(tmp_path)


def test_slowed_build_is_asked_for_everywhere_and_stored_apart(tmp_path):
    night(tmp_path, Machine(1.0))
    machine = Machine(1 / 1.03, 1 / 1.03)
    assert night(tmp_path, machine, slowed=3.0, campaign="nightly-slowed").failed
    assert {environment["TK_SLOWED_PERCENT"] for _, _, environment in machine.commands} == {"3"}
    assert "The build is slowed by 3 % on purpose." in summary(tmp_path)
    assert {folder.name for folder in (tmp_path / "results" / "h200-sxm").iterdir()} == {
        "nightly", "nightly-slowed", "nightly-slowed-again",
    }  # fmt: skip


def test_a_report_holds_one_night_and_what_others_put_there(tmp_path):
    night(tmp_path, Machine(1.0))
    (tmp_path / "report" / "notes.txt").write_text("mine")
    night(tmp_path, Machine(), Preflight({}, ("busy",)))
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        ".nightly",
        "summary.md",
        "preflight.json",
        "notes.txt",
    }


def test_a_night_deletes_no_pages_of_others(tmp_path):
    """Guard: `--report .` in a checkout deleted README.md and each other page there."""
    report = tmp_path / "report"
    report.mkdir()
    assert not holds_others(report)
    (report / "logs").mkdir()
    assert holds_others(report), "anybody's logs"
    (report / "README.md").write_text("mine")
    assert holds_others(report)
    night(tmp_path, Machine(1.0))
    assert (report / "README.md").read_text() == "mine"
    assert not holds_others(report)


def test_an_unfit_machine_measures_nothing(tmp_path):
    """Guard: the preflight stops the night."""
    machine = Machine()
    assert night(tmp_path, machine, Preflight({}, ("2 other processes compute on the GPU",))).failed
    assert machine.commands == []
    assert "**2 other processes compute on the GPU**" in summary(tmp_path)


@pytest.mark.parametrize("step", ["build", "verify", "verify-sm_80"])
def test_nothing_is_measured_after_a_failed_step(tmp_path, step):
    machine = Machine(codes={step: 1})
    assert night(tmp_path, machine).failed
    assert machine.named("measure") == []
    assert f"- {step}: **exit code 1: python -m" in summary(tmp_path)


def test_a_run_that_is_not_stored_is_bad(tmp_path):
    assert night(tmp_path, Machine(codes={"measure": 137})).failed
    assert "not measured, exit code 137: python -m harness experiment=nightly_gemm" in summary(tmp_path)


def test_a_kernel_that_did_not_run_is_bad_on_the_first_night_too(tmp_path):
    """Guard: without it a night on which only the baselines ran would be good, and the baseline of the next."""

    def without_ours(name, words, environment, seconds):
        if words[2] == "harness":
            given = dict(word.partition("=")[::2] for word in words[3:])
            record(
                tmp_path / given["results_dir"],
                given["run_id"],
                seed=1,
                campaign="nightly",
                overrides=["implementations=[cublas]"],
            )
        return 0

    assert run_night(options(tmp_path), without_ours, lambda: FIT).failed
    assert "holds no case of tk" in summary(tmp_path)


def test_skipped_steps_are_said(tmp_path):
    machine = Machine(1.0)
    night(tmp_path, machine, skip=("preflight", "build", "verify"))
    assert [name.partition("-")[0] for name, _, _ in machine.commands] == ["measure"]
    for step in ("preflight", "build", "verify"):
        assert f"- {step}: skipped as asked" in summary(tmp_path)


def test_every_step_numbers_the_gpus_as_the_preflight_does(tmp_path):
    """Guard: without it CUDA puts the fastest first, and the preflight may have looked at another board."""
    machine = Machine(1.0)
    night(tmp_path, machine)
    assert {environment["CUDA_DEVICE_ORDER"] for *_, environment in machine.commands} == {"PCI_BUS_ID"}
    assert len(machine.commands) == 4


def test_prebuilt_kernels_are_used_and_not_built(tmp_path):
    machine = Machine(1.0, 1.0)
    night(tmp_path, machine, prebuilt=tmp_path)
    assert machine.named("build") == []
    assert machine.named("verify-sm_80") == []
    assert "- verify-sm_80: not run, " in summary(tmp_path), "it has no kernels for sm_80"
    (tmp_path / "gemm-sm_80-0").mkdir()
    night(tmp_path, machine, prebuilt=tmp_path)
    assert len(machine.named("verify-sm_80")) == 1
    assert machine.commands[-1][2]["TK_KERNELS_PREBUILT"] == str(tmp_path)


def test_every_nightly_experiment_is_run():
    assert command.experiments() == ("nightly_attention", "nightly_gemm")
    assert command.options([]).experiments == command.experiments()


def test_defaults_and_names(monkeypatch, tmp_path):
    monkeypatch.setenv("TK_KERNELS_PREBUILT", str(tmp_path))
    asked = command.options(["--slowed", "3", "timer.budget_seconds=2"])
    assert (asked.campaign, asked.against, asked.slowed) == ("nightly-slowed", "nightly", 3.0)
    assert asked.prebuilt == tmp_path
    assert asked.overrides == ("timer.budget_seconds=2",)


def test_results_may_be_below_a_home_that_no_shell_has_expanded(monkeypatch, tmp_path):
    """Guard: the workflow quotes its variable, so that `~/runs` arrives as it is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert command.options(["--results", "~/runs"]).results == tmp_path.resolve() / "runs"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--last", "0"], "--last is 0"),
        (["--results", __file__], "is a file, needs to be a folder"),
        (["--slowed", "0"], "--slowed is 0"),
        (["--slowed", "3", "--campaign", "nightly"], "may not become part of what nights are compared with"),
        (["--experiment", "fig7_gemm"], "--experiment fig7_gemm is no nightly experiment"),
        (["budget"], "budget is not of the form KEY=VALUE"),
        (["--campaign", "../x"], "--campaign is '../x', needs a plain folder name"),
        (["--against", "/nowhere"], "--against is '/nowhere', needs a plain folder name"),
        (["--report", str(Path(__file__).parent)], "is not empty and is no report of a night: give another folder"),
    ],
)
def test_mistakes(capsys, arguments, words):
    with pytest.raises(SystemExit) as caught:
        command.options(arguments)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


def test_command_ends_with_the_night_and_adds_its_summary(monkeypatch, tmp_path, capsys):
    machine = Machine(1.0)
    machine.root = tmp_path
    page = tmp_path / "step.md"
    page.write_text("before\n")
    monkeypatch.setenv(command.SUMMARY_VARIABLE, str(page))
    monkeypatch.setattr(command, "Runner", lambda root, logs: machine)
    monkeypatch.setattr(command, "preflight", lambda: FIT)
    words = ["--results", str(tmp_path / "r"), "--report", str(tmp_path / "report"), "--experiment", "nightly_gemm"]
    assert command.main(words) == 0
    assert page.read_text().startswith("before\n# Night: good")
    monkeypatch.setattr(command, "preflight", lambda: Preflight({}, ("busy",)))
    assert command.main(words) == 1


def test_runner_keeps_a_log_passes_the_environment_and_ends_what_hangs(tmp_path, capfd):
    runner = Runner(tmp_path, tmp_path / "logs")
    assert runner("echo", ["sh", "-c", "echo $TK_SLOWED_PERCENT; exit 3"], {"TK_SLOWED_PERCENT": "7"}, 30) == 3
    assert (tmp_path / "logs" / "echo.log").read_text() == "7\n"
    assert "7\n" in capfd.readouterr().out
    assert runner("hang", shlex.split("sleep 60"), {}, 0.3) == TIMED_OUT


def test_what_a_hanging_step_has_started_ends_with_it(tmp_path):
    """Guard: the time limit ends the whole group; a grandchild left would hold the step's output open."""
    begin = time.monotonic()
    assert Runner(tmp_path, tmp_path / "logs")("hang", ["sh", "-c", "sleep 250 & echo $!; wait"], {}, 2) == TIMED_OUT
    assert time.monotonic() - begin < 120
    grandchild = int((tmp_path / "logs" / "hang.log").read_text())
    deadline = time.monotonic() + 60
    while running(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(grandchild)


STEP = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    print("up", flush=True)
    time.sleep(300)
except KeyboardInterrupt:
    pathlib.Path("interrupted").touch()
"""
NIGHT = """
import pathlib, sys
from tools.nightly.processes import Runner
Runner(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1]))("step", [sys.executable, "-c", sys.argv[2]], {}, 300)
"""


def test_an_interrupted_night_interrupts_its_step(tmp_path):
    """Guard: Ctrl-C is handed on to the step's own session."""
    process = subprocess.Popen(
        [sys.executable, "-c", NIGHT, str(tmp_path), STEP],
        cwd=command.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "up\n"
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=250)
    assert process.returncode == -signal.SIGINT
    assert time.monotonic() - begin < 200
    assert (tmp_path / "interrupted").exists()
