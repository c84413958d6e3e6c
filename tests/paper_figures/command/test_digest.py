"""The digests of the recorded report: kept, compared, and never of a part."""

from __future__ import annotations

from pathlib import Path

import pytest
from reproduction_support import Processes, run

from paper_figures.command import digest


def test_what_is_kept_is_never_made_from_a_single_run(
    place: Path, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guard: the results of the README and the digests are of a campaign; a part would take their place."""
    assert run(place, "report", str(next(recorded.iterdir())), "--keep") == 2
    assert "is a single run: give its campaign's folder" in capsys.readouterr().err
    assert not digest.DIGESTS.exists()
    assert not (place / "report").exists()


def keep_digests(place: Path, recorded: Path) -> None:
    (place / "README.md").write_text("<!-- results:begin -->\n<!-- results:end -->\n")
    assert run(place, "report", str(recorded), "--keep") == 0


def test_digests_are_kept_and_checked(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_digests(place, recorded)
    assert "# campaign: results/h200-sxm/paper" in digest.DIGESTS.read_text()
    assert run(place, "check") == 0
    assert "byte for byte" in capsys.readouterr().out
    digest.DIGESTS.write_text(digest.DIGESTS.read_text().replace("index.html", "page.html", 1))
    assert run(place, "check") == 1
    err = capsys.readouterr().err
    assert "index.html: no digest is kept of it" in err
    assert "page.html: was not made" in err


def test_other_versions_are_named_when_bytes_differ(
    place: Path, recorded: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_digests(place, recorded)
    text = digest.DIGESTS.read_text().replace("pillow ", "pillow 0.")
    digest.DIGESTS.write_text(text.replace(next(line for line in text.splitlines() if ".png" in line)[:8], "00000000"))
    assert run(place, "check") == 1
    assert "install the versions of constraints.txt" in capsys.readouterr().err


@pytest.fixture(scope="session")
def same_versions() -> None:
    """Skips where other bytes would say nothing, before a report is made."""
    if not digest.DIGESTS.exists():
        pytest.skip("no recorded report: report.sha256 is written with the recorded runs")
    if note := digest.version_note(digest.DIGESTS):
        pytest.skip(note)


@pytest.mark.usefixtures("same_versions")
def test_the_recorded_report_is_the_same_bytes_here(recorded_report: tuple[int, Path]) -> None:
    """The digests that the repository keeps, against a report made from the results that it keeps."""
    assert recorded_report[0] == 0


def test_tests_that_wait_for_the_recorded_report_begin_the_suite(request: pytest.FixtureRequest) -> None:
    """Guard: two workers came to them, and one waited for minutes while the other made the report."""
    waits = ["kept_report" in getattr(item, "fixturenames", []) for item in request.session.items]
    assert waits == sorted(waits, reverse=True)
