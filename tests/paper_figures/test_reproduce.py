"""`reproduce-paper`: what it runs where, what it says, how it ends."""

from __future__ import annotations

import datetime
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

from harness.provenance import Source
from paper_figures import digest, keeping, reproduce, steps
from paper_figures.campaign import find_campaign, load_runs
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibit import Exhibit, choose_exhibits, load_exhibits, measured_exhibits
from paper_figures.keeping import Place, settings
from paper_figures.readme import BEGIN, END, results_block, update_readme
from paper_figures.report import Report, make_report, write_report

FEW = measured_exhibits(choose_exhibits(["table1", "table2", "fig6"]))
"""What the command is asked for here: each step is the same for all exhibits, and a report on all takes a while."""
TABLE1 = FEW[0]
MEASURED = measured_exhibits(load_exhibits())
CODE = Source("0123456789abcdef", False)
"""What the made-up runs are of."""


def here(place: Path, **other: object) -> Place:
    """Where the command measures into the campaign `mine`."""
    return replace(Place(place / "results", "mine", "NVIDIA H200", CODE), **other)  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository root of its own, with no recorded digests and no GPU, in which no process is started."""
    monkeypatch.setattr(reproduce, "ROOT", tmp_path)
    monkeypatch.setattr(reproduce, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(digest, "DIGESTS", tmp_path / "report.sha256")
    monkeypatch.setattr(steps, "hopper_gpu", lambda: None)
    monkeypatch.setattr(reproduce, "source", lambda: CODE)
    monkeypatch.setattr(reproduce, "choose_exhibits", lambda names: choose_exhibits(names) if names else FEW)
    monkeypatch.setattr("paper_figures.report.draw_exhibit", lambda *_: Figure(figsize=(1, 1)))  # nobody looks at it
    return tmp_path


@pytest.fixture(scope="module")
def few_runs(tmp_path_factory: pytest.TempPathFactory, synthetic: ModuleType) -> Path:
    """The folder of one campaign, made once."""
    folder = tmp_path_factory.mktemp("results") / "h200-sxm" / "paper"
    for number, exhibit in enumerate(FEW):
        synthetic.write_run(folder, exhibit.id, f"20260102T0304{number:02}Z-abc1{number:02}")
    return folder


@pytest.fixture
def recorded(place: Path, few_runs: Path) -> Path:
    """The results folder with one campaign, a copy that a test may damage."""
    return shutil.copytree(few_runs, place / "results" / "h200-sxm" / "paper")


class Processes:
    """Stands for the processes: keeps the steps and answers with exit codes."""

    def __init__(self, *codes: int) -> None:
        self.steps: list[steps.Step] = []
        self.codes = list(codes)

    def __call__(self, step: steps.Step) -> int:
        self.steps.append(step)
        return self.codes.pop(0) if self.codes else 0

    @property
    def words(self) -> list[str]:
        return [" ".join(step.command[1:]) for step in self.steps]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    fake = Processes()
    monkeypatch.setattr(steps, "run_step", fake)
    counts = small_cases()
    monkeypatch.setattr(steps, "passed_cases", lambda exhibit: counts[exhibit.id])
    return fake


def small_cases() -> dict[str, int]:
    """How many cases each exhibit verifies where nothing is timed."""
    return {one.id: len(one.small_problems) * len(steps.verified_contestants(one)) for one in FEW}


def run(place: Path, *words: str) -> int:
    return reproduce.main([*words, "--output", str(place / "report")])


def test_without_a_gpu_everything_is_verified_and_the_recorded_times_reported(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place) == 0
    assert processes.words[0] == "-m tk_kernels.toolchain build --target cpu"
    assert len(processes.words) == 1 + len(FEW)
    assert all("device=cpu" in words and "wandb=disabled" in words for words in processes.words[1:])
    said = capsys.readouterr().out
    assert said.startswith("No Hopper GPU here: nothing is timed.")
    assert "results/h200-sxm/paper" in said.splitlines()[0]
    cases = sum(small_cases().values())
    assert f"verified here, on the cpu target: {cases} of {cases} cases passed" in said
    assert "recorded, not measured here" in said
    assert (place / "report" / "index.html").exists()


def test_a_kernel_that_fails_verification_is_exit_1_and_the_report_is_still_made(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    processes.codes = [0, 0, 1]
    assert run(place) == 1
    assert "1 of the steps above failed" in capsys.readouterr().err
    assert (place / "report" / "index.html").exists()


def test_cases_that_did_not_run_are_no_pass(
    place: Path,
    recorded: Path,
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The harness ends with 0 where a case cannot run on a machine; here that is a failure."""
    monkeypatch.setattr(steps, "passed_cases", lambda exhibit: 1)
    assert run(place) == 1
    assert f"{len(FEW)} of {sum(small_cases().values())} cases passed" in capsys.readouterr().out


def test_passes_are_counted_in_the_newest_verification(tmp_path: Path, synthetic: ModuleType) -> None:
    folder = tmp_path / steps.VERIFICATION / "cpu" / "verify"
    assert steps.passed_cases(TABLE1, tmp_path) == 0
    synthetic.write_run(folder, "table1_stages", "20260101T000000Z-aaaaaa")
    synthetic.write_run(folder, "fig7_gemm", "20260103T000000Z-cccccc")
    assert steps.passed_cases(TABLE1, tmp_path) == 5
    broken = synthetic.write_run(folder, "table1_stages", "20260102T000000Z-bbbbbb", rate=lambda *_: "error: wrong")
    assert steps.passed_cases(TABLE1, tmp_path) == 0
    (broken / "measurements.csv").unlink()
    assert steps.passed_cases(TABLE1, tmp_path) == 5


def test_a_compiler_that_fails_ends_it(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    processes.codes = [1]
    assert run(place) == 1
    assert capsys.readouterr().err.startswith("error: cannot build the kernels for cpu")
    assert len(processes.steps) == 1


def test_an_interruption_is_130_and_stops(place: Path, recorded: Path, processes: Processes) -> None:
    processes.codes = [0, 130]
    assert run(place) == 130
    assert len(processes.steps) == 2


def test_with_a_gpu_every_experiment_is_measured_into_one_campaign(
    place: Path,
    synthetic: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    processes: Processes,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(steps, "hopper_gpu", lambda: "NVIDIA H200")

    def measure(step: steps.Step) -> int:
        processes(step)
        words = dict(word.split("=", 1) for word in step.command if "=" in word)
        if "experiment" in words:
            folder = Path(words["results_dir"]) / "h200-sxm" / words["campaign"]
            exhibit = next(one for one in FEW if one.id == words["experiment"])
            config = {"config": settings(exhibit, any("timer." in word for word in step.command))}
            name = f"20260203T0405{len(list(folder.glob('*'))):02}Z-abc123"
            synthetic.write_run(folder, exhibit.id, name, manifest=config)
        return 0

    monkeypatch.setattr(steps, "run_step", measure)
    assert run(place, "--campaign", "mine", "--quick") == 0
    assert processes.words[0] == "-m tk_kernels.toolchain build --target sm_90a"
    measured = processes.words[1:]
    assert [f"experiment={exhibit.id}" in words for exhibit, words in zip(FEW, measured, strict=True)]
    assert all("device=cuda" in words and "campaign=mine" in words for words in measured)
    assert all("timer.budget_seconds=" in words for words in measured)
    assert "Measured on this machine" in (place / "report" / "index.html").read_text()
    assert "times: measured on this machine" in capsys.readouterr().out

    processes.steps.clear()  # a second time, all is there
    assert run(place, "--campaign", "mine", "--quick") == 0
    assert processes.words == ["-m tk_kernels.toolchain build --target sm_90a"]
    said = capsys.readouterr().out
    assert said.count("kept, this campaign has a complete run") == len(FEW)
    assert "to measure them again, name another campaign: --campaign NAME" in said

    processes.steps.clear()  # short measurements are not those that were asked for
    assert run(place, "--campaign", "mine") == 0
    assert len(processes.words) == 1 + len(FEW)
    assert "as --quick has)" in capsys.readouterr().out


FULL, SHORT = settings(TABLE1, False), settings(TABLE1, True)


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"status": "completed"}, None),
        ({"status": "interrupted"}, "resume="),
        ({"status": "running"}, "resume="),
        ({"git_commit": "other"}, "is of commit other"),
        ({"git_dirty": True}, "was measured with changes that were not committed"),
        ({"git_dirty": True, "status": "interrupted"}, "was measured with changes that were not committed"),
        ({"experiment": "other"}, "verify and measure Table 1"),
        ({"config": SHORT}, "settings of the timer, as --quick has"),
        ({"config": SHORT, "status": "interrupted"}, "settings of the timer, as --quick has"),
        ({"config": {**FULL, "problems": [{"M": 1, "N": 1, "K": 1}]}}, "has other problems"),
        ({"config": {**FULL, "implementations": ["tk"]}}, "contestants"),
    ],
)
def test_only_finished_runs_of_this_code_and_these_settings_are_kept(
    place: Path, synthetic: ModuleType, manifest: dict[str, str], expected: str | None
) -> None:
    folder = here(place).folder
    synthetic.write_run(folder, "table1_stages", manifest={"config": FULL, **manifest})
    step = steps.measure_step(TABLE1, here(place), False)
    assert (step is None) == (expected is None)
    if step is not None and expected is not None:
        assert expected in f"{step.shown} {step.title}"
        assert step.resumes == expected.startswith("resume")
        assert step.resumes or "experiment=table1_stages" in step.shown


def test_a_long_run_does_for_a_quick_one(place: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(here(place).folder, "table1_stages", manifest={"config": FULL})
    assert steps.measure_step(TABLE1, here(place), True) is None


def test_another_gpu_and_a_changed_checkout_are_measured(place: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(here(place).folder, "table1_stages", manifest={"config": FULL})
    assert steps.measure_step(TABLE1, here(place, gpu="NVIDIA H100 80GB HBM3"), False) is not None
    step = steps.measure_step(TABLE1, here(place, source=Source(CODE.git_commit, True)), False)
    assert step is not None
    assert "without the changes that are in this checkout" in step.title


@pytest.mark.parametrize(
    ("said", "again"), [("missing cublas: not installed: pip install it\n", False), ("cublas runs\n", True)]
)
def test_a_contestant_that_was_absent_and_is_here_now_is_measured(
    place: Path, synthetic: ModuleType, monkeypatch: pytest.MonkeyPatch, said: str, again: bool
) -> None:
    """Guard: "measure again once it is installed" must not be answered with "kept"."""
    asked: list[list[str]] = []

    def plan(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(list(command))
        return subprocess.CompletedProcess(command, 0, said, "")

    monkeypatch.setattr(keeping.subprocess, "run", plan)
    rate = {"cublas": "unavailable: not installed: pip install it"}
    synthetic.write_run(
        here(place).folder,
        "table1_stages",
        rate=lambda _, contestant: rate.get(str(contestant), 500.0),
        manifest={"config": FULL},
    )
    step = steps.measure_step(TABLE1, here(place), False)
    assert (step is not None) == again
    assert step is None or "lacks cublas, installed since" in step.title
    assert [word for word in asked[0] if word.startswith(("experiment", "implementations", "plan"))] == [
        "experiment=table1_stages",
        'implementations=["cublas"]',
        "plan=true",
    ]


@pytest.mark.parametrize("quick", [False, True])
def test_settings_are_those_that_the_harness_composes(quick: bool) -> None:
    """Guard: they are compared with a manifest's, so that any difference would measure everything again."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from harness.planning import expand_problems

    for exhibit in MEASURED:
        step = steps.measure_step(exhibit, here(Path("/nowhere")), quick)
        assert step is not None
        with initialize_config_dir(str(steps.CONFIGS), version_base="1.3"):
            composed = compose("config", overrides=[word for word in step.command if "=" in word])
            config = OmegaConf.to_container(composed, resolve=True)
        assert isinstance(config, dict)
        config["problems"] = expand_problems(config["problems"])
        assert settings(exhibit, quick) == {key: config[key] for key in ("timer", "problems", "implementations")}


def test_a_damaged_run_is_not_resumed(place: Path, synthetic: ModuleType) -> None:
    folder = synthetic.write_run(here(place).folder, "table1_stages")
    (folder / "manifest.json").write_text("[]")
    step = steps.measure_step(TABLE1, here(place), False)
    assert step is not None
    assert not step.resumes


def test_a_run_that_cannot_be_resumed_is_measured_anew(
    place: Path, synthetic: ModuleType, monkeypatch: pytest.MonkeyPatch, processes: Processes
) -> None:
    synthetic.write_run(here(place).folder, "table1_stages", manifest={"status": "interrupted", "config": FULL})
    monkeypatch.setattr(steps, "hopper_gpu", lambda: "NVIDIA H200")
    processes.codes = [0, steps.MISTAKE, 0]
    assert run(place, "--campaign", "mine", "--exhibit", "table1") == 0
    assert "resume=" in processes.words[1]
    assert "experiment=table1_stages" in processes.words[2]


def test_from_a_folder_is_the_report_alone_and_says_so_before(
    place: Path,
    recorded: Path,
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guard: the line that comes before the half minute in which nothing else is said."""
    said: list[str] = []

    def made(*arguments: object) -> Report:
        said.append(capsys.readouterr().out)
        return make_report(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(reproduce, "make_report", made)
    assert run(place, "--from", str(recorded)) == 0
    assert processes.steps == []
    assert said[0].startswith("making the report on results/h200-sxm/paper")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 1, "holds no recorded run: restore the folder"),
        (("--campaign", "nothing"), 1, "holds no recorded run of a campaign 'nothing'"),
        (("--from", "nowhere"), 1, "nowhere is not a folder"),
        (("--exhibit", "nonsense"), 2, "there is no exhibit 'nonsense'"),
        (("--exhibit", "tabel2"), 2, "; did you mean table2?"),
        (("--exhibit", "fig8_atention"), 2, "; did you mean fig8_attention?"),
        (("--check",), 1, "report.sha256 does not exist"),
        (("--check", "--exhibit", "table1"), 2, "--check compares the whole report"),
        (("--check", "--readme"), 2, "--check compares the whole report"),
        (("--check", "--quick"), 2, "--check measures nothing: leave out --quick"),
        (("--from", "nowhere", "--quick"), 2, "--from measures nothing: leave out --quick"),
        (("--readme", "--exhibit", "table1"), 2, "--readme keeps the whole report: leave out --exhibit"),
        (("--write-digests", "--exhibit", "table1"), 2, "--write-digests keeps the whole report: leave out --exhibit"),
    ],
)
def test_mistakes_are_one_sentence(
    place: Path,
    processes: Processes,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    assert run(place, *words) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert processes.steps == []


@pytest.mark.parametrize("option", ["--readme", "--write-digests"])
def test_what_is_kept_is_never_made_from_a_single_run(
    place: Path, recorded: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """Guard: the results of the README and the digests are of a campaign; a part would take their place."""
    assert run(place, "--from", str(next(recorded.iterdir())), option) == 2
    assert "is a single run: give the folder of its campaign" in capsys.readouterr().err
    assert not digest.DIGESTS.exists()
    assert not (place / "report").exists()


def test_a_full_disk_is_said_with_the_folder(
    place: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # a write does not know its file

    monkeypatch.setattr(reproduce, "write_report", full)
    assert run(place, "--from", str(recorded)) == 1
    assert capsys.readouterr().err == f"error: cannot write {place / 'report'}: No space left on device\n"


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("measurements.csv", lambda data: data[: len(data) // 2]),
        ("manifest.json", lambda data: data[: len(data) // 2]),
        ("samples.parquet", lambda data: data[: len(data) // 2]),
        ("manifest.json", lambda data: data.replace(b'"schema_version": 1', b'"schema_version": 99')),
        ("ratios.csv", None),
    ],
)
def test_damaged_results_are_one_sentence_before_anything_runs(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str], file: str, damage: object
) -> None:
    path = next(recorded.glob(f"*/{file}"))
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert run(place) == 1
    err = capsys.readouterr().err
    assert file in err
    assert err.count("\n") == 1
    assert processes.steps == []


def test_digests_are_kept_and_checked(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place, "--from", str(recorded), "--write-digests") == 0
    assert "# campaign: results/h200-sxm/paper" in digest.DIGESTS.read_text()
    assert run(place, "--check") == 0
    assert "byte for byte" in capsys.readouterr().out
    digest.DIGESTS.write_text(digest.DIGESTS.read_text().replace("index.html", "page.html", 1))
    assert run(place, "--check") == 1
    err = capsys.readouterr().err
    assert "index.html: no digest is kept of it" in err
    assert "page.html: was not made" in err


def test_other_versions_are_named_when_bytes_differ(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place, "--from", str(recorded), "--write-digests") == 0
    text = digest.DIGESTS.read_text().replace("matplotlib ", "matplotlib 0.")
    digest.DIGESTS.write_text(text.replace(next(line for line in text.splitlines() if ".png" in line)[:8], "00000000"))
    assert run(place, "--check") == 1
    assert "install the versions of constraints.txt" in capsys.readouterr().err


def test_the_readmes_block_is_rewritten_and_nothing_else(report: Report, written: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"# Title\n\n{BEGIN}\nof an older run\n{END}\n\nThe end.\n")
    update_readme(report, written, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text.startswith(f"# Title\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\nThe end.\n")
    assert "of an older run" not in text
    shown = [exhibit.id for exhibit in MEASURED if exhibit.in_readme]
    assert shown == ["fig7_gemm", "fig8_attention"]
    for name in shown:
        assert f"](docs/figures/{name}.svg)" in text
        assert (tmp_path / "docs" / "figures" / f"{name}.svg").read_bytes().startswith(b"<?xml")
    assert all(result.claim.sentence in text for result in report.results)
    update_readme(report, written, tmp_path)
    assert (tmp_path / "README.md").read_text() == text


def test_the_readme_names_what_is_not_measured_yet(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_run(tmp_path / "c", "table1_stages")
    block = results_block(make_report(tmp_path / "c", choose_exhibits(["table1", "fig6", "fig8_attention"])))
    assert "reproduced" in block
    assert "Not measured yet in this campaign: Fig 6 (Occupancy), Fig 8 (Attention)" in block
    assert "18 claims are not judged yet." in block
    without_claims = choose_exhibits(["table1", "rotary_cuda_graph"])
    block = results_block(make_report(tmp_path / "c", without_claims))
    assert "Not measured yet in this campaign: Beyond the paper (Rotary embedding, launches left out)." in block
    assert "docs/figures" not in block


def test_a_readme_without_the_block_is_said(report: Report, written: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n")
    with pytest.raises(PaperFiguresError, match="needs the lines"):
        update_readme(report, written, tmp_path)


def test_the_newest_campaign_is_found_and_cpu_runs_and_nights_are_passed_over(
    place: Path, synthetic: ModuleType
) -> None:
    results = place / "results"
    synthetic.write_run(results / "h200-sxm" / "old", "table1_stages", "20260101T000000Z-aaaaaa")
    synthetic.write_run(results / "h100-sxm" / "new", "table1_stages", "20260105T000000Z-aaaaaa")
    synthetic.write_run(
        results / "cpu" / "verify", "table1_stages", "20260109T000000Z-aaaaaa", manifest={"device": "cpu"}
    )
    for campaign in ("nightly", "nightly-slowed-again"):
        synthetic.write_run(results / "h200-sxm" / campaign, "table1_stages", "20260109T000000Z-bbbbbb")
    assert find_campaign(results) == results / "h100-sxm" / "new"
    assert find_campaign(results, "nightly") == results / "h200-sxm" / "nightly"
    assert find_campaign(results, "old") == results / "h200-sxm" / "old"
    with pytest.raises(PaperFiguresError, match="holds no run on a GPU"):
        load_runs(results / "cpu" / "verify")
    one = next((results / "h200-sxm" / "old").iterdir())
    assert [run.path for run in load_runs(one)] == [one]


def test_commands_can_be_read_by_the_harness() -> None:
    """Hydra composes every verification command, and its plan has the small problems and our variants only."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from harness.planning import make_plan

    for exhibit in (one for one in MEASURED if one.small_problems):
        words = [word for word in steps.verify_step(exhibit).command if "=" in word]
        with initialize_config_dir(str(steps.CONFIGS), version_base="1.3"):
            config = OmegaConf.to_container(compose("config", overrides=words), resolve=True)
        assert isinstance(config, dict)
        plan = make_plan({str(key): value for key, value in config.items()}, words)
        assert len(plan.groups) == len(exhibit.small_problems) > 0
        assert {str(one.variant) for one in plan.contestants} <= {
            str(one) for one in exhibit.load_experiment().contestants
        }
        assert any(one.variant.provider == "tk" for one in plan.contestants)


def test_experiments_are_read_as_the_harness_reads_them() -> None:
    """The problems' texts are those that the harness will store."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from harness.planning import make_plan

    for exhibit in MEASURED:
        experiment = exhibit.load_experiment()
        with initialize_config_dir(str(steps.CONFIGS), version_base="1.3"):
            config = OmegaConf.to_container(
                compose("config", overrides=[f"experiment={experiment.name}"]), resolve=True
            )
        assert isinstance(config, dict)
        plan = make_plan({str(key): value for key, value in config.items()})
        assert plan.name == experiment.name
        assert plan.workload == experiment.workload
        stored = [experiment.stored_problem(problem) for problem in experiment.problems]
        assert [(one.problem.text, one.problem.direction, one.problem.dtype) for one in plan.groups] == [
            (one.text, one.direction, one.dtype) for one in stored
        ]
        assert tuple(str(one.variant) for one in plan.contestants) == tuple(str(one) for one in experiment.contestants)
        assert bool(plan.profile_metrics) == experiment.profiled
        assert {column.metric for column in exhibit.profile} <= set(plan.profile_metrics)
        assert config["distribution"] == experiment.distribution
        assert config["timer"]["kind"] == experiment.timer


def test_time_is_announced_from_the_harness_own_estimate() -> None:
    assert steps.estimated_minutes(MEASURED, timed=True) <= 45
    assert max(steps.estimated_minutes([one], timed=True) for one in MEASURED) < 8
    quick = [one for one in MEASURED if one.quick_problems]
    assert 1 < steps.estimated_minutes(quick, timed=True, quick=True) < 5
    verified = [one for one in MEASURED if one.small_problems]
    assert steps.estimated_minutes(verified, timed=False) < 5


def test_the_recorded_report_is_the_same_bytes_here(request: pytest.FixtureRequest) -> None:
    """The digests that the repository keeps, against a report made from the results that it keeps."""
    if not digest.DIGESTS.exists():
        pytest.skip("no recorded report: report.sha256 is written with the recorded runs")
    if note := digest.version_note(digest.DIGESTS):
        pytest.skip(note)
    status, _ = request.getfixturevalue("recorded_report")
    assert status == 0


def test_a_report_on_one_exhibit_has_only_its_files(campaign: Path, tmp_path: Path) -> None:
    files = write_report(make_report(campaign, [TABLE1]), tmp_path / "report")
    assert {path.stem for path in files if path.parent.name == "figures"} == {"table1_stages"}


def test_short_measurements_have_a_campaign_of_their_own(place: Path) -> None:
    day = datetime.date(2026, 1, 2)
    assert reproduce.default_campaign(FEW, False, here(place), day) == "reproduce-2026-01-02"
    assert reproduce.default_campaign(FEW, True, here(place), day) == "reproduce-quick-2026-01-02"


def test_what_was_begun_before_midnight_goes_on_after_it(place: Path, synthetic: ModuleType) -> None:
    """Guard: the newest unfinished campaign of this code; one that is finished, or of other code, is none."""
    gpu, day = here(place).folder.parent, datetime.date(2026, 1, 3)

    def begun(name: str, *exhibits: Exhibit, **manifest: object) -> None:
        for number, exhibit in enumerate(exhibits):
            config = {"config": settings(exhibit, False), **manifest}
            synthetic.write_run(gpu / name, exhibit.id, f"20260102T2359{number:02}Z-abc123", manifest=config)

    begun("reproduce-2026-01-02", TABLE1, git_commit="other")
    assert reproduce.default_campaign(FEW, False, here(place), day) == "reproduce-2026-01-03"
    begun("reproduce-2025-12-30", TABLE1)
    begun("reproduce-2025-12-31", TABLE1)
    begun("reproduce-2026-01-01", *FEW)
    assert reproduce.default_campaign(FEW, False, here(place), day) == "reproduce-2025-12-31"
    assert reproduce.default_campaign(FEW, True, here(place), day) == "reproduce-quick-2026-01-03"
    begun("reproduce-2026-01-03", TABLE1, status="interrupted")
    assert reproduce.default_campaign([TABLE1], False, here(place), day) == "reproduce-2026-01-03"


def test_an_output_that_cannot_be_written_is_one_sentence(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "file").write_text("")
    assert reproduce.main(["--from", str(recorded), "--output", str(place / "file" / "report")]) == 1
    assert capsys.readouterr().err.startswith("error: cannot write ")


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_step_is_a_process_in_the_repository(code: int, capfd: pytest.CaptureFixture[str]) -> None:
    program = f"import os, harness.results; print(os.getcwd()); raise SystemExit({code})"
    assert steps.run_step(steps.Step("try", (sys.executable, "-c", program))) == code
    assert capfd.readouterr().out.strip() == str(steps.ROOT)
    with pytest.raises(PaperFiguresError, match=r"cannot try: /nowhere/python does not start"):
        steps.run_step(steps.Step("try", ("/nowhere/python",)))


def test_an_interrupted_step_may_store_what_it_has(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group: the child still writes its file, and the command ends with 130."""
    child = (
        "import sys, time, pathlib\ntry:\n pathlib.Path(sys.argv[1] + '/ready').touch(); time.sleep(60)\n"
        "except KeyboardInterrupt:\n time.sleep(1); pathlib.Path(sys.argv[1] + '/stored').touch(); sys.exit(130)"
    )
    parent = (
        "import sys; from paper_figures import steps\n"
        f"sys.exit(steps.run_step(steps.Step('try', (sys.executable, '-c', {child!r}, sys.argv[1]))))"
    )
    process = subprocess.Popen([sys.executable, "-c", parent, str(tmp_path)], cwd=steps.ROOT, start_new_session=True)
    for _ in range(300):
        if (tmp_path / "ready").exists():
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=20) == steps.INTERRUPTED
    assert (tmp_path / "stored").exists()


@pytest.mark.parametrize(("capability", "expected"), [((9, 0), "NVIDIA H200"), ((8, 0), None), ((10, 0), None)])
def test_only_a_hopper_gpu_is_measured_on(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], expected: str | None
) -> None:
    import pynvml

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", lambda handle: capability)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: "NVIDIA H200")
    assert steps.hopper_gpu() == expected
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert steps.hopper_gpu() is None
