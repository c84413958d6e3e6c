"""A run of the e4m3 GEMM on the CPU: both results, one scale a matrix and one a row and column."""

import pytest
from harness_support import main, only_run

from harness.runs import load_run

PROBLEMS = (
    "problems=[{M: 70, N: 96, K: 208}, {M: 70, N: 96, K: 208, out: e4m3}, {M: 33, N: 48, K: 64, scales: rowwise}]"
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    results = tmp_path_factory.mktemp("gemm_fp8")
    contestants = "implementations=[tk,'tk[fast_accum=0]',cublas_fast]"
    arguments = ["workload=gemm_fp8", "device=cpu", "wandb=disabled", contestants]
    assert main([*arguments, PROBLEMS, f"results_dir={results}"]) == 0
    return load_run(only_run(results)).measurements


def test_every_form_is_a_case_that_passes(rows):
    assert len(rows) == rows["case_id"].nunique() == 9
    assert set(rows["status"]) == {"passed"}, rows["reason"].tolist()
    assert set(rows["dtype"]) == {"e4m3"}
    assert set(rows["problem"]) == {"M=70;N=96;K=208", "M=70;N=96;K=208;out=e4m3", "M=33;N=48;K=64;scales=rowwise"}


def test_the_errors_are_those_of_one_rounding(rows):
    narrow = rows["problem"].str.contains("out=e4m3")
    assert rows[narrow]["rel_l2_error"].between(2e-2, 3e-2).all()
    assert rows[~narrow]["rel_l2_error"].between(1.2e-3, 2e-3).all()
