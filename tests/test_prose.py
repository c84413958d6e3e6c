"""Sentences of documents, docstrings and messages: one idea each, 30 words at most."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
LOGS = [
    "CHANGELOG.md",
    *(
        str(path.relative_to(ROOT))
        for room in ("tk_kernels", "paper_figures")
        for path in sorted((ROOT / room).rglob("README.md"))
    ),
]
ROOMS = ("tk_kernels", "baselines", "harness", "paper_figures", "tools", "examples", "tests")
MOST_WORDS = 30

_SHAPE = re.compile(r"\((?![^()]*[A-Za-z]{4})[^()]*\)")  # (B, H, N, D)


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


def listed(text: str) -> str:
    """Of a text with lists in its sentences: shapes are no words, and a semicolon ends an item."""
    return re.sub(r";\s", ". ", _SHAPE.sub("", text))


def docstrings(source: str) -> Iterator[str]:
    """Those of a module and all in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield listed(ast.get_docstring(node) or "")


def messages(source: str) -> Iterator[str]:
    """Texts of a module that a program says, values left out; no docstring, no markup, no code, no indented example."""
    said: dict[int, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            said |= {id(part): "" for part in node.values}
            said[id(node)] = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            said.setdefault(id(node), node.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            said[id(node.value)] = ""
    plain = (re.sub(r"^ {2,}.*$", "\n", text, flags=re.MULTILINE) for text in said.values())
    return (listed(text) for text in plain if not re.search(r"[<{]\w*[ >}]|\basm\b", text))


@pytest.mark.parametrize("room", ROOMS)
def test_no_sentence_of_the_code_is_too_long(room: str) -> None:
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        texts = [*docstrings(path.read_text()), *(messages(path.read_text()) if room != "tests" else ())]
        found += [f"{path.relative_to(ROOT)}: {long}" for text in texts for long in too_long(text)]
    assert not found


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_is_too_long(page: str) -> None:
    assert not too_long((ROOT / page).read_text())


@pytest.mark.parametrize("page", LOGS)
def test_no_sentence_of_a_log_is_too_long(page: str) -> None:
    """What was tried and measured; a semicolon ends no sentence there."""
    assert not too_long((ROOT / page).read_text())


CLAIMS = sorted((ROOT / "paper_figures" / "published" / "claims").glob("*.yaml"))
STAYS = {"table4_attention": 1}
"""Claims' files whose text stays as it is: recorded runs have the digests of these files. And how many are too long."""


def texts(value: object) -> Iterator[str]:
    """Every text of a file of claims."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


@pytest.mark.parametrize("page", CLAIMS, ids=lambda page: page.stem)
def test_no_sentence_of_a_claim_is_too_long(page: Path) -> None:
    found = [long for text in texts(yaml.safe_load(page.read_text())) for long in too_long(listed(text))]
    assert len(found) == STAYS.get(page.stem, 0), found


def test_the_test_sees_a_long_sentence() -> None:
    long = "One " + "more word and " * 10 + "end."
    assert too_long(f"# Title\nShort.\n- an item\n- {long}\n\nShort again.") == [f"- {long}"]
    assert too_long(next(docstrings(f'"""{long}"""')))
    assert [bool(too_long(text)) for text in texts({"claims": [{"text": long, "accepted": 1.0}, "short"]})] == [
        True,
        False,
    ]
    assert too_long(" ".join(messages(f'x = f"{{y}} {long}"')))
    assert not too_long(" ".join(messages(f'"""{long}"""')))
    assert not too_long(f"```\n{long}\n```\n| {long} |\n\n<!-- results:begin -->\n{long}\n<!-- results:end -->\n")
