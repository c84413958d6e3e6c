"""A table as LaTeX, for `booktabs`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from paper_figures.shown.table import Column, Table, Text, footnotes

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "–": "--",
    "³": r"$^3$",
    "µ": r"$\mu$",
    "\0": "{}",
}

LONG = 32
"""Rows from which a table goes over pages."""
LINE = 184
"""Characters of \\scriptsize in a line of a landscape A4 page with margins of 15 mm, some room kept."""
GAP = 2
"""Characters between two columns, where \\tabcolsep is 4pt."""
SENTENCE = 30
"""Characters from which a cell may be broken into lines."""


def latex_table(table: Table, label: str) -> str:
    """A table for `booktabs`, one of many rows as a `longtable`.  `label` is a plain identifier.

    In one that is wider than LINE, headings are broken into lines, and so are long cells if that is not enough.
    """
    notes = footnotes(table)
    cells = [[_cell(text, notes) for text in row] for row in table.rows]
    columns, titles = _fit(table.columns, cells)
    caption = [rf"\caption{{{escape(table.caption)}}}", rf"\label{{tab:{label}}}"]
    head = [r"\toprule", " & ".join(titles) + r" \\", r"\midrule"]
    body = []
    for number, row in enumerate(cells):
        if number and number in table.groups:
            body.append(r"\addlinespace")
        body.append(" & ".join(map(escape, row)) + r" \\")
    below = [rf"\par\footnotesize {escape(remark)}" for remark in table.remarks]
    below += [rf"\par\footnotesize ({number}) {escape(note)}" for number, note in enumerate(notes, start=1)]
    if below:
        below.insert(0, r"\par\smallskip")
    needs = "array,booktabs" if "p{" in columns else "booktabs"
    if len(table.rows) > LONG:
        lines = [
            rf"% needs \usepackage{{{needs},longtable}}",
            rf"\begin{{longtable}}{{{columns}}}",
            *(f"{line}%" for line in caption),
            r"\\",
            *head,
            r"\endfirsthead",
            *head,
            r"\endhead",
            *body,
            r"\bottomrule",
            r"\end{longtable}",
            r"\begingroup",
            *below,
            r"\par\endgroup",
        ]
    else:
        lines = [rf"% needs \usepackage{{{needs}}}", r"\begin{table}[ht]", r"\centering", *caption]
        lines += [
            rf"\begin{{tabular}}{{{columns}}}",
            *head,
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *below,
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def _fit(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """The columns of a `tabular` and their headings, no wider than LINE if that can be had."""
    aligned = ["r" if column.numeric else "l" for column in columns]
    widths = [max((len(row[i]) for row in cells), default=0) for i in range(len(columns))]
    room = LINE - GAP * len(columns)
    if sum(max(width, len(column.title)) for width, column in zip(widths, columns, strict=True)) <= room:
        return "".join(aligned), [escape(column.title) for column in columns]
    headings = [
        textwrap.wrap(column.title, max(width, *map(len, column.title.split())), break_long_words=False)
        for width, column in zip(widths, columns, strict=True)
    ]
    titles = [_stack(lines, side) for lines, side in zip(headings, aligned, strict=True)]
    widths = [max(width, *map(len, lines)) for width, lines in zip(widths, headings, strict=True)]
    if sum(widths) > room:
        wide = [i for i, width in enumerate(widths) if width > SENTENCE]
        words = {i: max(len(word) for row in cells for word in re.split("[ -]", row[i])) for i in wide}
        letters = {i: sum(len(row[i]) for row in cells) for i in wide}
        room -= sum(width for i, width in enumerate(widths) if i not in wide) + sum(words.values())
        for i in wide:  # each its longest word, and of the rest by how much there is to print
            share = (words[i] + max(0, room) * letters[i] / sum(letters.values())) / LINE
            aligned[i] = rf">{{\raggedright\arraybackslash}}p{{{share:.3f}\linewidth}}"
    return "".join(aligned), titles


def _stack(lines: Sequence[str], side: str) -> str:
    """A heading of one line or more; `side` is the column's alignment."""
    text = r"\\".join(map(escape, lines))
    return text if len(lines) == 1 else rf"\shortstack[{side}]{{{text}}}"


def _cell(text: Text, notes: tuple[str, ...]) -> str:
    """A cell as plain text, with the number of its note."""
    parts = [text.plain] if text.plain else []
    if text.note:
        parts.append(f"({notes.index(text.note) + 1})")
    return " ".join(parts)


def escape(text: str) -> str:
    """Plain text as LaTeX text.  Hyphens stay as many as they are: `--` of a command's option would become a dash."""
    apart = re.sub(r"-(?=-)", "-\0", text)
    return "".join(_SPECIAL.get(character, character) for character in apart)
