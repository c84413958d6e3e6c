"""The example that trains a GPT: tiny, on a CPU; it is a run of the workload."""

from __future__ import annotations

from pathlib import Path

from examples import train_gpt
from harness.records.naming import problem_keys
from harness.runs import frame
from paper_figures.recorded.experiments import load_experiment


def test_both_learn_alike_and_no_cpu_is_timed(tmp_path: Path) -> None:
    """Guard: without a shape's name a CPU was given one of 124 million weights."""
    assert train_gpt.main(["--device", "cpu", "--results", str(tmp_path)]) == 0
    cases = frame(tmp_path / "cpu" / "scratch")
    assert sorted(cases.contestant) == ["sdpa_math", "tk"]
    assert set(cases.status) == {"passed"}
    assert set(cases["L"].astype(int)) == {2}
    assert set(cases.n_samples) == {0}


def test_the_shapes_are_the_exhibits() -> None:
    layers = {problem_keys(text)["L"] for text in load_experiment("gpt_training").problems}
    assert {str(shape[0]) for name, shape in train_gpt.SHAPES.items() if name != "tiny"} == layers
