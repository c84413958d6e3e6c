"""Table 6: lines of code and speedups, all kernels together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.records.naming import Contestant, problem_keys
from paper_figures.intervals import Measured
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.quantities import speedup
from paper_figures.judged.verdicts import Missing
from paper_figures.labels import contestant_label
from paper_figures.numbers import RATIO, quantity
from paper_figures.published.reference import Published, load_reference
from paper_figures.recorded.selection import Selected, kernel_build
from paper_figures.shown.exhibit_parts import Part, Sources
from paper_figures.shown.table import ABSENT, Column, Table, Text

TK = Contestant("tk")
TODAY_GEMM = ("cublas", "cublas_tuned", "torch_compile", "triton", "quack")
"""Who may be the fastest on GEMM today."""


@dataclass(frozen=True)
class Kernel:
    """A row of the table."""

    name: str
    exhibit: str
    workload: str
    baseline: str
    """The contestant that stands for the paper's baseline."""
    evaluated: Callable[[Mapping[str, str]], bool]
    """Whether a problem, by its keys, is of the shapes that the paper evaluates."""
    stems: tuple[str, ...] = ()
    """The source files that make the kernel, by their stems; empty for all of its folder."""
    published_baseline: str = ""
    """The baseline's name in the reference files, where it is another."""
    today: tuple[Contestant, ...] = ()
    """Today's baselines, where they are not those that its exhibit's ratios are against."""


def _plain(*absent: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda keys: not any(key in keys for key in absent)


KERNELS = (
    Kernel(
        "Attention, forward", "fig8_attention", "attention", "flash_attn_3",
        lambda keys: keys.get("direction", "fwd") == "fwd", stems=("forward", "heads"),
    ),
    Kernel(
        "GEMM", "fig7_gemm", "gemm", "quack", _plain(), published_baseline="cutlass",
        today=tuple(Contestant(one) for one in TODAY_GEMM),
    ),
    Kernel(
        "Convolution, N = 4096", "fig9_fft_conv", "fft_conv", "flash_fft_conv",
        lambda keys: keys["N"] == "4096" and _plain("filter", "causal")(keys),
    ),
    Kernel("Based", "fig9_based", "based", "fla_parallel", _plain("normalize"), published_baseline="fla"),
    Kernel(
        "Hedgehog", "fig9_hedgehog", "hedgehog", "composed", lambda keys: keys["H"] == "8", published_baseline="fla"
    ),
    Kernel(
        "Mamba-2", "fig9_mamba2", "mamba2", "mamba_ssm", lambda keys: keys["H"] == "32" and "boundary" not in keys
    ),
    Kernel(
        "Rotary", "fig9_rotary", "rotary", "flash_attn_triton",
        lambda keys: keys["D"] == "128" and _plain("layout", "interleaved")(keys),
    ),
    Kernel(
        "Dropout, residual, layer norm", "fig9_layernorm", "dropout_add_layernorm", "flash_attn_triton",
        lambda keys: keys["D"] == "1024" and "p" not in keys,
    ),
)  # fmt: skip
"""In the paper's order."""


def published(workload: str, metric: str, contestant: str) -> Published | None:
    """A number of Table 6: `loc` of a contestant, `speedup_min` or `speedup_max` of ours."""
    rows = [row for row in load_reference() if (row.exhibit, row.workload, row.metric) == ("Table 6", workload, metric)]
    return next((row for row in rows if row.implementation == contestant), None)


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a kernel: lines and ranges of speedups, published and measured."""
    titles = (
        "Kernel", "Baseline", "Paper lines, baseline", "Paper lines, TK", "Lines", "With comments",
        "Paper × baseline", "× baseline", "× best baseline of today",
    )  # fmt: skip
    return Table(
        caption="Table 6: Lines of code and speedups",
        columns=tuple(Column(title, number >= 2) for number, title in enumerate(titles)),
        rows=tuple(_row(kernel, sources.part(kernel.exhibit)) for kernel in KERNELS),
        remarks=(
            "Lines are those of the kernel's .cu and .cuh files that hold code, neither blank nor comment alone, as "
            "the toolchain counted them into the build manifest of the run. Of attention they are those of the "
            "forward pass with what backward shares. The tile library, plain C++ headers and the Python binding are "
            "not counted. The paper counts comments, global descriptors and helper functions, and no binding: the "
            "column with comments counts every line that is not blank.",
            "Ranges are of the ratios of medians over the shapes that the paper evaluates, least to greatest, each "
            "ratio paired within one run. For CUTLASS stands the sm_90 GEMM of quack-kernels.",
        ),
    )


def _row(kernel: Kernel, part: Part) -> tuple[Text, ...]:
    evaluated = [one for one in part.selections if kernel.evaluated(problem_keys(one.problem))]
    theirs = kernel.published_baseline or kernel.baseline
    build, key = _build(evaluated)
    return (
        Text(kernel.name),
        Text(contestant_label(Contestant(kernel.baseline))),
        _published_lines(kernel.workload, theirs),
        _published_lines(kernel.workload, "tk"),
        _lines(build, "lines_by_stem", kernel.stems, key),
        _lines(build, "lines_with_comments", kernel.stems, key),
        _published_range(kernel.workload),
        _range(evaluated, (Contestant(kernel.baseline),)),
        _range(evaluated, kernel.today or part.exhibit.baselines),
    )


def _published_lines(workload: str, contestant: str) -> Text:
    row = published(workload, "loc", contestant)
    return Text(ABSENT if row is None else row.value, kind="paper")


def _published_range(workload: str) -> Text:
    ends = [published(workload, metric, "tk") for metric in ("speedup_min", "speedup_max")]
    values = list(dict.fromkeys(row.value for row in ends if row is not None))
    return Text(" to ".join(values) or ABSENT, kind="paper")


def _build(selections: Sequence[Selected]) -> tuple[Mapping[str, object], str]:
    """The build manifest of the kernel and the case whose run recorded it; empty where none did."""
    for selected in selections:
        cell = selected.cell(TK)
        build = kernel_build(cell.run, cell.row) if cell is not None and cell.run and cell.row else None
        if build is not None and cell is not None:
            return build, cell.key
    return {}, ""


def _lines(build: Mapping[str, object], name: str, stems: Sequence[str], key: str) -> Text:
    """The lines of some source files, or of all; runs from before they were counted by file have the sum of all."""
    entry = build.get(name)
    if isinstance(entry, dict) and all(stem in entry for stem in stems):
        return Text(str(sum(int(entry[stem]) for stem in stems or entry)), case=key, kind="number")
    if name == "lines_by_stem" and not stems and "lines_of_code" in build:
        return Text(str(build["lines_of_code"]), case=key, kind="number")
    return Text(ABSENT, note="the run did not record them" if build else "", case=key, kind="number")


def _range(selections: Sequence[Selected], over: Sequence[Contestant]) -> Text:
    """The least and the greatest speedup over the problems."""
    found = [speedup(selected, TK, over) for selected in selections]
    known = [one for one in found if isinstance(one, Measured)]
    if not known:
        reasons = dict.fromkeys(one.reason for one in found if isinstance(one, Missing) and one.reason)
        return Text("not run", note="; ".join(reasons) or "no run of this campaign has these cases", kind="status")
    low, high = min(one.value for one in known), max(one.value for one in known)
    text = " to ".join(quantity(end, RATIO) for end in ((low,) if len(known) == 1 else (low, high)))
    detail = f"{len(known)} of {len(found)} shapes" if len(known) < len(found) else ""
    return Text(text, detail=detail, kind="number")
