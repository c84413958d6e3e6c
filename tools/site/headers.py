"""The tile library's reference, made from the comments of its headers.

The headers are formatted by clang-format, so that a declaration's depth is its indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_INTERNAL = re.compile(
    r"(is_\w+|(load|store|load_packed|store_packed)_tile|warp_rows|warpgroup_rows|static_assert|requires|touch|combine_as)$"
)
_HIDDEN = re.compile(r"(detail|cpu)\b|(\w+_kernel|warp_rows|warpgroup_rows|ops|lcf\w*|lcsf)$")
"""Names that kernels do not use, and where no name is for them: a pipeline is described by its first comment."""
_TEMPLATE = re.compile(r"template <((?:[^<>]|<[^<>]*>)*)> (?:requires ?(?:requires ?)?\(.*\) (?=kittens_|struct))?")
_MARKS = re.compile(r"\b(kittens_device|kittens_host_device|inline|static|constexpr|explicit|alignas\(.*\)) ")
_SITE = re.compile(r"(, )?\bsite( \w+)? = kittens_here(, )?")
_TYPE = re.compile(r"(?:struct|enum class|concept|using) (\w+)")
_FUNCTION = re.compile(r"[^(=]*?(~?\w+)\(")


def folder_reference(folder: Path) -> str:
    """The reference of a folder's headers as Markdown, each below its name; a folder without any is a mistake."""
    headers = {path.stem: reference(path) for path in sorted(folder.glob("*.*h"))}
    if not headers:
        raise FileNotFoundError(f"{folder} has no headers")
    return "\n\n".join(f"### {name}\n\n{text}" for name, text in headers.items() if "```cpp" in text)


def reference(header: Path) -> str:
    """A header's reference as Markdown: its first comment, then each group of declarations with its comment."""
    first, _, rest = header.read_text().partition("#pragma once")
    parts = [prose([line[3:] for line in first.splitlines()])]
    for comment, signatures in groups(rest.splitlines()):
        parts.append("```cpp\n" + "\n".join(dict.fromkeys(signatures)) + "\n```")
        parts += [prose(comment)] if comment else []
    return "\n\n".join(parts)


def prose(lines: list[str]) -> str:
    """A comment as paragraphs; one with indented lines or columns keeps its form."""
    text = []
    for paragraph in "\n".join(lines).strip("\n").split("\n\n"):
        if re.search("^  |[^.]  ", paragraph, re.MULTILINE):
            text.append(f"```text\n{paragraph}\n```")
        else:
            parts = re.split(r"(`[^`]*`)", paragraph)
            text.append("".join(re.sub(r"([*_<\[])", r"\\\1", one) if one[:1] != "`" else one for one in parts))
    return "\n\n".join(text)


def groups(lines: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """(comment, signatures) of each group of declarations; a blank line or a comment begins the next."""
    comment: list[str] = []
    signatures: list[str] = []
    spaces: list[str] = []
    owners: list[str | None] = [""]  # the type that each depth belongs to; None: a function's body
    rest = iter(lines)
    for line in rest:
        depth, text = (len(line) - len(line.lstrip())) // 4, line.strip()
        if line.startswith("namespace "):
            spaces.append(line.split()[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif line.startswith("  private:"):
            owners[1:] = [None]
        if text and (len(owners) <= depth or None in owners[: depth + 1] or re.match(r"[#}]|\w+:$|namespace", text)):
            continue
        if not text or text.startswith("//"):
            if signatures:
                yield comment, signatures
                comment, signatures = [], []
            comment = [*comment, text[3:]] if text and not text.startswith("// ---") else []
            continue
        while not (text.count("(") == text.count(")") and re.search(r"[{;]", text)):
            text = f"{text} {next(rest).strip()}"
        name, shown = declaration(text, "::".join([*spaces[1:], *filter(None, owners[: depth + 1])]))
        signatures += [shown] if shown else []
        owners[depth + 1 :] = [name if "struct " in text and text.endswith("{") else None]
    if signatures:
        yield comment, signatures


def declaration(text: str, owner: str) -> tuple[str, str]:
    """A declaration's name and how it is shown: without its body, and not at all where kernels do not use it."""
    template = _TEMPLATE.match(text)
    parameters = template[1] if template else ""
    plain = _SITE.sub("", _MARKS.sub("", text[template.end() if template else 0 :]))
    head = plain if plain.startswith("enum") else re.split(r" ?[{;]|(?<=\)) : ", plain.replace("= {}", "=@"))[0]
    head = head.replace("=@", "= {}").strip(" ;")
    kind, function = _TYPE.match(head), _FUNCTION.match(head)
    found = kind or function
    name = found[1] if found else ""
    inside = _HIDDEN.match(owner) or (owner and head.startswith("using"))
    if found is None or inside or _INTERNAL.match(name) or re.match("template <> ", text) or "const char* op," in text:
        return name, ""
    shown = f"{head[: found.start(1)]}{owner}{'::' if owner else ''}{head[found.start(1) :]}"
    return name, f"template <{parameters}> {shown}" if (kind and parameters) or "int " in parameters else shown
