"""A table as LaTeX, for `booktabs`."""

from __future__ import annotations

import re

from paper_figures.shown.table import Table, Text, footnotes

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


def latex_table(table: Table, label: str) -> str:
    """A table for `booktabs`, one of many rows as a `longtable`.  `label` is a plain identifier."""
    notes = footnotes(table)
    cells = [[_cell(text, notes) for text in row] for row in table.rows]
    columns = "".join("r" if column.numeric else "l" for column in table.columns)
    titles = [escape(column.title) for column in table.columns]
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
    if len(table.rows) > LONG:
        lines = [
            r"% needs \usepackage{booktabs,longtable}",
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
        lines = [r"% needs \usepackage{booktabs}", r"\begin{table}[ht]", r"\centering", *caption]
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
