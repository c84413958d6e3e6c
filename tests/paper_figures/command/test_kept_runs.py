"""Which runs of an earlier command are kept, resumed, or measured again."""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from reproduction_support import CODE, FEW, MEASURED, TABLE1, Processes, here, run

from harness.records.provenance import Source
from paper_figures.command import kept_runs, reproduce, steps
from paper_figures.command.kept_runs import Found, newest_run, settings
from paper_figures.shown.exhibit import Exhibit

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


@pytest.mark.parametrize("name", ["attention_small_grids", "fig9_rotary"])
def test_a_run_of_grids_is_kept(place: Path, synthetic: ModuleType, name: str) -> None:
    """Guard: a manifest has grids as they were given, their keys sorted; expanded they are in another order."""
    exhibit = next(one for one in MEASURED if one.id == name)
    config = {"config": settings(exhibit, False)}
    first = exhibit.load_experiment().problems[:1]
    folder = synthetic.write_run(here(place).folder, name, problems=first, manifest=config)
    keys = [list(entry["grid"]) for entry in json.loads((folder / "manifest.json").read_text())["config"]["problems"]]
    assert all(one == sorted(one) for one in keys)
    assert keys != [list(entry["grid"]) for entry in config["config"]["problems"]]
    assert newest_run(exhibit, here(place), False) == Found(folder, json.loads((folder / "manifest.json").read_text()))


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

    monkeypatch.setattr(kept_runs.subprocess, "run", plan)
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

    for exhibit in MEASURED:
        step = steps.measure_step(exhibit, here(Path("/nowhere")), quick)
        assert step is not None
        with initialize_config_dir(str(steps.CONFIGS), version_base="1.3"):
            composed = compose("config", overrides=[word for word in step.command if "=" in word])
            config = OmegaConf.to_container(composed, resolve=True)
        assert isinstance(config, dict)
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
    monkeypatch.setattr(steps, "find_gpu", lambda: steps.Gpu("NVIDIA H200", (9, 0)))
    processes.codes = [0, steps.MISTAKE, 0]
    assert run(place, "--campaign", "mine", "--exhibit", "table1") == 0
    assert "resume=" in processes.words[1]
    assert "experiment=table1_stages" in processes.words[2]


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
