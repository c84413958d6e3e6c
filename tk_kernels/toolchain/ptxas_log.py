"""Reading what `ptxas -v` says: registers, spills, shared memory, and notes of lost performance."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .units import Allowance

# ptxas numbers its notes, such as (C7510).
_NOTE = re.compile(r"ptxas\s+(?:info|warning)\s*:\s*\(C(?P<code>\d+)\)\s*(?P<text>.*)")
_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<machine>\w+)'")
_FUNCTION = re.compile(r"Function properties for '?(?P<name>[\w$.]+)'?")
_SPILL = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_REGISTERS = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<shared>\d+) bytes smem")
_NAMED_IN_NOTE = re.compile(r"function '?(?P<name>[\w$.]+)'?")


@dataclass(frozen=True)
class EntryUsage:
    """What one kernel (a mangled name) uses as code for one machine, such as sm_86.

    Bytes are per thread, `shared_bytes` per block and static alone.
    """

    function: str
    machine: str
    registers: int | None = None
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_bytes: int = 0

    @property
    def spill_bytes(self) -> int:
        """Bytes spilled, stores and loads together."""
        return self.spill_store_bytes + self.spill_load_bytes


@dataclass(frozen=True)
class Finding:
    """Something that makes a kernel slow: its kind (see kernel.toml), the kernel, ptxas's words."""

    kind: str
    function: str
    text: str


@dataclass(frozen=True)
class PtxasReport:
    """All that the log of one compile says."""

    entries: tuple[EntryUsage, ...]
    findings: tuple[Finding, ...]


@dataclass
class _Reading:
    """State while walking the log: figures by function and machine, and what is in focus."""

    figures: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    entries: list[tuple[str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    entry: str = ""
    function: str = ""
    machine: str = ""


def read_ptxas_log(log: str) -> PtxasReport:
    """Parse the standard error of `nvcc -Xptxas=-v`."""
    reading = _Reading()
    for line in log.splitlines():
        _read_line(line, reading)
    entries = tuple(EntryUsage(*entry, **reading.figures.get(entry, {})) for entry in reading.entries)  # type: ignore[arg-type]
    spills = tuple(
        Finding("spill", name, f"{figures['spill_store_bytes']} bytes spill stores, "
                               f"{figures['spill_load_bytes']} bytes spill loads ({machine})")
        for (name, machine), figures in reading.figures.items()
        if figures.get("spill_store_bytes", 0) + figures.get("spill_load_bytes", 0) > 0
    )  # fmt: skip
    return PtxasReport(entries, spills + tuple(reading.findings))


def _read_line(line: str, reading: _Reading) -> None:
    """Take in one line of the log."""
    if match := _NOTE.search(line):
        kind = note_kind(int(match["code"]), match["text"])
        if kind:
            named = _NAMED_IN_NOTE.search(match["text"])
            function = named["name"] if named else reading.entry
            reading.findings.append(Finding(kind, function, f"(C{match['code']}) {match['text'].strip()}"))
    elif match := _ENTRY.search(line):
        reading.entry = reading.function = match["name"]
        reading.machine = match["machine"]
        reading.entries.append((match["name"], match["machine"]))
    elif match := _FUNCTION.search(line):
        reading.function = match["name"]
    elif match := _SPILL.search(line):
        figures = reading.figures.setdefault((reading.function, reading.machine), {})
        figures["stack_bytes"] = int(match["stack"])
        figures["spill_store_bytes"] = int(match["stores"])
        figures["spill_load_bytes"] = int(match["loads"])
    elif match := _REGISTERS.search(line):
        figures = reading.figures.setdefault((reading.entry, reading.machine), {})
        figures["registers"] = int(match["registers"])
        if shared := _SHARED.search(line):
            figures["shared_bytes"] = int(shared["shared"])


def note_kind(code: int, text: str) -> str | None:
    """Which finding a numbered ptxas note is, or None when it is harmless.

    An injected warpgroup.arrive only orders registers; an injected warpgroup.wait ends the overlap.
    """
    if code == 7508 or "setmaxnreg" in text:
        return "setmaxnreg_ignored"
    if "arrive is injected" in text:
        return None
    lost = "Potential Performance Loss" in text and 7500 <= code <= 7529
    return "wgmma_serialized" if lost or "serialized" in text or "wait is injected" in text else None


def unexcused(
    findings: Iterable[Finding], allowances: tuple[Allowance, ...], readable: dict[str, str]
) -> tuple[Finding, ...]:
    """The findings that no allowance covers; `readable` maps mangled to demangled names."""
    return tuple(
        finding
        for finding in findings
        if not any(
            allowance.covers(finding.kind, (finding.function, readable.get(finding.function, "")))
            for allowance in allowances
        )
    )
