"""Several campaigns in a report: other GPUs and others of the same GPU on one page, or refused in a sentence."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from copied import H100, H200, copy_run
from report_support import Page
from reproduction_support import FEW, TABLE1, run

from harness.records.datasheets import find_datasheet
from harness.records.naming import Contestant
from harness.records.places import CODE, FIRST
from harness.runs import MANIFEST, load_manifest
from paper_figures.exhibits import choose_exhibits
from paper_figures.published.claims import load_claims
from paper_figures.recorded.campaign import find_campaign
from paper_figures.shown.page.campaigns import campaign_values, other_values, together
from paper_figures.shown.report.making import make_report

HERE, THERE = "SYNTHETIC H200", "H100 SXM"


def machine() -> Mapping[str, Any]:
    sheet = find_datasheet(H100)
    assert sheet is not None
    own = {name: getattr(sheet, name) for name in ("slug", "name", "gbps", "boost_mhz", "tflops", "source")}
    return {"gpu": {"name": H100, "driver": "0"}, "datasheet": own}


@pytest.fixture
def h100(place: Path, synthetic: ModuleType) -> Path:
    """The same campaign on an H100, with one figure: there four stages are no faster than three."""
    folder = place / "results" / "h100-sxm" / "paper"

    def rate(problem: str, contestant: Contestant) -> float | str:
        found = synthetic.plausible_rate(problem, contestant)
        return found if isinstance(found, str) else found * (0.5 if contestant.variant == "stages=4" else 1)

    synthetic.write_run(folder, TABLE1.id, "20260301T000000Z-0ff1ce", rate=rate, manifest=machine())
    return folder


@pytest.fixture
def stale(recorded: Path, synthetic: ModuleType) -> Path:
    """The first campaign, whose newest run has another machine code of GEMM: the older runs' numbers are stale."""
    synthetic.write_run(recorded, FEW[1].id, "20260203T000000Z-abc1ff", machine_code="beef")
    return recorded


def test_a_claim_has_the_verdict_on_the_other_gpu_beside_it(place: Path, stale: Path, h100: Path) -> None:
    assert run(place, "report", str(stale), str(h100)) == 0
    out = place / "report"
    start = Page(text := (out / "index.html").read_text())
    assert not start.open
    assert "h100-sxm/index.html" in start.links
    assert f"{HERE} and {THERE} both decide {len(load_claims(TABLE1.id).claims)}: " in text
    assert "are decided with today&#39;s kernels on H100 SXM." in text
    assert f"The {THERE} is the paper&#39;s GPU" in text
    exhibit = (out / "exhibits" / f"{TABLE1.id}.html").read_text()
    assert f"also on {THERE}: " in exhibit
    assert ", of today&#39;s kernel" in exhibit
    plain = (out / "report.md").read_text()
    assert "Beside other campaigns" in plain
    assert f"also on {THERE}: falls short" in plain
    with (out / "data" / "campaigns.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        assert "falls short" in row[THERE]
        assert f"falls short on {THERE}" in row["What differs"]
        assert f"{HERE}: " in row["What differs"]
        assert "stale" in row["What differs"]
    with (out / "data" / "claims.csv").open() as file:
        cells = [row[f"Also on {THERE}"] for row in csv.DictReader(file)]
    assert any("falls short" in cell for cell in cells)
    assert any(cell == "–" for cell in cells)


def test_what_has_no_run_here_leads_to_the_other_gpus(place: Path, recorded: Path, h100: Path) -> None:
    """Guard: a claim that was not decided here was `also` decided there, and an exhibit without a run led nowhere."""
    assert run(place, "report", str(h100), str(recorded)) == 0
    out, table2 = place / "report", FEW[1].id
    page = (out / "exhibits" / f"{table2}.html").read_text()
    banner = page[page.index("Not measured yet in this campaign.") :].partition("</p>")[0]
    assert f'On {HERE}:\n<a href="../synthetic-h200/exhibits/{table2}.html">' in banner
    assert (out / "synthetic-h200" / "exhibits" / f"{table2}.html").is_file()
    assert f"<b>on {HERE}: " in page
    assert f"also on {HERE}: " not in page
    assert f"also on {HERE}: " in (out / "exhibits" / f"{TABLE1.id}.html").read_text()
    cards = {one.partition('"')[0]: one for one in (out / "index.html").read_text().split('<li id="')[1:]}
    assert f"On {HERE}: " in cards[table2]
    assert f"On {HERE}: " not in cards[TABLE1.id]
    assert f"Not measured yet in this campaign. On {HERE}: " in (out / "report.md").read_text()


def test_the_other_report_is_whole_and_linked_both_ways(
    place: Path, recorded: Path, h100: Path, synthetic: ModuleType
) -> None:
    synthetic.write_run(h100, FEW[1].id, "20260302T000000Z-0ff1cd", manifest=machine())
    assert run(place, "report", str(recorded), str(h100)) == 0
    out = place / "report"
    for page in (out / "index.html", *(out / "h100-sxm").glob("*.html"), *(out / "h100-sxm/exhibits").glob("*.html")):
        for link in (one.partition("#")[0] for one in Page(page.read_text()).links):
            assert not link or (page.parent / link).exists(), (page, link)
    inner = (out / "h100-sxm" / "index.html").read_text()
    assert 'href="../index.html"' in inner
    exhibit = (out / "h100-sxm" / "exhibits" / f"{TABLE1.id}.html").read_text()
    assert f"also on {HERE}: " in exhibit
    assert "../../exhibits/" in exhibit
    assert "as in the paper (H100 80GB SXM)" in exhibit
    assert "The runs are of the same GPU, so that rates compare directly, too." in exhibit
    several = f"exhibits/{FEW[1].id}.html"
    assert "on H100 80GB SXM, the same GPU as here." in (out / "h100-sxm" / several).read_text()
    assert "on H100 80GB SXM." in (out / several).read_text()
    assert "These runs are of the same GPU as the paper's" in (out / "h100-sxm" / "report.md").read_text()
    assert "of the same GPU" not in (out / "exhibits" / f"{TABLE1.id}.html").read_text()

    assert run(place, "report", str(recorded)) == 0  # and alone there is no trace of the other, whose pages are gone
    assert not (out / "h100-sxm").exists()
    assert THERE not in (out / "index.html").read_text()
    assert THERE not in (out / "claims.html").read_text()


def test_a_recorded_run_stands_beside_itself_as_another_gpus(tmp_path: Path) -> None:
    """A copy of a recorded run under an H200's name, by the harness's own schema: all agree, and the reason is said."""
    source = next(
        path.parent
        for path in sorted((CODE / FIRST).glob(f"*/{MANIFEST}"))
        if load_manifest(path.parent)["experiment"] == "table1_stages"
    )
    copy_run(source, tmp_path / "h200-sxm" / "2026-11-paper", "20261201T000000Z-c0b1ed", H200)
    exhibits = choose_exhibits([TABLE1.id])
    first, other = make_report(source, exhibits), make_report(tmp_path / "h200-sxm" / "2026-11-paper", exhibits)
    report = together(first, [other])
    values = campaign_values(report)
    assert [(one["name"], one["place"]) for one in other_values(report)] == [("H200 SXM", "h200-sxm/")]
    assert values["differ"].rows == ()
    assert [row[0].text for row in values["counts"].rows] == [THERE, "H200 SXM", "Same verdict in all"]


def test_a_report_that_somebody_put_into_the_folder_is_not_deleted(
    place: Path, recorded: Path, h100: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guard: a folder within a report is taken for the second GPU's only if it leads back."""
    words = ("report", str(recorded), str(h100))
    assert run(place, *words) == 0
    assert run(place, *words) == 0  # its own are replaced
    shutil.copytree(place / "report" / "exhibits", place / "report" / "mine")
    shutil.copyfile(place / "report" / "index.html", place / "report" / "mine" / "index.html")
    assert run(place, *words) == 2
    assert "exists and is no report" in capsys.readouterr().err
    assert (place / "report" / "mine" / "index.html").is_file()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("itself", "of campaign paper is in campaign paper already"),
        ("missing", "nowhere is not a folder: give the folder of a campaign"),
        ("damaged", "group-0001.json.gz"),
        ("empty", "holds no run"),
    ],
)
def test_what_cannot_stand_beside_is_refused_in_a_sentence(
    place: Path,
    recorded: Path,
    h100: Path,
    capsys: pytest.CaptureFixture[str],
    what: str,
    said: str,
) -> None:
    other = h100
    if what == "itself":
        other = recorded
    elif what == "missing":
        other = place / "nowhere"
    elif what == "damaged":
        group = next(h100.iterdir()) / "group-0001.json.gz"
        group.write_bytes(group.read_bytes()[:300])
    else:
        shutil.rmtree(next(h100.iterdir()))
    assert run(place, "report", str(recorded), str(other)) != 0
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (place / "report").exists()


def test_a_second_campaign_of_a_gpu_stands_beside_another_gpus(
    place: Path, recorded: Path, h100: Path, synthetic: ModuleType
) -> None:
    """Each is called by what tells it apart, has a column, a row and a report, and what was measured again a page."""
    later = place / "results" / "h200-sxm" / "later"
    machine = {"gpu": {"name": "SYNTHETIC H200", "driver": "0"}}
    synthetic.write_run(later, TABLE1.id, "20260302T000000Z-0ff1cf", manifest=machine)
    elsewhere = place / "theirs" / "later"  # other people's, of the same name
    synthetic.write_run(elsewhere, TABLE1.id, "20260303T000000Z-0ff1c0", manifest=machine)
    folders = [str(one) for one in (recorded, h100, later, elsewhere)]
    assert run(place, "report", *folders, "--exhibit", TABLE1.id, FEW[1].id) == 0
    out, again = place / "report", f"{HERE} (later)"
    names = [f"{HERE} (paper)", THERE, again, f"{again}, 2"]
    with (out / "data" / "claims.csv").open() as file:
        assert {f"Also on {name}" for name in names[1:]} <= set(next(csv.reader(file)))
    page = Page((out / "index.html").read_text())
    for name in ("h100-sxm", "synthetic-h200-later", "synthetic-h200-later-2"):
        assert f"{name}/index.html" in page.links
        assert 'href="../index.html"' in (out / name / "index.html").read_text()
    with (out / "data" / "campaigns.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert all(list(row)[1:-1] == names for row in rows)
    assert all("falls short" in row[THERE] and "holds" in row[again] for row in rows)
    with (out / "data" / "history.csv").open() as file:
        measured = {(row["run"], row["experiment"]) for row in csv.DictReader(file)}
    assert {experiment for _, experiment in measured} == {TABLE1.id}  # of the other, and on the H100, there is one run
    assert len(measured) == 3


def test_a_campaigns_name_on_two_gpus_is_that_of_the_first_recorded(place: Path, recorded: Path, h100: Path) -> None:
    with pytest.raises(Exception, match="campaign 'paper' is of several GPUs: give one of "):
        find_campaign(place / "results", "paper")
    first = place / FIRST
    for gpu in ("h200-sxm", "h100-sxm"):
        shutil.copytree(h100, place / "results" / gpu / first.name)
    assert find_campaign(place / "results", first.name) == first
    assert find_campaign(place / "results", "paper", "h100-sxm") == h100
