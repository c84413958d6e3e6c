"""A multirun spread over jobs: each makes a run, whatever ends it; and what Slurm is asked for."""

import os
from dataclasses import replace

import pytest
from harness_support import FAST, HERE, MANIFEST, ROOT, VERIFIED, config, contestant, group, of_this_commit, renamed

from harness.command import cli, cluster
from harness.command.cli import main
from harness.command.runner import _stored_elsewhere
from harness.plan.planning import make_plan
from harness.plan.said import Inspected
from harness.plan.settings import settings_of
from harness.records.errors import HarnessError
from harness.records.rows import Status
from harness.runs import frame, load_campaign
from harness.runs.group import StoredGroup
from harness.runs.invocation import Invocation
from harness.runs.store import Store

RUN = MANIFEST["run_id"]


# ---- the runs that jobs make


def made_by_a_job(results, name, problem, slug="cuda", **manifest):
    """A run as a job leaves it: its problem is measured."""
    entries = {**MANIFEST, "run_id": f"{RUN}-{name}", "multirun": RUN, "status": "completed", **manifest}
    with Store.create(results / slug / "c" / f"{RUN}-{name}", entries) as made:
        made.append(group(problem, cases=(f"{problem}-tk", f"{problem}-cublas")))
    return made.folder


def told(results, *words):
    invocation = Invocation(RUN, ("-m", f"results_dir={results}", *words))
    return cluster.order_of(invocation, "results")


def test_jobs_runs_are_a_campaign(tmp_path):
    """Guard: readers take them together; another board's run is in that board's folder."""
    order = told(tmp_path)
    made_by_a_job(tmp_path, "a", "M=1;N=2;K=3")
    made_by_a_job(tmp_path, "b", "M=2;N=2;K=3", started_utc="2026-11-20T12:00:05Z")
    made_by_a_job(tmp_path, "c", "M=3;N=2;K=3", slug="h100-sxm", gpu={"name": "NVIDIA H100 80GB HBM3"})
    with Store.create(tmp_path / "cuda" / "c" / "20261120T130000Z-abcdef", MANIFEST):
        pass
    assert [run.name for run in order.runs()] == [f"{RUN}-a", f"{RUN}-b", f"{RUN}-c"]
    assert frame(tmp_path / "cuda" / "c")["problem"].nunique() == 2
    assert {run.run_id for run in load_campaign(tmp_path / "cuda" / "c")} == {f"{RUN}-a", f"{RUN}-b", RUN}


def test_a_multirun_that_is_gone_on_with_knows_what_jobs_have_stored(tmp_path):
    """Guards: `stored` of what was measured before; it is not counted again."""
    before = made_by_a_job(tmp_path, "a", "M=1;N=2;K=3")
    order = told(tmp_path)
    assert order.stored == (before,)
    assert order.runs() == []
    seen = []
    cluster.task(order, lambda config, invocation: seen.append(invocation))(None)
    (invocation,) = seen
    assert invocation.run_id.startswith(f"{RUN}-")
    assert invocation.run_id != before.name
    assert [one["problem"] for one in invocation.stored_elsewhere] == ["M=1;N=2;K=3"]


def test_a_problem_of_two_jobs_has_both_and_the_later_counts(tmp_path):
    """Guard: a run a job; else a job's times are lost."""
    for name, median, began in (("a", 10.0, "2026-11-20T12:00:00Z"), ("b", 20.0, "2026-11-20T12:00:05Z")):
        entries = {**MANIFEST, "run_id": f"{RUN}-{name}", "started_utc": began}
        with Store.create(tmp_path / "cuda" / "c" / f"{RUN}-{name}", entries) as made:
            made.append(group(median=median))
        renamed(made.folder)
    assert frame(tmp_path / "cuda" / "c")["latency_us_p50"].tolist() == [20.0, 20.0]
    assert len(frame(tmp_path / "cuda" / "c", newest=False)) == 4


def test_while_jobs_still_run_the_multirun_is_not_gone_on_with(tmp_path):
    folder = made_by_a_job(tmp_path, "a", "M=1;N=2;K=3")
    with Store.reopen(folder), pytest.raises(HarnessError, match=f"{RUN}-a is in use by a job: wait for it"):
        told(tmp_path)
    order = told(tmp_path)
    cluster.wait_for_jobs(order)


def test_one_of_the_runs_stands_for_all_in_resume(tmp_path):
    folder = made_by_a_job(tmp_path, "a", "M=1;N=2;K=3", arguments=["-m", "hydra/launcher=slurm"])
    invocation = cli._invocation([f"resume={folder}"])
    assert (invocation.run_id, invocation.arguments) == (RUN, ("-m", "hydra/launcher=slurm"))


@pytest.mark.parametrize(("kind", "there"), [("cuda_events", True), ("cuda_graph", False)])
def test_a_problem_counts_as_measured_under_the_same_settings_alone(kind, there):
    """Guard: else a point with another timer is lost when the multirun is gone on with."""
    words = ["problem.M=1", "problem.N=2", "problem.K=3", "implementations=[tk]", "seed=0"]
    now, then = config(*words), config(*words, f"timer.kind={kind}")
    (one,) = make_plan(now, words).groups
    stored = {"case_ids": one.case_ids, "passed": one.case_ids, "settings": settings_of(then, one)}
    job = Invocation(f"{RUN}-b", (), multirun=RUN, stored_elsewhere=(stored,))
    inspected = [Inspected(contestant, "1.0") for contestant in one.contestants]
    assert _stored_elsewhere(one, now, inspected, job) is there


def test_a_failure_of_one_job_is_the_commands(tmp_path, monkeypatch, capsys):
    """Guard: exit code 1, though all passed in the run that is read last."""

    def jobs(invocation, task, remote):
        failed = replace(VERIFIED, case_id="a", problem="M=1;N=2;K=3", status=Status.ERROR, reason="x")
        entries = {**MANIFEST, "run_id": f"{RUN}-a", "config": {"wandb": {"mode": "disabled"}}}
        with Store.create(tmp_path / "h100-sxm" / "c" / f"{RUN}-a", entries) as made:
            made.append(StoredGroup((failed,), (), {}))
        made_by_a_job(tmp_path, "b", "M=2;N=2;K=3", slug="h200-sxm", config={"wandb": {"mode": "disabled"}})

    monkeypatch.setattr(cluster, "launcher", lambda words: "slurm")
    monkeypatch.setattr(cli, "_hydra", jobs)
    assert main([f"run_id={RUN}", f"results_dir={tmp_path}"]) == 1
    said = capsys.readouterr().out
    assert "1 error" in said
    assert "2 passed" in said


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
    assert params.pop("submitit_folder") == "results/.jobs/r/submitit/%j", "seen by all nodes"
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
    """Two points in two processes at a time are what one process makes of them."""
    log, results = tmp_path / "log", tmp_path / "results"
    assert main(sweep(results, log, f"run_id={RUN}")) == 0, capsys.readouterr().err
    folders = sorted(results.glob(f"h200-sxm/scratch/{RUN}-*"))
    out = capsys.readouterr().out
    assert len(folders) == 2
    for folder in folders:
        assert "a job on NVIDIA H200: 1 problems, cases: 2 passed" in out
        assert str(folder) in "".join(out.split())
    assert not (results / ".jobs" / RUN).exists()
    workers = {line.split()[0]: line.split()[1] for line in log.read_text().splitlines()}
    assert len(set(workers.values())) == 2, "each point by a worker of its own"
    assert all(run.manifest["status"] == "completed" for run in load_campaign(folders[0].parent))
    alone = [word for word in sweep(tmp_path / "alone", log, f"run_id={RUN}") if not word.startswith("hydra/")]
    assert main(alone) == 0
    key = ["problem", "implementation"]
    left, right = (
        frame(where / "h200-sxm" / "scratch").sort_values(key).reset_index(drop=True).drop(columns="run_id")
        for where in (results, tmp_path / "alone")
    )
    assert left.equals(right), left.compare(right)


@pytest.mark.long
def test_a_job_that_dies_costs_its_point_and_is_resumed(tmp_path, fakes_on_path, capsys):
    """Guards: the others' runs are whole, and a resumed multirun measures what is missing."""
    log, results, poison = tmp_path / "log", tmp_path / "results", tmp_path / "poison"
    poison.touch()
    deadly = contestant("mine", "KillsItsJob", while_there=poison, K=16, log=log)
    words = [word for word in sweep(results, log) if "implementations.mine" not in word]
    assert main([*words, *deadly, f"run_id={RUN}"]) == 1
    err = capsys.readouterr().err
    folders = sorted(results.glob(f"h200-sxm/scratch/{RUN}-*"))
    assert "a job did not come back: " in err
    assert f"go on with: python -m harness resume={folders[0]}" in err
    runs = load_campaign(folders[0].parent)
    assert [one["problem"] for run in runs for one in run.manifest["groups"]] == ["M=8;N=8;K=8"]
    stored = {path: path.read_bytes() for path in folders[0].parent.glob("*/group-*")}
    poison.unlink()
    log.unlink()
    for folder in folders:
        of_this_commit(folder)
    assert main([f"resume={folders[0]}"]) == 0, capsys.readouterr().err
    assert {line.split()[0] for line in log.read_text().splitlines()} == {"M=8;N=8;K=16"}
    runs = load_campaign(folders[0].parent)
    assert sorted(one["problem"] for run in runs for one in run.manifest["groups"]) == ["M=8;N=8;K=16", "M=8;N=8;K=8"]
    assert all(path.read_bytes() == data for path, data in stored.items())


@pytest.mark.long
def test_a_jobs_mistake_is_the_commands(tmp_path, fakes_on_path, capsys):
    assert main([*sweep(tmp_path / "results", tmp_path / "log"), "problem.K=8,0"]) == 2
    assert "K is 0, needs to be at least 1" in capsys.readouterr().err


def test_what_a_job_says_reads_back(tmp_path):
    def run(plan, invocation):
        raise HarnessError("no GPU here", exit_code=1)

    order = cluster.Order(RUN, (), tmp_path)
    cluster.task(order, run)(None)
    (said,) = cluster.mistakes(order)
    assert (str(said), said.exit_code) == ("no GPU here", 1)


def test_order(tmp_path):
    assert told("a", f"results_dir={tmp_path}").results_dir == tmp_path
    assert told(f"'{tmp_path}'").results_dir == tmp_path, "Hydra needs the quotes for most signs, and takes them off"
