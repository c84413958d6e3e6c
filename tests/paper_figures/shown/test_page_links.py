"""Where the pages lead: from a menu, from an old address, from a link to a claim or a run; and what they ask for."""

from __future__ import annotations

from typing import Any

import pytest
from browser_support import DESKTOP, PAGES, PHONE, START, TABLE, Opened, size

pytestmark = pytest.mark.browser


def test_it_says_nothing_and_asks_for_nothing_but_itself(opened: Opened) -> None:
    assert opened.said == []
    own = {(opened.out / name).as_uri() for name in ("style.css", "script.js", "chart.js", "icon.svg")}
    assets = {address.replace("/assets/", "/") for address in opened.asked if "/assets/" in address}
    assert {address for address in opened.asked if "/assets/" not in address} == {opened.address}
    assert assets <= own


def test_every_exhibit_is_two_clicks_away_on_a_phone(browser: Any, opened: Opened) -> None:
    page = browser.new_page(viewport=size(PHONE))
    page.goto((opened.out / START).as_uri())
    names = {path.name for path in (opened.out / "exhibits").iterdir()}
    cards = page.eval_on_selector_all(".cards a:not(.permalink)", "all => all.map(one => one.href.split('/').pop())")
    assert set(cards) == names
    page.click(".menu summary")
    page.click(".menu a >> text=Fig 8 Attention")
    assert page.url.endswith("exhibits/fig8_attention.html")
    menu = page.eval_on_selector_all(".menu a", "all => all.map(one => one.href.split('/').pop())")
    assert set(menu) == names
    page.close()


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


@pytest.mark.parametrize("name", PAGES)
def test_every_place_has_a_link_to_copy(browser: Any, opened: Opened, name: str) -> None:
    page = browser.new_page(viewport=size(DESKTOP))
    page.goto((opened.out / name).as_uri())
    page.eval_on_selector_all("details:not(.menu)", "all => all.forEach(one => { one.open = true })")
    links = page.eval_on_selector_all("a.permalink", "all => all.map(one => one.getAttribute('href').slice(1))")
    places = page.eval_on_selector_all(
        "main section[id], .cards > li[id], details[id]", "all => all.map(one => one.id)"
    )
    assert places
    assert set(places) - set(links) <= {"find", "more"}  # a whole page, and its foot
    assert set(links) <= set(page.eval_on_selector_all("[id]", "all => all.map(one => one.id)"))
    assert page.locator("a.permalink").first.is_visible() or name == "find.html"
    page.close()
