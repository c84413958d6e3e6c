"""The recorded report in headless Chromium, from disk: a browser and a page a test module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser_support import DESKTOP, WIDE, Opened, size

from tests.conftest import find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(browser: Any, recorded_report: tuple[int, Path]) -> Iterator[Opened]:
    """The page of an exhibit as a desktop shows it, all its cases too, opened once; a test leaves it as it found it.

    After all of them it has said nothing, and asked for nothing but files.
    """
    context = browser.new_context(viewport=size(DESKTOP), color_scheme="light", offline=True)
    page = Opened(context.new_page(), recorded_report[1])
    yield page
    assert page.said == []
    assert {urlsplit(address).scheme for address in page.asked} <= {"file", "about"}


@pytest.fixture
def chart(browser: Any, opened: Opened) -> Iterator[Any]:
    page = browser.new_page(viewport=size(WIDE))
    page.goto((opened.out / "exhibits" / "fig8_attention.html").as_uri())
    yield page
    page.close()


@pytest.fixture(scope="module")
def looking(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport=size(DESKTOP), color_scheme="light")
    yield context.new_page()
    context.close()
