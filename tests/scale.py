"""Code lines of the checkout by room: no blank lines, comments or docstrings.    python tests/scale.py

Of the files that git tracks: Python is read by its tokens, C++, CUDA, JavaScript, CSS, YAML, TOML, shell and templates
by their comments. JSON counts whole, so that moving lines into data is no cut. results/, notebooks and the lock file
are left out. Prose is the words of Markdown without generated pages and the kernels' READMEs, which are logs.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("tk_kernels", "harness", "baselines", "paper_figures", "configs", "tools", "examples")
SLASHES = {".cu", ".cuh", ".h", ".hpp", ".cc", ".cpp", ".c", ".js", ".css"}
HASHES = {".yaml", ".yml", ".sh", ".toml", ".def", ".cfg"}
WHOLE = {".j2", ".html", ".json"}
GENERATED = ("docs/results.md",)
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def python_lines(text: str) -> int:
    """Lines with a token on them that is neither a comment nor part of a docstring."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _SCOPES) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in _LAYOUT]
    return len({line for one in tokens for line in range(one.start[0], one.end[0] + 1)} - docstrings)


def code_lines(name: str, text: str) -> int:
    """Code lines of one file; 0 for a kind of file that is not counted."""
    path = PurePath(name)
    if path.suffix == ".py":
        return python_lines(text)
    if path.suffix in SLASHES:
        text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group().count("\n"), text, flags=re.DOTALL)
        text = re.sub(r"//.*", "", text)
    elif path.suffix in HASHES or path.name in ("run", "Makefile", "Dockerfile"):
        text = re.sub(r"(?m)^\s*#.*$", "", text)
    elif path.suffix not in WHOLE:
        return 0
    return sum(bool(line.strip()) for line in text.splitlines())


def tracked() -> list[str]:
    """The files of the checkout that are counted, by their names from its root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and not name.startswith("results/") and (ROOT / name).is_file()]


def scale(names: Sequence[str]) -> Counter[str]:
    """{room: code lines}, with `product`, `tests`, `product files` and `words of prose`."""
    found: Counter[str] = Counter()
    for name in names:
        text = (ROOT / name).read_text(errors="replace")
        log = name.startswith("tk_kernels/kernels/") and name.endswith("/README.md")
        if name.endswith(".md"):
            found["words of prose"] += 0 if log or name in GENERATED else len(text.split())
            continue
        lines, room = code_lines(name, text), name.split("/")[0]
        if room in PRODUCT:
            found[room] += lines
            found["product"] += lines
            found["product files"] += lines > 0
        elif room == "tests":
            found["tests"] += lines
    return found


if __name__ == "__main__":
    for what, count in sorted(scale(tracked()).items(), key=lambda one: -one[1]):
        print(f"{what:16}{count:8,}")
    sys.exit(0)
