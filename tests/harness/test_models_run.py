"""Runs of whole models on the CPU: training, prefill and recall, ours beside the definition."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness_support import main, only_run

from harness.runs import load_run

PROBLEMS = {
    "gpt_training": "problems=[{L: 1, H: 2, D: 64, V: 256, B: 2, T: 33, steps: 2}]",
    "recall": "problems=[{mixer: mamba2, W: 64, V: 32, B: 64, N: 16, pairs: 2, steps: 60}]",
    "mamba2_prefill": "problems=[{L: 1, W: 64, V: 128, B: 1, N: 40}]",
    "prefill": "problems=[{L: 1, H: 4, Hkv: 2, D: 64, F: 128, V: 128, B: 1, N: 40}]",
}


@pytest.mark.parametrize("workload", sorted(PROBLEMS))
def test_both_are_cases_that_pass(workload: str, tmp_path: Path) -> None:
    other = {"recall": ["torch"], "mamba2_prefill": []}.get(workload, ["sdpa_math"])
    given = [f"workload={workload}", "device=cpu", "wandb=disabled", f"implementations=[{','.join(['tk', *other])}]"]
    assert main([*given, PROBLEMS[workload], f"results_dir={tmp_path}"]) == 0
    rows = load_run(only_run(tmp_path)).measurements.set_index("implementation")
    assert rows["status"].to_dict() == dict.fromkeys(["tk", *other], "passed")
    assert set(rows["n_samples"]) == {0}
