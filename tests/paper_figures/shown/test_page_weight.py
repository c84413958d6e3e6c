"""How heavy, how quick and how long the pages are: on disk, on a screen, on paper and in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from browser_support import DESKTOP, PAGES, PAPER, START, WIDE, Opened, size

pytestmark = pytest.mark.browser


def test_the_report_keeps_its_weight(recorded_report: tuple[int, Path]) -> None:
    """Guard: it weighed 34 MB, of which names of kernels and uncompressed pictures took a quarter."""
    out = recorded_report[1]
    assert (out / START).stat().st_size < 400_000
    for path in (out / "exhibits").iterdir():
        assert path.stat().st_size < 300_000, path.name
    inner = {path.parent for path in out.glob("*/index.html")}  # a second GPU's report, with a weight of its own
    for folder in (out, *inner):
        others = inner - {folder}
        files = (path for path in folder.rglob("*") if path.is_file() and not others & set(path.parents))
        assert sum(path.stat().st_size for path in files) < 25_000_000, folder


def test_the_start_page_is_painted_within_half_a_second(browser: Any, opened: Opened) -> None:
    """The browser's own first paint, the best of three, since other work of the machine counts too."""
    page = browser.new_page(viewport=size(DESKTOP))
    paints = []
    for _ in range(3):
        page.goto((opened.out / START).as_uri())
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    page.close()
    assert 0 < min(paints) < 500


def test_pages_load_within_a_second(browser: Any, opened: Opened) -> None:
    """A second of the main thread's own time: the clock on the wall also counts what else a machine does."""
    page = browser.new_page(viewport=size(DESKTOP))
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    for name in PAGES:
        page.goto((opened.out / name).as_uri())
        seconds = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        assert 0 < seconds["TaskDuration"] < 1, (name, seconds)
    page.close()


def test_a_chart_and_the_verdicts_are_on_the_first_screen(browser: Any, opened: Opened) -> None:
    """Guard: the chart of Figure 8 was 1468 pixels below its heading."""
    page = browser.new_page(viewport=size(WIDE))
    for path in sorted((opened.out / "exhibits").glob("fig*.html")):
        page.goto(path.as_uri())
        assert page.eval_on_selector(".boxes", "one => one.getBoundingClientRect().bottom") < WIDE[1], path.name
        assert page.eval_on_selector(".panel, .drawing", "one => one.getBoundingClientRect().bottom") < WIDE[1] + 60
    page.close()


def sheets(pdf: bytes) -> int:
    """How many pages a PDF has."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.parametrize("name", PAGES)
def test_it_prints_whole_and_short(browser: Any, opened: Opened, name: str) -> None:
    """Guard: the report took 114 sheets."""
    page = browser.new_page(viewport=size(PAPER))
    page.goto((opened.out / name).as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER[0]
    assert not page.is_visible("nav")
    assert 0 < sheets(page.pdf(format="A4")) <= 12
    page.close()
