"""Reader of stored runs.

A run folder holds `manifest.json` and a file a group.  Whatever is wrong with one is a `ResultsError` of one sentence.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from pydantic import AfterValidator, BaseModel, ValidationError, model_validator

from harness.records import former_names
from harness.records.errors import ResultsError, objection, one_line
from harness.records.rows import Measurement, ProfileMetric, Ratio, Row, SettledBlock, Status
from harness.runs import old_form
from harness.runs.group import StoredGroup, newest, read_group
from harness.runs.samples import Samples

MANIFEST = "manifest.json"
SCHEMA_VERSION = 2
"""Version of every file in a run folder.  A reader refuses any but this and `old_form.VERSION`."""

GROUP = ("workload", "direction", "problem", "dtype", "distribution")
"""Columns of the measurements that the cases of one group have in common."""
_NONE = Samples(np.empty(0), np.empty(0))

_Time = Annotated[str, AfterValidator(lambda text: datetime.datetime.fromisoformat(text) and text)]


def _known(version: int) -> int:
    if version not in (old_form.VERSION, SCHEMA_VERSION):
        raise ValueError(f"{version}, this program reads up to {SCHEMA_VERSION}: use the program that wrote it")
    return version


class _Group(BaseModel, extra="allow", strict=True):
    case_ids: list[str]
    passed: list[str]


class _Config(BaseModel, extra="allow", strict=True):
    timer: dict[str, Any] = {}


class _Manifest(BaseModel, extra="allow", strict=True):
    """What readers rely on in a manifest."""

    schema_version: Annotated[int, AfterValidator(_known)]
    run_id: str
    campaign: str
    experiment: str
    git_commit: str
    git_dirty: bool | None
    command: str
    arguments: list[str]
    config: _Config
    device: str
    gpu: dict[str, Any] | None
    libraries: dict[str, Any]
    kernel_builds: dict[str, dict[str, Any]]
    roofs: dict[str, float]
    datasheet: dict[str, Any] | None
    claim_files: dict[str, Any]
    started_utc: _Time
    ended_utc: _Time | None
    status: str
    groups: list[_Group]
    notes: list[str]
    seconds: dict[str, float] = {}

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if self.schema_version == SCHEMA_VERSION and not all("file" in (one.model_extra or {}) for one in self.groups):
            raise ValueError("it has groups that name no file")
        return self


@dataclass(frozen=True, eq=False)
class Run:
    """One run as stored.

    measurements: one row a case (the newest, where a case was timed again), columns of `Measurement`; implementations
        have the names of today (`harness.records.former_names`), case ids are as stored.
    ratios: one row a pair of cases whose newest rows are times of one interleaved group, columns of `Ratio`.
    settled: columns of `SettledBlock`, one row a block of calls back to back; empty where nothing was measured settled.
    profile: columns of `ProfileMetric`, of cases whose newest row is a pass; empty where nothing was profiled.
    Text cells are `str` ("" for empty), numbers float64 (NaN for empty), `n_samples` and `seed` int64.
    """

    path: Path
    manifest: dict[str, Any]
    measurements: pd.DataFrame
    ratios: pd.DataFrame
    profile: pd.DataFrame
    settled: pd.DataFrame
    _samples: Mapping[str, Samples]
    tuning: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """What cases have chosen by timing, by case id: `chosen` of `space`, in `tunings` and `seconds`."""

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])

    def samples(self, case_id: str) -> np.ndarray:
        """Every sample of a case, in the order of the rounds, in microseconds: (n,) float64, empty if not timed."""
        return self.seats(case_id).latency_us

    def rounds(self, case_id: str) -> np.ndarray:
        """The round of each sample of `samples(case_id)`: (n,) int64.  Equal rounds of two cases are paired."""
        return self.seats(case_id).rounds

    def seats(self, case_id: str) -> Samples:
        """The same samples with the place in the round and the predecessor of each, as far as they are known."""
        return self._samples.get(case_id, _NONE)

    @cached_property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The rows of `measurements`, to be read only: a report asks for them once an exhibit."""
        return _rows_of_table(self.measurements)

    @cached_property
    def by_case(self) -> dict[str, dict[str, Any]]:
        """The same by case id."""
        return {row["case_id"]: row for row in self.rows}

    @cached_property
    def ratio_rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The rows of `ratios` by case and baseline, to be read only."""
        return {(str(row["case_id"]), str(row["baseline_case_id"])): row for row in _rows_of_table(self.ratios)}


def load_run(path: str | Path) -> Run:
    """The run stored in a folder; raises `ResultsError` if it is missing, damaged or of another schema."""
    folder = Path(path)
    manifest = load_manifest(folder)
    if manifest["schema_version"] == old_form.VERSION:
        profiled = any("profile.csv" in group.get("bytes", {}) for group in manifest["groups"])
        return _run(folder, manifest, [old_form.read_tables(folder, profiled)])
    groups = [read_group(folder / group["file"], group["case_ids"]) for group in manifest["groups"]]
    return _run(folder, manifest, groups)


def _run(folder: Path, manifest: dict[str, Any], groups: list[StoredGroup]) -> Run:
    """What counts of the groups: of a case the newest, whose samples are none where it failed then."""
    of_case = {case: group for group in groups for case in group.case_ids}
    rows = newest((row for group in groups for row in group.measurements), attrgetter("case_id"))
    measurements = former_names.today(_table(Measurement, rows))
    ratios = newest((row for group in groups for row in group.ratios), attrgetter("case_id", "baseline_case_id"))
    metric = attrgetter("case_id", "kernel_name", "metric")
    profile = newest((row for group in groups for row in group.profile), metric)
    home = {case: number for number, group in enumerate(manifest["groups"]) for case in group["case_ids"]}
    timed = {row.case_id for row in rows if row.n_samples}
    passed = {row.case_id for row in rows if row.status is Status.PASSED}
    paired = [
        row
        for row in ratios
        if {row.case_id, row.baseline_case_id} <= timed and home.get(row.case_id) == home.get(row.baseline_case_id)
    ]
    return Run(
        path=folder,
        manifest=manifest,
        measurements=measurements,
        ratios=_table(Ratio, paired),
        profile=_table(ProfileMetric, [row for row in profile if row.case_id in passed]),
        settled=_table(SettledBlock, [b for group in groups for b in group.settled if of_case[b.case_id] is group]),
        _samples={case: of_case[case].samples[case] for case in timed},
        tuning={case: told for group in groups for case, told in group.tuning.items() if of_case[case] is group},
    )


def _table(record: type[Row], rows: Iterable[Row]) -> pd.DataFrame:
    """Records as a table: texts as `str`, numbers as float64 or int64, after the record's field types."""
    listed, columns = list(rows), dict[str, Any]()
    for name, kind in record.kinds().items():
        cells = [getattr(row, name) for row in listed]
        if kind is int:
            columns[name] = np.array(cells, dtype=np.int64)
        elif kind in (float, float | None, int | None):
            columns[name] = np.array([math.nan if cell is None else cell for cell in cells], dtype=float)
        else:
            columns[name] = pd.Series(["" if cell is None else str(cell) for cell in cells], dtype=object)
    return pd.DataFrame(columns)


def load_campaign(path: str | Path) -> list[Run]:
    """Every run of a campaign folder, newest first; raises `ResultsError` if there is none or one is unusable."""
    folder = Path(path)
    if not folder.is_dir():
        raise ResultsError(f"{folder} is not a folder: give the folder of a campaign, results/<gpu>/<campaign>")
    visible = [child for child in sorted(folder.iterdir()) if not child.name.startswith(".")]  # else it is being made
    stored = (MANIFEST, "group-*", old_form.MEASUREMENTS)
    runs = [load_run(child) for child in visible if any(any(child.glob(name)) for name in stored)]
    if not runs:
        raise ResultsError(f"{folder} holds no run, no folder with a {MANIFEST}: measure one with python -m harness")
    return sorted(runs, key=lambda run: (str(run.manifest["started_utc"]), run.run_id), reverse=True)


def load_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder, checked; raises `ResultsError`."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
        _Manifest.model_validate(manifest)
    except (FileNotFoundError, NotADirectoryError):
        if any(folder.glob(f"[!.]*/{MANIFEST}")):
            raise ResultsError(f"{folder} is a campaign, needs a run: give one of its folders") from None
        raise ResultsError(f"{folder} is not a run folder: there is no {MANIFEST} in it") from None
    except ValidationError as error:
        raise ResultsError(f"{path}: {objection(error)}: restore it or measure again") from None
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} is truncated or damaged ({one_line(error)}): restore it or measure again") from None
    return manifest


def _rows_of_table(table: pd.DataFrame) -> tuple[dict[str, Any], ...]:
    return tuple({str(key): value for key, value in row.items()} for row in table.to_dict("records"))
