"""The wandb mirror, read back from the file that an offline run leaves."""

import json
import types
from pathlib import Path

import pandas as pd
import pytest
from harness_support import FAST, contestant, ending, key_of, main, only_run, records, small

from harness.command import publish as command
from harness.command.publish import METRICS, also_varying, publish, size_points, varying_key
from harness.runs import load_run

publish_main = ending(command.main)


def job_of(folder):
    """The run record of an offline folder."""
    return next(record.run for record in records(folder) if record.HasField("run"))


def test_the_run_is_grouped_by_run_id_and_says_what_it_did(published, stored_run):
    run = next(record.run for record in published[1] if record.HasField("run"))
    assert run.project == "tk-test"
    assert run.run_group == stored_run.name
    assert run.job_type == "measure"
    manifest = load_run(stored_run).manifest
    assert list(run.tags) == ["h200-sxm", manifest["git_commit"][:12], "test"]
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["campaign"] == "test"
    assert config["problems"] == [{"grid": {"M": [64], "N": [48], "K": [64, 128]}}]
    assert config["manifest"]["roofs"]["copy_gbps"] == 4283.0


def test_the_table_has_the_rows(published, stored_run):
    (path,) = Path(published[0]).rglob("*.table.json")
    table = json.loads(path.read_text())
    stored = load_run(stored_run).measurements
    assert table["columns"] == list(stored.columns)
    assert len(table["data"]) == len(stored) == 4
    column = table["columns"].index("latency_us_p50")
    assert [row[column] for row in table["data"]] == pytest.approx(stored["latency_us_p50"].tolist())


def test_the_summary_has_geomean_and_failures(published, stored_run):
    summary = {}
    for record in published[1]:
        if record.HasField("summary"):
            summary.update({key_of(item): json.loads(item.value_json) for item in record.summary.update})
    assert summary["gemm/gemm/ratio/cublas/geomean"] == pytest.approx(1.1, rel=0.01)
    assert summary["failures"] == 0


def test_metrics_are_over_the_size(published):
    history = []
    for record in published[1]:
        if record.HasField("history"):
            history.append({key_of(item): json.loads(item.value_json) for item in record.history.item})
    points = [point for point in history if "size" in point]
    assert [point["size"] for point in points] == [64, 128]  # K, the key that varies
    for name in ("tflops", "gbps", "latency_us", "roof_pct"):
        assert all(point[f"gemm/tk/{name}"] > 0 for point in points)
    defined = {record.metric.name: record.metric.step_metric for record in published[1] if record.HasField("metric")}
    assert defined["gemm/cublas/tflops"] == "size"


def test_the_artifact_holds_the_files(published, stored_run):
    artifacts = [
        record.request.log_artifact.artifact if record.HasField("request") else record.artifact
        for record in published[1]
        if record.HasField("artifact") or (record.HasField("request") and record.request.HasField("log_artifact"))
    ]
    results = [artifact for artifact in artifacts if artifact.type == "results"]
    assert [artifact.name for artifact in results] == [f"results-{stored_run.name}"]
    names = {entry.path for entry in results[0].manifest.contents}
    assert names == {"manifest.json", "group-0001.json.gz", "group-0002.json.gz"}


def artifacts_of(found):
    return [
        record.request.log_artifact.artifact if record.HasField("request") else record.artifact
        for record in found
        if record.HasField("artifact") or (record.HasField("request") and record.request.HasField("log_artifact"))
    ]


def test_verify_measure_and_figures_are_jobs_of_one_group(stored_run, tmp_path, monkeypatch):
    """Guards: each job has what is its own, and figures name the results that they were made from."""
    monkeypatch.setenv("WANDB_RUN_ID", "of-the-shell")
    report = tmp_path / "report"
    (report / "figures").mkdir(parents=True)
    (report / "figures" / "fig7_gemm.svg").write_text("<svg/>")
    arguments = [str(stored_run), "--dir", str(tmp_path), "--figures"]
    assert publish_main([*arguments, str(report)]) == 0
    folders = {job_of(folder).job_type: folder for folder in (tmp_path / "wandb").glob("offline-run-*")}
    assert sorted(folders) == ["figures", "measure", "verify"]
    assert len({job_of(folder).run_id for folder in folders.values()}) == 3, "one would be written over another"
    assert {job_of(folder).run_group for folder in folders.values()} == {stored_run.name}

    (path,) = folders["verify"].rglob("*.table.json")
    table = json.loads(path.read_text())
    assert [row[table["columns"].index("status")] for row in table["data"]] == ["passed"] * 4
    errors = [row[table["columns"].index("rel_l2_error")] for row in table["data"]]
    assert errors == pytest.approx(load_run(stored_run).measurements["rel_l2_error"].tolist())
    counts = {}
    for record in records(folders["verify"]):
        if record.HasField("summary"):
            counts.update({key_of(item): json.loads(item.value_json) for item in record.summary.update})
    assert counts["failures"] == 0
    assert counts["status/passed"] == 4

    (drawn,) = [one for one in artifacts_of(records(folders["figures"])) if one.type == "figures"]
    assert [entry.path for entry in drawn.manifest.contents] == ["figures/fig7_gemm.svg"]
    assert json.loads(drawn.metadata)["made_from"] == f"results-{stored_run.name}"
    (results,) = [one for one in artifacts_of(records(folders["measure"])) if one.type == "results"]
    assert json.loads(results.metadata)["commit"] == load_run(stored_run).manifest["git_commit"]
    assert publish_main([*arguments, str(tmp_path / "nowhere")]) == 2


def test_a_run_mirrors_itself_when_asked(tmp_path):
    arguments = [word for word in FAST if not word.startswith("wandb")]
    arguments += [*contestant("mine", "Good"), "implementations=[mine]", *small(), f"results_dir={tmp_path / 'r'}"]
    assert main([*arguments, f"wandb.dir={tmp_path}"]) == 0
    runs = [job_of(offline) for offline in (tmp_path / "wandb").glob("offline-run-*")]
    assert sorted(run.job_type for run in runs) == ["measure", "verify"]
    assert {run.run_group for run in runs} == {only_run(tmp_path / "r").name}


def test_a_mirror_that_fails_does_not_fail_the_run(tmp_path, monkeypatch, capsys):
    import harness.command.cli

    def refuse(*args, **kwargs):
        raise RuntimeError("no network")

    monkeypatch.setattr(harness.command.cli, "publish", refuse)
    arguments = [word for word in FAST if not word.startswith("wandb")]
    arguments += [*contestant("mine", "Good"), "implementations=[mine]", *small(), f"results_dir={tmp_path}"]
    assert main(arguments) == 0
    assert "stored but not mirrored to wandb (no network); later: python -m harness.publish" in capsys.readouterr().err


def test_the_mirror_can_be_made_again(stored_run, tmp_path, capsys):
    assert publish_main([str(stored_run), "--dir", str(tmp_path)]) == 0
    assert "published" in capsys.readouterr().out
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 2
    assert publish_main([str(tmp_path / "nowhere")]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    assert publish_main([str(stored_run), "--dir", "/proc/x"]) == 2
    assert (
        capsys.readouterr().err == "dir is /proc/x, which cannot be written (No such file or directory): give another\n"
    )


def test_without_a_key_it_is_one_sentence(stored_run, tmp_path, monkeypatch, capfd):
    """Guard: wandb's traceback of 30 lines."""
    monkeypatch.setenv("HOME", str(tmp_path))  # no .netrc
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    assert publish_main([str(stored_run), "--mode", "online", "--dir", str(tmp_path)]) == 2
    err = capfd.readouterr().err
    assert err.startswith("no run can begin at wandb (`wandb login` logs in): ")
    assert err.count("\n") == 1


def test_a_run_without_rows_is_mirrored_too(stored_run, tmp_path):
    import shutil

    from harness.runs.store import Store

    empty = tmp_path / "empty"
    with Store.create(empty, load_run(stored_run).manifest):
        pass
    where = publish(empty, mode="offline", project="tk-test", entity=None, dir=str(tmp_path))
    assert any(record.HasField("run") for record in records(where))
    shutil.rmtree(where)


def test_the_size_is_the_key_that_varies():
    assert varying_key(["M=1;N=2;K=3", "M=1;N=2;K=4"]) == "K"
    assert varying_key(["M=1;N=2;K=3"]) == "M"
    assert varying_key(["B=1;layout=half;N=2", "B=1;layout=full;N=3"]) == "N"
    assert varying_key(["N=1;D=64", "N=1;D=64;causal=1"]) == "N"


def test_a_series_for_each_direction_and_each_key_that_varies_at_one_size():
    problems = ["B=4;N=1;D=64", "B=4;N=1;D=64;causal=1", "B=4;N=2;D=64"]
    assert also_varying(problems, "N") == ["causal"]
    assert also_varying(["M=1;N=1", "M=2;N=2"], "M") == []
    row = {"workload": "attention", "implementation": "tk", "variant": "", "n_samples": 3, "latency_us_p50": 5.0}
    row["distribution"] = "normal"
    table = pd.DataFrame([{**row, "direction": d, "problem": p} for d in ("fwd", "bwd") for p in problems])
    for column in ("tflops", "gbps", "roof_pct_measured"):
        table[column] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    first, second = size_points(types.SimpleNamespace(rows=table.to_dict("records")))
    assert {key: value for key, value in first.items() if key.endswith("tflops") or key == "size"} == {
        "size": 1,
        "attention/tk/tflops": 1.0,
        "attention_causal=1/tk/tflops": 2.0,
        "attention_bwd/tk/tflops": 4.0,
        "attention_bwd_causal=1/tk/tflops": 5.0,
    }
    assert second["attention/tk/tflops"] == 3.0
    assert second["size"] == 2


def test_kinds_of_inputs_are_series():
    """Guard: `kinds` in `size_points`, without which the last kind would overwrite the others."""
    row = {"workload": "gemm", "direction": "fwd", "implementation": "tk", "variant": "", "n_samples": 3}
    table = pd.DataFrame([{**row, "problem": "M=1;N=1;K=1", "distribution": kind} for kind in ("normal", "zeros")])
    for column in METRICS.values():
        table[column] = [1.0, 2.0]
    (point,) = size_points(types.SimpleNamespace(rows=table.to_dict("records")))
    assert point["gemm_normal/tk/tflops"] == 1.0
    assert point["gemm_zeros/tk/tflops"] == 2.0


def test_heads_and_kinds_of_inputs_are_series_and_the_length_is_the_size():
    lengths, kinds = (1024, 2048, 4096), ("", ";boundary=prepared")
    problems = [f"B=16;H={heads};N={n};P=64{kind}" for kind in kinds for heads in (32, 16) for n in lengths]
    assert varying_key(problems) == "N"
    assert also_varying(problems, "N") == ["H", "boundary"]
    row = {"workload": "mamba2", "direction": "fwd", "implementation": "tk", "variant": "", "n_samples": 3}
    row["distribution"] = "normal"
    table = pd.DataFrame([{**row, "problem": text, "latency_us_p50": 5.0} for text in problems])
    for column in ("tflops", "gbps", "roof_pct_measured"):
        table[column] = range(len(problems))
    points = size_points(types.SimpleNamespace(rows=table.to_dict("records")))
    assert [point["size"] for point in points] == list(lengths)
    names = {key for key in points[0] if key.endswith("tflops")}
    assert names == {f"mamba2_H={heads}{kind}/tk/tflops" for heads in (32, 16) for kind in ("", "_boundary=prepared")}
