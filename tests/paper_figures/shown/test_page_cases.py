"""Cases open over the page, by mouse and by keys, and close again."""

from __future__ import annotations

import pytest
from browser_support import (
    TABLE,
    Opened,
    column,
)

pytestmark = pytest.mark.browser


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
