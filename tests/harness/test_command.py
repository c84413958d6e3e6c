"""The command from end to end, on the fake GPU and on the CPU."""

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from harness_support import FAST, ROOT, bench, contestant, main, only_run, small

from harness import cli, headline, provenance
from harness.results import load_run
from harness.worker.supervisor import Supervisor

GOOD = [*contestant("mine", "Good", speed=1.2), *contestant("other", "Good"), "implementations=[mine,other]"]


def one_line(text):
    lines = [line for line in text.strip().splitlines() if not line.startswith("wandb")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


# ---- mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["problm.K=3"], "'problm'"),
        (["problem.Q=3"], "problem.Q"),
        (
            ["experiment=fig77"],
            "experiment=fig77 is no choice: there is ampere_attention, ampere_attention_backward, ampere",
        ),
        (["workload=gem"], "workload=gem is no choice: there is attention, based, dropout_add_layernorm, fft_conv,"),
        (["workload=gem"], "did you mean gemm?"),
        (["campain=x"], "; did you mean campaign?"),
        (["resum=x"], "; did you mean resume?"),
        (["timer.budget_second=3"], "; did you mean timer.budget_seconds?"),
        (["timer=cupti"], "timer=cupti is no choice: there is cuda_events, cuda_graph"),
        (["implementations=[tkk]"], "did you mean tk?"),
        (["implementations=[tk[stages=2]]"], "quote what holds brackets"),
        (["notanoverride"], "notanoverride"),
        *(([f"{group}=null"], "name a file of configs/") for group in ("timer", "device", "workload", "experiment")),
        (["workload=3"], "Got int: name a file of configs/, as in timer=cuda_events"),
        (["+foo=1"], "foo is unknown"),
        (["problem.K=0"], "K is 0"),
        (["resume=/nowhere"], "/nowhere is not a run folder"),
        (["resume=a", "resume=b"], "resume is given twice"),
        (["resume=a", "run_id=b"], "exclude each other"),
        (["run_id=../up"], "needs a plain folder name"),
        (["campaign=a/b"], "campaign is 'a/b'"),
        (["device=cuda"], "torch sees no CUDA GPU here"),
        (["device._target_=nowhere.Device"], "device nowhere.Device cannot be used"),
        (["--foo"], "--foo is unknown: give key=value, or --help"),
        (["results_dir="], "results_dir is '', needs a text"),
        (
            [*contestant("bad", "NoSuchClass"), "implementations=[bad]"],
            "implementation bad: harness_fakes.NoSuchClass cannot be loaded: No module named 'harness_fakes.NoSuch",
        ),
        (["+workload.implementations.bad._target_=no.such.f", "implementations=[bad]"], "No module named 'no'"),
        ([*contestant("bad", "Good", speed=-1), "implementations=[bad]"], "implementation bad: speed: got -1"),
        ([*contestant("bad", "Good"), "implementations=['bad[spede=2]']"], "spede"),
        ([*contestant("bad", "addition"), "implementations=['bad[shfit=2]']"], "unknown option 'shfit'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments, words, capfd, tmp_path):
    if arguments == ["device=cuda"]:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
    place = [] if any(word.startswith("results_dir=") for word in arguments) else [f"results_dir={tmp_path}"]
    assert main([*FAST, *place, *arguments] if "device=cuda" not in arguments else arguments) == 2
    captured = capfd.readouterr()
    assert words in one_line(captured.err)
    assert captured.err.count("\n") == 1, "no empty lines around it"
    assert not list(tmp_path.iterdir())


def test_a_worker_that_was_started_for_nothing_is_silent(capfd, tmp_path):
    assert cli.main([*FAST, "problem.K=0", f"results_dir={tmp_path}"]) == 2
    assert "K is 0" in one_line(capfd.readouterr().err)


def test_composing_without_running(capsys):
    assert main(["--cfg", "job", "experiment=table1_stages"]) == 0
    assert "tk[stages=1]" in capsys.readouterr().out


# ---- plan


def test_plan_says_what_would_run_and_what_is_missing(capsys, tmp_path):
    arguments = [*FAST, *GOOD[:-1], *contestant("gone", "Unavailable"), *contestant("picky", "Unsupported")]
    assert main([*arguments, "implementations=[mine,gone,picky]", "plan=true", f"results_dir={tmp_path}"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "on NVIDIA H200: 1 cases, about" in out
    assert "missing gone: library is not installed: pip install library==1.2" in out
    assert "unsupported picky at M=4096;N=4096;K=4096: K: got 4096" in out
    assert not list(tmp_path.iterdir())


# ---- a run


def test_a_run_is_stored_as_the_schema_says(stored_run):
    run = load_run(stored_run)
    manifest, rows = run.manifest, run.measurements
    assert stored_run.parent.parent.name == "h200-sxm"
    assert manifest["run_id"] == stored_run.name
    assert manifest["status"] == "completed"
    assert manifest["device"] == "cuda"
    assert manifest["ended_utc"] >= manifest["started_utc"]
    assert manifest["roofs"] == {"copy_gbps": 4283.0, "matmul_bf16_tflops": 750.0}
    assert manifest["datasheet"]["gbps"] == 4800
    assert manifest["gpu"]["uuid_hash"] == "0123456789abcdef"
    assert manifest["kernel_builds"]["tk"] == {"registers": 168}
    assert manifest["config"]["campaign"] == "test"
    assert manifest["command"].startswith("python -m harness ")
    assert manifest["git_commit"] == provenance.source().git_commit
    assert len(rows) == 4
    assert set(rows["status"]) == {"passed"}
    assert set(rows["timer"]) == {"cuda_events"}
    assert set(rows["cache"]) == {"flushed"}
    assert set(rows["bound"]) == {"memory"}
    assert set(rows["throttled"]) == {"sw_power_cap"}
    for row in rows.itertuples():
        k = int(row.problem.rpartition("=")[2])
        expected = 100.0 / (1.1 if row.implementation == "tk" else 1.0)
        assert row.latency_us_p50 == pytest.approx(expected, rel=0.03)
        assert row.tflops == pytest.approx(2 * 64 * 48 * k / (row.latency_us_p50 * 1e6))
        assert math.isnan(row.energy_mj), "only settled blocks count the energy of a call"
        assert row.n_samples == len(run.samples(row.case_id))
    best = run.ratios.merge(rows[["case_id", "implementation"]], on="case_id")
    ours = best[best["implementation"] == "tk"]
    assert ours["ratio_p50"].to_numpy() == pytest.approx(1.1, rel=0.01)
    assert set(ours["verdict"]) == {"FASTER"}


def test_without_a_profiler_the_row_says_what_was_not_checked(tmp_path):
    arguments = [*FAST, *small(), *contestant("promises", "Promises"), "implementations=[promises]"]
    assert main([*arguments, "+device.profiler=false", f"results_dir={tmp_path}"]) == 0
    (row,) = load_run(only_run(tmp_path)).measurements.itertuples()
    assert row.status == "passed"
    assert row.reason == "kernel names not checked: the profiler saw no kernel"
    assert row.kernel_names == ""


def test_an_unknown_gpu_has_measured_roofs_only(tmp_path):
    assert main([*FAST, *GOOD, *small(), "+device.gpu_name=Tesla T4", f"results_dir={tmp_path}"]) == 0
    folder = only_run(tmp_path)
    run = load_run(folder)
    assert folder.parent.parent.name == "tesla-t4"
    assert run.manifest["datasheet"] is None
    assert run.manifest["notes"] == ["no datasheet of Tesla T4: only shares of the roofs measured here are given"]
    assert run.measurements["roof_pct_datasheet"].isna().all()
    assert run.measurements["roof_pct_measured"].notna().all()


def test_settled_clock_power_and_energy_are_columns(tmp_path, monkeypatch):
    """Guard: `_settled` in harness/worker/measure.py.  The fake's counter goes 10 J further each time it is read."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # else blocks are of few batches on a loaded machine
    short = ["timer.settled=auto", "timer.settled_block_seconds=0.06", "timer.settled_drop_seconds=0.01"]
    assert cli.main([*FAST, *small(), *GOOD, *short, f"results_dir={tmp_path}"]) == 0
    run = load_run(only_run(tmp_path))
    for row in run.measurements.itertuples():
        assert row.status == "passed"
        assert row.settled_clock_mhz == 1755.0
        assert row.settled_latency_us > 0
        assert row.power_w == 642.0
        assert row.energy_mj == row.settled_energy_mj
        assert row.tflops_per_w == pytest.approx(row.settled_tflops / row.settled_power_w)
        blocks = run.settled[run.settled["case_id"] == row.case_id]
        assert len(blocks) == row.settled_blocks >= 4
        assert row.settled_energy_mj == pytest.approx(blocks["energy_mj"].mean())
        assert row.settled_latency_us == pytest.approx(math.exp(np.log(blocks["latency_us"].astype(float)).mean()))
        assert set(blocks["predecessor"]) <= {"", *run.measurements["case_id"]}
    assert run.manifest["groups"][0]["energy_j"] == 10.0, "of the rounds alone"
    settled = dict(zip(run.measurements["case_id"], run.measurements["settled_latency_us"], strict=True))
    for ratio in run.ratios.to_dict("records"):
        wanted = settled[ratio["baseline_case_id"]] / settled[ratio["case_id"]]
        assert ratio["settled_ratio"] == pytest.approx(wanted)
        assert headline.of_ratio(ratio).value == pytest.approx(wanted)


def test_blocks_of_the_hosts_launches_are_no_results(tmp_path, monkeypatch):
    """Guard: `_settled` drops blocks whose ends the host never waited for; the headline is that of the rounds."""
    monkeypatch.setenv("FAKE_STARVED", "1")  # which a worker of its own reads
    short = ["timer.settled=auto", "timer.settled_block_seconds=0.06", "timer.settled_drop_seconds=0.01"]
    assert cli.main([*FAST, *small(), *GOOD, *short, f"results_dir={tmp_path}"]) == 0
    run = load_run(only_run(tmp_path))
    assert set(run.measurements["status"]) == {"passed"}
    assert run.settled.empty
    assert run.measurements["settled_latency_us"].isna().all()
    assert {headline.of_ratio(row).source for row in run.ratios.to_dict("records")} == {"rounds"}


def test_the_cpu_verifies_and_never_times(tmp_path, capsys):
    arguments = ["device=cpu", "wandb=disabled", *small(17, 5, 33), *GOOD, f"results_dir={tmp_path}"]
    assert main([*arguments, "profile=ncu"]) == 0
    folder = only_run(tmp_path)
    run = load_run(folder)
    assert folder.parent.parent.name == "cpu"
    assert run.manifest["gpu"] is None
    assert set(run.measurements["status"]) == {"passed"}
    assert run.measurements["n_samples"].sum() == 0
    assert run.measurements["latency_us_p50"].isna().all()
    assert run.ratios.empty
    out = capsys.readouterr().out
    assert "this device verifies; it does not time" in out
    assert "note: profile=ncu: nothing is profiled, this device verifies only" in out


def test_where_nothing_can_run_the_command_fails_with_the_reason(tmp_path, capsys):
    gone = [*FAST, *small(), *contestant("gone", "Unavailable"), *contestant("picky", "Unsupported")]
    assert main([*gone, "implementations=[gone,picky]", f"results_dir={tmp_path}"]) == 1
    err = one_line(capsys.readouterr().err)
    assert err.startswith("nothing could run here: gone: library is not installed: pip install library==1.2; picky: ")
    assert set(load_run(only_run(tmp_path)).measurements["status"]) == {"unavailable", "unsupported"}


def test_without_a_compiler_our_kernel_is_a_failure_that_says_so(tmp_path, monkeypatch, capsys, kernel_cache):
    monkeypatch.setenv("CXX", "/nonexistent")  # which a worker of its own reads
    arguments = ["device=cpu", "wandb=disabled", *small(), "implementations=[tk]", f"results_dir={tmp_path / 'r'}"]
    assert cli.main(arguments) == 1
    assert "/nonexistent" in one_line(capsys.readouterr().err)


def test_a_multirun_is_one_run_folder(tmp_path):
    arguments = ["-m", *FAST, *GOOD, "problem.M=64", "problem.N=48", "problem.K=16,32,64", f"results_dir={tmp_path}"]
    assert main(arguments) == 0
    run = load_run(only_run(tmp_path))
    assert sorted(set(run.measurements["problem"])) == [f"M=64;N=48;K={k}" for k in (16, 32, 64)]
    assert len(run.measurements) == 6
    assert len(run.ratios) == 6
    assert run.manifest["status"] == "completed"
    assert [group["problem"] for group in run.manifest["groups"]] == [f"M=64;N=48;K={k}" for k in (16, 32, 64)]
    assert main([f"resume={of_this_commit(run.path)}"]) == 0
    again = load_run(only_run(tmp_path))
    assert len(again.manifest["groups"]) == 3, "a complete multirun is resumed without measuring"


def test_the_command_of_a_row_repeats_its_case(stored_run, tmp_path):
    row = load_run(stored_run).measurements.iloc[0]
    words = shlex.split(row["repro_command"])
    assert words[:3] == ["python", "-m", "harness"]
    assert main([*words[3:], "wandb=disabled", f"results_dir={tmp_path}"]) == 0
    (again,) = load_run(only_run(tmp_path)).measurements.itertuples()
    assert again.case_id == row["case_id"]
    assert again.rel_l2_error == row["rel_l2_error"]
    # the same clock up to the drift of the fake GPU, 2 % either way, which it meets at another phase
    assert again.latency_us_p50 == pytest.approx(row["latency_us_p50"], rel=0.05)


def test_a_reader_that_stops_early_is_no_traceback():
    process = bench(["--cfg", "job"])
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() in (0, 141)


@pytest.mark.parametrize(
    ("swept", "told"),
    [
        ("seed=0,1", "seed=1 (before: 0)"),
        ("timer.max_rounds=100,200", "timer.max_rounds=200 (before: 100)"),
        ("workload.implementations.good.speed=1,2", "implementations.good.speed=2 (before: 1)"),
    ],
)
def test_points_that_no_case_tells_apart_are_refused(tmp_path, capsys, swept, told):
    """Guard: the first point alone was measured, the others were \"kept\", and the command ended with 0."""
    assert main(["-m", *FAST, *contestant("good", "Good", speed=1), *small(), swept, f"results_dir={tmp_path}"]) == 2
    assert f"is in this run already, and is asked for again with {told}" in capsys.readouterr().err
    assert main([f"resume={of_this_commit(only_run(tmp_path))}", swept.replace(",", "9")]) == 2


def test_a_mistake_in_a_multirun_ends_it(tmp_path, capsys):
    assert main(["-m", *FAST, *GOOD, *small(), "seed=0,-1", f"results_dir={tmp_path}"]) == 2
    assert "seed is -1" in capsys.readouterr().err
    assert len(load_run(only_run(tmp_path)).measurements) == 2


# ---- ending early, and going on


def wait_for_rows(results_dir, count, process, seconds=240):
    """Until the groups that a run folder holds have that many rows."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for path in Path(results_dir).rglob("manifest.json"):  # the last of a group's files to be written
            if sum(len(group["case_ids"]) for group in json.loads(path.read_text())["groups"]) >= count:
                return path.parent
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no rows")


def of_this_commit(folder):
    """Makes a stored run one of the present commit, whatever was committed since it was measured."""
    path = folder / "manifest.json"
    commit = provenance.source().git_commit
    path.write_text(json.dumps({**json.loads(path.read_text()), "git_commit": commit}))
    return folder


def slow_sweep(tmp_path):
    log = tmp_path / "prepared.log"
    return [
        *FAST,
        *contestant("slow", "Slow", log=log),
        *contestant("other", "Good"),
        "implementations=[slow,other]",
        "problems=[{grid: {M: [8], N: [8], K: [8, 16, 24]}}]",
        "timer.budget_seconds=1",
        f"results_dir={tmp_path / 'results'}",
    ], log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting(tmp_path, number):
    arguments, _ = slow_sweep(tmp_path)
    process = bench(
        [word for word in arguments if not word.startswith("wandb")] + [f"wandb.dir={tmp_path}"], start_new_session=True
    )
    folder = wait_for_rows(tmp_path, 2, process)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"interrupted; what was measured is stored; go on with: python -m harness resume={folder}" in err
    run = load_run(folder)
    assert run.manifest["status"] == "interrupted"
    assert len(run.measurements) >= 2
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 2, "what there is, is mirrored"


MIRRORED = [word for word in FAST if not word.startswith("wandb")]
NOT_MIRRORED = "the run is stored but not mirrored to wandb (interrupted); later: python -m harness.publish"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_while_the_run_is_closed(tmp_path, number, monkeypatch, capsys):
    real = Supervisor.stop

    def stop(self):
        os.kill(os.getpid(), number)
        real(self)

    monkeypatch.setattr(Supervisor, "stop", stop)
    assert cli.main([*MIRRORED, *GOOD, *small(), f"results_dir={tmp_path}", f"wandb.dir={tmp_path}"]) == 130
    assert NOT_MIRRORED in one_line(capsys.readouterr().err)
    assert load_run(only_run(tmp_path)).manifest["status"] == "completed"
    assert not (tmp_path / "wandb").exists()
    assert cli.main([*FAST, *GOOD, *small(), f"results_dir={tmp_path / 'unmirrored'}"]) == 130
    assert "interrupted; the run is stored" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_the_mirror(tmp_path, number, monkeypatch, capsys):
    monkeypatch.setattr("harness.cli.publish", lambda folder, **settings: os.kill(os.getpid(), number))
    assert main([*MIRRORED, *GOOD, *small(), f"results_dir={tmp_path}"]) == 130
    assert NOT_MIRRORED in one_line(capsys.readouterr().err)
    assert load_run(only_run(tmp_path)).manifest["status"] == "completed"


def test_interrupting_the_imports():
    """Also where the library that is being imported swallows every exception."""
    code = """
import os, signal, sys
class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "harness.cli":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                pass
sys.meta_path.insert(0, Importing())
from harness.__main__ import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 130
    assert one_line(done.stderr) == "interrupted; nothing had been measured"


def test_interrupting_the_end():
    """Guard: a second Ctrl-C met what PyTorch tidies up at the end, and was a traceback."""
    code = """
import atexit, os, signal, sys
import harness.cli
from harness.__main__ import main
harness.cli.main = lambda: 130
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (130, "")


def test_resuming_refuses_what_does_not_belong_together(stored_run, tmp_path, capsys, monkeypatch):
    import shutil

    for name, changes, words in (
        ("board", {"gpu": {"name": "NVIDIA H200", "uuid_hash": "other"}}, "the run is of another board"),
        ("commit", {"git_commit": "0" * 40}, "the run is of commit 000000000000"),
        ("schema", {"schema_version": 99}, "schema version 99"),
    ):
        copy = tmp_path / name
        shutil.copytree(stored_run, copy)
        path = copy / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        assert main([f"resume={copy}"]) == 2
        assert words in one_line(capsys.readouterr().err)


def test_resuming_a_complete_run_measures_nothing(stored_run, tmp_path, capsys):
    import shutil

    copy = tmp_path / stored_run.name
    shutil.copytree(stored_run, copy)
    before = (copy / "measurements.csv").read_text()
    assert main([f"resume={of_this_commit(copy)}"]) == 0
    assert (copy / "measurements.csv").read_text() == before


def test_a_full_disk_in_the_middle_is_said_with_the_way_on(tmp_path, capsys, monkeypatch):
    import errno

    from harness.store import Store

    def full(self, samples, case_ids):
        raise OSError(errno.ENOSPC, "No space left on device", str(self.folder / "samples.parquet"))

    monkeypatch.setattr(Store, "_merged_samples", full)
    assert main([*FAST, *GOOD, *small(), f"results_dir={tmp_path}"]) == 1
    err = one_line(capsys.readouterr().err)
    assert "samples.parquet: No space left on device; free some space; go on with: python -m harness resume=" in err
    assert load_run(only_run(tmp_path)).manifest["status"] == "failed"


# ---- provenance


def test_the_commit_comes_from_the_bundle_where_there_is_no_git(tmp_path, monkeypatch):
    monkeypatch.delenv("TK_BUILD_INFO", raising=False)
    assert provenance.source(tmp_path) == provenance.Source("unknown", None)
    (tmp_path / "build_info.json").write_text('{"git_commit": "abc", "git_dirty": true}')
    assert provenance.source(tmp_path) == provenance.Source("abc", True)
    (tmp_path / "build_info.json").write_text("{")
    assert provenance.source(tmp_path) == provenance.Source("unknown", None)
    (tmp_path / "elsewhere.json").write_text('{"git_commit": "def", "git_dirty": false}')
    monkeypatch.setenv("TK_BUILD_INFO", str(tmp_path / "elsewhere.json"))
    assert provenance.source(tmp_path) == provenance.Source("def", False)


def test_dirty_means_tracked_files_outside_results(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True)

    git("init", "-q")
    (tmp_path / "results").mkdir()
    for name in ("code.py", "results/data.csv"):
        (tmp_path / name).write_text("1")
    git("add", "-A")
    git("commit", "-qm", "x")
    clean = provenance.source(tmp_path)
    assert len(clean.git_commit) == 40
    assert clean.git_dirty is False
    (tmp_path / "untracked.py").write_text("1")
    (tmp_path / "results/data.csv").write_text("2")
    assert provenance.source(tmp_path).git_dirty is False
    (tmp_path / "code.py").write_text("2")
    assert provenance.source(tmp_path).git_dirty is True


def test_claims_are_hashed(tmp_path):
    claims = tmp_path / "paper_figures" / "published" / "claims"
    claims.mkdir(parents=True)
    (claims / "a.yaml").write_text("x")
    assert provenance.claim_hashes(tmp_path) == {
        "a.yaml": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    }


def test_run_ids_sort_by_time_and_are_unique():
    from datetime import UTC, datetime

    first = provenance.new_run_id(datetime(2026, 11, 20, 12, 0, 1, tzinfo=UTC))
    second = provenance.new_run_id(datetime(2026, 11, 20, 12, 0, 2, tzinfo=UTC))
    assert first.startswith("20261120T120001Z-")
    assert first < second
    assert len({provenance.new_run_id() for _ in range(50)}) == 50
