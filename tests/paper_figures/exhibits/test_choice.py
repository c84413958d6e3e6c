"""Exhibits are found by name and stand where the paper has them."""

from __future__ import annotations

import pytest

from paper_figures.errors import PaperFiguresError
from paper_figures.exhibits import choose_exhibits, load_exhibits
from paper_figures.recorded.configuration import CONFIGS
from paper_figures.shown.derived import measured_exhibits
from paper_figures.shown.report.model import Report


def test_exhibits_are_found_by_a_short_name() -> None:
    assert [exhibit.id for exhibit in choose_exhibits(["fig7", "table1_stages"])] == ["table1_stages", "fig7_gemm"]
    assert [exhibit.id for exhibit in choose_exhibits(["table3"])] == ["table3_block_order", "table3_attention_order"]
    assert [exhibit.id for exhibit in choose_exhibits(["fig8_attention"])] == ["fig8_attention"]
    assert len(choose_exhibits(["fig8"])) == 3
    assert choose_exhibits(None) == load_exhibits()
    with pytest.raises(PaperFiguresError, match="there is no exhibit 'table9': choose of abstract, table1_stages"):
        choose_exhibits(["table9"])


def test_every_experiment_is_on_the_page() -> None:
    """Guard: one was recorded and shown nowhere.  The nights have a table of their own."""
    files = {path.stem for path in (CONFIGS / "experiment").glob("*.yaml")}
    shown = {one.load_experiment().name for one in measured_exhibits(load_exhibits())}
    assert {name for name in files if not name.startswith("nightly_")} == shown


def test_only_what_the_paper_has_stands_under_its_figures(report: Report) -> None:
    places = {one.exhibit.id: one.exhibit.where for one in report.exhibits}
    for name in ("fig9_linear_attention", "fig8_attention_d64", "fig8_attention_gqa", "attention_small_grids"):
        assert places[name] == "Beyond the paper"


@pytest.mark.parametrize("name", ["fig11", "fig12", "scaleml"])
def test_the_figures_of_an_exhibit_choose_it(name: str) -> None:
    assert [one.id for one in choose_exhibits([name])] == ["scaleml_extended"]
