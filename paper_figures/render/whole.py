"""The whole report as one Markdown file and as one LaTeX document, from the same values as the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paper_figures.render import latex, markdown

_PREAMBLE = (
    r"\documentclass[10pt]{article}",
    r"\usepackage[a4paper,landscape,margin=15mm]{geometry}",
    r"\usepackage[T1]{fontenc}",
    r"\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}",
    r"\usepackage{array,booktabs,caption,graphicx,longtable}",
    r"\captionsetup{labelformat=empty,position=above} % titles have the paper's numbers",
    r"\setlength{\tabcolsep}{4pt}",
    r"\setlength{\emergencystretch}{3em}",
    r"% Tables stay where they are, and as small: a float goes back to the normal size.",
    r"\renewenvironment{table}[1][]",
    r"  {\par\bigskip\noindent\begin{minipage}{\linewidth}\captionsetup{type=table}\let\footnotesize\scriptsize}",
    r"  {\end{minipage}\par}",
)


def whole_markdown(values: Mapping[str, Any]) -> str:
    """Verdicts, then every exhibit with its figure, its table and its claims, then the machine.

    `values` are those of the page; figures are named relative to the report's folder.
    """
    escape = markdown.escape
    parts = [f"# {escape(values['title'])}", escape(values["banner"]), "## Verdicts", _counts(values["counts"])]
    parts += [escape(sentence) for sentence in values.get("summary", ())]
    for exhibit in values["exhibits"]:
        parts += [f"## {escape(exhibit['where'])}: {escape(exhibit['title'])}", escape(exhibit["summary"])]
        if not exhibit["measured"]:
            parts.append(f"Not measured yet in this campaign. On a Hopper GPU: `{exhibit['to_run']}`")
        if exhibit["figure"]:
            parts.append(f"![{escape(exhibit['title'])}](figures/{exhibit['id']}.svg)")
        if exhibit["table"].rows:
            parts.append(markdown.markdown_table(exhibit["table"]).rstrip())
        claims = [f"- **{one['verdict']}**: {escape(_claim(one))}" for one in exhibit["results"]]
        parts += ["\n".join(claims)] if claims else []
    parts += [
        "## The machine and its roofs",
        "\n".join(f"- {escape(name)}: {escape(text)}" for name, text in values["machine"]),
    ]
    parts.append(markdown.markdown_table(values["roofs"]).rstrip())
    return "\n\n".join(parts) + "\n"


def whole_latex(values: Mapping[str, Any]) -> str:
    """The same as a document for `pdflatex`, in the report's folder: it takes the tables and figures beside it."""
    escape = latex.escape
    lines = [
        *_PREAMBLE,
        r"\begin{document}",
        rf"\title{{{escape(values['title'])}}}",
        r"\author{}",
        r"\date{}",
        r"\maketitle",
        escape(values["banner"]),
        r"\section*{Verdicts}",
        escape(_counts(values["counts"])),
    ]
    lines += [rf"\par {escape(sentence)}" for sentence in values.get("summary", ())]
    for exhibit in values["exhibits"]:
        lines += [r"\clearpage", rf"\section*{{{escape(exhibit['where'])}: {escape(exhibit['title'])}}}"]
        lines.append(escape(exhibit["summary"]))
        if not exhibit["measured"]:
            lines.append(
                rf"\par Not measured yet in this campaign. On a Hopper GPU: \texttt{{{escape(exhibit['to_run'])}}}"
            )
        if exhibit["results"]:
            lines.append(r"\begin{itemize}")
            lines += [
                rf"\item \textbf{{{escape(one['verdict'])}}}: {escape(_claim(one))}" for one in exhibit["results"]
            ]
            lines.append(r"\end{itemize}")
        if exhibit["figure"]:
            place = r"width=.9\linewidth,height=.6\textheight,keepaspectratio"
            lines.append(rf"\begin{{center}}\includegraphics[{place}]{{figures/{exhibit['id']}.pdf}}\end{{center}}")
        if exhibit["table"].rows:
            lines.append(rf"{{\scriptsize\input{{tables/{exhibit['id']}.tex}}}}")
    lines += [r"\clearpage", r"\section*{The machine and its roofs}", r"\begin{description}"]
    lines += [rf"\item[{escape(name)}] {escape(text)}" for name, text in values["machine"]]
    lines += [r"\end{description}", rf"{{\scriptsize {latex.latex_table(values['roofs'], 'roofs')}}}"]
    return "\n".join([*lines, r"\end{document}"]) + "\n"


def _counts(counts: Sequence[tuple[str, int]]) -> str:
    """`14 reproduced, 9 partly`."""
    return ", ".join(f"{count} {verdict}" for verdict, count in counts)


def _claim(result: Mapping[str, Any]) -> str:
    """A claim's sentence, its numbers and the reason of its verdict."""
    reason = "; ".join(filter(None, (result["reason"], result["changed"])))
    return f"{result['claim'].where}. {result['claim'].sentence} ({result['numbers']}{reason})"
