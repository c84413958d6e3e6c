"""What GPU a run is of, where that decides which of our kernels ran."""

from __future__ import annotations

from harness.runs import Run
from paper_figures.recorded.selection import Cell, kernel_build

HOPPER = "9.0"


def gpu_name(run: Run) -> str:
    """As the driver reports it."""
    return str((run.manifest.get("gpu") or {}).get("name", "an unknown GPU"))


def is_hopper(run: Run) -> bool:
    """Whether a run is of a Hopper GPU, as one is taken for whose manifest does not say."""
    return str((run.manifest.get("gpu") or {}).get("compute_capability", HOPPER)) == HOPPER


def target_of(cell: Cell) -> str:
    """The target of the build that a case ran; empty for another's kernel, and where the run did not record it."""
    build = kernel_build(cell.run, cell.row) if cell.run is not None and cell.row is not None else None
    return str((build or {}).get("target", ""))
