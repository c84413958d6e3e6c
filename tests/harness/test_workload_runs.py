"""Runs of workloads on the CPU, ours beside a library: every form of a problem is a case that passes."""

import pytest
import yaml
from harness_support import main, only_run

from harness import workloads
from harness.records.naming import expand_problems
from harness.runs import load_run

RUNS = {
    "fft_conv": (
        "tk,torch,torch_real",
        "{B: 3, D: 2, N: 1024}, {B: 2, D: 2, N: 1024, filter: inside}, {B: 2, D: 3, N: 100, causal: 1}",
    ),
    "gemm_fp8": (
        "tk,'tk[fast_accum=0]',cublas_fast",
        "{M: 70, N: 96, K: 208}, {M: 70, N: 96, K: 208, out: e4m3}, {M: 33, N: 48, K: 64, scales: rowwise}",
    ),
    "gemm_epilogue": ("tk,torch", "{grid: {M: [70], N: [96], K: [40], epilogue: [bias_gelu, gate_residual]}}"),
    "rotary": (
        "tk,torch",
        "{B: 1, H: 3, N: 21, D: 64, tensors: 2}, {B: 1, H: 2, N: 9, D: 128, layout: bnhd, interleaved: 1}",
    ),
    "dropout_add_layernorm": ("tk,torch", "{B: 2, N: 9, D: 128}, {B: 2, N: 9, D: 1088, p: 0.1}"),
    "based": ("torch", "{grid: {B: [1], H: [2], N: [70], F: [16], D: [64], normalize: [0, 1], return_state: [1]}}"),
    "mamba2": (
        "torch",
        "{grid: {B: [1], H: [4], N: [70], P: [64], S: [64], G: [2], boundary: [raw, prepared], "
        "return_final_state: [1]}}",
    ),
    "recall": ("tk,torch", "{mixer: mamba2, W: 64, V: 32, B: 64, N: 16, pairs: 2, steps: 60}"),
    "mamba2_prefill": ("tk", "{L: 1, W: 64, V: 128, B: 1, N: 40}"),
    "gpt_training": ("tk,sdpa_math", "{L: 1, H: 2, D: 64, V: 256, B: 2, T: 33, steps: 2}"),
    "prefill": ("tk,sdpa_math", "{L: 1, H: 4, Hkv: 2, D: 64, F: 128, V: 128, B: 1, N: 40}"),
}


@pytest.mark.parametrize("workload", RUNS)
def test_every_form_is_a_case_that_passes(workload, tmp_path):
    contestants, problems = RUNS[workload]
    inputs = "forgetting" if workload == "mamba2" else "normal"
    words = [f"workload={workload}", "device=cpu", "wandb=disabled", f"distribution={inputs}"]
    words += [f"implementations=[{contestants}]", f"problems=[{problems}]", f"results_dir={tmp_path}"]
    assert main(words) == 0
    rows = load_run(only_run(tmp_path)).measurements
    dtype = workloads.load(workload).DTYPES[0]
    asked = expand_problems(yaml.safe_load(f"[{problems}]"))
    texts = {workloads.parse_problem(workload, one, dtype=dtype, direction="fwd").text for one in asked}
    assert len(rows) == rows["case_id"].nunique() == len(texts) * len(contestants.split(","))
    assert set(rows["status"]) == {"passed"}, rows["reason"].tolist()
    assert set(rows["problem"]) == texts
    assert set(rows["n_samples"]) == {0}
    for row in rows.itertuples():
        keys = workloads.load(workload).Problem.parse(workload, row.problem, dtype=dtype, direction="fwd").as_mapping()
        named = [f"problem.{key}={int(value) if isinstance(value, bool) else value}" for key, value in keys.items()]
        assert {*named, f"distribution={inputs}"} <= set(row.repro_command.split())
