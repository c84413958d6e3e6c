"""The dashboard as code: every panel's key is one that a published run really has."""

import json
from dataclasses import replace

import pytest
from harness_support import ending, key_of, replace_columns

from harness.command import dashboards
from harness.command.dashboards import dashboard, keys_of
from harness.runs import load_run

main = ending(dashboards.main)


def test_every_panels_key_is_in_a_real_offline_run(published, stored_run):
    """Guard: keys come from `size_points` and `summary`; one that is not logged as named would be an empty panel."""
    written = set()
    for record in published[1]:
        if record.HasField("history"):
            written |= {key_of(item) for item in record.history.item}
        if record.HasField("summary"):
            written |= {key_of(item) for item in record.summary.update}
    sections = dashboard([load_run(stored_run)])
    shown = {key for section in sections for panel in section.panels for key in keys_of(panel)}
    assert shown <= written
    assert {"failures", "started", "size", "gemm/tk/tflops", "gemm/gemm/ratio/cublas/geomean"} <= shown


def test_nothing_that_is_published_is_left_out(published, stored_run):
    points = [
        {key_of(item): json.loads(item.value_json) for item in record.history.item}
        for record in published[1]
        if record.HasField("history")
    ]
    sections = dashboard([load_run(stored_run)])
    shown = {key for section in sections for panel in section.panels for key in keys_of(panel)}
    assert {key for point in points if "size" in point for key in point if not key.startswith("_")} <= shown


def test_an_overview_a_section_a_workload_and_regressions_over_time(stored_run):
    sections = dashboard([load_run(stored_run)])
    assert [section.name for section in sections] == ["Overview", "gemm", "Regressions over time"]
    assert [panel.unit for panel in sections[1].panels] == [*dashboards.UNITS.values()]
    over_time = [key for panel in sections[2].panels for key in panel.keys]
    assert "gemm/gemm/tk/latency_us/geomean" in over_time
    assert "gemm/gemm/ratio/cublas/geomean" in over_time


def test_means_of_one_experiment_are_no_others(stored_run):
    """Guard: the experiment in the key.  Two experiments of one workload would be one series of two means."""
    run = load_run(stored_run)
    night = replace(run, manifest={**run.manifest, "experiment": "nightly_gemm"})
    overview, *_, last = dashboard([run, night])
    keys = [key for panel in last.panels for key in panel.keys]
    assert len(keys) == len(set(keys)) == 2 * len(dashboard([run])[-1].panels)
    assert {key.split("/")[0] for key in keys} == {"gemm", "nightly_gemm"}
    titles = [panel.title for panel in overview.panels]
    assert titles == ["Cases that failed", "gemm/gemm: speed of tk over", "nightly_gemm/gemm: speed of tk over"]
    assert all(len({key.split("/")[0] for key in panel.keys}) == 1 for panel in overview.panels)


def test_directions_and_names_that_begin_alike_have_sections_of_their_own(stored_run):
    """Guard: the longest name in `_owner`; `gemm_fp8` begins like `gemm`."""
    run = load_run(stored_run)
    backward = replace_columns(run, direction="bwd")
    eight = replace_columns(run, workload="gemm_fp8", distribution="zeros")
    sections = {section.name: section for section in dashboard([run, backward, eight])}
    assert list(sections) == ["Overview", "gemm", "gemm_bwd", "gemm_fp8", "Regressions over time"]
    for name in ("gemm", "gemm_bwd", "gemm_fp8"):
        keys = {key for panel in sections[name].panels for key in panel.keys}
        assert keys
        assert {key.split("/")[0] for key in keys} == {name}


def test_it_becomes_a_workspace(stored_run):
    """Guard: panels ask for the keys by the names and in the places that wandb-workspaces has for them."""
    pytest.importorskip("wandb_workspaces", reason="an extra, which the extra dev brings")
    sections = dashboard([load_run(stored_run)])
    made = dashboards.workspace(sections, entity="team", project="tk-test", name="Kernels")
    view = made._to_model().model_dump_json(by_alias=True)
    assert [section.name for section in made.sections] == [section.name for section in sections]
    for section in sections:
        for panel in section.panels:
            assert json.dumps(panel.title) in view
            for key in keys_of(panel):
                assert key in view, key


def test_it_becomes_a_report_on_these_runs_alone(stored_run):
    pytest.importorskip("wandb_workspaces", reason="an extra, which the extra dev brings")
    run = load_run(stored_run)
    made = dashboards.report([run], entity="team", project="tk-test", name="Night")
    grids = [block for block in made.blocks if hasattr(block, "runsets")]
    sections = dashboard([run])
    assert [[panel.title for panel in grid.panels] for grid in grids] == [
        [panel.title for panel in section.panels] for section in sections
    ]
    assert {grid.runsets[0].filters for grid in grids} == {f"Metric(\"Group\") in ['{run.run_id}']"}
    assert made.title == "Night"
    assert "h200-sxm" in made.description
    (said,) = dashboards.said_of([run])
    assert said == f"{run.run_id}: gemm on h200-sxm at commit {run.manifest['git_commit'][:12]}. Cases: 4 passed."


def test_a_workspace_that_wandb_does_not_take_is_one_sentence(stored_run, capsys, monkeypatch):
    """Guard: no login, no network or no such team ends with a sentence and not with wandb's traceback."""

    class Refused:
        def save(self):
            raise RuntimeError("No API key configured.\nUse `wandb login` to log in.")

    monkeypatch.setattr(dashboards, "workspace", lambda sections, **where: Refused())
    assert main([str(stored_run), "--save", "--entity", "me"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert "No API key configured. Use `wandb login` to log in." in said.err


def test_the_command(stored_run, capsys, monkeypatch):
    assert main([str(stored_run)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Overview\n  Cases that failed: failures\n")
    assert main([str(stored_run), "--save"]) == 2
    assert "--save needs --entity" in capsys.readouterr().err
    assert main([str(stored_run / "nowhere")]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "wandb_workspaces.workspaces", None)
    assert main([str(stored_run), "--save", "--entity", "team"]) == 2
    assert "pip install 'tk-kernels[dashboards]'" in capsys.readouterr().err
