"""A table as LaTeX, for `booktabs`."""

from __future__ import annotations

from paper_figures.table import Table, Text, footnotes

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
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "–": "--",
    "³": r"$^3$",
    "µ": r"$\mu$",
}


LONG = 32
"""Rows from which a table goes over pages."""


def latex_table(table: Table, label: str) -> str:
    """A table for `booktabs`, one of many rows as a `longtable`.  `label` is a plain identifier."""
    widths = "".join("r" if column.numeric else "l" for column in table.columns)
    caption = [rf"\caption{{{escape(table.caption)}}}", rf"\label{{tab:{label}}}"]
    head = [r"\toprule", " & ".join(escape(column.title) for column in table.columns) + r" \\", r"\midrule"]
    notes = footnotes(table)
    body = []
    for number, row in enumerate(table.rows):
        if number and number in table.groups:
            body.append(r"\addlinespace")
        body.append(" & ".join(_cell(text, notes) for text in row) + r" \\")
    below = [rf"\par\footnotesize {escape(remark)}" for remark in table.remarks]
    below += [rf"\par\footnotesize ({number}) {escape(note)}" for number, note in enumerate(notes, start=1)]
    if len(table.rows) > LONG:
        lines = [
            r"% needs \usepackage{booktabs,longtable}",
            rf"\begin{{longtable}}{{{widths}}}",
            *(f"{line}%" for line in caption),
            r"\\",
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
            rf"\begin{{tabular}}{{{widths}}}",
            *head,
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *below,
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def _cell(text: Text, notes: tuple[str, ...]) -> str:
    parts = [escape(part) for part in (text.text, text.detail) if part]
    if text.note:
        parts.append(f"({notes.index(text.note) + 1})")
    return " ".join(parts)


def escape(text: str) -> str:
    """Plain text as LaTeX text."""
    return "".join(_SPECIAL.get(character, character) for character in text)
