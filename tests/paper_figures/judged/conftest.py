"""Claims judged on a made-up run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.runs import load_campaign
from paper_figures.judged.evaluation import ClaimResult, evaluate
from paper_figures.published.claims import load_claims
from paper_figures.recorded.experiments import load_experiment
from paper_figures.recorded.selection import select

RUN = "20260101T000000Z-aaaaaa"
Evaluate = Callable[..., dict[str, ClaimResult]]


@pytest.fixture
def results(tmp_path: Path, synthetic: ModuleType) -> Evaluate:
    """Writes a run of an experiment and judges the claims of its file."""

    def write_and_evaluate(experiment: str, **options: object) -> dict[str, ClaimResult]:
        synthetic.write_run(tmp_path / "c", experiment, RUN, **options)
        selections = select(load_campaign(tmp_path / "c"), load_experiment(experiment))
        file = load_claims(experiment)
        return {claim.id: evaluate(claim, file, selections) for claim in file.claims}

    return write_and_evaluate
