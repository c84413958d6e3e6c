"""Readers of a written report, and of its figures as they are written."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from matplotlib.figure import Figure

from paper_figures.shown.charts import save_figure
from paper_figures.shown.render.html import case_file
from paper_figures.shown.report.model import ExhibitReport, Report

VOID = {"meta", "br", "hr", "img", "link", "input", "rect", "line", "use", "path"}
IMPLIED = {"dt", "dd", "tr", "th", "td", "thead", "tbody"}
"""Tags whose end HTML lets a page leave out, as the pages of cases do."""


class Page(HTMLParser):
    """Identifiers, links and the balance of tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.sources.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            while self.open and self.open[-1] != tag and self.open[-1] in IMPLIED:
                self.open.pop()
            assert self.open, tag
            assert self.open.pop() == tag


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def page_files(written: Path) -> list[Path]:
    """The pages of a report but those of cases, the start page first."""
    return [
        written / "index.html",
        *sorted(set(written.glob("*.html")) - {written / "index.html"}),
        *sorted((written / "exhibits").glob("*.html")),
    ]


def read_pages(written: Path) -> dict[str, Page]:
    return {path.relative_to(written).as_posix(): Page(path.read_text()) for path in page_files(written)}


def exhibit_page(written: Path, name: str) -> str:
    return (written / "exhibits" / f"{name}.html").read_text()


def case_section(written: Path, key: str) -> str:
    """What a page says of one of its cases, as it stands there."""
    file, _, case = case_file(key).partition("#")
    text = (written / file).read_text()
    start = text.index(f'<section id="{case}">')
    return text[start : text.index("</section>", start)]


def case_pages(written: Path) -> dict[str, Page]:
    return {path.name: Page(path.read_text()) for path in sorted((written / "cases").glob("*.html"))}


def part(report: Report, name: str) -> ExhibitReport:
    return next(exhibit for exhibit in report.exhibits if exhibit.exhibit.id == name)


@dataclass(frozen=True)
class Recorded:
    """The report on the kept runs: its folder, the status of its comparison, and ticks that run into each other."""

    folder: Path
    status: int
    overlapping_ticks: dict[str, list[str]]


OVERLAPPING_TICKS: dict[str, list[str]] = {}
"""Of the figures that `save_and_look` has saved: labels of ticks that run into their neighbours."""


def save_and_look(figure: Figure, folder: Path, name: str, when: datetime.datetime, inline: bool = True) -> str:
    """Saves a figure and notes its ticks, which it has just laid out: drawing all of them again takes half a minute."""
    saved = save_figure(figure, folder, name, when, inline)
    for axis in figure.get_axes():
        texts = [text for text in axis.get_xticklabels() if text.get_text()]
        for left, right in itertools.pairwise(texts):
            if left.get_window_extent().x1 >= right.get_window_extent().x0:
                OVERLAPPING_TICKS.setdefault(name, []).append(f"{left.get_text()} | {right.get_text()}")
    return saved
