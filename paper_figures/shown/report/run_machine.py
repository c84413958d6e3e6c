"""What a run's manifest says of its machine, for readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.runs import Run
from paper_figures.numbers import significant
from paper_figures.shown.table import ABSENT, Column, Table, Text


def machine_facts(run: Run) -> list[tuple[str, str]]:
    """Names and values of the machine, its roofs and the software, in the order to be read."""
    manifest, gpu = run.manifest, run.manifest.get("gpu") or {}
    datasheet, roofs = manifest.get("datasheet") or {}, manifest.get("roofs") or {}
    commit = str(manifest.get("git_commit") or "")
    dirty = " with local changes" if manifest.get("git_dirty") else ""
    facts = [
        ("experiment", _text(manifest.get("experiment"))),
        ("GPU", _text(gpu.get("name"))),
        ("driver", _text(gpu.get("driver"))),
        ("power limit", _with_unit(gpu.get("power_limit_w"), "W")),
        ("maximum clocks", _clocks(gpu)),
        ("ECC", _text(gpu.get("ecc"))),
        ("SMs", _text(gpu.get("sm_count"))),
        ("L2", _with_unit(_mebi(gpu.get("l2_bytes")), "MiB")),
        *(
            (f"measured roof, {_roof_name(name)[0]}", _with_unit(roofs[name], _roof_name(name)[1]))
            for name in sorted(roofs)
        ),
        ("datasheet", _datasheet(datasheet)),
        (
            "libraries",
            ", ".join(f"{name} {version}" for name, version in sorted(_mapping(manifest, "libraries").items())),
        ),
        ("commit", f"{commit}{dirty}"),
        ("started, ended", f"{_text(manifest.get('started_utc'))}, {_text(manifest.get('ended_utc'))}"),
        ("status", _text(manifest.get("status"))),
    ]
    return [(name, value) for name, value in facts if value]


def shared_facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """The facts that all the runs have in common."""
    every = [machine_facts(run) for run in runs]
    return [fact for fact in every[0] if all(fact in facts for facts in every)]


def roofs_table(runs: Sequence[Run]) -> Table:
    """The roofs that each run measured, beside the datasheet's."""
    names = sorted({name for run in runs for name in _mapping(run.manifest, "roofs")})
    columns = [Column("Run"), Column("Experiment"), Column("Commit"), Column("Started, UTC")]
    columns += [Column(f"Measured {_roof_name(name)[0]}, {_roof_name(name)[1]}", True) for name in names]
    rows = []
    for run in runs:
        roofs, commit = _mapping(run.manifest, "roofs"), str(run.manifest.get("git_commit") or "unknown")[:12]
        dirty = "with local changes" if run.manifest.get("git_dirty") else ""
        row = [
            Text(run.run_id, run=run.run_id),
            Text(_text(run.manifest.get("experiment"))),
            Text(commit, detail=dirty),
            Text(_text(run.manifest.get("started_utc")).replace("T", " ").removesuffix("Z")),
        ]
        row += [
            Text(_with_unit(roofs.get(name), "") or ABSENT, kind="number" if name in roofs else "status")
            for name in names
        ]
        rows.append(tuple(row))
    return Table("The runs of this report and their roofs", tuple(columns), tuple(rows), ())


def _mapping(manifest: dict[str, Any], key: str) -> dict[str, Any]:
    value = manifest.get(key)
    return value if isinstance(value, dict) else {}


def _roof_name(key: str) -> tuple[str, str]:
    """`copy_gbps` as ("copy", "GB/s"), `matmul_bf16_tflops` as ("matmul bf16", "TFLOPS")."""
    for suffix, unit in (("_gbps", "GB/s"), ("_tflops", "TFLOPS"), ("_us", "us")):
        if key.endswith(suffix):
            return key.removesuffix(suffix).replace("_", " "), unit
    return key.replace("_", " "), ""


def _clocks(gpu: dict[str, Any]) -> str:
    parts = [(gpu.get("sm_clock_max_mhz"), "SM"), (gpu.get("memory_clock_max_mhz"), "memory")]
    return ", ".join(f"{name} {value} MHz" for value, name in parts if value)


def _datasheet(datasheet: dict[str, Any]) -> str:
    """`NVIDIA H200 SXM: bf16 989.4, e4m3 1978.9 TFLOPS at 1830 MHz; memory 4800 GB/s; from its datasheet`."""
    rates = ", ".join(f"{dtype} {rate}" for dtype, rate in _mapping(datasheet, "tflops").items())
    clock = f" at {datasheet['boost_mhz']} MHz" if datasheet.get("boost_mhz") else ""
    parts = (
        f"{rates} TFLOPS{clock}" if rates else "",
        f"memory {datasheet['gbps']} GB/s" if datasheet.get("gbps") else "",
        f"from {datasheet['source']}" if datasheet.get("source") else "",
    )
    return ": ".join(filter(None, (_text(datasheet.get("name")), "; ".join(filter(None, parts)))))


def _mebi(value: Any) -> float | None:
    return value / 2**20 if isinstance(value, int | float) else None


def _with_unit(value: Any, unit: str) -> str:
    return f"{significant(float(value))} {unit}".strip() if isinstance(value, int | float) else ""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else str(value)
