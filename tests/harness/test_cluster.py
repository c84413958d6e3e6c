"""A multirun spread over jobs: their parts are one run, whatever ends a job; and what Slurm is asked for."""

import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from harness_support import FAST, HERE, MANIFEST, ROOT, VERIFIED, contestant, group

from harness.command import cli, cluster
from harness.command.cli import main
from harness.measure.ledger import added
from harness.records import provenance
from harness.records.errors import HarnessError
from harness.records.rows import Status
from harness.runs import load_run
from harness.runs.store import Store, StoredGroup, StoreError

RUN = MANIFEST["run_id"]


# ---- merging parts


def part(parts, name, problems, **manifest):
    """A part as a job leaves it: each problem with a case of its own."""
    with Store.create(parts / f"job-{name}", {**MANIFEST, "status": "completed", **manifest}) as made:
        for problem in problems:
            cases = (f"{problem}-tk", f"{problem}-cublas")
            made.append(group(problem, cases=cases))


@pytest.fixture
def parts(tmp_path):
    return tmp_path / ".parts" / RUN


def merged(parts):
    stores = cluster.merge(parts, parts.parents[1])
    for store in stores:
        store.__exit__()
    return [load_run(store.folder) for store in stores]


def test_parts_become_one_run_with_all_they_hold(parts):
    part(parts, "a", ["M=1;N=2;K=3"], experiment="one", started_utc="2026-11-20T12:00:05Z")
    part(parts, "b", ["M=2;N=2;K=3", "M=3;N=2;K=3"], experiment="two", notes=[], roofs={"copy_gbps": 1.0})
    (run,) = merged(parts)
    assert run.path == parts.parents[1] / "cuda" / "c" / RUN
    assert [one["problem"] for one in run.manifest["groups"]] == ["M=1;N=2;K=3", "M=2;N=2;K=3", "M=3;N=2;K=3"]
    assert len(run.measurements) == len(run.ratios) == 6
    assert all(len(run.samples(case)) == 30 for case in run.measurements["case_id"])
    assert run.manifest["experiment"] == "one,two"
    assert run.manifest["started_utc"] == "2026-11-20T12:00:00Z"
    assert [machine["part"] for machine in run.manifest["machines"]] == ["job-a", "job-b"]
    assert run.manifest["machines"][1]["roofs"] == {"copy_gbps": 1.0}
    assert not list(parts.glob("job-*"))


def test_what_parts_cost_adds_up(parts, monkeypatch):
    """Guard: the account of a part is added once, also when a merge is repeated."""
    part(parts, "a", ["M=1;N=2;K=3"], seconds={"calls": 3.0, "start": 1.0}, overhead_pct=25.0)
    part(parts, "b", ["M=2;N=2;K=3"], seconds={"calls": 1.0, "lost": 5.0}, overhead_pct=83.33)
    monkeypatch.setattr(cluster.shutil, "rmtree", lambda *arguments, **named: None)
    merged(parts)
    monkeypatch.undo()
    (run,) = merged(parts)
    assert run.manifest["seconds"] == {"calls": 4.0, "lost": 5.0, "start": 1.0}
    assert run.manifest["overhead_pct"] == 60.0
    assert [machine["seconds"]["calls"] for machine in run.manifest["machines"]] == [3.0, 1.0]
    part(parts, "c", ["M=3;N=2;K=3"])  # from before there were accounts
    (run,) = merged(parts)
    assert run.manifest["seconds"] == {"calls": 4.0, "lost": 5.0, "start": 1.0}


def test_boards_of_another_name_make_another_run(parts):
    part(parts, "a", ["M=1;N=2;K=3"], gpu={"name": "NVIDIA H200", "uuid_hash": "1"})
    part(parts, "b", ["M=2;N=2;K=3"], gpu={"name": "NVIDIA H100 80GB HBM3", "uuid_hash": "2"})
    part(parts, "c", ["M=3;N=2;K=3"], gpu={"name": "NVIDIA H200", "uuid_hash": "3"})
    assert {run.path.parent.parent.name: len(run.measurements) for run in merged(parts)} == {
        "h200-sxm": 4,
        "h100-sxm": 2,
    }


def test_a_merge_that_was_interrupted_is_repeated(parts, monkeypatch):
    """Guard: what a part has in the run is known by the part's name, and a part goes when all of it is there."""
    part(parts, "a", ["M=1;N=2;K=3", "M=2;N=2;K=3"])
    part(parts, "b", ["M=3;N=2;K=3"])
    real, calls = Store.append, []

    def append(self, stored):
        calls.append(stored)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(self, stored)

    monkeypatch.setattr(Store, "append", append)
    with pytest.raises(KeyboardInterrupt):
        cluster.merge(parts, parts.parents[1])
    monkeypatch.undo()
    (run,) = merged(parts)
    assert [one["problem"] for one in run.manifest["groups"]] == ["M=1;N=2;K=3", "M=2;N=2;K=3", "M=3;N=2;K=3"]
    with open(run.path / "measurements.csv", newline="") as file:
        assert len(list(csv.reader(file))) == 1 + 6, "no row twice"


def test_a_problem_of_two_jobs_has_both_and_the_later_counts(parts):
    """Guard: what is in the run already is known by its part, not by its cases alone: else a job's times are lost."""
    for name, median in (("a", 10.0), ("b", 20.0)):
        with Store.create(parts / f"job-{name}", {**MANIFEST, "status": "completed"}) as made:
            made.append(group(median=median))
    (run,) = merged(parts)
    assert [one["part"] for one in run.manifest["groups"]] == ["job-a", "job-b"]
    assert run.measurements["latency_us_p50"].tolist() == [20.0, 20.0]


def test_a_part_that_is_being_written_is_not_merged(parts):
    part(parts, "a", ["M=1;N=2;K=3"])
    with Store.reopen(parts / "job-a"), pytest.raises(StoreError, match="is in use"):
        cluster.merge(parts, parts.parents[1])
    cluster.wait_for_jobs(parts)
    assert len(merged(parts)) == 1


def test_parts_of_different_commits_are_not_merged(parts):
    part(parts, "a", ["M=1;N=2;K=3"])
    part(parts, "b", ["M=2;N=2;K=3"], git_commit="f" * 16)
    with pytest.raises(StoreError, match="parts of different commits, 0123456789abcdef, ffffffffffffffff"):
        cluster.merge(parts, parts.parents[1])
    shutil.rmtree(parts / "job-a")
    part(parts.parents[1] / "cuda" / "c", "x", [])
    os.rename(parts.parents[1] / "cuda" / "c" / "job-x", parts.parents[1] / "cuda" / "c" / RUN)
    with pytest.raises(StoreError, match="is of another commit than its parts"):
        cluster.merge(parts, parts.parents[1])


def test_merging_by_hand(parts, capsys):
    part(parts, "a", ["M=1;N=2;K=3"])
    part(parts, "b", ["M=2;N=2;K=3"], status="running")  # its job was killed
    assert cluster.main([str(parts)]) == 0
    assert capsys.readouterr().out.startswith("2 problems -> ")
    assert load_run(parts.parents[1] / "cuda" / "c" / RUN).manifest["status"] == "interrupted"
    assert not parts.exists()
    assert cluster.main([str(parts)]) == 2
    assert "holds nothing that a job has stored" in capsys.readouterr().err
    assert cluster.main([]) == 2
    capsys.readouterr()
    for folder in ("/", "/nowhere", str(parts.parents[1])):
        assert cluster.main([folder]) == 2
        assert capsys.readouterr().err == (
            f"{folder} is no <results_dir>/.parts/<run>: give the folder of a run's parts\n"
        )


def test_a_failure_on_one_board_is_the_commands(tmp_path, monkeypatch):
    """Guard: exit code 1, though all passed on the board that is merged last."""

    def jobs(invocation, task, remote):
        parts = tmp_path / ".parts" / RUN
        failed = replace(VERIFIED, case_id="a", problem="M=1;N=2;K=3", status=Status.ERROR, reason="x")
        with Store.create(parts / "job-a", {**MANIFEST, "status": "completed", "gpu": {"name": "NVIDIA H200"}}) as made:
            made.append(StoredGroup((failed,), (), {}))
        part(parts, "b", ["M=2;N=2;K=3"], gpu={"name": "NVIDIA H100 80GB HBM3"})

    monkeypatch.setattr(cluster, "launcher", lambda words: "slurm")
    monkeypatch.setattr(cli, "_hydra", jobs)
    assert main([f"run_id={RUN}", f"results_dir={tmp_path}"]) == 1
    assert {path.parent.parent.name for path in tmp_path.glob(f"*/*/{RUN}")} == {"h200-sxm", "h100-sxm"}


# ---- the launchers


def test_a_launcher_needs_its_plugin_and_points(monkeypatch, capsys):
    assert cluster.launcher(["workload=gemm"]) is None
    assert cluster.launcher(["-m", "hydra/launcher=basic"]) is None
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    assert main(["-m", "hydra/launcher=submitit_slurm", "seed=0,1"]) == 2
    assert "needs hydra-submitit-launcher, which is not installed: pip install 'tk-" in capsys.readouterr().err
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: True)
    assert main(["hydra/launcher=submitit_slurm"]) == 2
    assert "runs a job for each point of a multirun: add -m" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:\\s*.hydra.launcher")
def test_the_slurm_configuration_is_one_gpu_an_array_task(tmp_path):
    """What sbatch would be given, from our file through the plugin's own translation."""
    pytest.importorskip("submitit", reason="pip install 'tk-kernels[cluster]'")
    from hydra import compose, initialize_config_dir
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf, SlurmQueueConf
    from omegaconf import OmegaConf
    from submitit.slurm.slurm import SlurmExecutor, _make_sbatch_string

    from harness.command.cli import CONFIG_DIR

    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        words = ["run_id=r", "hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpus"]
        composed = compose("config", overrides=words, return_hydra_config=True)
        params = OmegaConf.to_container(composed.hydra.launcher, resolve=True)
    assert params.pop("_target_") == SlurmQueueConf._target_
    assert params.pop("submitit_folder") == "results/.parts/r/submitit/%j", "seen by all nodes"
    assert set(params) <= set(OmegaConf.structured(SlurmQueueConf)), "the launcher passes on what it knows"
    assert {"timeout_min", "gpus_per_node"} <= set(OmegaConf.structured(BaseQueueConf))
    params.pop("max_num_timeout")  # of the executor, not of sbatch
    given = {key: value for key, value in params.items() if value is not None}
    without_slurm = SlurmExecutor.__new__(SlurmExecutor)  # its constructor looks for srun
    script = _make_sbatch_string(
        command="run", folder=tmp_path, map_count=20, **without_slurm._convert_parameters(given)
    )
    lines = script.splitlines()
    for wanted in ("--gpus-per-node=1", "--ntasks-per-node=1", "--nodes=1", "--array=0-19%8", "--partition=gpus"):
        assert f"#SBATCH {wanted}" in lines, script
    assert "#SBATCH --exclusive=user" in lines


def test_both_launchers_are_configurations_of_the_plugin():
    for name in ("submitit_slurm", "submitit_local"):
        text = (ROOT / "configs" / "hydra" / "launcher" / f"{name}.yaml").read_text()
        assert "_target_: hydra_plugins.hydra_submitit_launcher.submitit_launcher." in text


# ---- processes


def sweep(results, log, *more):
    return [
        "-m",
        "hydra/launcher=submitit_local",
        *FAST,
        "timer.warmup_seconds=1e-9",
        "timer.budget_seconds=60",
        "timer.min_rounds=12",
        "timer.max_rounds=12",
        "seed=0",
        *contestant("mine", "Good", speed=1.2, log=log),
        *contestant("other", "Good"),
        "implementations=[mine,other]",
        "problem.M=8",
        "problem.N=8",
        "problem.K=8,16",
        f"results_dir={results}",
        *more,
    ]


@pytest.fixture
def fakes_on_path(monkeypatch):
    pytest.importorskip("submitit", reason="pip install 'tk-kernels[cluster]'")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")]))


def test_submitit_local(tmp_path, fakes_on_path, capsys):
    """Two points in two processes at a time are the run that one process makes of them."""
    log, results = tmp_path / "log", tmp_path / "results"
    assert main(sweep(results, log, f"run_id={RUN}")) == 0, capsys.readouterr().err
    (folder,) = results.glob(f"h200-sxm/scratch/{RUN}")
    out = capsys.readouterr().out
    assert "2 jobs on 1 x NVIDIA H200: 2 problems -> " in out
    assert "cases: 4 passed" in out
    assert not (results / ".parts" / RUN).exists()
    workers = {line.split()[0]: line.split()[1] for line in log.read_text().splitlines()}
    assert len(set(workers.values())) == 2, "each point by a worker of its own"
    spread = load_run(folder)
    assert spread.manifest["status"] == "completed"
    accounts = [machine["seconds"] for machine in spread.manifest["machines"]]
    assert len(accounts) == 2
    assert spread.manifest["seconds"] == added(*accounts), "the jobs' time, and not that of the command, which waits"
    alone = [word for word in sweep(tmp_path / "alone", log, f"run_id={RUN}") if not word.startswith("hydra/")]
    assert main(alone) == 0
    together = load_run(tmp_path / "alone" / "h200-sxm" / "scratch" / RUN)
    key = ["case_id"]
    left, right = (run.measurements.sort_values(key).reset_index(drop=True) for run in (spread, together))
    assert left.equals(right), left.compare(right)
    tables = [run.ratios.fillna(0.0).values.tolist() for run in (spread, together)]
    assert sorted(map(tuple, tables[0])) == sorted(map(tuple, tables[1]))


@pytest.mark.long
def test_a_job_that_dies_costs_its_point_and_is_resumed(tmp_path, fakes_on_path, capsys):
    """Guards: the others' parts are merged, and a resumed run measures what is missing."""
    log, results, poison = tmp_path / "log", tmp_path / "results", tmp_path / "poison"
    poison.touch()
    deadly = contestant("mine", "KillsItsJob", while_there=poison, K=16, log=log)
    words = [word for word in sweep(results, log) if "implementations.mine" not in word]
    assert main([*words, *deadly, f"run_id={RUN}"]) == 1
    err = capsys.readouterr().err
    folder = results / "h200-sxm" / "scratch" / RUN
    assert "a job did not come back: " in err
    assert f"go on with: python -m harness resume={folder}" in err
    run = load_run(folder)
    assert run.manifest["status"] == "failed"
    assert [one["problem"] for one in run.manifest["groups"]] == ["M=8;N=8;K=8"]
    stored = (folder / "measurements.csv").read_bytes()
    poison.unlink()
    log.unlink()
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "git_commit": provenance.source().git_commit}))
    assert main([f"resume={folder}"]) == 0, capsys.readouterr().err
    assert {line.split()[0] for line in log.read_text().splitlines()} == {"M=8;N=8;K=16"}
    run = load_run(folder)
    assert run.manifest["status"] == "completed"
    assert [one["problem"] for one in run.manifest["groups"]] == ["M=8;N=8;K=8", "M=8;N=8;K=16"]
    assert (folder / "measurements.csv").read_bytes().startswith(stored)


@pytest.mark.long
def test_a_jobs_mistake_is_the_commands(tmp_path, fakes_on_path, capsys):
    assert main([*sweep(tmp_path / "results", tmp_path / "log"), "problem.K=8,0"]) == 2
    assert "K is 0, needs a whole number of at least 1" in capsys.readouterr().err


def test_what_a_job_says_reads_back(tmp_path):
    def run(plan, invocation):
        raise HarnessError("no GPU here", exit_code=1)

    order = cluster.Order(RUN, (), tmp_path / "parts")
    cluster.task(order, run)(None)
    (said,) = cluster.mistakes(order.parts)
    assert (str(said), said.exit_code) == ("no GPU here", 1)


def test_order(tmp_path):
    class Told:
        run_id, arguments, folder = RUN, ("-m", "results_dir=a", f"results_dir={tmp_path}"), Path("old")

    parts = tmp_path / ".parts" / RUN
    assert cluster.order_of(Told, "results") == cluster.Order(RUN, Told.arguments, parts, Path("old"))
    Told.arguments = ("-m", f"results_dir='{tmp_path}'")  # Hydra needs the quotes for most signs, and takes them off
    assert cluster.order_of(Told, "results").parts == parts
