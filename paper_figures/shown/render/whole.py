"""The whole report as one Markdown file, from the same values as the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jinja2

from paper_figures.shown.render.html import TEMPLATES, anchor
from paper_figures.shown.render.markdown import escape, markdown_table


def whole_markdown(values: Mapping[str, Any]) -> str:
    """What the page says, in its order; `values` are those of the page, and links are relative to the report."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"t": escape, "anchor": anchor}
    template = environment.from_string((TEMPLATES / "whole.md.j2").read_text(encoding="utf-8"))
    return re.sub(r"\n{3,}", "\n\n", template.render(values, table=markdown_table)).strip() + "\n"
