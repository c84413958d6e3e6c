"""Reader of runs from before each group had a file of its own: tables to which groups were appended."""

from __future__ import annotations

import csv
import io
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from harness.records.errors import ResultsError, objection, one_line
from harness.records.rows import Measurement, ProfileMetric, Ratio, Row
from harness.runs.group import StoredGroup, newest
from harness.runs.samples import UNKNOWN, Samples

VERSION = 1
"""The schema version in their manifests."""
MEASUREMENTS = "measurements.csv"
_SAMPLES = {"case_id": "", "round": "rounds", "latency_us": "latency_us"} | {
    name.removesuffix("s"): name for name in UNKNOWN
}
"""Columns of the samples, with what they are called in `Samples`; the first files have only the first three."""


def read_tables(folder: Path, profiled: bool) -> StoredGroup:
    """All that counts of a run as if it were one group; raises `ResultsError` for what is missing or was changed.

    profiled: whether the manifest says that there are metrics.
    """
    profile = folder / "profile.csv"
    try:
        metrics = _rows(profile, ProfileMetric) if profiled or profile.exists() else []
        rows: dict[str, Any] = {
            "measurements": newest(_rows(folder / MEASUREMENTS, Measurement), itemgetter("case_id")),
            "ratios": newest(_rows(folder / "ratios.csv", Ratio), itemgetter("case_id", "baseline_case_id")),
            "profile": newest(metrics, itemgetter("case_id", "kernel_name", "metric")),
            "settled": _blocks(folder / "settled.parquet"),
        }
        return StoredGroup(samples=_samples(folder / "samples.parquet"), **rows)
    except FileNotFoundError as error:
        raise ResultsError(f"{error.filename} is missing: restore it or measure again in a new run") from None
    except ValidationError as error:
        raise ResultsError(f"{folder} was changed: {objection(error)}: restore it or measure again") from None
    except (OSError, ValueError) as error:  # pyarrow's errors derive from these two
        said = one_line(error)
        raise ResultsError(f"{folder} is truncated or damaged ({said}): restore it or measure again") from None


def _rows(path: Path, record: type[Row]) -> list[dict[str, str | None]]:
    """The cells of a CSV file whose header must be the columns of `record`, with or without all of the later ones."""
    text = path.read_text()
    if not text.endswith("\n"):
        raise ValueError(f"the last line of {path.name} is incomplete")
    header, *lines = csv.reader(io.StringIO(text))
    known = (record.columns(), tuple(name for name in record.columns() if name not in record.LATER))
    if tuple(header) not in known:
        odd = min((sorted(set(header).symmetric_difference(one)) for one in known), key=len) or ["their order"]
        raise ValueError(f"{path.name} has other columns: {', '.join(odd)} differ")
    texts = {name for name, kind in record.kinds().items() if kind is str}
    return [
        {name: cell if cell or name in texts else None for name, cell in zip(header, cells, strict=True)}
        for cells in lines
    ]


def _blocks(path: Path) -> list[dict[str, Any]]:
    """The settled blocks; none where there is no such file, as of runs in which nothing was settled."""
    if not path.exists():
        return []
    table = pd.read_parquet(path).astype(object)
    rows: list[dict[str, Any]] = table.where(table.notna(), None).to_dict("records")
    return rows


def _samples(path: Path) -> dict[str, Samples]:
    table = pd.read_parquet(io.BytesIO(path.read_bytes()))
    if list(table.columns) not in (list(_SAMPLES)[:3], list(_SAMPLES)):
        raise ValueError(f"{path.name} has columns {list(table.columns)}, needs {list(_SAMPLES)}")
    cases = table.sort_values("round", kind="stable").groupby("case_id", sort=False)
    return {
        str(case): Samples(**{_SAMPLES[name]: rows[name].to_numpy() for name in table.columns[1:]})
        for case, rows in cases
    }
