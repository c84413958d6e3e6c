"""What mkdocs asks while it builds the site: README as the first page, references, links out of docs/, the report."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

from tools.site.headers import folder_reference

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "report"
INCLUDE = ROOT / "tk_kernels" / "include"

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"(```.*?```|`[^`]*`)", re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Adds the first page."""
    from mkdocs.structure.files import File

    if "index.md" not in files.src_uris:
        files.append(File.generated(config, "index.md", content=first_page((ROOT / "README.md").read_text())))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Operators and headers where a page asks for them; links into the repository, but not into docs/."""
    folder = (ROOT / "docs" / page.file.src_uri).parent
    return relinked(with_headers(with_operators(markdown)), folder, str(config.get("repo_url") or ""))


def on_post_build(config: Any) -> None:
    """Copies the report into the site, where there is one: `reproduce-paper` makes it."""
    if (REPORT / "index.html").is_file():
        shutil.copytree(REPORT, Path(config["site_dir"]) / "report", dirs_exist_ok=True)


def operators() -> dict[str, str]:
    """Every name that the modules of the kernels' folders give to users, with its table: read, not imported."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tk_kernels" / "kernels").glob("*/*.py")):
        body = ast.parse(path.read_text()).body
        tables = {one.name: operands(one) for one in body if isinstance(one, ast.FunctionDef)}
        for node in body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                module = f"tk_kernels.kernels.{path.parent.name}.{path.stem}"
                found |= {f"{module}.{name}": tables.get(name, "") for name in ast.literal_eval(node.value)}
    return found


def operands(function: ast.FunctionDef) -> str:
    """A table of what a function's decorator says of its operands; empty where it says nothing."""
    said = {
        one.arg: one.value for call in function.decorator_list if isinstance(call, ast.Call) for one in call.keywords
    }
    rows = [
        (str(name), one.value) for name, one in said.items() if isinstance(one, ast.Constant) and type(one.value) is str
    ]
    conditions = ast.literal_eval(said["where"]) if "where" in said else ()
    rows += [("where", one if isinstance(one, str) else one[0]) for one in conditions]
    lines = [f"| `{name}` | `{text}` |" for name, text in rows]
    return "\n".join(["", "", "| operand | sizes and dtype |", "|---|---|", *lines]) if rows else ""


def with_operators(markdown: str) -> str:
    """A page's text with a block for each operator where it has one for `tk_kernels.ops`."""
    every = "\n\n".join(f"::: {name}{table}" for name, table in operators().items())
    return re.sub(r"^::: tk_kernels\.ops$", every, markdown, flags=re.MULTILINE)


def with_headers(markdown: str) -> str:
    """A page's text with the reference of each header of a folder where it has one for it, `::: kittens/ops`."""
    return re.sub(
        r"^::: (kittens/\S+)$", lambda found: folder_reference(INCLUDE / found[1]), markdown, flags=re.MULTILINE
    )


def first_page(readme: str, report: Path = REPORT) -> str:
    """README as a page of docs/, with a link to the report where one was made."""
    text = "".join(
        part if number % 2 else _LINK.sub(_from_root, part) for number, part in enumerate(_CODE.split(readme))
    )
    if not (report / "index.html").is_file():
        return text
    link = '<a href="report/index.html">The report</a>: every figure, table and claim, with its samples.\n'
    for page in sorted(report.glob("*/index.html")):  # a second GPU's lies in a folder of the first one's
        place = page.parent.relative_to(report).as_posix()
        link += f'<a href="report/{place}/index.html">The same on the {place.replace("-", " ").upper()}</a>.\n'
    link += "\n"
    before = next((one for one in ("\n<!-- results:begin -->", "\n## ") if one in text), "")
    return text.replace(before, f"\n{link}{before[1:]}", 1) if before else f"{text}\n{link}"


def _from_root(found: re.Match[str]) -> str:
    target = found["target"]
    if "://" in target or target.startswith("#"):
        return found[0]
    inside = target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"
    return f"{found['image']}[{found['text']}]({inside})"


def relinked(markdown: str, folder: Path, repository: str) -> str:
    """A page's text whose links out of docs/ lead to the repository; where it has no address they are plain text."""

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found["target"].partition("#")
        if not target or "://" in target:
            return found[0]
        resolved = (folder / target).resolve()
        if resolved.is_relative_to(ROOT / "docs") or not resolved.is_relative_to(ROOT):
            return found[0]
        if not resolved.exists():
            raise FileNotFoundError(f"{folder.name}: a link to {target}, which does not exist")
        if not repository:
            return found["text"]
        path = resolved.relative_to(ROOT).as_posix()
        kind = "tree" if resolved.is_dir() else "blob"
        return f"[{found['text']}]({repository.rstrip('/')}/{kind}/main/{path}{f'#{anchor}' if anchor else ''})"

    return "".join(part if number % 2 else _LINK.sub(link, part) for number, part in enumerate(_CODE.split(markdown)))
