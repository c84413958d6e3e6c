"""What differs between a claim's measurement here and the paper's: machine, versions, boundary of the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import yaml

from harness.records.naming import gpu_slug
from harness.runs import Run
from paper_figures.intervals import Measured
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.labels import contestant_label
from paper_figures.published.claims import COMPARISONS, Kind
from paper_figures.published.paper import REFERENCE
from paper_figures.published.reference import load_gpus
from paper_figures.recorded.selection import Cell, Selected

CACHES = {
    "flushed": "with the L2 flushed before each",
    "flushed, clean": "with the L2 flushed before each, and nothing in it to be written back",
    "warm": "with a warm L2",
}

BACK_TO_BACK = ", and where that is said of blocks of calls back to back, with the L2 not flushed"


@cache
def load_protocol(path: Path = REFERENCE / "protocol.yaml") -> dict[str, str]:
    """How the paper measured: `software`, `timing`, `inputs`, `profiler` and `citation`."""
    return {key: " ".join(text.split()) for key, text in yaml.safe_load(path.read_text()).items()}


def differences(result: ClaimResult, selections: Sequence[Selected]) -> tuple[str, ...]:
    """A sentence each on the machine, the versions, the clock and what the claim's file names; none if not measured."""
    cells = cells_behind(result, selections)
    own = (f"{result.claim.differs.rstrip('.')}.",) if result.claim.differs else ()
    if not cells:
        return own
    protocol = load_protocol()
    here = ", ".join(dict.fromkeys(str((cell.run.manifest.get("gpu") or {}).get("name")) for cell in cells if cell.run))
    runs = [cell.run for cell in cells if cell.run is not None]
    same = papers_gpu(runs, [result.claim.gpu])
    sentences = [
        f"GPU: {here}, {f'as in the paper ({result.claim.gpu})' if same else f'in the paper {result.claim.gpu}'}."
    ]
    if COMPARISONS[result.claim.comparison].timed:
        sentences.append(f"Versions: {_versions(cells)}; in the paper {protocol['software']}.")
        blocks = any(isinstance(one.measured, Measured) and one.measured.settled for one in result.points)
        sentences.append(f"Timing: {_clock(cells)}{BACK_TO_BACK if blocks else ''}; in the paper {protocol['timing']}.")
        sentences.append(f"Inputs: {_inputs(cells)}; in the paper {protocol['inputs']}.")
    elif result.claim.kind is Kind.COUNTER:
        sentences.append(
            f"Profiler: Nsight Compute, one call of the longest kernel; in the paper {protocol['profiler']}."
        )
    return (*sentences, *own)


def usual_gpu(named: Iterable[str]) -> str:
    """The GPU that most published numbers are of; empty without any."""
    counts = Counter(name for name in named if name).most_common(1)
    return counts[0][0] if counts else ""


def papers_gpu(runs: Sequence[Run], named: Sequence[str]) -> bool:
    """Whether runs are of the GPU that published numbers are of, by name: the same part, not the same board."""
    known = load_gpus()
    theirs = {known[one].slug if one in known else "" for one in named}
    mine = {gpu_slug(str((run.manifest.get("gpu") or {}).get("name", ""))) for run in runs}
    return len(theirs) == 1 and mine == theirs


def cells_behind(result: ClaimResult, selections: Sequence[Selected]) -> tuple[Cell, ...]:
    """The cells behind the points that have a number, of both sides, each once."""
    found: dict[str, Cell] = {}
    keys = {point.case_key for point in result.points if point.case_key}
    for selected in selections:
        mine = [cell for cell in selected.cells if cell.key in keys and cell.row is not None]
        over = {one for point in result.points if mine and point.case_key in keys for one in point.point.over}
        for cell in (*mine, *(cell for cell in selected.cells if mine and cell.contestant in over and cell.timed)):
            found.setdefault(cell.key, cell)
    return tuple(found.values())


def _versions(cells: Sequence[Cell]) -> str:
    versions = [f"{contestant_label(cell.contestant)}: {(cell.row or {}).get('version', '')}" for cell in cells]
    return ", ".join(dict.fromkeys(versions))


def _clock(cells: Sequence[Cell]) -> str:
    rows = [cell.row for cell in cells if cell.row is not None and cell.timed]
    counts = [int(row["n_samples"]) for row in rows]
    caches = ", ".join(dict.fromkeys(CACHES.get(str(row["cache"]), f"cache {row['cache']}") for row in rows))
    if not counts:
        return "nothing was timed"
    span = str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"median of {span} calls, each between CUDA events, {caches}"


def _inputs(cells: Sequence[Cell]) -> str:
    return ", ".join(dict.fromkeys(str((cell.row or {}).get("distribution")) for cell in cells))
