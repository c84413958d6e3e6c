"""Table 5: sizes of the libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.records.naming import Contestant
from paper_figures.judged.comparisons import MEGABYTE
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.labels import contestant_label, short_run
from paper_figures.numbers import fixed
from paper_figures.published.reference import load_reference
from paper_figures.recorded.library_sizes import recorded_sizes
from paper_figures.shown.exhibit_parts import Sources
from paper_figures.shown.table import ABSENT, Column, Table, Text

KINDS = {"headers": "Headers MB", "libraries": "Shared libraries MB", "all": "Everything installed MB"}


def make_table(sources: Sources, results: Sequence[ClaimResult]) -> Table:
    """One row a library: the published size, and what the newest run that had the library found installed."""
    recorded = recorded_sizes(sources.runs)
    published = {row.implementation: row for row in load_reference() if row.workload == "library"}
    names = tuple(dict.fromkeys((*published, *recorded)))
    remarks = [
        "The paper counts the folder include/ of each library in October 2024, Triton's with that of core MLIR, and "
        "says of cuBLAS in CUDA 12.6 that it has more than 600 MB. Here: what the packages of the Python environment "
        "of the run hold, in 10^6 bytes; the tile library with both of its targets.",
    ]
    if not recorded:
        remarks.append("No run of this campaign has recorded sizes: any experiment on a GPU does.")
    else:
        remarks.append("Sizes are those of the newest run that had the library, which its row names.")
    return Table(
        caption="Table 5: Library sizes",
        columns=(
            Column("Library"),
            Column("Paper MB", True),
            *(Column(title, True) for title in KINDS.values()),
            Column("Installed"),
            Column("Run"),
        ),
        rows=tuple(
            (
                Text(contestant_label(Contestant(name), {"tk": "TK, the tile library (ours)"})),
                Text(published[name].value if name in published else ABSENT, kind="paper"),
                *_sizes(recorded[name].entry if name in recorded else {}),
                Text(short_run(recorded[name].run_id), run=recorded[name].run_id) if name in recorded else Text(ABSENT),
            )
            for name in names
        ),
        remarks=tuple(remarks),
    )


def _sizes(entry: Mapping[str, Any]) -> tuple[Text, ...]:
    """A cell a kind of file, and what is installed or why it is not known."""
    sizes = entry.get("bytes")
    if not isinstance(sizes, Mapping):
        reason = str(entry.get("reason") or "not recorded")
        return (*(Text(ABSENT, kind="number") for _ in KINDS), Text(reason, kind="status"))
    cells = (
        Text(fixed(float(sizes[kind]) / MEGABYTE, 2) if sizes.get(kind) else ABSENT, kind="number") for kind in KINDS
    )
    return (*cells, Text(str(entry.get("version", ""))))
