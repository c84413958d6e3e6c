"""Looking into compiled kernels without any tool but, for counts, nvdisasm."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tk_kernels.toolchain import machine_code


@pytest.fixture
def objects(tmp_path: Path) -> tuple[Path, Path]:
    """Two object files: of one function, and of two."""
    files = []
    for name, text in (
        ("one", "int f(int x) { return 3 * x; }"),
        ("two", "int f(int x) { return 3 * x; } int g() { return 7; }"),
    ):
        (tmp_path / f"{name}.cc").write_text(text)
        files.append(tmp_path / f"{name}.o")
        command = ["g++", "-O2", "-ffunction-sections", "-c", str(tmp_path / f"{name}.cc"), "-o", str(files[-1])]
        subprocess.run(command, check=True)
    return files[0], files[1]  # fmt: skip


def test_text_sections_are_the_functions(objects: tuple[Path, Path]) -> None:
    one, two = (machine_code.text_sections(path.read_bytes()) for path in objects)
    assert len(one) == 1
    assert len(two) == 2
    assert one[0] in two


def test_code_hash_does_not_depend_on_order(objects: tuple[Path, Path]) -> None:
    one, two = objects
    assert machine_code.code_hash([one, two]) == machine_code.code_hash([two, one])
    assert machine_code.code_hash([one]) != machine_code.code_hash([two])


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF"):
        machine_code.text_sections(b"#!/bin/sh\n" + bytes(100))


def test_counts_say_why_they_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine_code, "find_nvdisasm", lambda: None)
    counts, reason = machine_code.count_instructions([tmp_path / "x.cubin"])
    assert counts == {"hgmma_count": None, "hmma_count": None}
    assert "pip install nvidia-cuda-nvdisasm" in str(reason)


def test_counts_are_of_the_listing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listing = tmp_path / "listing"
    listing.write_text(
        "HGMMA.64x256x16.F32.BF16 R24\n  HGMMA.64x8x16.F32 R4\nHMMA.16816.F32 R4\n"
        "IMMA.8816 R2\nQGMMA.64x8x32.F32 R4\nHGMMA_like\n"
    )
    tool = tmp_path / "nvdisasm"
    tool.write_text(f"#!/bin/sh\ncat {listing}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(machine_code, "find_nvdisasm", lambda: str(tool))
    counts = machine_code.count_instructions([tmp_path / "x.cubin", tmp_path / "y.cubin"])
    assert counts == ({"hgmma_count": 6, "hmma_count": 2}, None)


def test_demangling_keeps_what_it_cannot_read() -> None:
    assert machine_code.demangle(["_Z5spillPfPKfi", "plain", ""]) == {
        "_Z5spillPfPKfi": "spill(float*, float const*, int)",
        "plain": "plain",
    }
