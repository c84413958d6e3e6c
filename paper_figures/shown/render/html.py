"""The report as one page that needs no network."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
from markupsafe import Markup

from paper_figures.judged.verdicts import Verdict
from paper_figures.shown.table import Table, Text, footnotes
from paper_figures.words import say

TEMPLATES = Path(__file__).resolve().parent / "templates"

_VERDICT_MARKS: dict[str, str] = {
    Verdict.MORE: "▲",
    Verdict.HOLDS: "✓",
    Verdict.LESS: "▽",
    Verdict.OVERTAKEN: "»",
    Verdict.DIFFERS: "≠",
    Verdict.CLOSE: "~",
    Verdict.SHORT: "✗",
}
"""Verdicts are told apart without colour; those without a number have a dash."""


def render_page(template: str, **values: Any) -> str:
    """A template of `templates/` with the style sheet, the script and the values; undefined names are an error."""
    return _environment().get_template(template).render(**values)


def asset(name: str) -> str:
    """The text of a file of `templates/` that pages use as it is: a style sheet or a script."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["anchor"] = anchor
    environment.globals["html_table"] = html_table
    environment.globals["badge"] = badge
    environment.globals["say"] = say
    environment.globals["strip"] = strip
    environment.globals["permalink"] = permalink
    environment.globals["stale_mark"] = stale_mark
    environment.globals["asset"] = lambda name: Markup(asset(name))
    return environment


def case_page_file(key: str) -> str:
    """The page that a case shares with those of its problem, as a path within the report."""
    return f"cases/{key.rpartition('-')[0]}.html"


def case_file(key: str) -> str:
    """Where a case is within the report: its page, and its place there."""
    return f"{case_page_file(key)}#{key.rpartition('-')[2]}"


def anchor(text: str) -> str:
    """A text as an identifier of the page."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-").lower()


def badge(verdict: str) -> Markup:
    """A verdict as a coloured word with a mark before it."""
    mark = _VERDICT_MARKS.get(verdict, "–")
    return Markup(
        f'<span class="badge {anchor(verdict)}"><span aria-hidden="true">{mark}</span> {escape(verdict)}</span>'
    )


def permalink(name: str, what: str) -> Markup:
    """A visible link to a place of the page, for copying; `name`: what its identifier is made of."""
    said = escape(f"Link to {what}")
    return Markup(f'<a class="permalink" href="#{anchor(name)}" aria-label="{said}" title="{said}">#</a>')


def stale_mark(stale: bool) -> Markup:
    """What stands behind the badge of a verdict that rests on numbers of an older kernel."""
    return Markup(' <small class="stale">stale</small>' if stale else "")


def strip(verdicts: Sequence[tuple[str, bool]]) -> Markup:
    """Many verdicts as marks side by side, for the eye alone: what they say stands beside them in words.

    Each with whether it is stale.
    """
    marks = ""
    for verdict, stale in verdicts:
        kinds, title = (f"{anchor(verdict)} stale", f"{verdict}, stale") if stale else (anchor(verdict), verdict)
        marks += f'<i class="{kinds}" title="{escape(title)}">{_VERDICT_MARKS.get(verdict, "–")}</i>'
    return Markup(f'<span class="strip" aria-hidden="true">{marks}</span>')


def exhibit_file(name: str) -> str:
    """The page of an exhibit, as a path within the report."""
    return f"exhibits/{name}.html"


def html_table(
    table: Table,
    name: str,
    sortable: bool = True,
    above: str = "",
    kind: str = "",
    links: Mapping[str, str] = MappingProxyType({}),
) -> Markup:
    """A table in a region that scrolls sideways where the page is narrow, with its remarks and notes under it.

    `above` leads from the page to the folder of the report, which links are relative to.  `kind` is a class of the
    table.  `links`: the places of claims within the report, by id; those that it lacks are not linked.
    """
    places = {claim: above + place for claim, place in links.items()}
    notes = footnotes(table)
    head = "".join(
        f'<th scope="col"{" class=number" if column.numeric else ""}>{escape(column.title)}</th>'
        for column in table.columns
    )
    body = []
    for number, row in enumerate(table.rows):
        cells = "".join(
            _cell(text, column.numeric, notes, name, above, places)
            for text, column in zip(row, table.columns, strict=True)
        )
        body.append(f"<tr{' class=group' if number in table.groups else ''}>{cells}</tr>\n")
    below = "".join(f"<li>{escape(remark)}</li>" for remark in table.remarks)
    remarks = f'<ul class="remarks">{below}</ul>' if below else ""
    listed = "".join(f'<li id="{name}-note-{i}">{escape(note)}</li>' for i, note in enumerate(notes, start=1))
    numbered = f'<ol class="remarks">{listed}</ol>' if listed else ""
    return Markup(
        f'<div class="scroll" role="region" aria-label="{escape(table.caption)}" tabindex="0">'
        f"<table{f' class={kind}' if kind else ' class=sortable' if sortable else ''}>"
        f"<caption><span>{escape(table.caption)}</span></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>{numbered}{remarks}"
    )


def _kept_together(detail: str) -> str:
    """Small print that may be broken between its parts alone: an interval, a margin or a clock stays whole."""
    return re.sub(r"\[[^]]*\]|±\S+ %|at \S+ MHz", lambda part: part[0].replace(" ", "\N{NO-BREAK SPACE}"), detail)


def _cell(text: Text, numeric: bool, notes: tuple[str, ...], name: str, above: str, places: Mapping[str, str]) -> str:
    inner = str(badge(text.text)) if text.kind == "verdict" else escape(text.text)
    if text.case:
        inner = f"<a class=case href={above}{case_file(text.case)}>{inner}</a>"  # no quotes: there are thousands
    elif text.run:
        inner = f'<a href="{above}machine.html#run-{anchor(text.run)}">{inner}</a>'
    elif text.claim in places:
        inner = f'<a href="{places[text.claim]}">{inner}</a>'
    if text.detail:
        inner += f" <small>{escape(_kept_together(text.detail))}</small>"
    if text.note:
        number = notes.index(text.note) + 1
        inner += f'<sup><a href="#{name}-note-{number}" aria-label="note {number}">{number}</a></sup>'
    kinds = [
        kind
        for kind in ("number" if numeric else "", text.kind if text.kind in ("paper", "status", "winner") else "")
        if kind
    ]
    value = kinds[0] if len(kinds) == 1 else f'"{" ".join(kinds)}"'
    return f"<td class={value}>{inner}</td>" if kinds else f"<td>{inner}</td>"
