"""The extended table of the ScaleML 2025 slides: other GPUs, 8-bit GEMM."""

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
from paper_figures.shown.exhibit_parts import Sources
from paper_figures.shown.table import ABSENT, Column, Table, Text

WHERE = "ScaleML 2025 slide table"
RTX_4090 = (
    'needs an RTX 4090; the kernel that it would run is measured under "The Ampere path", which is no evidence for it'
)
ON_HOPPER = "ampere-attention-matches-fa2"
"""The claim of the exhibit that has the kernel for an RTX 4090 on the GPU that is here."""
M2_PRO = "needs an Apple M2 Pro and a Metal target, which is not built"
TK = Contestant("tk")


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    name: str
    workload: str
    gpu: str
    baseline: str
    scope: str = ""
    """What the published rows say in `scope` before the word min or max: `D=64`."""
    exhibit: str = ""
    """Which measures it, where the hardware is one that this project runs on."""
    evaluated: Callable[[Mapping[str, str]], bool] = lambda keys: True
    needs: str = ""
    """What it would need, where it cannot be run."""
    beside: str = ""
    """The claim on the same kernel on the GPU that is here, to which a row that cannot be run links."""


ROWS = (
    Row(
        "e4m3 GEMM", "gemm_fp8", "H100", "cublas_fast", exhibit="fig10_fp8",
        evaluated=lambda keys: keys.get("out") == "e4m3",
    ),
    Row(
        "Long convolution", "fft_conv", "H100", "flash_fft_conv", exhibit="fig9_fft_conv",
        evaluated=lambda keys: "filter" not in keys and "causal" not in keys,
    ),
    Row("Attention forward, D = 64", "attention", "RTX 4090", "flash_attn", "D=64", needs=RTX_4090, beside=ON_HOPPER),
    Row("Attention forward, D = 128", "attention", "RTX 4090", "flash_attn", "D=128", needs=RTX_4090, beside=ON_HOPPER),
    Row("Attention forward, D = 64", "attention", "Apple M2 Pro", "mlx", "D=64", needs=M2_PRO),
    Row("GEMM", "gemm", "Apple M2 Pro", "mlx", needs=M2_PRO),
)  # fmt: skip


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a kernel and GPU: published lines and speedups, measured ones where they can be."""
    return Table(
        caption="ScaleML 2025: Extended table",
        columns=(
            Column("Kernel"),
            Column("GPU of the slides"),
            Column("Baseline"),
            Column("Slides, lines TK", True),
            Column("Slides × baseline", True),
            Column("× baseline", True),
        ),
        rows=tuple(_row(row, sources) for row in ROWS),
        remarks=(
            "Figures 11 and 12 of the paper, attention and Based on an RTX 4090 and attention and GEMM on an Apple M2 "
            "Pro, need that hardware. For the latter there is no target. Their values are not published as text.",
        ),
    )


def _row(row: Row, sources: Sources) -> tuple[Text, ...]:
    lines = published(row, "loc")
    return (
        Text(row.name),
        Text(row.gpu),
        Text(contestant_label(Contestant(row.baseline))),
        Text(ABSENT if lines is None else lines.value, note="" if lines is None else lines.note, kind="paper"),
        Text(_range(row), kind="paper"),
        _measured(row, sources),
    )


def published(row: Row, metric: str) -> Published | None:
    """A number of the slides."""
    return next(
        (
            one
            for one in load_reference()
            if (one.exhibit, one.workload, one.gpu, one.metric) == (WHERE, row.workload, row.gpu, metric)
            and one.scope.startswith(row.scope)
        ),
        None,
    )


def _range(row: Row) -> str:
    ends = [published(row, metric) for metric in ("speedup_min", "speedup_max")]
    return " to ".join(one.value for one in ends if one is not None) or ABSENT


def _measured(row: Row, sources: Sources) -> Text:
    if not row.exhibit:
        return Text("not run", note=row.needs, kind="status", claim=row.beside)
    part = sources.part(row.exhibit)
    found = [
        speedup(one, TK, (Contestant(row.baseline),))
        for one in part.selections
        if row.evaluated(problem_keys(one.problem))
    ]
    known = [one.value for one in found if isinstance(one, Measured)]
    if not known:
        reasons = dict.fromkeys(one.reason for one in found if isinstance(one, Missing))
        return Text("not run", note="; ".join(reasons) or "no run of this campaign has it", kind="status")
    return Text(f"{quantity(min(known), RATIO)} to {quantity(max(known), RATIO)}", kind="number")
