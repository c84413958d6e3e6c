"""Reading what `ptxas -v` says: registers, spills, shared memory, and notes of lost performance."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    spill_bytes: int = 0
    """Stores and loads together."""
    shared_bytes: int = 0


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


def read_ptxas_log(log: str) -> PtxasReport:
    """Parse the standard error of `nvcc -Xptxas=-v`."""
    entries: list[EntryUsage] = []
    spills: list[Finding] = []
    notes: list[Finding] = []
    entry = function = machine = ""
    for line in log.splitlines():
        if match := _NOTE.search(line):
            if kind := note_kind(int(match["code"]), match["text"]):
                named = _NAMED_IN_NOTE.search(match["text"])
                text = f"(C{match['code']}) {match['text'].strip()}"
                notes.append(Finding(kind, named["name"] if named else entry, text))
        elif match := _ENTRY.search(line):
            entry = function = match["name"]
            machine = match["machine"]
            entries.append(EntryUsage(entry, machine))
        elif match := _FUNCTION.search(line):
            function = match["name"]
        elif match := _SPILL.search(line):
            stack, stores, loads = map(int, match.groups())
            if entries and function == entry:
                entries[-1] = replace(entries[-1], stack_bytes=stack, spill_bytes=stores + loads)
            if stores + loads:
                text = f"{stores} bytes spill stores, {loads} bytes spill loads ({machine})"
                spills.append(Finding("spill", function, text))
        elif entries and (match := _REGISTERS.search(line)):
            shared = _SHARED.search(line)
            shared_bytes = int(shared["shared"]) if shared else 0
            entries[-1] = replace(entries[-1], registers=int(match["registers"]), shared_bytes=shared_bytes)
    return PtxasReport(tuple(entries), (*spills, *notes))


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
