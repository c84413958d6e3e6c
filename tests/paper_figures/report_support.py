"""Readers of a written report, and of its figures as they are written."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

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
    """The report on the kept runs: its folder, and the status of its comparison."""

    folder: Path
    status: int


def key_of(file: str) -> str:
    """The case that a place within a report is of: the inverse of `case_file`."""
    page, _, case = file.removeprefix("cases/").partition(".html#")
    return f"{page}-{case}"
