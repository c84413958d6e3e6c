"""Configurations as they are composed: every experiment, every line explained, every mistake a sentence."""

import json
import re
from dataclasses import fields
from typing import get_type_hints

import pytest
import torch
import yaml
from harness_support import config

from harness import workloads
from harness.command.cli import CONFIG_DIR
from harness.plan.planning import START_SECONDS, Config, make_plan
from harness.records.errors import HarnessError
from harness.records.naming import expand_problems
from harness.records.places import RECORDED

EXPERIMENTS = sorted(path.stem for path in (CONFIG_DIR / "experiment").glob("*.yaml"))


def plan(*overrides):
    return make_plan(config(*overrides), overrides)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_into_a_plan(name):
    made = plan(f"experiment={name}")
    assert made.name == name
    assert len({case for group in made.groups for case in group.case_ids}) == len(made.groups) * len(made.contestants)


def test_table3_is_profiled_and_the_others_are_not():
    assert "dram__bytes.sum.per_second" in plan("experiment=table3_block_order").profile_metrics
    assert plan("experiment=fig7_gemm").profile_metrics == ()


def test_inputs_are_an_axis():
    """Guard: an entry's own `distribution` in `make_plan`."""
    groups = plan("experiment=input_distribution").groups
    assert [group.distribution for group in groups] == ["normal", "uniform", "sparse24", "zeros"]
    assert len({group.problem.text for group in groups}) == 1
    assert len({case for group in groups for case in group.case_ids}) == 8
    with pytest.raises(HarnessError, match="gemm has no distribution 'cauchy': there is normal, uniform, zeros, sp"):
        plan("problems=[{M: 1, N: 2, K: 3, distribution: cauchy}]")


def test_what_is_built_for_ampere_is_measured_in_both_directions_and_counted():
    """Guard: an instruction counter of each direction, on shapes that are timed too."""
    timed = [group.problem for name in ("", "_backward") for group in plan(f"experiment=ampere_attention{name}").groups]
    counted = plan("experiment=ampere_instructions")
    assert {problem.direction for problem in timed} == {"fwd", "bwd"}
    assert {(group.problem.direction, group.problem.D) for group in counted.groups} == {
        (direction, d) for direction in ("fwd", "bwd") for d in (64, 128)
    }
    assert all(group.problem in timed for group in counted.groups)
    assert "sm__inst_executed_pipe_tensor_op_hmma.sum" in counted.profile_metrics


def test_keys_that_default_to_others_can_be_given_and_left_out():
    made = plan("workload=attention", "problem.H=8", "problem.Hkv=2", "problem.N=100")
    assert made.groups[0].problem.text == "B=16;H=8;Hkv=2;N=100;D=128"
    assert plan("workload=attention").groups[0].problem.text == "B=16;H=16;N=3072;D=128"


@pytest.mark.parametrize("timer", ["cuda_events", "cuda_graph", "cuda_events_clean"])
@pytest.mark.parametrize("device", ["auto", "cuda", "cpu"])
def test_groups_compose(timer, device):
    made = plan(f"timer={timer}", f"device={device}")
    assert made.timer.kind == timer
    assert made.timer.cache == ("flushed, clean" if timer == "cuda_events_clean" else "flushed")
    assert made.device["_target_"].startswith("harness.devices")


@pytest.mark.parametrize("path", sorted(CONFIG_DIR.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_line_of_a_configuration_says_what_it_is(path):
    """A key has a comment beside it or above it, or belongs to an entry that has one."""
    lines = path.read_text().splitlines()
    assert lines[0].startswith("#"), "the file says what it is"
    explained = None  # indentation of the entry whose comment holds for what is inside it
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#") or re.match(r"\s*-|defaults:", line):
            continue
        indent = len(line) - len(line.lstrip())
        if " # " in line or lines[number - 1].lstrip().startswith("#"):
            explained = indent if explained is None or indent <= explained else explained
            continue
        assert explained is not None, f"{path.name}:{number + 1}: {line!r} is not explained"
        assert indent > explained, f"{path.name}:{number + 1}: {line!r} is not explained"


def test_the_keys_of_the_configuration_are_those_that_are_read():
    composed, hints = config(), get_type_hints(Config)
    assert set(composed) == set(hints)
    for name in ("workload", "timer", "limits", "estimate", "wandb"):
        assert set(composed[name]) == {field.name for field in fields(hints[name])}


def test_every_workload_has_a_configuration_of_its_name():
    for path in (CONFIG_DIR / "workload").glob("*.yaml"):
        content = yaml.safe_load(path.read_text())
        assert content["workload"]["name"] == path.stem
        assert path.stem in workloads.names()
        assert content["workload"]["baseline"] in content["workload"]["implementations"]


@pytest.mark.parametrize("name", workloads.names())
def test_inputs_of_an_unknown_distribution_are_not_drawn(name):
    problem = plan(f"workload={name}").groups[0].problem
    with pytest.raises(ValueError, match="distribution: got 'cauchy', supported are normal"):
        workloads.load(name).make_inputs(problem, torch.Generator(), "cauchy")


def test_a_users_kernel_joins_from_the_command_line():
    override = "+workload.implementations.mine._target_=my_package.my_gemm"
    made = plan(override, "implementations=[tk,mine]")
    assert made.contestants[1].target == {"_target_": "my_package.my_gemm"}
    assert override in made.carried


def test_cases_and_problems_are_listed_once():
    made = plan("problems=[{M: 1, N: 1, K: 1}, {grid: {M: [1], N: [1], K: [1, 2]}}]", "implementations=[tk,tk]")
    assert [group.problem.text for group in made.groups] == ["M=1;N=1;K=1", "M=1;N=1;K=2"]
    assert len(made.contestants) == 1


def test_estimate_grows_with_the_cases():
    made = plan("experiment=fig7_gemm")
    rounds = made.timer.warmup_seconds + made.timer.budget_seconds
    case = made.estimate_case_seconds
    assert (case, rounds, made.timer.settled_budget_seconds) == (3.0, 6.0, 12.0)
    timing = START_SECONDS + 5 * rounds + 2 * 12.0  # 8192 and 16384 take longer than a millisecond, the others never
    assert made.estimated_minutes(timed=True) == pytest.approx((5 * 7 * case + timing) / 60)
    assert made.estimated_minutes(timed=True, active=2) == pytest.approx((5 * 2 * case + timing) / 60)
    assert made.estimated_minutes(timed=False, active=0) == 0


def test_the_estimate_of_a_cpu_is_what_it_computes():
    """Guard: 4096 cubed was announced as some seconds, and took until its time limit."""
    large = plan("workload=gemm", "implementations=[tk,cublas]")
    assert large.estimated_minutes(False, 2, 1.0) == pytest.approx(2 * (8 + 2 * 4096**3 / 1e9) / 60)
    assert large.estimated_minutes(False, 2, 0.1) == pytest.approx(2 * (8 + large.limits.case_seconds) / 60)


def test_recorded_runs_took_between_half_and_twice_what_is_estimated():
    """Guard: `START_SECONDS`, the board's own roof, and `estimate` of each experiment's file."""
    odd, estimates = [], dict[str, dict]()
    manifests = [json.loads(path.read_text()) for path in RECORDED.glob("*/*/*/manifest.json")]
    for manifest in manifests:
        name, took = manifest["experiment"], sum(manifest.get("seconds", {}).values()) / 60
        parts = name in (
            "prefill",
            "gpt_training",
            "mamba2_prefill",
        )  # one problem takes a hundred times as long as another
        if parts or not took or manifest["device"] != "cuda" or manifest["status"] != "completed" or "," in name:
            continue
        if name not in estimates:
            estimates[name] = config(f"experiment={name}")["estimate"]
        timer = {key: value for key, value in manifest["config"]["timer"].items() if key != "settled_over_host"}
        made = make_plan(manifest["config"] | {"timer": timer, "estimate": estimates[name]})
        if not 0.5 <= made.estimated_minutes(timed=True, gpu=manifest["gpu"]["name"]) / took <= 2:
            odd.append((name, manifest["run_id"], took))
    assert len(estimates) > 40
    assert odd == []


def test_what_is_never_settled_is_not_estimated_so():
    """Guard: every problem was taken to be settled, which made the estimate of a campaign twice what it takes."""
    short, always = (plan("experiment=fig7_gemm", f"timer.settled={when}") for when in ("never", "always"))
    assert always.estimated_minutes(timed=True) - short.estimated_minutes(timed=True) == pytest.approx(5 * 12 / 60)
    slow = plan("experiment=fig7_gemm", "estimate.over_roof=9")
    assert slow.estimated_minutes(timed=True) - short.estimated_minutes(timed=True) == pytest.approx(3 * 12 / 60)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["implementations=[tkk]"], "'tkk' is unknown for gemm: .*did you mean tk"),
        (["implementations=[]"], "implementations is .*, needs to have at least 1 item"),
        (["+workload.implementations.mine.x=1", "implementations=[mine]"], "has no _target_"),
        (["problems=[]"], "needs to have at least 1 item$"),
        (["problems=[{M: 1}]"], "gemm problem: N is missing; its keys are M, N, K"),
        (["problems=[{M: 1, N: 1, K: 1, Z: 1}]"], "Z is unknown"),
        (["distribution=cauchy"], "no distribution 'cauchy'"),
        (["dtype=fp64"], "no dtype 'fp64'"),
        (["direction=bwd"], "no direction 'bwd'"),
        (["timer.kind=cupti"], "timer.kind is 'cupti'"),
        (["timer.budget_seconds=0"], "timer.budget_seconds is 0, needs to be above 0"),
        (["timer.ci_width=nan"], "timer.ci_width is nan, needs to be a finite number"),
        (["timer.settled=perhaps"], "timer.settled is 'perhaps', needs to be 'auto', 'always' or 'never'"),
        (["timer.settled_drop_seconds=0.5"], "timer: settled_drop_seconds is 0.5, needs to be less than"),
        (["limits.memory_fraction=2"], "limits.memory_fraction is 2, needs to be at most 1"),
        (["timer.min_rounds=1"], "timer.min_rounds is 1, needs to be at least 2"),
        (["timer.max_rounds=true"], "timer.max_rounds is True, needs to be an integer"),
        (["timer.min_rounds=9", "timer.max_rounds=8"], "at most timer.max_rounds"),
        (["seed=-1"], "seed is -1"),
        ([f"seed={2**63}"], f"seed is {2**63}, needs to be at most {2**63 - 1}"),
        (["workload.baseline=cublass"], "workload.baseline is 'cublass', which is unknown for gemm: .*mean cublas"),
        (["profile=nsys"], "profile is 'nsys'"),
        (["problem.M=16", "problems=[{M: 1, N: 1, K: 1}]"], "problem.M=16 has no effect beside a list of problems"),
        (["limits=null"], "limits is None, needs to be {KEY: value}"),
        (["workload.ncu_metrics=3", "profile=ncu"], "workload.ncu_metrics is 3, needs to be a list"),
        (["results_dir=null"], "results_dir is None, needs to be a text"),
        (["~timer.ci_width"], "timer.ci_width is missing"),
        (["+foo=1"], "foo is unknown"),
        (["wandb.mode=foo"], "wandb.mode is 'foo', needs to be 'offline', 'online' or 'disabled'"),
        (["plan=maybe"], "plan is 'maybe', needs to be true or false"),
        (["timer.flush_l2=3"], "timer.flush_l2 is 3, needs to be true or false"),
        (["timer=cuda_events_clean", "timer.flush_l2=false"], "timer: flush_l2 is false, needs to be true with"),
    ],
)
def test_mistakes(overrides, words):
    with pytest.raises(HarnessError, match=words) as caught:
        plan(*overrides)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("text", "problems is 'text', needs to be a list$"),
        ([3], "problems.0 is 3, needs to be {KEY: value}"),
        ([{"grid": {"M": 1}}], "problems.0.grid.M is 1, needs to be a list"),
        ([{"grid": {}}], "problems.0.grid is {}, needs to have at least 1 item$"),
        ([{"grid": {"M": [1]}, "K": 1}], "stands alone"),
    ],
)
def test_bad_problem_lists(entries, words):
    with pytest.raises(HarnessError, match=words):
        expand_problems(entries)


def test_a_grid_is_a_product_with_the_last_key_fastest():
    assert expand_problems([{"M": 7}, {"grid": {"M": [1, 2], "N": [3, 4]}}, {"M": 5}]) == [
        {"M": 7},
        {"M": 1, "N": 3},
        {"M": 1, "N": 4},
        {"M": 2, "N": 3},
        {"M": 2, "N": 4},
        {"M": 5},
    ]
