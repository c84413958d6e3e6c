"""The command from end to end, on the fake GPU and on the CPU."""

import math
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from harness_support import FAST, GOOD, ROOT, bench, contestant, main, of_this_commit, one_line, only_run, small

from harness import workloads
from harness.command import cli
from harness.records import headline, provenance
from harness.records.places import CONFIGS
from harness.runs import load_run

# ---- mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["problm.K=3"], "Could not override 'problm.K'"),
        (["~campain"], "'campain' does not exist"),
        (["experiment=fig77"], "Could not find 'experiment/fig77' Available options in 'experiment': ampere_attention"),
        (["implementations=[tkk]"], "did you mean tk?"),
        (["implementations=[tk[stages=2]]"], "quote what holds brackets"),
        *(([f"{group}=null"], "name a file of configs/") for group in ("timer", "device", "workload", "experiment")),
        (["workload=3"], "Got int: name a file of configs/, as in timer=cuda_events"),
        (["resume=/nowhere"], "/nowhere is not a run folder"),
        (["run_id=../up"], "needs a plain folder name"),
        (["run_id=.hidden"], "needs a plain folder name"),
        (["results_dir=\u00fcber"], "results_dir=\u00fcber is no key=value: quote what holds brackets, commas or"),
        (["campaign=a/b"], "campaign is 'a/b'"),
        (["device=cuda"], "torch sees no CUDA GPU here"),
        (["device._target_=nowhere.Device"], "device nowhere.Device cannot be used"),
        (
            [*contestant("bad", "NoSuchClass"), "implementations=[bad]"],
            "implementation bad: harness_fakes.NoSuchClass cannot be loaded: No module named 'harness_fakes.NoSuch",
        ),
        ([*contestant("bad", "Good", speed=-1), "implementations=[bad]"], "implementation bad: speed: got -1"),
        ([*contestant("bad", "Good"), "implementations=['bad[spede=2]']"], "spede"),
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


def test_python_without_assertions_is_refused():
    """Guard: Hydra's reader of lists and mappings fails there with an AttributeError of its own."""
    words = [sys.executable, "-OO", "-m", "harness", "workload=gemm", "problems=[{M:64,N:64,K:64}]"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, "PYTHONOPTIMIZE" in one_line(done.stderr)) == (2, True), done.stderr


def configured(tmp_path, monkeypatch, workload):
    """A copy of the configurations with a workload of one's own."""
    configs = tmp_path / "configs"
    shutil.copytree(CONFIGS, configs)
    (configs / "workload" / "scale.yaml").write_text(workload)
    monkeypatch.setattr(cli, "CONFIG_DIR", configs)
    return configs


def test_a_configuration_that_is_no_yaml_is_named_with_its_line(tmp_path, monkeypatch, capfd):
    """Guard: a traceback of 30 lines, in the parser of YAML."""
    configs = configured(
        tmp_path, monkeypatch, "# @package _global_\nworkload:\n  name: scale\n  baseline: [tk\nx: 1\n"
    )
    assert main(["workload=scale", f"results_dir={tmp_path / 'results'}"]) == 2
    said = one_line(capfd.readouterr().err)
    assert f"got ':' in \"{configs / 'workload' / 'scale.yaml'}\", line 5, column 2" in said


def test_a_workload_that_lacks_a_function_is_told_so(tmp_path, monkeypatch, capfd):
    """Guard: an AttributeError, from the estimate of how long it takes."""
    (tmp_path / "scale.py").write_text(
        (ROOT / "harness" / "workloads" / "gemm.py").read_text().replace("def flops", "def _")
    )
    monkeypatch.setattr(workloads, "__path__", [*workloads.__path__, str(tmp_path)])
    gemm = (CONFIGS / "workload" / "gemm.yaml").read_text()
    configured(tmp_path, monkeypatch, gemm.replace("name: gemm", "name: scale"))
    assert main([*FAST, "workload=scale", f"results_dir={tmp_path / 'results'}"]) == 2
    said = one_line(capfd.readouterr().err)
    assert said.startswith(f"workload 'scale' has no flops: {tmp_path / 'scale.py'} needs what ")


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
    assert "on NVIDIA H200: 1 case, about" in out
    assert "missing gone: library is not installed: pip install library==1.2" in out
    assert "unsupported picky: K: got 4096" in out
    assert not list(tmp_path.iterdir())


def test_a_thread_that_is_not_the_main_one(capsys, tmp_path):
    """Guard: Python lets no other listen to signals, as a server's or a notebook's, and the command was a traceback."""
    arguments = [*FAST, *GOOD, "plan=true", f"results_dir={tmp_path}"]
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(main, arguments).result() == 0
    assert "2 cases, about" in capsys.readouterr().out


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
    """Guard: `_settled` in harness/measure/measure.py.  The fake's counter goes 10 J further each time it is read."""
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


def test_what_is_missing_is_said_once_in_a_run(tmp_path, capsys):
    """Guard: it stood under the table of every problem, and in a plan a line a problem."""
    words = [*FAST, *contestant("good", "Good"), *contestant("gone", "Unavailable"), "implementations=[good,gone]"]
    words += ["problems=[{M:64,N:48,K:64},{M:96,N:48,K:64}]", f"results_dir={tmp_path}"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.count("gone: library is not installed: pip install library==1.2") == 1
    assert out.count("unavailable") == 2
    assert main([*words, *contestant("picky", "Unsupported"), "implementations=[good,picky]", "plan=true"]) == 0
    assert [line[:28] for line in capsys.readouterr().out.splitlines() if "K: got" in line] == [
        "unsupported picky: K: got 64"
    ]


def test_where_nothing_can_run_the_command_fails_with_the_reason(tmp_path, capsys):
    gone = [*FAST, *small(), *contestant("gone", "Unavailable"), *contestant("picky", "Unsupported")]
    assert main([*gone, "implementations=[gone,picky]", f"results_dir={tmp_path}"]) == 1
    err = one_line(capsys.readouterr().err)
    assert err.startswith("nothing could run here: gone: library is not installed: pip install library==1.2; picky: ")
    assert set(load_run(only_run(tmp_path)).measurements["status"]) == {"unavailable", "unsupported"}


def test_a_failure_counts_whatever_comes_after_it(tmp_path):
    """Guard: exit code 1, though the last problem passes: what takes 0.2 us is beyond the roof for the first alone."""
    words = [*FAST, *contestant("quick", "Good", speed=500), "implementations=[quick]", f"results_dir={tmp_path}"]
    assert main([*words, "problems=[{M:512,N:512,K:512},{M:64,N:48,K:64}]"]) == 1
    assert load_run(only_run(tmp_path)).measurements["status"].tolist() == ["error", "passed"]


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


def test_a_checkout_of_another_owner_has_its_commit(tmp_path, monkeypatch):
    """Guard: git refuses one, as in a container that is root on a mounted checkout, and its runs were `unknown`."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-qm", "first", "--allow-empty")
    own = provenance.source(tmp_path)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    asked = subprocess.run(["git", "-C", str(tmp_path), "rev-parse", "HEAD"], capture_output=True, text=True)
    assert "dubious ownership" in asked.stderr
    assert provenance.source(tmp_path) == own != provenance.Source("unknown", None)


def test_a_copy_is_of_the_bundle_s_commit_where_its_files_are_the_bundle_s(tmp_path, monkeypatch):
    """Guard: a node's copy had the git of an earlier commit, and its runs were stamped with that one, and dirty."""
    copy, bundle = tmp_path / "copy", tmp_path / "bundle"
    copy.mkdir()
    bundle.mkdir()
    (copy / "code.py").write_text("1")
    git(copy, "init", "-q")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "earlier")
    earlier = provenance.source(copy).git_commit
    (copy / "code.py").write_text("2")
    (copy / "new.py").write_text("3")
    (bundle / "build_info.json").write_text('{"git_commit": "abc", "git_dirty": false}')
    listed = "".join(f"{provenance.digest(copy / name)}  {name}\n" for name in ("code.py", "new.py"))
    (bundle / provenance.FILES).write_text(listed)
    monkeypatch.setenv("TK_BUILD_INFO", str(bundle / "build_info.json"))
    assert provenance.source(copy) == provenance.Source("abc", False)
    (copy / "new.py").write_text("4")
    assert provenance.source(copy) == provenance.Source(earlier, True)
    (copy / "new.py").unlink()
    assert provenance.source(copy) == provenance.Source(earlier, True)
    shutil.rmtree(copy / ".git")
    assert provenance.source(copy) == provenance.Source("abc", True)
    (bundle / provenance.FILES).write_text("damaged")
    assert provenance.source(copy) == provenance.Source("abc", True)
    (bundle / provenance.FILES).unlink()
    assert provenance.source(copy) == provenance.Source("abc", False)


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True)


def test_dirty_means_tracked_files_outside_results(tmp_path):

    git(tmp_path, "init", "-q")
    (tmp_path / "results").mkdir()
    for name in ("code.py", "results/data.csv"):
        (tmp_path / name).write_text("1")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "x")
    clean = provenance.source(tmp_path)
    assert len(clean.git_commit) == 40
    assert clean.git_dirty is False
    (tmp_path / "untracked.py").write_text("1")
    (tmp_path / "results/data.csv").write_text("2")
    assert provenance.source(tmp_path).git_dirty is False
    (tmp_path / "code.py").write_text("2")
    assert provenance.source(tmp_path).git_dirty is True


def test_a_hook_s_variables_name_no_other_repository(tmp_path, monkeypatch):
    """Guard: in a hook, or under `git rebase --exec`, a run had the commit of the repository of the hook."""
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
        git(tmp_path / name, "commit", "-qm", name, "--allow-empty")
    ours = provenance.source(tmp_path / "ours")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "theirs" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert provenance.source(tmp_path / "ours") == ours


def test_claims_are_hashed(tmp_path):
    claims = tmp_path / "paper_figures" / "exhibits" / "a" / "claims.yaml"
    claims.parent.mkdir(parents=True)
    claims.write_text("x")
    assert provenance.claim_hashes(tmp_path) == {
        "a/claims.yaml": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    }


def test_claims_are_hashed_with_the_rules_that_they_name(tmp_path):
    """Guard: the bound of a claim stands in its rule, outside of its own file."""
    claims, rules = (tmp_path / "paper_figures" / one for one in ("exhibits/a/claims.yaml", "published/rules.yaml"))
    claims.parent.mkdir(parents=True)
    rules.parent.mkdir(parents=True)
    claims.write_text("claims:\n  - id: x\n    rule: mine\n")
    seen = []
    for text in ("mine:\n  accept: 1\nother:\n  accept: 2\n", "mine:\n  accept: 1\n", "mine:\n  accept: 3\n"):
        rules.write_text(text)
        seen.append(provenance.claim_hashes(tmp_path)["a/claims.yaml"])
    assert seen[0] == seen[1] != seen[2]


def test_run_ids_sort_by_time_and_are_unique():
    from datetime import UTC, datetime

    first = provenance.new_run_id(datetime(2026, 11, 20, 12, 0, 1, tzinfo=UTC))
    second = provenance.new_run_id(datetime(2026, 11, 20, 12, 0, 2, tzinfo=UTC))
    assert first.startswith("20261120T120001Z-")
    assert first < second
    assert len({provenance.new_run_id() for _ in range(50)}) == 50
