"""Runs of the linear attentions on the CPU: states asked for, both of Mamba-2's boundaries, and what has no state."""

import pytest
from harness_support import main, only_run

from harness.runs import load_run

RUNS = {
    "based": ["problems=[{grid: {B: [1], H: [2], N: [70], F: [16], D: [64], normalize: [0, 1], return_state: [1]}}]"],
    "mamba2": [
        "problems=[{grid: {B: [1], H: [4], N: [70], P: [64], S: [64], G: [2], boundary: [raw, prepared], "
        "return_final_state: [1]}}]",
        "distribution=forgetting",
    ],
}


@pytest.fixture(scope="module", params=sorted(RUNS))
def rows(request, tmp_path_factory):
    results = tmp_path_factory.mktemp(request.param)
    arguments = [f"workload={request.param}", "device=cpu", "wandb=disabled", "implementations=[torch]"]
    assert main([*arguments, *RUNS[request.param], f"results_dir={results}"]) == 0
    return load_run(only_run(results)).measurements


def test_every_form_is_a_case_that_passes(rows):
    assert len(rows) == rows["case_id"].nunique() == 2
    assert set(rows["status"]) == {"passed"}, rows["reason"].tolist()
    assert (rows["rel_l2_error"] < rows["tolerance"]).all()
    options = {"based": (";normalize=0", ""), "mamba2": ("", ";boundary=prepared")}[rows["workload"].iloc[0]]
    state = {"based": ";return_state=1", "mamba2": ";return_final_state=1"}[rows["workload"].iloc[0]]
    sizes = {"based": "B=1;H=2;N=70;F=16;D=64", "mamba2": "B=1;H=4;N=70;P=64;S=64;G=2"}[rows["workload"].iloc[0]]
    assert set(rows["problem"]) == {f"{sizes}{option}{state}" for option in options}


def test_the_command_of_a_row_names_the_kind_of_inputs(rows):
    for row in rows.itertuples():
        if row.workload == "mamba2":
            kind = "prepared" if "prepared" in row.problem else "raw"
            assert f"problem.boundary={kind}" in row.repro_command
            assert "distribution=forgetting" in row.repro_command
        else:
            assert f"problem.normalize={0 if 'normalize=0' in row.problem else 1}" in row.repro_command
