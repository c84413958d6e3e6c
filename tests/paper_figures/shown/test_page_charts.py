"""Charts answer: hover, focus, legend, units, and the address that keeps them."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = pytest.mark.browser


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
