"""Every case of a report as a plain record: what a reader filters, sorts and takes away."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.records.naming import parse_contestant
from paper_figures.judged.quantities import cell_ratio, fastest, rate, roof_share
from paper_figures.judged.verdicts import Missing
from paper_figures.labels import contestant_label, words
from paper_figures.recorded.headline import headline_latency
from paper_figures.recorded.selection import Cell
from paper_figures.shown.case_rows import BACK_TO_BACK, IN_ROUNDS
from paper_figures.shown.compressed import gzipped
from paper_figures.shown.render.html import case_file
from paper_figures.shown.report.model import Report
from paper_figures.shown.table import Table, Text
from paper_figures.words import say

Record = dict[str, Any]
COLUMNS = {
    "operation": "workload",
    "direction": "fwd or bwd",
    "dtype": "type of the inputs",
    "problem": "shape and options, in the workload's order of keys; inputs and timer where they are unusual",
    "distribution": "what the inputs are drawn from",
    "timer": "how a call was timed; nothing where none was",
    "gpu": "what it was measured on",
    "library": "contestant, for readers",
    "contestant": "contestant, as the harness names it",
    "status": "passed, or why there is no time",
    "tflops": "headline rate",
    "tflops_low": "lower end of its interval",
    "tflops_high": "upper end of its interval",
    "settled": "whether the rate is of calls back to back",
    "latency_us": "time a call, us",
    "times_fastest": "speed relative to the fastest contestant of the problem, paired in its run",
    "fastest": "whether it is that contestant",
    "best": "whether it is that of the run which timed the most libraries on the problem: one row a problem and GPU",
    "roof_pct_datasheet": "rate in % of the datasheet's roof",
    "roof_pct_measured": "rate in the rounds in % of the roof measured in the same run",
    "rel_l2_error": "error against the float64 reference",
    "tolerance": "the greatest error that passes",
    "exhibits": "where the report shows it",
    "run": "id of the run",
    "page": "its page within the report",
    "command": "measures it again",
}
"""Of a record, in order, each with what it is; the names of the values in a row of `cases.json.gz`."""

ALONE = ("exhibits", "command")
"""Columns that the file of all cases has alone: the commands take half of its bytes."""


def records(report: Report) -> list[Record]:
    """A record a case of the report, each case of each run once, in the report's order."""
    found: dict[str, Record] = {}
    for exhibit in report.exhibits:
        for selected in exhibit.selections:
            cells = [cell for cell in selected.cells if cell.row is not None]
            new = [cell for cell in cells if cell.key not in found]
            best = fastest(selected, [cell.contestant for cell in cells]) if new else None
            found |= {cell.key: _record(cell, best) for cell in new}
            for cell in cells:
                own = found[cell.key]
                if exhibit.exhibit.id not in own["exhibits"].split():
                    own["exhibits"] = f"{own['exhibits']} {exhibit.exhibit.id}".strip()
    _mark_best(list(found.values()))
    return list(found.values())


def _mark_best(every: Sequence[Record]) -> None:
    """Marks the fastest of each problem: of several runs that of the one with the most libraries, of those the newest.

    Rates of two runs are not compared, since only contestants of one run were timed side by side.
    """
    runs: dict[tuple[str, ...], list[list[Record]]] = {}
    for together in _together(every):
        if any(one["fastest"] for one in together):
            runs.setdefault(_problem(together[0]), []).append(together)
    for found in runs.values():
        chosen = max(found, key=lambda together: (_libraries(together), together[0]["run"]))
        max((one for one in chosen if one["fastest"]), key=lambda one: float(one["tflops"]))["best"] = True


def _together(every: Sequence[Record]) -> list[list[Record]]:
    """The timed cases by problem and run."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for one in every:
        if one["tflops"] is not None:
            found.setdefault((*_problem(one), one["run"]), []).append(one)
    return list(found.values())


def _problem(one: Record) -> tuple[str, ...]:
    return tuple(one[name] for name in ("operation", "direction", "dtype", "problem", "gpu"))


def _libraries(together: Sequence[Record]) -> int:
    """How many implementations some cases have: variants of one count once."""
    return len({parse_contestant(one["contestant"]).implementation for one in together})


def _record(cell: Cell, best: Cell | Missing | None) -> Record:
    assert cell.row is not None
    assert cell.run is not None
    row = cell.row
    record: Record = dict.fromkeys(COLUMNS)
    record |= {
        "operation": str(row["workload"]),
        "direction": str(row["direction"]),
        "dtype": str(row["dtype"]),
        "problem": ";".join((str(row["problem"]), *_unusual(row))),
        "distribution": str(row["distribution"]),
        "timer": str(row["timer"] or ""),
        "gpu": str((cell.run.manifest.get("gpu") or {}).get("name", "")),
        "library": contestant_label(cell.contestant),
        "contestant": str(cell.contestant),
        "status": words(cell.status),
        "settled": False,
        "fastest": False,
        "best": False,
        "rel_l2_error": _number(row["rel_l2_error"]),
        "tolerance": _number(row["tolerance"]),
        "exhibits": "",
        "run": cell.run.run_id,
        "page": case_file(cell.key),
        "command": str(row["repro_command"]),
    }
    return record | _speed(cell, best) if isinstance(best, Cell) and cell.timed else record


USUAL = {"distribution": "normal", "timer": "cuda_events"}
"""What inputs and timer are unless an experiment says otherwise."""


def _unusual(row: Mapping[str, Any]) -> list[str]:
    """What else a rate depends on and is not the usual, as a problem's keys are: `distribution=zeros`."""
    return [f"{name}={row[name]}" for name, usual in USUAL.items() if row[name] and row[name] != usual]


def _speed(cell: Cell, best: Cell) -> Record:
    """The measured numbers of a timed cell; `best`: the fastest of its problem."""
    assert cell.row is not None
    headline, share = rate(cell), roof_share(cell)
    first = best.contestant == cell.contestant
    ratio = None if first else cell_ratio(cell, best)
    return {
        "tflops": _number(headline.value),
        "tflops_low": _number(headline.low),
        "tflops_high": _number(headline.high),
        "settled": headline.settled,
        "latency_us": _number(headline_latency(cell.row)),
        "times_fastest": 1.0 if first else _number(ratio.value) if ratio is not None else None,
        "fastest": first,
        "roof_pct_datasheet": _number(share.value) if share is not None else None,
        "roof_pct_measured": _number(cell.row["roof_pct_measured"]),
    }


def _number(value: Any) -> float | None:
    """A number to six figures, which is more than any of them has; None for what is no number."""
    return float(f"{float(value):.6g}") if math.isfinite(float(value)) else None


def write_cases(every: Sequence[Record], exhibits: Sequence[str], folder: Path) -> None:
    """Writes the files `cases`, whose text is compressed, and for each exhibit those of its cases under its name."""
    write_files(every, COLUMNS, folder / "cases", packed=True)
    for exhibit in exhibits:
        own = [one for one in every if exhibit in one["exhibits"].split()]
        write_files(own, {name: said for name, said in COLUMNS.items() if name not in ALONE}, folder / exhibit)


def write_table(table: Table, path: Path) -> None:
    """Writes the files of a table that is not of cases: its cells, what is beside one in brackets."""
    titles = list(dict.fromkeys(column.title for column in table.columns))
    if len(titles) < len(table.columns):
        titles = [f"{place}. {column.title}" for place, column in enumerate(table.columns, start=1)]
    rows = [dict(zip(titles, (_plain(cell) for cell in row), strict=True)) for row in table.rows]
    write_files(rows, dict.fromkeys(titles, ""), path)


def _plain(cell: Text) -> str:
    return f"{cell.text} ({cell.detail})" if cell.detail else cell.text


def write_files(rows: Sequence[Record], columns: Mapping[str, str], path: Path, packed: bool = False) -> None:
    """Writes `<path>.csv`, `.json` and `.parquet`; `columns`: which, each with what it is.

    packed: as `.csv.gz` and `.json.gz`, a tenth of the bytes, which pandas and others read as they are.
    """
    own = [{name: row[name] for name in columns} for row in rows]
    frame = pd.DataFrame(own, columns=list(columns))
    document = {"columns": dict(columns), "rows": [list(row.values()) for row in own]}
    for suffix, text in ((".csv", frame.to_csv(index=False)), (".json", _json(document))):
        if packed:
            path.with_suffix(f"{suffix}.gz").write_bytes(gzipped(text.encode()))
        else:
            path.with_suffix(suffix).write_text(text, encoding="utf-8")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    bare = table.replace_schema_metadata(None)  # what pandas adds is longer than most of these tables
    pq.write_table(bare, path.with_suffix(".parquet"), compression="zstd", write_statistics=False)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


SHOWN = (
    *("operation", "direction", "dtype", "problem", "gpu", "library", "tflops", "mark", "times_fastest", "fastest"),
    "best",
    *("roof_pct_datasheet", "roof_pct_measured", "latency_us", "rel_l2_error", "page", "command"),
)
"""What the page of all cases shows of a record, with the mark of its rate."""


def _rate_marks(every: Sequence[Record]) -> dict[str, str]:
    """What stands behind the rate of each timed case, by its page."""
    found: dict[str, str] = {}
    for together in _together(every):
        others = IN_ROUNDS if any(one["settled"] for one in together) else ""
        found |= {one["page"]: BACK_TO_BACK if one["settled"] else others for one in together}
    return found


def mark_legend(every: Sequence[Record]) -> list[str]:
    """What the marks of the page of all cases mean, a sentence each that it has."""
    used = set(_rate_marks(every).values())
    legend = {BACK_TO_BACK: "mark_back_to_back", IN_ROUNDS: "mark_rounds"}
    return [say(sentence) for mark, sentence in legend.items() if mark in used]


def shown_cases(every: Sequence[Record]) -> str:
    """The timed cases as JSON for the page of all cases: names once, then a list a case.

    A command is the places of its words in a list of all words, which takes a quarter of the bytes.
    """
    timed = [one for one in every if one["tflops"] is not None]
    words = dict.fromkeys(word for one in timed for word in one["command"].split(" "))
    places = {word: place for place, word in enumerate(words)}
    marks = _rate_marks(every)
    rows = []
    for one in timed:
        command = [places[word] for word in one["command"].split(" ")]
        shown = one | {"command": command, "mark": marks[one["page"]]}
        rows.append([shown[name] for name in SHOWN])
    return _json({"names": SHOWN, "words": list(words), "rows": rows}).strip().replace("<", "\\u003c")
