"""A page of the report in a browser: what it was asked for and said, its sizes, and what axe finds wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DESKTOP, WIDE, PHONE, PAPER = (1280, 900), (1440, 900), (390, 844), (700, 990)
"""Widths and heights in CSS pixels; paper is A4 less its margins."""

START, SHOWN = "index.html", "exhibits/fig7_gemm.html"

TABLE = "table.sortable"

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


def size(pixels: tuple[int, int]) -> dict[str, int]:
    return {"width": pixels[0], "height": pixels[1]}


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


def column(opened: Opened, title: str) -> int:
    """The place of a column of the table of all cases, from one."""
    return opened.texts(f"{TABLE} thead th").index(title) + 1
