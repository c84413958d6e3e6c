"""Configurations are what Hydra composes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.configuration import CONFIGS, composed

EXPERIMENTS = sorted(path.stem for path in (CONFIGS / "experiment").glob("*.yaml"))


def test_every_experiment_is_as_hydra_composes_it() -> None:
    """Guard: a hand-written reader had defaults of its own."""
    assert len(EXPERIMENTS) > 30
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        for name in EXPERIMENTS:
            theirs = OmegaConf.to_container(compose("config", overrides=[f"experiment={name}"]), resolve=True)
            assert composed(name) == theirs, name
        assert composed() == OmegaConf.to_container(compose("config"), resolve=True)


def test_an_experiment_chooses_groups_and_changes_single_values(configs: Path) -> None:
    (configs / "experiment" / "e.yaml").write_text(
        "# @package _global_\ndefaults: [{override /timer: cuda_graph}]\ntimer: {max_rounds: 7}\nproblems: [{M: 1}]\n"
    )
    config = composed("e", configs)
    assert config["workload"]["name"] == "gemm", "the harness's own choice"
    assert config["timer"] == {**composed("rotary_cuda_graph")["timer"], "max_rounds": 7, "budget_seconds": 10.0}
    assert composed("e", configs)["problems"] == [{"M": 1}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("defaults: [{override /workload: juggling}]", "there is no workload juggling: .*juggling.yaml does not exist"),
        ("problems: [", "e.yaml is not YAML"),
        ("- problems", "e.yaml holds .*needs keys and values"),
    ],
)
def test_a_wrong_file_is_named(configs: Path, text: str, message: str) -> None:
    (configs / "experiment" / "e.yaml").write_text(text)
    with pytest.raises(PaperFiguresError, match=message):
        composed("e", configs)
