"""The appendix for artifact evaluation: as generated, and its commands exist."""

from __future__ import annotations

import re

import pytest

from paper_figures import digest
from paper_figures.artifact import PAGE, artifact_text
from paper_figures.campaign import ROOT, load_runs
from paper_figures.exhibit import load_exhibits
from paper_figures.reproduce import parser

TEXT = (ROOT / PAGE).read_text()


def test_the_page_is_the_one_that_the_recorded_runs_give() -> None:
    if not digest.DIGESTS.exists():
        pytest.skip("no recorded campaign")
    runs = load_runs(ROOT / digest.recorded_campaign(digest.DIGESTS))
    assert artifact_text(runs, load_exhibits()) == TEXT, "write it anew with reproduce-paper --from ... --readme"


def test_every_exhibit_has_its_time() -> None:
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \|(.*)\|$", TEXT, flags=re.MULTILINE)
    assert [name for name, _ in rows] == [exhibit.id for exhibit in load_exhibits()]
    for name, cells in rows:
        estimate = cells.split("|")[1].strip()
        assert estimate.startswith("made from") or 10 < int(estimate) < 8 * 60, name


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
