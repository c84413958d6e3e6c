"""The whole report as one Markdown file and as one LaTeX document, from the same values as the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paper_figures.shown.render import latex, markdown
from paper_figures.shown.render.html import anchor

_PREAMBLE = (
    r"\documentclass[10pt]{article}",
    r"\usepackage[a4paper,landscape,margin=15mm]{geometry}",
    r"\usepackage[T1]{fontenc}",
    r"\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}",
    r"\usepackage{array,booktabs,caption,graphicx,longtable}",
    r"\IfFileExists{hyperref.sty}{\usepackage[hidelinks,hypertexnames=false]{hyperref}}",
    r"  {\newcommand{\hypertarget}[2]{#2}\newcommand{\hyperlink}[2]{#2}}",
    r"\captionsetup{labelformat=empty,position=above} % titles have the paper's numbers",
    r"\setlength{\tabcolsep}{4pt}",
    r"\setlength{\emergencystretch}{3em}",
    r"% Tables stay where they are, and as small: a float goes back to the normal size.",
    r"\renewenvironment{table}[1][]",
    r"  {\par\bigskip\noindent\begin{minipage}{\linewidth}\captionsetup{type=table}\let\footnotesize\scriptsize}",
    r"  {\end{minipage}\par}",
)

BESIDE = ("counts", "differ")
"""The tables of several campaigns, in order."""

NO_CLAIM = "No claim is judged on it."


def whole_markdown(values: Mapping[str, Any]) -> str:
    """What the page says, in its order: verdicts, every exhibit, the machine, how to read it.

    `values` are those of the page; files are named relative to the report's folder.
    """
    escape = markdown.escape
    parts = [
        f"# {escape(values['title'])}",
        escape(values["lede"]),
        f"{escape(values['banner'])} {escape(values['commits'])}",
    ]
    parts += ["## Verdicts", escape(values["verdict"]), *(escape(sentence) for sentence in values["summary"])]
    if values["subjects"].rows:
        parts.append(markdown.markdown_table(values["subjects"]).rstrip())
    parts.append(markdown.markdown_table(values["kinds"]).rstrip())
    if beside := values["beside"]:
        parts += [f"### {beside['title']}", escape(" ".join(beside["sentences"]))]
        parts += [markdown.markdown_table(beside[name]).rstrip() for name in BESIDE if beside[name].rows]
    parts += [f"- Told otherwise by two runs: {escape(one)}" for one in values["disputed"]]
    parts.append(_markdown_board(values["exhibits"]))
    for exhibit in values["exhibits"]:
        parts += _markdown_exhibit(exhibit)
    parts += [
        "## The machine and its roofs",
        "\n".join(f"- {escape(name)}: {escape(text)}" for name, text in values["machine"]),
        markdown.markdown_table(values["roofs"]).rstrip(),
    ]
    for run in values["runs"]:
        facts = [f"- {escape(name)}: {escape(text)}" for name, text in run["facts"]]
        facts.append(f"- [manifest](runs/{run['id']}/manifest.json)")
        parts += [f"### Run {run['id']}", f"    {run['command']}", "\n".join(facts)]
    parts += ["## How to read it", *(escape(paragraph) for paragraph in values["reading"])]
    return "\n\n".join(parts) + "\n"


def _markdown_board(exhibits: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts by exhibit, each with a link to its section."""
    escape = markdown.escape
    rows = [
        f"| {escape(one['where'])} | [{escape(one['title'])}](#{anchor(one['id'])}) | {escape(one['verdict_text'])} |"
        for one in exhibits
    ]
    return "\n".join(["| In the paper | Exhibit | Claims |", "|---|---|---|", *rows])


def _box_lines(lines: Sequence[str], escape: Callable[[str], str]) -> str:
    return " ".join(escape(line) for line in lines)


def _markdown_exhibit(exhibit: Mapping[str, Any]) -> list[str]:
    escape = markdown.escape
    parts = [
        f'<a id="{anchor(exhibit["id"])}"></a>',
        f"## {escape(exhibit['where'])}: {escape(exhibit['title'])}",
        f"**{escape(exhibit['headline'])}**",
        *(
            f"{escape(box.over)}: **{escape(box.title)}**\n\n{_box_lines(box.lines, escape)}"
            for box in exhibit["boxes"]
        ),
        escape(exhibit["summary"]),
    ]
    if not exhibit["measured"]:
        there = f" On {escape(one['name'])}: {escape(one['said'])}." if (one := exhibit["there"]) else ""
        parts.append(f"Not measured yet in this campaign.{there} On a Hopper GPU: `{exhibit['to_run']}`")
    claims = [
        f'- <a id="{anchor(one["claim"].id)}"></a>**{one["verdict"]}**: {escape(_claim(one))}'
        for one in exhibit["results"]
    ]
    claims += [
        f"- **{one['verdict']}**: [{escape(one['sentence'])}](#{anchor(one['id'])}), "
        f"judged under {escape(one['under'])}"
        for one in exhibit["elsewhere"]
    ]
    parts.append("\n".join(claims) or NO_CLAIM)
    if exhibit["drawn"]:
        parts += [f"![{escape(exhibit['title'])}](figures/{exhibit['id']}.svg)", escape(exhibit["caption"])]
    if exhibit["table"].rows:
        parts.append(markdown.markdown_table(exhibit["table"]).rstrip())
    if exhibit["trace"]:
        parts.append(f"{_box_lines(exhibit['trace']['caption'], escape)} [Chrome trace]({exhibit['trace']['file']})")
    for one in exhibit["results"]:
        parts += [markdown.markdown_table(one["table"]).rstrip(), escape(one["tolerance"])]
    return parts


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
        escape(values["lede"]),
        rf"\par {escape(values['banner'])} {escape(values['commits'])}",
        r"\section*{Verdicts}",
        escape(values["verdict"]),
        *(rf"\par {escape(sentence)}" for sentence in values["summary"]),
        *([latex.latex_table(values["subjects"], "subjects")] if values["subjects"].rows else []),
        latex.latex_table(values["kinds"], "kinds"),
        *_latex_beside(values["beside"]),
        *(rf"\par Told otherwise by two runs: {escape(one)}" for one in values["disputed"]),
        *_latex_board(values["exhibits"]),
    ]
    for exhibit in values["exhibits"]:
        lines += _latex_exhibit(exhibit)
    lines += [r"\clearpage", r"\section*{The machine and its roofs}", *_latex_facts(values["machine"])]
    lines.append(rf"{{\scriptsize {latex.latex_table(values['roofs'], 'roofs')}}}")
    for run in values["runs"]:
        lines += [
            rf"\subsection*{{Run {escape(run['id'])}}}",
            rf"{{\raggedright\small\ttfamily {escape(run['command'])}\par}}",
        ]
        lines += _latex_facts(run["facts"])
    lines += [r"\section*{How to read it}", *(rf"\par {escape(paragraph)}" for paragraph in values["reading"])]
    return "\n".join([*lines, r"\end{document}"]) + "\n"


def _latex_beside(beside: Mapping[str, Any]) -> list[str]:
    if not beside:
        return []
    tables = [latex.latex_table(beside[name], f"beside-{name}") for name in BESIDE if beside[name].rows]
    said = latex.escape(" ".join(beside["sentences"]))
    return [rf"\subsection*{{{beside['title']}}}", said, *(rf"{{\scriptsize {one}}}" for one in tables)]


def _latex_board(exhibits: Sequence[Mapping[str, Any]]) -> list[str]:
    escape = latex.escape
    rows = [
        rf"{escape(one['where'])} & \hyperlink{{{_target(one['id'])}}}{{{escape(one['title'])}}} & "
        rf"{escape(one['verdict_text'])} \\"
        for one in exhibits
    ]
    head = [r"\toprule", r"In the paper & Exhibit & Claims \\", r"\midrule"]
    return [r"{\footnotesize", r"\begin{longtable}{lll}", *head, *rows, r"\bottomrule", r"\end{longtable}", "}"]


def _latex_exhibit(exhibit: Mapping[str, Any]) -> list[str]:
    escape = latex.escape
    lines = [
        r"\clearpage",
        rf"\hypertarget{{{_target(exhibit['id'])}}}{{}}",
        rf"\section*{{{escape(exhibit['where'])}: {escape(exhibit['title'])}}}",
        rf"\textbf{{{escape(exhibit['headline'])}}}\par",
        *(
            rf"{escape(box.over)}: \textbf{{{escape(box.title)}}}. {_box_lines(box.lines, escape)}\par"
            for box in exhibit["boxes"]
        ),
        escape(exhibit["summary"]),
    ]
    if not exhibit["measured"]:
        there = f" On {escape(one['name'])}: {escape(one['said'])}." if (one := exhibit["there"]) else ""
        lines.append(rf"\par Not measured yet in this campaign.{there} On a Hopper GPU:")
        lines.append(rf"\texttt{{{escape(exhibit['to_run'])}}}")
    items = [
        rf"\item \hypertarget{{{_target(one['claim'].id)}}}{{}}\textbf{{{escape(one['verdict'])}}}: "
        rf"{escape(_claim(one))}"
        for one in exhibit["results"]
    ]
    items += [
        rf"\item \textbf{{{escape(one['verdict'])}}}: "
        rf"\hyperlink{{{_target(one['id'])}}}{{{escape(one['sentence'])}}}, judged under {escape(one['under'])}"
        for one in exhibit["elsewhere"]
    ]
    lines += [r"\begin{itemize}", *items, r"\end{itemize}"] if items else [rf"\par {NO_CLAIM}"]
    if exhibit["drawn"]:
        place = r"width=.9\linewidth,height=.6\textheight,keepaspectratio"
        lines.append(rf"\begin{{center}}\includegraphics[{place}]{{figures/{exhibit['id']}.pdf}}\end{{center}}")
        lines.append(rf"\par {escape(exhibit['caption'])}")
    if exhibit["table"].rows:
        lines.append(rf"{{\scriptsize\input{{tables/{exhibit['id']}.tex}}}}")
    for one in exhibit["results"]:
        table = latex.latex_table(one["table"], f"points-{_target(one['claim'].id)}")
        lines += [rf"{{\scriptsize {table}}}", rf"\par{{\footnotesize {escape(one['tolerance'])}}}"]
    return lines


def _latex_facts(facts: Sequence[tuple[str, str]]) -> list[str]:
    escape = latex.escape
    items = [rf"\item[{escape(name)}] {escape(text)}" for name, text in facts]
    return [r"\begin{description}", *items, r"\end{description}"] if items else []


def _target(name: str) -> str:
    """The name of a place in the document."""
    return anchor(name).replace("_", "-")


def _claim(result: Mapping[str, Any]) -> str:
    """A claim's sentence, its numbers and the reason of its verdict, and the verdict on another GPU."""
    said = "; ".join(filter(None, (f"{result['numbers']}{result['notes']}", result["also"])))
    return f"{result['claim'].where}. {result['claim'].sentence} ({said})"
