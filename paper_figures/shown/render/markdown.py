"""A table as GitHub-flavoured Markdown."""

from __future__ import annotations

from paper_figures.shown.table import Table, Text, footnotes


def markdown_table(table: Table) -> str:
    """The caption, a pipe table, and the remarks and notes as a list under it."""
    lines = [f"**{escape(table.caption)}**", ""]
    lines.append("| " + " | ".join(escape(column.title) for column in table.columns) + " |")
    lines.append("|" + "|".join("---:" if column.numeric else "---" for column in table.columns) + "|")
    notes = footnotes(table)
    for row in table.rows:
        lines.append("| " + " | ".join(_cell(text, notes) for text in row) + " |")
    remarks = [escape(remark) for remark in table.remarks]
    remarks += [f"({number}) {escape(note)}" for number, note in enumerate(notes, start=1)]
    if remarks:
        lines += ["", *(f"- {remark}" for remark in remarks)]
    return "\n".join(lines) + "\n"


def _cell(text: Text, notes: tuple[str, ...]) -> str:
    parts = [escape(text.plain)]
    if text.note:
        parts.append(f"({notes.index(text.note) + 1})")
    return " ".join(parts)


def escape(text: str) -> str:
    """Plain text as Markdown text on one line."""
    for character in "\\|*_[]<>`":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
