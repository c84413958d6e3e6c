"""How far absolute rates and ratios of the same case move between the runs of a campaign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from report_support import part

from harness.results import load_campaign
from paper_figures.cases import load_experiment
from paper_figures.reading import reading
from paper_figures.repeats import Spread, repeated, repeated_text, spread
from paper_figures.report import Report
from paper_figures.table import exhibit_table

PROBLEMS = load_experiment("table2_persistent").problems[:2]


def test_a_spread_is_of_cases_that_several_runs_have() -> None:
    assert spread([]) is None
    assert spread([[1.0]]) is None
    found = spread([[1.0], [2.0, 2.2, 2.1], [1.0, 1.3], [4.0, 4.0]])
    assert found == Spread(3, pytest.approx(10.0), pytest.approx(30.0))


def campaign(folder: Path, synthetic: ModuleType, edit: tuple[str, str] = ("", "")) -> Path:
    """Two runs of the same problems, the second at 0.9 times the rate of the first; `edit` replaces a text in it."""
    for number, factor in enumerate((1.0, 0.9), start=1):
        run = synthetic.write_run(
            folder / "c",
            "table2_persistent",
            f"2026010{number}T000000Z-aaaaa{number}",
            rate=lambda problem, one, factor=factor: factor * (500.0 if one.implementation == "tk" else 400.0),
            problems=PROBLEMS,
        )
        if number == 2 and edit[0]:
            path = run / "measurements.csv"
            assert edit[0] in path.read_text()
            path.write_text(path.read_text().replace(*edit))
    return folder / "c"


def test_rates_move_with_the_clock_and_ratios_do_not(tmp_path: Path, synthetic: ModuleType) -> None:
    runs = load_campaign(campaign(tmp_path, synthetic))
    rates, ratios = repeated(runs)
    assert rates is not None
    assert ratios is not None
    contestants = len(load_experiment("table2_persistent").contestants)
    assert (rates.cases, ratios.cases) == (2 * contestants, 2 * contestants * (contestants - 1) / 2)
    assert rates.greatest == pytest.approx(100 / 9, rel=0.02)
    assert ratios.greatest < 1
    assert "11.1 % at most" in repeated_text(runs)
    assert repeated_text(runs) in reading(runs)


@pytest.mark.parametrize("edit", [("sw_power_cap", "none"), (",synthetic,", ",other,")])
def test_other_clocks_and_other_versions_are_not_compared(
    tmp_path: Path, synthetic: ModuleType, edit: tuple[str, str]
) -> None:
    """Guard: what is not at the power limit in both, and a kernel that was changed, say nothing of the board."""
    runs = load_campaign(campaign(tmp_path, synthetic, edit))
    assert repeated(runs) == (None, None)
    assert "of this campaign timed" not in repeated_text(runs)
    assert "Absolute rates of one kernel differ between exhibits" in repeated_text(runs)


def test_the_clock_stands_beside_rates_that_it_decides(report: Report) -> None:
    """Guard: one kernel had two rates in two exhibits, and the page did not say that the clock was another."""
    fig7 = part(report, "fig7_gemm")
    titles = [column.title for column in fig7.table.columns]
    timed = [row for row, line in zip(fig7.table.rows, fig7.lines, strict=True) if line.rate is not None]
    cells = {(row[titles.index("SM clock MHz")].text, row[titles.index("SM clock MHz")].detail) for row in timed}
    assert cells == {("1755", "power limit")}
    free = [
        replace(line, cell=replace(line.cell, row={**line.cell.row, "throttled": "none"})) if line.cell.row else line
        for line in fig7.lines
    ]
    table = exhibit_table(fig7.exhibit, free, ())
    assert "SM clock MHz" not in [column.title for column in table.columns]
    assert all(len(row) == len(table.columns) for row in table.rows)
    inputs = part(report, "input_distribution").table  # has a column of its own
    assert [column.title for column in inputs.columns].count("SM clock MHz") == 1
