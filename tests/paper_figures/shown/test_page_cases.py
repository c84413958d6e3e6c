"""Cases open over the page, by mouse and by keys, and close again."""

from __future__ import annotations

from typing import Any

import pytest
from browser_support import DESKTOP, TABLE, Opened, column, size

pytestmark = pytest.mark.browser


def test_a_click_on_a_cell_opens_its_case(opened: Opened) -> None:
    page, place = opened.page, column(opened, "TFLOPS")
    cell = page.locator(f"{TABLE} tbody tr:first-child td:nth-child({place})")
    number = cell.locator("a.case").inner_text()
    cell.click(position={"x": 3, "y": 3})  # beside the number
    case = opened.case
    own = case.locator("section:visible")
    assert own.count() == 1, "the case alone of those that share its page"
    assert number in own.locator(".headline").inner_text()
    assert "python -m harness" in own.locator("pre").inner_text()
    assert own.locator(".dots").count() == 1
    assert "NVIDIA" in case.inner_text("main")
    name = page.locator(f"{TABLE} tbody tr:first-child td:nth-child(2) a.case").inner_text()
    assert page.inner_text("dialog h2").endswith(name)
    assert own.locator("h2").inner_text() == name
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
    assert number in opened.case.locator("section:visible .headline").inner_text()
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


def test_back_closes_a_case_and_its_address_opens_it(opened: Opened) -> None:
    page = opened.page
    page.locator(f"{TABLE} a.case").nth(3).click()
    heading = opened.case.locator("section:visible h2").inner_text()
    address = page.url
    assert "#case-" in address
    page.go_back()
    opened.closed()
    page.goto("about:blank")
    page.goto(address)
    assert opened.case.locator("section:visible h2").inner_text() == heading
    page.keyboard.press("Escape")
    opened.closed()
    opened.unfold()


def test_cases_of_a_problem_are_shown_alone_or_together(browser: Any, opened: Opened) -> None:
    page = browser.new_page(viewport=size(DESKTOP))
    first = opened.page.locator("table.wide a.case").first.get_attribute("href") or ""
    page.goto((opened.out / first.removeprefix("../").partition("#")[0]).as_uri())
    sections, shown = page.locator("section"), page.locator("section:visible")
    every = sections.count()
    assert shown.count() == every > 3
    for place in range(every):
        page.locator(".together a").nth(place).click()
        assert shown.count() == 1
        assert shown.locator("h2").inner_text() == page.locator(".together a").nth(place).inner_text()
        assert page.evaluate("scrollY") == 0, "what is said of all of them stays in sight"
        assert page.is_visible("text=The rounds and the run")
    page.click(".together a >> text=all together")
    assert shown.count() == every
    page.close()


def test_a_case_leads_back_to_its_exhibit(opened: Opened) -> None:
    page = opened.page
    opened.unfold()
    page.locator(f"{TABLE} a.case").first.click()
    opened.case.click("text=Fig 7")
    page.wait_for_url("**/exhibits/fig7_gemm.html")
    page.goto(opened.address)
    opened.unfold()
