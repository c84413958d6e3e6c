"""Tables sort, and mark what is fastest."""

from __future__ import annotations

import re

import pytest
from browser_support import TABLE, Opened, column

pytestmark = pytest.mark.browser


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


def test_a_table_is_one_stop_of_the_tab_key(opened: Opened) -> None:
    stops = opened.page.eval_on_selector_all(
        "table", "all => all.map(one => one.querySelectorAll('a.case[tabindex=\"0\"]').length)"
    )
    assert set(stops) <= {0, 1}
    assert sum(stops) >= 2
