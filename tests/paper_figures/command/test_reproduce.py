"""`reproduce-paper`: what it runs where, what it says, how it ends."""

from __future__ import annotations

import argparse
import errno
from pathlib import Path
from types import ModuleType

import pytest
from reproduction_support import FEW, TABLE1, Processes, run, small_cases

from paper_figures.command import reproduce, steps
from paper_figures.command.arguments import spelled_now
from paper_figures.command.kept_runs import settings
from paper_figures.errors import PaperFiguresError
from paper_figures.exhibits import choose_exhibits, load_exhibits
from paper_figures.recorded.campaign import find_campaign, load_runs
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import Report
from paper_figures.shown.report.writing import write_report


def test_without_a_gpu_everything_is_verified_and_the_recorded_times_reported(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place) == 0
    kernels = "gemm attention paged_attention_decode decode_plan"
    assert processes.words[0] == f"-m tk_kernels.toolchain build {kernels} --target cpu"
    assert len(processes.words) == 1 + len(FEW)
    assert all("device=cpu" in words and "wandb=disabled" in words for words in processes.words[1:])
    said = capsys.readouterr().out
    assert said.startswith("No GPU here: nothing is timed.")
    assert "results/h200-sxm/paper" in said.splitlines()[0]
    cases = sum(small_cases().values())
    assert f"verified here, on the cpu target: {cases} of {cases} cases passed" in said
    assert "recorded, not measured here" in said
    assert (place / "report" / "index.html").exists()


TIMED = "these exhibits are only timed"
COMPILED = "The kernels of these exhibits are compiled"


@pytest.mark.parametrize(
    ("exhibit", "kernels", "words"),
    [
        ("table1", ["gemm"], COMPILED),
        ("fig6", ["attention paged_attention_decode decode_plan"], COMPILED),
        ("rotary_cuda_graph", [], TIMED),
        ("against_paper", [], TIMED),
    ],
)
def test_of_some_exhibits_their_kernels_are_built(
    place: Path,
    recorded: Path,
    processes: Processes,
    capsys: pytest.CaptureFixture[str],
    exhibit: str,
    kernels: list[str],
    words: str,
) -> None:
    """Guard: every kernel was built, for minutes, whatever was asked for."""
    assert run(place, "--exhibit", exhibit) == 0
    built = [words for words in processes.words if "tk_kernels.toolchain" in words]
    assert built == [f"-m tk_kernels.toolchain build {names} --target cpu" for names in kernels]
    assert words in capsys.readouterr().out


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


def test_what_went_well_is_a_line_and_what_did_not_says_why(
    place: Path,
    recorded: Path,
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guard: a reproduction printed hundreds of lines, most of them tables of cases that passed."""
    assert run(place) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 12 + len(FEW)
    cases = small_cases()[TABLE1.id]
    assert sum(line.startswith(f"[1/{len(FEW)}] {TABLE1.id}: {cases} of {cases} cases passed") for line in lines) == 1
    assert not any("-m harness" in line for line in lines)

    monkeypatch.setattr(steps, "not_passed", lambda exhibit: ["tk at M=64: failed_verification, error 0.5"])
    processes.codes = [0, 1]
    assert run(place) == 1
    said = capsys.readouterr().out
    assert said.count("tk at M=64: failed_verification, error 0.5") == 1
    assert said.count("python -m harness experiment=") == 1
    assert (place / "outputs" / "verification" / "log.txt").exists()


@pytest.mark.parametrize(
    ("words", "folder"),
    [((), "report"), (("--exhibit", "table1"), "report-part"), (("--exhibit", "table1", "--quick"), "report-quick")],
)
def test_a_part_does_not_take_the_place_of_the_whole(
    place: Path, recorded: Path, processes: Processes, words: tuple[str, ...], folder: str
) -> None:
    """Guard: the page of one exhibit, measured for a short time, replaced the whole report without a word."""
    assert reproduce.main(["measure", *words]) == 0
    assert [path.name for path in place.glob("report*")] == [folder]


def test_a_compiler_that_fails_ends_it(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    processes.codes = [1]
    assert run(place) == 1
    assert capsys.readouterr().err.startswith("error: cannot build gemm, attention")
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
    monkeypatch.setattr(steps, "find_gpu", lambda: steps.Gpu("NVIDIA H200", (9, 0)))

    def measure(step: steps.Step, harness: steps.Harness) -> int:
        processes(step)
        words = dict(word.split("=", 1) for word in step.command if "=" in word)
        if "experiment" in words:
            folder = Path(words["results_dir"]) / "h200-sxm" / words["campaign"]
            exhibit = next(one for one in FEW if one.id == words["experiment"])
            config = {"config": settings(exhibit, any("timer." in word for word in step.command))}
            number = len(list(folder.glob("*")))
            name = f"20260203T0405{number:02}Z-abc1{number:02}"
            synthetic.write_run(folder, exhibit.id, name, manifest=config)
        return 0

    monkeypatch.setattr(steps, "run_step", measure)
    assert run(place, "--campaign", "mine", "--quick") == 0
    assert processes.words[0] == "-m tk_kernels.toolchain build --target gpu"
    measured = processes.words[1:]
    assert [f"experiment={exhibit.id}" in words for exhibit, words in zip(FEW, measured, strict=True)]
    assert all("device=cuda" in words and "campaign=mine" in words for words in measured)
    assert all("timer.budget_seconds=" in words for words in measured)
    assert "Measured on this machine" in (place / "report" / "index.html").read_text()
    assert "times: measured on this machine" in capsys.readouterr().out

    processes.steps.clear()  # a second time, all is there
    assert run(place, "--campaign", "mine", "--quick") == 0
    assert processes.words == ["-m tk_kernels.toolchain build --target gpu"]
    said = capsys.readouterr().out
    assert said.count("kept, this campaign has a complete run") == len(FEW)
    assert "to measure them again, name another campaign: --campaign NAME" in said

    processes.steps.clear()  # short measurements are not those that were asked for
    assert run(place, "--campaign", "mine") == 0
    assert len(processes.words) == 1 + len(FEW)
    assert "as --quick has)" in capsys.readouterr().out


def test_whole_models_are_measured_where_they_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Guard: they took longer than all other exhibits together, and everybody's first command measured them."""
    measured = reproduce._to_measure(load_exhibits(), argparse.Namespace(quick=False, exhibit=None))
    assert len(measured) > 30
    assert not [one.id for one in measured if one.by_name_only]
    assert (
        "minutes: collectives, recall, llama_decode, gpt_training, prefill, mamba2_prefill; name one with --exhibit "
        "to measure it" in capsys.readouterr().out
    )
    asked = argparse.Namespace(quick=False, exhibit=["prefill"])
    assert [one.id for one in reproduce._to_measure(choose_exhibits(["prefill"]), asked)] == ["prefill"]


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
    assert run(place, "report", str(recorded)) == 0
    assert processes.steps == []
    assert said[0].startswith("making the report on results/h200-sxm/paper, about a minute for all exhibits:")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 1, "holds no recorded run: restore the folder"),
        (("--campaign", "nothing"), 2, "holds no recorded run of a campaign 'nothing'"),
        (("report", "./nowhere"), 2, "nowhere is not a folder"),
        (("report", "nowhere"), 2, "holds no recorded run of a campaign 'nowhere'"),
        (("--exhibit", "nonsense"), 2, "there is no exhibit 'nonsense'"),
        (("--exhibit", "tabel2"), 2, "; did you mean table2?"),
        (("--exhibit", "fig8_atention"), 2, "; did you mean fig8_attention?"),
        (("check",), 1, "report.sha256 does not exist"),
        (("report", "--keep", "--exhibit", "table1"), 1, "holds no recorded run"),
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


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("", "measure"),
        ("--quick --exhibit table1", "measure --quick --exhibit table1"),
        ("--recorded --output report", "report --output report"),
        ("--exhibit table1 --from results/a/b --beside results/c/d", "report results/a/b results/c/d --exhibit table1"),
        ("--check", "check"),
        ("--from results/a/b --write-digests --readme", "report results/a/b --keep"),
        ("missing --exhibit table1", "missing --exhibit table1"),
    ],
)
def test_an_earlier_spelling_is_read_as_it_is_written_now(words: str, now: str) -> None:
    assert spelled_now(words.split()) == now.split()


def test_an_earlier_spelling_works_and_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce.main(["--missing", "--exhibit", "tabel1"]) == 2
    told, error = capsys.readouterr().err.splitlines()
    assert told == "the command comes first now: reproduce-paper missing --exhibit tabel1"
    assert "tabel1" in error


def test_a_full_disk_is_said_with_the_folder(
    place: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # a write does not know its file

    monkeypatch.setattr(reproduce, "write_report", full)
    assert run(place, "report", str(recorded)) == 1
    assert capsys.readouterr().err == f"error: cannot write {place / 'report'}: No space left on device\n"


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("group-0001.json.gz", lambda data: data[: len(data) // 2]),
        ("manifest.json", lambda data: data[: len(data) // 2]),
        ("manifest.json", lambda data: data.replace(b'"schema_version": 2', b'"schema_version": 99')),
        ("group-0001.json.gz", None),
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


def test_a_report_on_one_exhibit_has_only_its_files(campaign: Path, tmp_path: Path) -> None:
    files = write_report(make_report(campaign, [TABLE1]), tmp_path / "report")
    assert {path.stem for path in files if path.parent.name == "figures"} == {"table1_stages"}


def test_an_output_that_cannot_be_written_is_one_sentence(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "file").write_text("")
    assert reproduce.main(["report", str(recorded), "--output", str(place / "file" / "report")]) == 1
    assert capsys.readouterr().err.startswith(f"error: cannot write {place / 'file' / 'report'}")


def test_an_output_that_is_something_else_is_refused_before_anything_runs(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guard: it was refused after the measurements, which take more than an hour, and after the verification."""
    (place / "README.md").write_text("mine")
    (place / "docs").mkdir()
    (place / "docs" / "page.md").write_text("mine")
    for name in ("README.md", "docs"):
        assert reproduce.main(["measure", "--output", str(place / name)]) == 2
        assert "exists and is no report: give another folder" in capsys.readouterr().err
    assert processes.steps == []
    assert (place / "docs" / "page.md").read_text() == (place / "README.md").read_text() == "mine"
