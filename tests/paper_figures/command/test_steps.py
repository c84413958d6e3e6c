"""The steps that are other programs: their commands, as the harness reads them, and how they end."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from reproduction_support import MEASURED, TABLE1

from paper_figures.command import steps
from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.configuration import composed
from tk_kernels.toolchain import target_of_capability


def test_passes_are_counted_in_the_newest_verification(tmp_path: Path, synthetic: ModuleType) -> None:
    folder = tmp_path / steps.VERIFICATION / "cpu" / "verify"
    assert steps.passed_cases(TABLE1, tmp_path) == 0
    synthetic.write_run(folder, "table1_stages", "20260101T000000Z-aaaaaa")
    synthetic.write_run(folder, "fig7_gemm", "20260103T000000Z-cccccc")
    assert steps.passed_cases(TABLE1, tmp_path) == 5
    broken = synthetic.write_run(folder, "table1_stages", "20260102T000000Z-bbbbbb", rate=lambda *_: "error: wrong")
    assert steps.passed_cases(TABLE1, tmp_path) == 0
    found = steps.not_passed(TABLE1, tmp_path)
    assert len(found) == 5
    assert all(": error, wrong" in line for line in found)
    (broken / "group-0001.json.gz").unlink()
    assert steps.passed_cases(TABLE1, tmp_path) == 5


def test_commands_can_be_read_by_the_harness() -> None:
    """Hydra composes every verification command, and its plan has the small problems and our variants only."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from harness.plan.planning import make_plan

    for exhibit in (one for one in MEASURED if one.small_problems):
        words = [word for word in steps.verify_step(exhibit).command if "=" in word]
        with initialize_config_dir(str(steps.CONFIGS), version_base="1.3"):
            config = OmegaConf.to_container(compose("config", overrides=words), resolve=True)
        assert isinstance(config, dict)
        plan = make_plan({str(key): value for key, value in config.items()}, words)
        assert len(plan.groups) == len(exhibit.small_problems) > 0
        assert {str(one) for one in plan.contestants} <= {str(one) for one in exhibit.load_experiment().contestants}
        assert any(one.implementation == "tk" for one in plan.contestants)


def test_what_is_built_beforehand_is_what_the_contestants_load() -> None:
    by_id = {one.id: one for one in MEASURED}
    loads = {
        "fig7_gemm": ("gemm",),
        "fig8_attention": ("attention", "paged_attention_decode", "decode_plan"),
        "prefill": ("attention", "rotary"),
        "thundermla": ("mla_decode", "decode_plan"),
        "llama_decode": ("llama_decode",),
    }
    for name, kernels in loads.items():
        assert steps.verified_kernels([by_id[name]]) == kernels
    assert steps.verified_kernels([by_id[name] for name in loads]) == tuple(
        dict.fromkeys(kernel for kernels in loads.values() for kernel in kernels)
    )
    assert steps.verified_kernels([]) == ()


def test_experiments_are_read_as_the_harness_reads_them() -> None:
    """The problems' texts are those that the harness will store."""
    from harness.plan.planning import make_plan

    for exhibit in MEASURED:
        experiment = exhibit.load_experiment()
        config = composed(experiment.name)
        plan = make_plan(config)
        assert plan.name == experiment.name
        assert plan.workload == experiment.workload
        stored = [experiment.stored_problem(problem) for problem in experiment.problems]
        assert [(one.problem.text, one.problem.direction, one.problem.dtype) for one in plan.groups] == [
            (one.text, one.direction, one.dtype) for one in stored
        ]
        assert tuple(str(one) for one in plan.contestants) == tuple(str(one) for one in experiment.contestants)
        assert bool(plan.profile_metrics) == experiment.profiled
        assert {column.metric for column in exhibit.profile} <= set(plan.profile_metrics)
        assert config["distribution"] == experiment.distribution
        assert config["timer"]["kind"] == experiment.timer


def test_time_is_announced_from_the_harness_own_estimate() -> None:
    # An upper bound: what was recorded took 44 minutes, with two exhibits cut short and without the last four. The
    # longest is gemm_random, of 200 problems.
    models = [one for one in MEASURED if one.by_name_only]  # each case compiles a model
    assert {one.id for one in models} == {
        "collectives",
        "gpt_training",
        "llama_decode",
        "mamba2_prefill",
        "prefill",
        "recall",
    }
    kernels = [one for one in MEASURED if one not in models]
    assert 55 < steps.estimated_minutes(kernels, timed=True) <= 110  # windows, mixers, backward passes: 12 of them
    small = [one for one in models if one.id in ("mamba2_prefill", "recall")]
    assert 40 < steps.estimated_minutes([one for one in models if one not in small], timed=True) <= 80
    assert 5 < steps.estimated_minutes(small, timed=True) <= 15  # not recorded yet
    fig8 = next(one for one in MEASURED if one.id == "fig8_attention")
    assert steps.estimated_minutes([fig8], timed=True) > len(fig8.load_experiment().problems) * 3 / 60  # each is timed
    assert max(steps.estimated_minutes([one], timed=True) for one in kernels) < 10
    quick = [one for one in MEASURED if one.quick_problems]
    assert 1 < steps.estimated_minutes(quick, timed=True, quick=True) < 5
    verified = [one for one in MEASURED if one.small_problems]
    assert 10 < 60 * steps.estimated_minutes(verified, timed=False) < 44  # within twice what it took: 22 s


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_step_is_a_process_in_the_repository(code: int, capfd: pytest.CaptureFixture[str]) -> None:
    program = f"import os, harness.runs; print(os.getcwd()); raise SystemExit({code})"
    assert steps.run_step(steps.Step("try", (sys.executable, "-c", program))) == code
    assert capfd.readouterr().out.strip() == str(steps.ROOT)
    with pytest.raises(PaperFiguresError, match=r"cannot try: /nowhere/python does not start"):
        steps.run_step(steps.Step("try", ("/nowhere/python",)))


def interrupted(program: str, folder: Path) -> int:
    """The exit code of a program that gets Ctrl-C, with what it has started, once there is a file `ready`."""
    process = subprocess.Popen([sys.executable, "-c", program, str(folder)], cwd=steps.ROOT, start_new_session=True)
    for _ in range(300):
        if (folder / "ready").exists():
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(timeout=120)


def test_an_interrupted_step_may_store_what_it_has(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group: the child still writes its file, and the command ends with 130."""
    child = (
        "import sys, time, pathlib\ntry:\n pathlib.Path(sys.argv[1] + '/ready').touch(); time.sleep(60)\n"
        "except KeyboardInterrupt:\n time.sleep(1); pathlib.Path(sys.argv[1] + '/stored').touch(); sys.exit(130)"
    )
    parent = (
        "import sys; from paper_figures.command import steps\n"
        f"sys.exit(steps.run_step(steps.Step('try', (sys.executable, '-c', {child!r}, sys.argv[1]))))"
    )
    assert interrupted(parent, tmp_path) == steps.INTERRUPTED
    assert (tmp_path / "stored").exists()


ANSWERS = "import os, sys; answers = os.fdopen(int(sys.argv[1]), 'w', buffering=1)\n"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """Puts a program in the place of `harness batch`; gives the file to which it may write, its second argument."""

    def put(program: str) -> Path:
        command = (sys.executable, "-c", ANSWERS + program)
        monkeypatch.setattr(steps, "_python", lambda *words: (*command, words[-1], str(tmp_path / "log")))
        return tmp_path / "log"

    return put


def test_the_harness_starts_once_and_its_answers_are_exit_codes(stand_in: Callable[[str], Path]) -> None:
    """Guard: all commands go to one process; without that each pays for starting a worker."""
    log = stand_in(
        "with open(sys.argv[2], 'a') as log:\n"
        " for line in sys.stdin: print(os.getpid(), line.strip(), file=log); print(line.count('c'), file=answers)"
    )
    with steps.Harness() as harness:
        assert steps.run_step(steps.Step("one", ("/nowhere",), harness_words=("ab", "d e")), harness) == 0
        assert steps.run_step(steps.Step("two", ("/nowhere",), harness_words=("a", "bcc")), harness) == 2
        assert steps.run_step(steps.Step("other", (sys.executable, "-c", "raise SystemExit(1)")), harness) == 1
    first, second = log.read_text().splitlines()
    assert shlex.split(first)[1:] == ["ab", "d e"]
    assert first.split()[0] == second.split()[0], "one process"


def test_another_harness_starts_when_the_sources_have_changed(
    stand_in: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: a process keeps what it has imported, and its manifests would name what is there now."""
    log = stand_in(
        "for line in sys.stdin:\n"
        " with open(sys.argv[2], 'a') as log: print(os.getpid(), file=log)\n"
        " print(0, file=answers)"
    )
    sources = iter([steps.Source("a", False)] * 2 + [steps.Source("a", True)])
    monkeypatch.setattr(steps, "source", lambda: next(sources))
    with steps.Harness() as harness:
        assert [harness.run(("a",)) for _ in range(3)] == [0] * 3
    first, second, third = log.read_text().split()
    assert first == second != third


def test_a_harness_that_does_not_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_python", lambda *words: ("/nowhere/python", *words))
    with steps.Harness() as harness, pytest.raises(PaperFiguresError, match="/nowhere/python does not start"):
        harness.run(("a",))


@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("sys.exit(0)", 1)])
def test_a_harness_that_ends_without_an_answer_is_started_again(
    stand_in: Callable[[str], Path], end: str, code: int
) -> None:
    """Guard: its end is its answer, never that all went well."""
    stand_in(f"line = sys.stdin.readline()\nif 'bad' in line: {end}\nprint(0, file=answers)")
    with steps.Harness() as harness:
        assert harness.run(("bad",)) == code
        for _ in range(3):  # ends after each
            assert harness.run(("good",)) == 0
            assert harness._running is not None
            harness._running.process.wait()


def test_an_interrupted_harness_may_store_what_it_has(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group: the child still writes its file, and the command ends with 130."""
    child = (
        "import sys, time, pathlib\ntry:\n sys.stdin.readline(); pathlib.Path(sys.argv[1] + '/ready').touch()\n"
        " time.sleep(60)\n"
        "except KeyboardInterrupt:\n time.sleep(1); pathlib.Path(sys.argv[1] + '/stored').touch(); sys.exit(130)"
    )
    parent = (
        "import sys; from paper_figures.command import steps\n"
        f"steps._python = lambda *words: (sys.executable, '-c', {child!r}, sys.argv[1])\n"
        "with steps.Harness() as harness:\n sys.exit(harness.run(('a', 'b')))"
    )
    assert interrupted(parent, tmp_path) == steps.INTERRUPTED
    assert (tmp_path / "stored").exists()


def test_a_command_of_the_harness_is_done_by_it(tmp_path: Path) -> None:
    """The process that stands behind it, and what is shown is what one would type."""
    step = steps.verify_step(next(one for one in MEASURED if one.id == "table1_stages"))
    assert step.shown.startswith("python -m harness experiment=table1_stages ")
    assert step.harness_words == step.command[3:]
    with steps.Harness() as harness:
        assert harness.run(("workload=gem",)) == steps.MISTAKE
        assert harness.run(("experiment=table1_stages", "device=cpu", "plan=true")) == steps.OK


@pytest.mark.parametrize(
    ("capability", "too_old", "runs_all"),
    [((7, 5), True, False), ((8, 0), False, False), ((8, 6), False, False), ((8, 9), False, False),
     ((9, 0), False, True), ((10, 0), False, False), ((12, 0), False, False)],
)  # fmt: skip
def test_a_gpu_is_known_by_its_capability(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], too_old: bool, runs_all: bool
) -> None:
    import pynvml

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", lambda handle: capability)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: "A GPU")
    found = steps.find_gpu()
    assert found == steps.Gpu("A GPU", capability)
    assert (found.too_old, found.runs_all) == (too_old, runs_all)
    assert found.too_old == (target_of_capability(capability) is None), "as the toolchain has it"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert steps.find_gpu() is None


def test_what_the_harness_says_goes_to_the_log(
    tmp_path: Path, stand_in: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    stand_in("print('a table', flush=True); print('a reason', file=sys.stderr, flush=True); print(1, file=answers)")
    with steps.Harness(tmp_path / "said") as harness:
        assert harness.run(("a",)) == 1
    assert (tmp_path / "said").read_text() == "a table\na reason\n"
    assert capfd.readouterr() == ("", "")
