"""The exhibits of whole language models: tokens a second, and how their panels are named."""

from __future__ import annotations

import pytest

from harness import workloads
from harness.naming import problem_keys
from paper_figures.exhibits import gpt_training, prefill
from paper_figures.shown.exhibit import Exhibit

EXHIBITS = (gpt_training.EXHIBIT, prefill.EXHIBIT)


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda one: one.id)
def test_tokens_a_second_are_the_workloads_tokens_over_the_time(exhibit: Exhibit) -> None:
    """Guard: the number of steps that a problem leaves out."""
    (column,) = exhibit.columns
    experiment = exhibit.load_experiment()
    for text in experiment.problems:
        keys = problem_keys(text)
        one = workloads.parse_problem(experiment.workload, keys, dtype="bf16", direction="fwd")
        assert column.shown(keys, 2e6) == one.tokens / 2  # two seconds


@pytest.mark.parametrize(
    ("exhibit", "panels"),
    [
        (gpt_training.EXHIBIT, ["GPT of 124M weights", "GPT of 1B weights"]),
        (prefill.EXHIBIT, ["Llama-3.1-8B's shape", "Qwen2.5-7B's shape"]),
    ],
    ids=["gpt_training", "prefill"],
)
def test_panels_are_models(exhibit: Exhibit, panels: list[str]) -> None:
    assert list(dict.fromkeys(map(exhibit.panel_of, exhibit.load_experiment().problems))) == panels
