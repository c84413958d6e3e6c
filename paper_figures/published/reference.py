"""The published numbers: `reference/*.csv`, one row a number, each with its citation."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.records.naming import Contestant, same_problem
from paper_figures.errors import PaperFiguresError
from paper_figures.published.paper import REFERENCE

GPUS = "gpus.csv"


@dataclass(frozen=True)
class Published:
    """One published number, in the words of this project; the fields are the columns of the files."""

    exhibit: str
    """Where it stands: `Table 1`, `Fig 7`."""
    workload: str
    direction: str
    """`fwd`, `bwd`, or empty where it makes no difference."""
    gpu: str
    dtype: str
    problem: str
    """Canonical text; empty where the number belongs to no single problem, then `scope` says to what."""
    scope: str
    implementation: str
    variant: str
    baseline: str
    """What `implementation` is compared with, for a ratio."""
    published_as: str
    """The paper's own name of the row."""
    metric: str
    value: str
    """As printed: `760`, `>1.40`, `1.10-1.40`; empty where no number is published."""
    unit: str
    exactness: str
    citation: str
    note: str

    @property
    def contestant(self) -> Contestant:
        return Contestant(self.implementation, self.variant)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and greatest value the text allows, None where no number is published."""
        return parse_value(self.value)

    @property
    def number(self) -> float | None:
        """The value where it is one number, None for a range, a bound or no number."""
        bounds = self.bounds
        return bounds[0] if bounds is not None and bounds[0] == bounds[1] else None


@dataclass(frozen=True)
class Gpu:
    """The roofs of a GPU as its datasheet prints them."""

    name: str
    matmul_tflops: dict[str, float]
    """Dense matmul rate by dtype, at the boost clock."""
    hbm_gbps: float
    citation: str
    slug: str = ""
    """What the harness calls its folder of results; empty where it has no datasheet of it."""

    def roofline_tflops(self, dtype: str, flop_per_byte: float) -> float:
        """The lower of the matmul roof and the rate at which memory feeds it, for an arithmetic intensity.

        Raises `PaperFiguresError` for a dtype that the datasheet has no rate of.
        """
        if dtype not in self.matmul_tflops:
            raise PaperFiguresError(f"{GPUS} has no matmul roof of the {self.name} for {dtype}: add its column")
        return min(self.matmul_tflops[dtype], self.hbm_gbps * flop_per_byte * 1e-3)


def parse_value(text: str) -> tuple[float, float] | None:
    """`760`, `>1.4`, `<1.0` or `1.1-1.4` as (least, greatest); None for an empty text; raises `ValueError`."""
    text = text.strip()
    if not text:
        return None
    if text.startswith(">"):
        return float(text[1:]), math.inf
    if text.startswith("<"):
        return -math.inf, float(text[1:])
    low, dash, high = text.partition("-")
    if dash and low:
        return float(low), float(high)
    return float(text), float(text)


@cache
def load_reference(folder: Path = REFERENCE) -> tuple[Published, ...]:
    """Every number that the paper published, by file name, then in the file's order."""
    paths = [path for path in sorted(folder.glob("*.csv")) if path.name != GPUS]
    return tuple(Published(**row) for path in paths for row in csv.DictReader(path.read_text().splitlines()))


@cache
def load_gpus(folder: Path = REFERENCE) -> dict[str, Gpu]:
    """GPUs by name, from `gpus.csv`."""
    prefix = "matmul_tflops_"
    return {
        row["gpu"]: Gpu(
            name=row["gpu"],
            matmul_tflops={key.removeprefix(prefix): float(row[key]) for key in row if key.startswith(prefix)},
            hbm_gbps=float(row["hbm_gbps"]),
            citation=row["citation"],
            slug=row["slug"],
        )
        for row in csv.DictReader((folder / GPUS).read_text().splitlines())
    }


def find(
    rows: Iterable[Published],
    exhibit: str,
    workload: str,
    direction: str,
    problem: str,
    contestant: Contestant,
    metric: str = "tflops",
) -> Published | None:
    """The number an exhibit publishes for one case, None where it publishes none."""
    wanted = (exhibit, workload, direction, metric, contestant, "")
    for row in rows:
        found = (row.exhibit, row.workload, row.direction, row.metric, row.contestant, row.baseline)
        if found == wanted and same_problem(row.problem, problem):
            return row
    return None
