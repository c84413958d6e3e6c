"""Reading ptxas's words: logs of the CUDA 13.0 compiler, as it printed them."""

from __future__ import annotations

import pytest

from tk_kernels.toolchain.ptxas_log import Finding, note_kind, read_ptxas_log, unexcused
from tk_kernels.toolchain.units import Allowance

CLEAN = """\
ptxas info    : 0 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function '_ZN7kittens12kernel_entryIN2tk4gemmEEEvv' for 'sm_90a'
ptxas info    : Function properties for _ZN7kittens12kernel_entryIN2tk4gemmEEEvv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 812.512 ms
"""
SPILL = """\
ptxas info    : Compiling entry function '_Z5spillPfPKfi' for 'sm_90a'
ptxas info    : Function properties for _Z5spillPfPKfi
    928 bytes stack frame, 1092 bytes spill stores, 1088 bytes spill loads
ptxas info    : Used 64 registers, used 0 barriers, 928 bytes cumulative stack size
"""
CALLED = """\
ptxas info    : Compiling entry function '_Z5outerPf' for 'sm_90a'
ptxas info    : Function properties for _Z5outerPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
ptxas info    : Function properties for _Z5innerPf
    16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
"""
SERIALIZED = (
    "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient register resources for the wgmma pipeline in the function '_Z3badPfyi'\n"
)
WAIT = (
    "ptxas info    : (C7517) warpgroup.wait is injected in around line 56 by compiler to allow use of registers "
    "defined by GMMA in function '_Z3badPfyi'\n"
)
ARRIVE = (
    "ptxas info    : (C7519) warpgroup.arrive is injected in around line 54 by compiler to allow use of registers "
    "in GMMA in function '_Z3badPfyi'\n"
)
SETMAXNREG = (
    "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count "
    "at entry.\n"
)


def test_figures_of_a_good_kernel() -> None:
    report = read_ptxas_log(CLEAN)
    (entry,) = report.entries
    assert entry.function == "_ZN7kittens12kernel_entryIN2tk4gemmEEEvv"
    assert (entry.registers, entry.shared_bytes, entry.spill_bytes, entry.stack_bytes) == (168, 1024, 0, 0)
    assert report.findings == ()


def test_spill_is_counted_and_found() -> None:
    report = read_ptxas_log(CLEAN + SPILL)
    assert [entry.registers for entry in report.entries] == [168, 64]
    assert report.entries[1].spill_bytes == 2180
    assert report.findings == (
        Finding("spill", "_Z5spillPfPKfi", "1092 bytes spill stores, 1088 bytes spill loads (sm_90a)"),
    )  # fmt: skip


def test_code_for_several_machines_is_told_apart() -> None:
    report = read_ptxas_log(SPILL.replace("sm_90a", "sm_80") + SPILL.replace("64 reg", "72 reg").replace("90a", "86"))
    assert [(entry.machine, entry.registers) for entry in report.entries] == [("sm_80", 64), ("sm_86", 72)]
    assert [finding.text[-8:] for finding in report.findings] == [" (sm_80)", " (sm_86)"]


def test_spill_of_a_called_function_is_found_too() -> None:
    report = read_ptxas_log(CALLED)
    assert [entry.function for entry in report.entries] == ["_Z5outerPf"]
    assert [(finding.kind, finding.function) for finding in report.findings] == [("spill", "_Z5innerPf")]


@pytest.mark.parametrize(
    ("log", "kind", "function"),
    [
        (SERIALIZED, "wgmma_serialized", "_Z3badPfyi"),
        (WAIT, "wgmma_serialized", "_Z3badPfyi"),
        (SETMAXNREG, "setmaxnreg_ignored", ""),
    ],
)
def test_notes_of_lost_performance(log: str, kind: str, function: str) -> None:
    (finding,) = read_ptxas_log(log + CLEAN).findings
    assert (finding.kind, finding.function) == (kind, function)
    assert finding.text.startswith("(C75")


def test_harmless_notes_are_no_findings() -> None:
    assert read_ptxas_log(ARRIVE + CLEAN).findings == ()


@pytest.mark.parametrize("code", [7509, 7510, 7515, 7520])
def test_serialization_is_known_by_its_words_whatever_its_number(code: int) -> None:
    assert note_kind(code, "Potential Performance Loss: wgmma.mma_async instructions are serialized due to x") == (
        "wgmma_serialized"
    )
    assert note_kind(code, "a note about something else") is None


def test_allowance_covers_its_finding_and_kernels_alone() -> None:
    findings = read_ptxas_log(SPILL + SERIALIZED).findings
    readable = {"_Z5spillPfPKfi": "spill(float*, float const*, int)"}
    assert unexcused(findings, (), readable) == findings
    spill_only = Allowance("spill", r"^spill\(", "outside the main loop")
    assert [f.kind for f in unexcused(findings, (spill_only,), readable)] == ["wgmma_serialized"]
    elsewhere = Allowance("spill", "other_kernel", "outside the main loop")
    assert unexcused(findings, (elsewhere,), readable) == findings


def test_empty_log_is_an_empty_report() -> None:
    report = read_ptxas_log("")
    assert (report.entries, report.findings) == ((), ())
