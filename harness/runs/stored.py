"""Reader of stored runs.

A run folder holds `manifest.json`, `measurements.csv`, `ratios.csv`, `samples.parquet` and, where kernels were
profiled, `profile.csv`.  Whatever is wrong with one is a `ResultsError` of one sentence.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd

from harness.records import former_names
from harness.records.places import DATA
from harness.records.rows import SCHEMA_VERSION, Measurement, ProfileMetric, Ratio, SettledBlock, Status, _Row, case_id
from harness.runs import samples as stored_samples

MANIFEST = "manifest.json"
MEASUREMENTS = "measurements.csv"
RATIOS = "ratios.csv"
SAMPLES = "samples.parquet"
SETTLED = "settled.parquet"
PROFILE = "profile.csv"

NAMED = ("case_id", "workload", "direction", "problem", "dtype", "distribution", "implementation", "variant")
"""The column of a case's id, and those that the id is computed from."""
_CASE_ID = re.compile(r"[0-9a-f]{12}")
_PROBLEM = re.compile(r"[^=;]+=[^=;]+(;[^=;]+=[^=;]+)*")

GROUP = ("workload", "direction", "problem", "dtype", "distribution")
"""Columns of measurements.csv that the cases of one group have in common."""
LATENCIES = ("latency_us_p10", "latency_us_p50", "latency_us_p90")
_QUOTED_PLAINLY = re.compile(r"""(?:[^"'\\]|'[^']*'|"[^"\\]*")*+""")
"""A command that every shell parses alike: quotes closed, no backslashes."""


_TEXT, _OBJECT, _LIST, _NONE = (str,), (dict,), (list,), (type(None),)
MANIFEST_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("run_id", "campaign", "experiment", "git_commit", "command", "device", "status"), _TEXT),
    **dict.fromkeys(("config", "libraries", "kernel_builds", "roofs", "claim_files"), _OBJECT),
    **dict.fromkeys(("arguments", "groups", "notes"), _LIST),
    **dict.fromkeys(("gpu", "datasheet"), _OBJECT + _NONE),
    "started_utc": _TEXT,
    "ended_utc": _TEXT + _NONE,
    "git_dirty": (bool, *_NONE),
}
"""The keys of a manifest beside schema_version, and what each holds."""
_JSON_NAMES = {str: "a text", dict: "an object", list: "a list", bool: "true or false", type(None): "null"}


class ResultsError(Exception):
    """A run folder that cannot be used, in one sentence: what is wrong, where, and what to do."""


@dataclass(frozen=True)
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
    _samples: pd.DataFrame

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])

    def samples(self, case_id: str) -> np.ndarray:
        """Every sample of a case, in the order of the rounds, in microseconds: (n,) float64, empty if not timed."""
        return self._rows_of(case_id)["latency_us"].to_numpy(dtype=np.float64)

    def rounds(self, case_id: str) -> np.ndarray:
        """The round of each sample of `samples(case_id)`: (n,) int64.  Equal rounds of two cases are paired."""
        return self._rows_of(case_id)["round"].to_numpy(dtype=np.int64)

    def seats(self, case_id: str) -> stored_samples.Samples:
        """The same samples with the place in the round and the predecessor of each, as far as they are known."""
        return stored_samples.of_rows(self._rows_of(case_id))

    def _rows_of(self, case_id: str) -> pd.DataFrame:
        return self._samples_by_case.get(case_id, self._samples[:0])

    @cached_property
    def _samples_by_case(self) -> dict[str, pd.DataFrame]:
        """The samples of each case in the order of the rounds: a report asks for hundreds of cases."""
        ordered = self._samples.sort_values("round", kind="stable")
        return {str(case_id): rows for case_id, rows in ordered.groupby("case_id", sort=False)}

    @cached_property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The rows of `measurements`, to be read only: a report asks for them once an exhibit."""
        return _rows_of_table(self.measurements)

    @cached_property
    def ratio_rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The rows of `ratios` by case and baseline, to be read only."""
        return {(str(row["case_id"]), str(row["baseline_case_id"])): row for row in _rows_of_table(self.ratios)}


def load_run(path: str | Path) -> Run:
    """The run stored in a folder; raises `ResultsError` if it is missing, truncated or of another schema."""
    folder = Path(path)
    manifest = load_manifest(folder)
    measurements = _newest(_read_table(folder / MEASUREMENTS, Measurement), ["case_id"])
    ratios = _read_table(folder / RATIOS, Ratio)
    profile = _read_table(folder / PROFILE, ProfileMetric) if (folder / PROFILE).exists() else _empty(ProfileMetric)
    samples = _read_samples(folder / SAMPLES)
    run = Run(
        path=folder,
        manifest=manifest,
        measurements=measurements,
        ratios=_timed_together(_newest(ratios, ["case_id", "baseline_case_id"]), measurements, manifest["groups"]),
        profile=_of_passes(_newest(profile, ["case_id", "kernel_name", "metric"]), measurements),
        settled=_read_blocks(folder / SETTLED),
        _samples=samples,
    )
    _check_names(run)
    _check_samples(run)
    _check_latencies(run)
    return replace(run, measurements=former_names.today(run.measurements))


def load_campaign(path: str | Path) -> list[Run]:
    """Every run of a campaign folder, newest first; raises `ResultsError` if there is none or one is unusable."""
    folder = Path(path)
    if not folder.is_dir():
        recorded = DATA / folder
        here = f"; what is recorded is in {recorded}" if recorded.is_dir() else ""
        raise ResultsError(f"{folder} is not a folder: give the folder of a campaign, results/<gpu>/<campaign>{here}")
    stored = (MANIFEST, MEASUREMENTS, RATIOS, SAMPLES)
    visible = [child for child in sorted(folder.iterdir()) if not child.name.startswith(".")]  # else it is being made
    runs = [load_run(child) for child in visible if any((child / name).exists() for name in stored)]
    if not runs:
        raise ResultsError(
            f"{folder} holds no run (no sub-folder with a {MANIFEST}): measure one with python -m harness"
        )
    return sorted(runs, key=lambda run: (str(run.manifest["started_utc"]), run.run_id), reverse=True)


def load_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder, its schema version checked; raises `ResultsError`."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        if not folder.exists():
            raise ResultsError(f"{folder} is not a run folder: there is nothing of that name") from None
        if any(folder.glob(f"[!.]*/{MANIFEST}")):
            raise ResultsError(f"{folder} is a campaign, needs a run: give one of its folders") from None
        raise ResultsError(
            f"{folder} is not a run folder: it has no {MANIFEST}; restore it, or take the folder away"
        ) from None
    except NotADirectoryError:
        raise ResultsError(f"{folder} is not a run folder: it is a file, give the folder that holds it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path} cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise ResultsError(
            f"{path} is truncated or damaged (line {error.lineno}): restore it or measure again"
        ) from None
    if not isinstance(manifest, dict):
        raise ResultsError(f"{path} holds a {type(manifest).__name__}, needs an object: restore it or measure again")
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ResultsError(
            f"{path} has schema version {version}, this program reads version {SCHEMA_VERSION}: "
            "use the program that wrote it, or measure again"
        )
    complaint = _complaint(manifest)
    if complaint:
        raise ResultsError(f"{path} {complaint}: restore it or measure again")
    return manifest


def _complaint(manifest: Mapping[str, Any]) -> str:
    """What a manifest lacks or has with a wrong type; empty if it is valid."""
    missing = [key for key in MANIFEST_TYPES if key not in manifest]
    if missing:
        return f"lacks {', '.join(missing)}"
    for key, types in MANIFEST_TYPES.items():
        if not isinstance(manifest[key], types):
            return f"has {key} = {manifest[key]!r:.40}, needs {' or '.join(_JSON_NAMES[kind] for kind in types)}"
    for key in ("started_utc", "ended_utc"):
        try:
            datetime.datetime.fromisoformat(manifest[key] or "2026-01-01")
        except ValueError:
            return f"has {key} = {manifest[key]!r:.40}, needs a time such as 2026-11-26T03:07:17Z"
    for key in ("seconds", "roofs"):
        numbers = manifest.get(key, {})
        if not isinstance(numbers, dict) or not all(isinstance(one, int | float) for one in numbers.values()):
            return f"has {key} that are no numbers"
    if not isinstance(manifest["config"].get("timer", {}), dict):
        return "has config.timer that is no object"
    for key in ("arguments", "notes"):
        if not all(isinstance(item, str) for item in manifest[key]):
            return f"has {key} that are no texts"
    if not all(isinstance(build, dict) for build in manifest["kernel_builds"].values()):
        return "has kernel_builds that are no objects"
    for group in manifest["groups"]:
        lists = [group.get(key) for key in ("case_ids", "passed")] if isinstance(group, dict) else [None]
        if not all(isinstance(cases, list) and all(isinstance(case, str) for case in cases) for cases in lists):
            return "has groups without lists of case_ids and passed"
        if not isinstance(group.get("bytes", {}), dict):
            return "has groups whose bytes are no object"
    return ""


def complete_lines(text: str) -> tuple[str, str]:
    """A CSV text as (its complete lines, what follows the last line break, empty if the file is whole)."""
    end = text.rfind("\n") + 1
    return text[:end], text[end:]


def _read_table(path: Path, record: type[_Row]) -> pd.DataFrame:
    """A CSV file whose header must be the columns of `record`, each row with as many cells and readable numbers.

    A file from before the later columns has none of them; they read as empty.  One that lacks some was changed.
    """
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise ResultsError(f"{path} is missing: restore it or measure again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path} cannot be read: {error}") from None
    whole, torn = complete_lines(text)
    if torn or not whole:
        raise ResultsError(
            f"{path} is truncated (its last line is incomplete): resume the run with resume={path.parent}, "
            "which repairs it, or restore the file"
        )
    reader = csv.reader(io.StringIO(whole))
    header = tuple(next(reader, []))
    known = (record.columns(), tuple(name for name in record.columns() if name not in record.LATER))
    if header not in known:
        differing = [sorted(set(header).symmetric_difference(columns)) for columns in known]
        odd = min(differing, key=len) or ["their order"]
        raise ResultsError(
            f"{path} has other columns than schema {SCHEMA_VERSION} ({', '.join(odd)} differ): "
            "use the program that wrote it, or measure again"
        )
    rows = []
    for line, cells in enumerate(reader, start=2):
        if len(cells) != len(header):
            raise ResultsError(f"{path} line {line} has {len(cells)} cells, needs {len(header)}: restore the file")
        rows.append(cells)
    table = pd.DataFrame(rows, columns=list(header), dtype=object)
    typed = _typed(path, table.reindex(columns=list(record.columns()), fill_value=""), record)
    if record is Measurement:
        _check_cases(path, typed)
    return typed


def _check_cases(path: Path, table: pd.DataFrame) -> None:
    """Every status is one of `Status`, only a pass has samples, only samples have latencies, every command can be read,
    and no group has a case twice; raises `ResultsError`.

    A group that was timed again begins with its first case again; any other case that comes back was written twice.
    """
    known, first, seen, problem = {str(one) for one in Status}, "", set[str](), None
    columns = ["status", "n_samples", *LATENCIES, "repro_command", "case_id", *GROUP]
    for line, row in enumerate(table[columns].to_dict("records"), start=2):
        if row["status"] not in known:
            raise ResultsError(
                f"{path} line {line} has the status {row['status']!r}, needs one of {', '.join(sorted(known))}: "
                "restore the file or measure again"
            )
        samples, latencies = row["n_samples"], [row[name] for name in LATENCIES]
        impossible = (
            f"{samples} samples of a case with status {row['status']}"
            if samples and row["status"] != str(Status.PASSED)
            else f"{samples} samples beside the latencies {latencies}"
            if samples < 0 or any(math.isnan(one) == (samples > 0) for one in latencies)
            else ""
        )
        if impossible:
            raise ResultsError(f"{path} line {line} has {impossible}: restore the file or measure again")
        command = str(row["repro_command"])
        try:
            if not _QUOTED_PLAINLY.fullmatch(command):  # shlex reads a letter at a time
                shlex.split(command)
        except ValueError as error:
            raise ResultsError(
                f"{path} line {line} has a repro_command that no shell reads ({error}): "
                "restore the file or measure again"
            ) from None
        case, own = str(row["case_id"]), tuple(row[name] for name in GROUP)
        if own != problem or case == first:
            problem, first, seen = own, case, set()
        if case in seen:
            raise ResultsError(
                f"{path} line {line} has case {case} for a second time in its group: restore the file or measure again"
            )
        seen.add(case)


def _typed(path: Path, table: pd.DataFrame, record: type[_Row]) -> pd.DataFrame:
    """Columns of text as `str`, of numbers as float64 or int64, after the record's field types."""
    hints, typed = get_type_hints(record), dict[str, Any]()
    for name in record.columns():
        hint, cells = hints[name], table[name].to_list()
        try:
            if hint is int:
                typed[name] = np.array([int(cell) for cell in cells], dtype=np.int64)
            elif hint in (float, float | None, int | None):
                typed[name] = np.array([math.nan if cell in ("", None) else float(cell) for cell in cells], dtype=float)
            else:
                typed[name] = pd.Series([str(cell) for cell in cells], dtype=object)
        except (ValueError, OverflowError) as error:
            raise ResultsError(f"{path}, column {name}: {error}: restore the file or measure again") from None
    return pd.DataFrame(typed)


def _rows_of_table(table: pd.DataFrame) -> tuple[dict[str, Any], ...]:
    return tuple({str(key): value for key, value in row.items()} for row in table.to_dict("records"))


def _read_samples(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise ResultsError(f"{path} is missing: restore it or measure again in a new run")
    try:
        samples = pd.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's errors derive from these two
        raise ResultsError(
            f"{path} is truncated or damaged ({_first_line(error)}): restore it or measure again in a new run"
        ) from None
    if not stored_samples.readable(list(samples.columns)):
        needed = list(stored_samples.COLUMNS)
        raise ResultsError(f"{path} has columns {list(samples.columns)}, needs {needed}: measure again")
    return stored_samples.completed(samples)


def block_table(blocks: Sequence[SettledBlock]) -> pd.DataFrame:
    """Settled blocks as rows, columns of `SettledBlock`."""
    rows = [vars(block) for block in blocks]
    return _typed(Path(), pd.DataFrame(rows, columns=list(SettledBlock.columns()), dtype=object), SettledBlock)


def blocks_of(run: Run, case_ids: Sequence[str]) -> tuple[SettledBlock, ...]:
    """The settled blocks of some cases of a run."""
    rows = run.settled[run.settled["case_id"].isin(list(case_ids))].astype(object)
    cells = rows.where(rows.notna(), None).to_dict("records")
    return tuple(SettledBlock(**{str(name): value for name, value in row.items()}) for row in cells)


def _read_blocks(path: Path) -> pd.DataFrame:
    """The settled blocks of a run; none where there is no such file, as of runs in which nothing was settled."""
    if not path.exists():
        return block_table(())
    try:
        blocks = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise ResultsError(
            f"{path} is truncated or damaged ({_first_line(error)}): restore it or measure again in a new run"
        ) from None
    if tuple(blocks.columns) != SettledBlock.columns():
        needed = list(SettledBlock.columns())
        raise ResultsError(f"{path} has columns {list(blocks.columns)}, needs {needed}: measure again")
    return blocks


def _check_names(run: Run) -> None:
    """Each row's case_id is that of its columns, its problem reads `KEY=value;...`, and no profile is lost."""
    for row in run.measurements[list(NAMED)].itertuples(index=False):
        own = dict(zip(NAMED, row, strict=True))
        stored = own.pop("case_id")
        if not _PROBLEM.fullmatch(own["problem"]):
            raise ResultsError(
                f"{run.path / MEASUREMENTS} has problem {own['problem']!r} of case {stored}, needs KEY=value;...: "
                "restore the file or measure again"
            )
        if _CASE_ID.fullmatch(stored) and case_id(**own) != stored:  # else the name is no digest
            raise ResultsError(
                f"{run.path / MEASUREMENTS} calls {own['implementation']} on {own['problem']} case {stored}, "
                f"its columns make it {case_id(**own)}: the row was changed; restore the file or measure again"
            )
    if any(PROFILE in group.get("bytes", {}) for group in run.manifest["groups"]) and not (run.path / PROFILE).exists():
        raise ResultsError(
            f"{run.path / PROFILE} is missing, {MANIFEST} says there is one: restore it or measure again"
        )


def _check_latencies(run: Run) -> None:
    """Each row's percentiles are those of its samples."""
    found = run._samples.groupby("case_id", sort=False)["latency_us"].quantile([0.1, 0.5, 0.9]).unstack()
    timed = run.measurements[run.measurements["n_samples"] > 0].set_index("case_id")
    for share, name in ((0.1, "latency_us_p10"), (0.5, "latency_us_p50"), (0.9, "latency_us_p90")):
        own = found[share].reindex(timed.index) if len(found) else timed[name]
        odd = ~np.isclose(timed[name], own, rtol=1e-9, atol=0.0)
        if odd.any():
            case = timed.index[odd][0]
            raise ResultsError(
                f"{run.path / MEASUREMENTS} has {name} = {timed[name][case]:g} of case {case}, {SAMPLES} makes it "
                f"{own[case]:g}: one of the two was changed; restore it or measure again"
            )


def _check_samples(run: Run) -> None:
    """Each case has as many samples as its row says, and as many settled blocks."""
    blocks = run.settled["case_id"].value_counts()
    for case, expected in zip(run.measurements["case_id"], run.measurements["settled_blocks"], strict=True):
        if not math.isnan(expected) and int(blocks.get(case, 0)) != int(expected):
            raise ResultsError(
                f"{run.path / SETTLED} holds {int(blocks.get(case, 0))} blocks of case {case}, {MEASUREMENTS} says "
                f"{int(expected)}: restore it or measure again in a new run"
            )
    counts = run._samples["case_id"].value_counts()
    for case, expected in zip(run.measurements["case_id"], run.measurements["n_samples"], strict=True):
        if int(counts.get(case, 0)) != int(expected):
            raise ResultsError(
                f"{run.path / SAMPLES} holds {int(counts.get(case, 0))} samples of case {case}, {MEASUREMENTS} says "
                f"{int(expected)}: resume the run with resume={run.path}, which times the problem again"
            )


def _newest(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The last row of each key: a case that was timed again is appended, never edited."""
    return table.drop_duplicates(subset=keys, keep="last").reset_index(drop=True)


def _timed_together(ratios: pd.DataFrame, measurements: pd.DataFrame, groups: list[dict[str, Any]]) -> pd.DataFrame:
    """The ratios of cases that have times, both from one group: one that failed when it was timed again has none."""
    home = {case: number for number, group in enumerate(groups) for case in group["case_ids"]}
    timed = set(measurements["case_id"][measurements["n_samples"] > 0])
    pairs = zip(ratios["case_id"], ratios["baseline_case_id"], strict=True)
    kept = [{case, baseline} <= timed and home.get(case) == home.get(baseline) for case, baseline in pairs]
    return ratios[np.array(kept, dtype=bool)].reset_index(drop=True)


def _of_passes(profile: pd.DataFrame, measurements: pd.DataFrame) -> pd.DataFrame:
    """The metrics of cases that passed the last time."""
    passed = measurements["case_id"][measurements["status"] == str(Status.PASSED)]
    return profile[profile["case_id"].isin(passed)].reset_index(drop=True)


def _empty(record: type[_Row]) -> pd.DataFrame:
    return _typed(Path(), pd.DataFrame(columns=list(record.columns()), dtype=object), record)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
