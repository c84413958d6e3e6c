"""A run of the long convolution on the CPU: circular and causal, with the filter's transform on either side."""

import pytest
from harness_support import main, only_run

from harness.runs import load_run

PROBLEMS = "problems=[{B: 3, D: 2, N: 1024}, {B: 2, D: 2, N: 1024, filter: inside}, {B: 2, D: 3, N: 100, causal: 1}]"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    results = tmp_path_factory.mktemp("fft_conv")
    arguments = ["workload=fft_conv", "device=cpu", "wandb=disabled", "implementations=[tk,torch,torch_real]"]
    assert main([*arguments, PROBLEMS, f"results_dir={results}"]) == 0
    return load_run(only_run(results)).measurements


def test_every_form_is_a_case_that_passes(rows):
    assert len(rows) == rows["case_id"].nunique() == 9
    assert set(rows["status"]) == {"passed"}, rows["reason"].tolist()
    assert set(rows["problem"]) == {"B=3;D=2;N=1024", "B=2;D=2;N=1024;filter=inside", "B=2;D=3;N=100;causal=1"}


def test_the_errors_are_those_of_bf16_multiplies_and_of_one_rounding(rows):
    long = rows[rows["problem"] != "B=2;D=3;N=100;causal=1"]
    ours, theirs = (long[(long["implementation"] == "tk") == own]["rel_l2_error"] for own in (True, False))
    assert ours.between(4e-3, 6e-3).all()
    assert theirs.between(1.2e-3, 2e-3).all()
