"""The appendix for artifact evaluation: as generated, and its commands exist."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from harness.results import Run
from paper_figures.command import digest, steps
from paper_figures.command.artifact import PAGE, Row, _recorded, artifact_text, late_text
from paper_figures.command.reproduce import parser
from paper_figures.command.second import beside_recorded
from paper_figures.exhibits import load_exhibits
from paper_figures.recorded.campaign import ROOT, load_runs
from paper_figures.shown.derived import measured_exhibits

TEXT = (ROOT / PAGE).read_text()


def test_the_page_is_the_one_that_the_recorded_runs_give() -> None:
    if not digest.DIGESTS.exists():
        pytest.skip("no recorded campaign")
    first = ROOT / digest.recorded_campaign(digest.DIGESTS)
    second = beside_recorded(first, ROOT)
    others = load_runs(second) if second is not None else ()
    made = artifact_text(load_runs(first), load_exhibits(), others)
    assert made == TEXT, "write it anew with reproduce-paper --recorded --readme"


def test_readme_tells_the_same_time() -> None:
    told = re.search(r"two cores, about (\d+) on a Hopper GPU$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert told is not None
    assert f"about {told[1]} minutes" in TEXT


def test_every_exhibit_has_its_time() -> None:
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \|(.*)\|$", TEXT, flags=re.MULTILINE)
    exhibits = {exhibit.id: exhibit for exhibit in load_exhibits()}
    assert [name for name, _ in rows] == list(exhibits)
    for name, cells in rows:
        estimate = cells.split("|")[1].strip()
        most = 40 * 60 if any(one.by_name_only for one in exhibits[name].measured) else 8 * 60
        assert estimate.startswith("made from") or 10 < int(estimate) < most, name


def test_what_took_longer_than_estimated_is_counted() -> None:
    """Guard: a sentence said that runs end before the estimate, above a table in which some took longer."""

    def row(name: str, estimate: str, recorded: str) -> Row:
        return Row("Fig 1", name, 1, estimate, "", recorded)

    made = row("derived", "made from Fig 1", "")
    assert late_text([made]) == ""
    assert (
        late_text([made, row("a", "10", "10")])
        == "None of the 1 rows below with a recorded time took longer than estimated."
    )
    rows = [made, row("a", "10", "9"), row("b", "10", "11"), row("c", "20", "25"), row("d", "5", "")]
    assert (
        late_text(rows)
        == "Of the 3 rows below with a recorded time, 2 took longer than estimated, by 25 % at most (`c`)."
    )


def test_runs_with_a_part_of_the_problems_count_together() -> None:
    """Guard: beside the estimate of all six trainings stood the time of the last run, which has one of them."""

    def run(problems: Sequence[str], minutes: int, status: str = "completed") -> Run:
        ended = f"2026-11-26T10:{minutes:02}:00Z"
        manifest = {
            "experiment": "prefill",
            "status": status,
            "started_utc": "2026-11-26T10:00:00Z",
            "ended_utc": ended,
        }
        rows = [
            {"problem": one.text, "direction": one.direction, "dtype": one.dtype, "distribution": one.distribution}
            for one in map(prefill.load_experiment().stored_problem, problems)
        ]
        return cast(Run, SimpleNamespace(manifest=manifest, rows=rows))

    [prefill] = (one for one in measured_exhibits(load_exhibits()) if one.id == "prefill")
    first, *others = prefill.load_experiment().problems
    newest_first = [run([first], 1), run([first], 2), run(others, 4), run([first, *others], 8)]
    assert _recorded([prefill], newest_first) == "300"
    assert _recorded([prefill], newest_first[:2]) == ""
    assert _recorded([prefill], [run([first], 1, "interrupted"), *newest_first[3:]]) == "480"


def test_how_far_rates_move_is_said() -> None:
    assert "Absolute rates of one kernel differ between exhibits" in TEXT
    assert f"counts {steps.START_SECONDS:.0f} seconds to start" in TEXT


def test_its_commands_exist() -> None:
    """Guard: every `make` target and every option of `reproduce-paper` that the page names."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`make ([a-z-]+)", TEXT))
    assert {"test", "reproduce", "nightly"} <= targets
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)
    options = {
        name for command in re.findall(r"`(reproduce-paper[^`]*)`", TEXT) for name in re.findall(r"--[a-z-]+", command)
    }
    assert options
    assert options <= {option for action in parser()._actions for option in action.option_strings}
    assert not re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT) or all(
        (ROOT / "docs" / link).exists() for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    )
