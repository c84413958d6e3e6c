"""The exhibits of whole language models: tokens a second, and how their panels are named."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from harness import workloads
from harness.records.naming import problem_keys
from harness.runs import load_campaign
from paper_figures.exhibits import choose_exhibits
from paper_figures.recorded.headline import headline_latency
from paper_figures.recorded.selection import select
from paper_figures.shown.case_rows import build_lines
from paper_figures.shown.exhibit import Exhibit, fill

EXHIBITS = [one for one in choose_exhibits(["gpt_training", "prefill", "mamba2_prefill"]) if isinstance(one, Exhibit)]


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda one: one.id)
def test_tokens_a_second_are_the_workloads_tokens_over_the_time(exhibit: Exhibit) -> None:
    """Guard: the number of steps that a problem leaves out."""
    (column,) = exhibit.columns
    experiment = exhibit.load_experiment()
    for text in experiment.problems:
        keys = problem_keys(text)
        one = workloads.parse_problem(experiment.workload, keys, dtype="bf16", direction="fwd")
        assert int(fill(column.per_call, keys)) == one.tokens


@pytest.mark.parametrize("settled", [0.0, 1.25])
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda one: one.id)
def test_tokens_a_second_are_of_the_headline(
    tmp_path: Path, synthetic: ModuleType, exhibit: Exhibit, settled: float
) -> None:
    """Guard: the column was empty where no blocks of calls were timed: at steps of training, every row."""
    plan = exhibit.load_experiment()
    synthetic.write_run(tmp_path / "c", plan, problems=plan.problems[:1], settled=settled)
    lines = [line for line in build_lines(exhibit, select(load_campaign(tmp_path / "c"), plan)) if line.cell.timed]
    assert lines
    for line in lines:
        row = line.cell.row or {}
        ours = settled if settled and row["implementation"] == "tk" else 1
        assert headline_latency(row) == pytest.approx(row["latency_us_p50"] * ours)
        tokens = int(fill(exhibit.columns[0].per_call, problem_keys(line.problem)))
        assert line.columns == (pytest.approx(1e6 * tokens / headline_latency(row)),)


@pytest.mark.parametrize(
    ("exhibit", "panels"),
    [
        (EXHIBITS[0], ["GPT of 124M weights", "GPT of 1B weights"]),
        (EXHIBITS[1], ["Llama-3.1-8B's shape", "Qwen2.5-7B's shape"]),
        (EXHIBITS[2], ["Mamba-2 of 1.3B weights", "Mamba-2 of 2.7B weights"]),
    ],
    ids=["gpt_training", "prefill", "mamba2_prefill"],
)
def test_panels_are_models(exhibit: Exhibit, panels: list[str]) -> None:
    assert list(dict.fromkeys(map(exhibit.panel_of, exhibit.load_experiment().problems))) == panels
