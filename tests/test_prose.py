"""The documents' sentences: one idea each, 30 words at most."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
MOST_WORDS = 30


def sentences(text: str) -> Iterator[str]:
    """Of the prose: no code, no tables, nothing that a program writes; an item of a list is a paragraph."""
    text = re.sub(r"^<!-- (\w+):begin -->.*?^<!-- \1:end -->", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^```.*?^```", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|^#.*$", text, flags=re.MULTILINE):
        if not block.lstrip().startswith("|"):
            plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", " ".join(block.split())))
            yield from re.split(r"(?<=[.?!])\s+", plain)


def too_long(text: str) -> list[str]:
    return [one for one in sentences(text) if len(re.findall(r"[A-Za-z][\w'-]*", one)) > MOST_WORDS]


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_is_too_long(page: str) -> None:
    assert not too_long((ROOT / page).read_text())


def test_the_test_sees_a_long_sentence() -> None:
    long = "One " + "more word and " * 10 + "end."
    assert too_long(f"# Title\nShort.\n- an item\n- {long}\n\nShort again.") == [f"- {long}"]
    assert not too_long(f"```\n{long}\n```\n| {long} |\n\n<!-- results:begin -->\n{long}\n<!-- results:end -->\n")
