"""The build manifest: what a kernel was built with and what came out, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .compilers import Gxx, Nvcc
from .machine_code import code_hash, count_instructions, demangle
from .ptxas_log import EntryUsage, PtxasReport
from .targets import Target
from .units import Unit

SCHEMA_VERSION = 1


def describe_build(
    kernel: Unit,
    target: Target,
    gxx: Gxx,
    nvcc: Nvcc | None,
    isa: str,
    source_hash: str,
    key: str,
    report: PtxasReport,
    images: list[Path],
) -> dict[str, Any]:
    """The manifest of one build.

    `registers` (a thread), `spills` (bytes a thread) and `shared_memory` (bytes a block, what is
    declared statically; a kernel's tiles are allocated at launch and not in it) are maxima over
    the unit's kernels and over what machines there is code for; `machine_codes` has the same figures
    of each machine, `entries` of each kernel. A figure that does not exist is None, with the reason
    in `reasons`. `binary_hash` covers the machine code alone, without paths and line tables. Whole
    command lines are in the build's log.
    """
    figures = _gpu_figures(report, images, target) if nvcc else _cpu_figures()
    return {
        "schema_version": SCHEMA_VERSION,
        "name": kernel.name,
        "target": target.name,
        "compiler": f"nvcc {nvcc.version}" if nvcc else f"g++ {gxx.version}",
        "host_compiler": f"g++ {gxx.version}",
        "flags": list(target.flags) if nvcc else [*target.flags, f"-march={isa}"],
        "source_hash": source_hash,
        "key": key,
        "lines_of_code": kernel.lines_of_code(),
        "lines_by_stem": kernel.lines_by_stem(),
        "lines_with_comments": kernel.lines_by_stem(comments=True),
        "binary_hash": code_hash(images),
        **figures,
        "allowed": [
            {"finding": a.finding, "function": a.function, "reason": a.reason} for a in kernel.allowances
        ],
    }  # fmt: skip


def _gpu_figures(report: PtxasReport, cubins: list[Path], target: Target) -> dict[str, Any]:
    """Figures of ptxas and of the disassembly, of all machines together and of each."""
    readable = demangle(entry.function for entry in report.entries)
    together, reason = _figures(report.entries, cubins)
    machines = sorted({entry.machine for entry in report.entries})
    return {
        **together,
        "machine_codes": {
            machine: {
                **_figures([entry for entry in report.entries if entry.machine == machine], of_machine)[0],
                "binary_hash": code_hash(of_machine),
            }
            for machine in machines
            for of_machine in [[cubin for cubin in cubins if _machine_of(cubin, target) == machine]]
        },
        "entries": [
            {
                "function": readable[entry.function],
                "machine": entry.machine,
                "registers": entry.registers,
                "spills": entry.spill_bytes,
                "stack": entry.stack_bytes,
                "shared_memory": entry.shared_bytes,
            }
            for entry in report.entries
        ],
        "reasons": {"hgmma_count": reason, "hmma_count": reason} if reason else {},
    }


def _figures(entries: Sequence[EntryUsage], cubins: list[Path]) -> tuple[dict[str, Any], str | None]:
    """Maxima over kernels and counts over cubins; and why there are no counts, if so."""
    counts, reason = count_instructions(cubins)
    figures = {
        "registers": max((entry.registers for entry in entries if entry.registers is not None), default=None),
        "spills": max((entry.spill_bytes for entry in entries), default=0),
        "shared_memory": max((entry.shared_bytes for entry in entries), default=0),
        **counts,
    }
    return figures, reason


def _machine_of(cubin: Path, target: Target) -> str:
    """The machine that nvcc names a kept cubin after (`forward.sm_86.cubin`); the target's own where it names none."""
    named = cubin.name.split(".")[-2]
    return named if named.startswith("sm_") else target.name


def _cpu_figures() -> dict[str, Any]:
    """The same keys for a target that has none of these figures."""
    missing = ("registers", "spills", "shared_memory", "hgmma_count", "hmma_count")
    return {
        **dict.fromkeys(missing),
        "machine_codes": {},
        "entries": [],
        "reasons": dict.fromkeys(missing, "the cpu target has no such figure"),
    }
