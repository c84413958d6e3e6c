"""Configurations as they are composed: every experiment, every line explained, every mistake a sentence."""

import itertools
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

RELEASED = ["tk", "thunderkittens"]
FP8 = ["tk", "tk[fast_accum=0]", "thunderkittens"]
ATTENTION = [*RELEASED, "sdpa_flash", "sdpa_cudnn", "flash_attn", "flash_attn_3", "flash_attn_4", "torch_unfused"]
BASED = [*RELEASED, "fla_parallel", "fla_fused_chunk", "torch", "torch_compile"]
HEDGEHOG = [*RELEASED, "composed", "torch", "torch_compile"]
MAMBA2 = [*RELEASED, "mamba_ssm", "simple_gla", "torch", "torch_compile"]
LINEAR = [*RELEASED, "simple_gla", "fla_linear_attn", "torch"]
FFT_CONV = [*RELEASED, "flash_fft_conv", "triton_monarch", "torch", "torch_real", "torch_compile"]
ROWS = [*RELEASED, "flash_attn_triton", "torch", "torch_compile"]
ROTARY = [*RELEASED, "flash_attn_triton", "liger", "torch", "torch_compile"]
FEW_QUERIES = [
    *("tk[path=decode]", "tk[path=whole]"),
    *("sdpa_cudnn", "flash_attn_3", "flash_attn_3[num_splits=0]", "flash_attn_4"),
]
CASES = {
    "fig7_gemm": (5, [*RELEASED, "cublas", "cublas_tuned", "torch_compile", "triton", "quack"]),
    "table1_stages": (1, ["tk[stages=1]", "tk[stages=2]", "tk[stages=3]", "tk[stages=4]", "cublas"]),
    "table2_persistent": (5, ["tk", "tk[persistent=0]", "cublas", "cublas_tuned"]),
    "fig8_attention": (20, ATTENTION),
    "fig8_attention_d64": (20, ATTENTION[:-1]),
    "fig8_attention_gqa": (20, ATTENTION[:-1]),
    "attention_small_grids": (6, ["tk", "sdpa_cudnn", "flash_attn_4"]),
    "fig6_occupancy": (1, ["tk", *(f"tk[blocks_per_sm={n};synchronous=1]" for n in (1, 2, 3, 4))]),
    "table3_attention_order": (1, ["tk[order=head_major]", "tk[order=row_major]"]),
    "table4_attention": (1, ATTENTION[:-1]),
    "table3_block_order": (1, ["tk[order=supergroup]", "tk[order=row_major]"]),
    "nightly_attention": (6, ["tk", "sdpa_flash", "sdpa_cudnn"]),
    "input_distribution": (4, ["tk", "cublas"]),
    "nightly_gemm": (4, ["tk", "cublas"]),
    "fig9_based": (10, BASED),
    "fig9_hedgehog": (10, HEDGEHOG),
    "fig9_mamba2": (16, MAMBA2),
    "fig9_linear_attention": (15, LINEAR),
    "small_batch_based": (6, ["tk", *BASED[2:4]]),
    "small_batch_hedgehog": (6, ["tk", "composed"]),
    "small_batch_mamba2": (12, ["tk", *MAMBA2[2:4]]),
    "small_batch_linear_attention": (6, ["tk", "simple_gla"]),
    "mixer_attention": (1, ["tk", "sdpa_flash", "sdpa_cudnn", "flash_attn_3", "flash_attn_4"]),
    "mixer_based": (1, ["tk", "fla_parallel", "fla_fused_chunk", "torch_compile"]),
    "mixer_fft_conv": (1, ["tk", "flash_fft_conv", "triton_monarch", "torch_real", "torch_compile"]),
    "mixer_linear_attention": (2, ["tk", "simple_gla", "fla_linear_attn"]),
    "mixer_mamba2": (2, ["tk", "mamba_ssm", "simple_gla"]),
    "mamba2_prefill": (6, ["tk", "mamba_ssm"]),
    "recall": (12, ["tk", "torch"]),
    "fig9_fft_conv": (8, FFT_CONV),
    "fig9_layernorm": (14, ROWS),
    "fig9_rotary": (14, ROTARY),
    "rotary_cuda_graph": (3, ["tk", *ROTARY[2:]]),
    "app_c1_block_order": (2, ["tk[order=supergroup]", "tk[order=row_major]"]),
    "unaligned_gemm": (8, ["tk", "cublas"]),
    "unaligned_attention": (16, ["tk", "sdpa_cudnn", "flash_attn_3", "flash_attn_4"]),
    "unequal_attention": (8, ["tk", "sdpa_cudnn", "flash_attn_3", "flash_attn_4"]),
    "few_queries": (12, ["tk", *FEW_QUERIES]),
    "batch_attention": (12, ["tk", "sdpa_cudnn", "flash_attn_3", "flash_attn_4"]),
    "fig10_fp8": (12, [*FP8, "cublas_fast", "cublas", "cublas_tuned_fast", "cublas_tuned", "deep_gemm"]),
    "gemm_epilogues": (6, ["tk", "torch", "torch_compile"]),
    "thundergqa": (5, ["tk", "tk[schedule=static]", "tk[schedule=last]", "flash_attn_3"]),
    "thundermla": (6, ["tk", "tk[schedule=static]", "tk[schedule=last]", "flash_mla", "flash_attn_3"]),
    "gpt_training": (6, ["tk", "sdpa_cudnn", "sdpa_flash"]),
    "prefill": (6, ["tk", "sdpa_cudnn", "sdpa_flash"]),
    "ampere_attention": (20, ["tk[target=sm_80]", "sdpa_flash"]),
    "ampere_attention_backward": (12, ["tk[target=sm_80]", "sdpa_flash"]),
    "ampere_based": (3, ["tk[target=sm_80]", "fla_parallel", "fla_fused_chunk"]),
    "ampere_gemm": (4, ["tk[target=sm_80]", "cublas"]),
    "ampere_hedgehog": (3, ["tk[target=sm_80]", "composed"]),
    "ampere_linear_attention": (3, ["tk[target=sm_80]", "simple_gla"]),
    "ampere_mamba2": (3, ["tk[target=sm_80]", "simple_gla"]),
    "ampere_instructions": (4, ["tk[target=sm_80]", "sdpa_flash"]),
    "ampere_layernorm": (4, ["tk[target=sm_80]", "tk"]),
    "ampere_rotary": (3, ["tk[target=sm_80]", "tk"]),
    "gemm_clean_l2": (16, ["tk", "cublas", "cublas_tuned"]),
    "gemm_random": (200, ["tk", "tk[tune=1]", "cublas", "cublas_tuned"]),
    "gemm_in_use": (27, ["tk", "cublas", "cublas_tuned"]),
    "gemm_fp8_in_use": (13, ["tk", "cublas_fast", "cublas_tuned_fast"]),
    "table4_fft_conv": (1, [*FFT_CONV[:4], "torch_real"]),
}


def plan(*overrides):
    return make_plan(config(*overrides), overrides)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_into_a_plan(name):
    made = plan(f"experiment={name}")
    assert made.name == name
    assert len({case for group in made.groups for case in group.case_ids}) == len(made.groups) * len(made.contestants)
    if name in CASES:
        problems, contestants = CASES[name]
        assert len(made.groups) == problems
        assert [str(contestant) for contestant in made.contestants] == contestants


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


def test_figure_8_is_four_panels_of_five_lengths():
    for name, text in (("", "D=128"), ("_d64", "D=64"), ("_gqa", "D=128")):
        groups = plan(f"experiment=fig8_attention{name}").groups
        panels = {(group.problem.direction, group.problem.causal) for group in groups}
        assert panels == {("fwd", False), ("fwd", True), ("bwd", False), ("bwd", True)}
        assert {group.problem.N for group in groups} == {768, 1536, 3072, 6144, 12288}
        assert all(text in group.problem.text for group in groups)
        assert all(("Hkv=4" in group.problem.text) == (name == "_gqa") for group in groups)


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


def test_queries_and_keys_are_unequal_both_ways_round():
    problems = [group.problem for group in plan("experiment=unequal_attention").groups]
    kinds = {(one.direction, one.causal, one.N < one.Nkv) for one in problems}
    assert kinds == {(way, causal, few) for way in ("fwd", "bwd") for causal in (False, True) for few in (False, True)}
    assert all(one.N != one.Nkv for one in problems)


def test_few_queries_are_those_of_the_bar():
    """One and 17 queries on 4097 keys, 32 heads on 8; a mask where it hides something."""
    problems = [group.problem for group in plan("experiment=few_queries").groups]
    assert {(one.H, one.Hkv, one.Nkv, one.direction) for one in problems} == {(32, 8, 4097, "fwd")}
    every = itertools.product((1, 16), (64, 128), ((1, False), (17, False), (17, True)))
    assert {(one.B, one.D, (one.N, one.causal)) for one in problems} == set(every)


def test_every_experiment_is_listed_here():
    assert sorted(CASES) == EXPERIMENTS


def test_figure_9_has_the_papers_heads_and_sixteen():
    lengths = {1024, 2048, 4096, 8192, 16384}
    for name, heads in (("based", {16}), ("hedgehog", {8, 16}), ("mamba2", {32, 16})):
        problems = [group.problem for group in plan(f"experiment=fig9_{name}").groups]
        assert {problem.B for problem in problems} == {16}
        assert {problem.H for problem in problems} == heads
        for number in heads:
            found = {one.N for one in problems if one.H == number}
            assert found == (lengths if (name, number) != ("mamba2", 16) else {1024, 4096, 16384})
    boundaries = {group.problem.boundary for group in plan("experiment=fig9_mamba2").groups}
    assert boundaries == {"raw", "prepared"}
    assert {group.problem.normalize for group in plan("experiment=fig9_based").groups} == {True, False}


def test_small_batches_are_few_heads_of_long_sequences():
    for name in ("based", "hedgehog", "mamba2", "linear_attention"):
        problems = [group.problem for group in plan(f"experiment=small_batch_{name}").groups]
        assert {problem.B for problem in problems} == {1, 2, 4}
        assert {problem.N for problem in problems} == {4096, 16384}


def test_table4_is_the_backward_pass_with_its_stalls():
    made = plan("experiment=table4_attention")
    assert [group.problem.direction for group in made.groups] == ["bwd"]
    assert any("stalled_long_scoreboard" in metric for metric in made.profile_metrics)


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
        (["implementations=tk"], "implementations is 'tk', needs to be a list"),
        (["+workload.implementations.mine.x=1", "implementations=[mine]"], "has no _target_"),
        (["problem.K=0"], "K is 0, needs to be at least 1"),
        (["problems=[]"], "needs to have at least 1 item$"),
        (["problems=[{M: 1}]"], "gemm problem: N is missing; its keys are M, N, K"),
        (["problems=[{M: 1, N: 1, K: 1, Z: 1}]"], "Z is unknown"),
        (["experiment=fig7_gemm", "problem.K=64"], "problem.K=64 has no effect"),
        (["distribution=cauchy"], "no distribution 'cauchy'"),
        (["dtype=fp64"], "no dtype 'fp64'"),
        (["direction=bwd"], "no direction 'bwd'"),
        (["timer.kind=cupti"], "timer.kind is 'cupti'"),
        (["timer.budget_seconds=0"], "timer.budget_seconds is 0, needs to be above 0"),
        (["timer.warmup_seconds=inf"], "timer.warmup_seconds is inf, needs to be a finite number"),
        (["timer.ci_width=nan"], "timer.ci_width is nan, needs to be a finite number"),
        (["timer.settled=perhaps"], "timer.settled is 'perhaps', needs to be 'auto', 'always' or 'never'"),
        (["timer.settled_own=tk"], "timer.settled_own is 'tk', needs to be a list"),
        (["timer.settled_rounds=1"], "timer.settled_rounds is 1, needs to be at least 2"),
        (["timer.settled_block_seconds=0"], "timer.settled_block_seconds is 0, needs to be above 0"),
        (["timer.settled_drop_seconds=0.5"], "timer: settled_drop_seconds is 0.5, needs to be less than"),
        (["estimate.case_seconds=inf"], "estimate.case_seconds is inf, needs"),
        (["limits.call_seconds=inf"], "limits.call_seconds is inf, needs"),
        (["limits.memory_fraction=2"], "limits.memory_fraction is 2, needs to be at most 1"),
        (["timer.ci_width=narrow"], "timer.ci_width is 'narrow'"),
        (["timer.min_rounds=1"], "timer.min_rounds is 1, needs to be at least 2"),
        (["timer.placements=0"], "timer.placements is 0, needs to be at least 1"),
        (["timer.max_rounds=true"], "timer.max_rounds is True, needs to be an integer"),
        (["timer.min_rounds=9", "timer.max_rounds=8"], "at most timer.max_rounds"),
        (["limits.case_seconds=-1"], "limits.case_seconds is -1"),
        (["seed=-1"], "seed is -1"),
        ([f"seed={2**63}"], f"seed is {2**63}, needs to be at most {2**63 - 1}"),
        (["workload.baseline=cublass"], "workload.baseline is 'cublass', which is unknown for gemm: .*mean cublas"),
        (["seed=0.5"], "seed is 0.5"),
        (["profile=nsys"], "profile is 'nsys'"),
        (["problem.M=16", "problems=[{M: 1, N: 1, K: 1}]"], "problem.M=16 has no effect beside a list of problems"),
        (["problem=3"], "problem is 3, needs"),
        (["limits=null"], "limits is None, needs to be {KEY: value}"),
        (["estimate=3"], "estimate is 3, needs"),
        (["workload.implementations=3"], "workload.implementations is 3, needs"),
        (["workload.ncu_metrics=3", "profile=ncu"], "workload.ncu_metrics is 3, needs to be a list"),
        (["results_dir=null"], "results_dir is None, needs to be a text"),
        (["campaign=null"], "campaign is None, needs to be a text"),
        (["~limits"], "limits is missing"),
        (["~timer.ci_width"], "timer.ci_width is missing"),
        (["+foo=1"], "foo is unknown"),
        (["+limits.x=1"], "limits.x is unknown"),
        (["+workload.x=1"], "workload.x is unknown"),
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
