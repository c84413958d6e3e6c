"""Sizes of installed libraries: kinds of files, names that a distribution had, and what is not there."""

import importlib.metadata
from pathlib import Path

from harness.runs.library_sizes import LIBRARIES, TARGETS, TILE_LIBRARY, by_kind, library_sizes


def test_files_are_counted_by_kind():
    files = [("a.cuh", 10), ("b.hpp", 5), ("libx.so", 100), ("libx.so.13", 1), ("notes.txt", 7)]
    assert by_kind(files) == {"headers": 15, "libraries": 101, "all": 123}
    assert by_kind([]) == {"headers": 0, "libraries": 0, "all": 0}


class Distribution:
    version = "3.6.0"

    def __init__(self, *files):
        self.files = files


class File:
    def __init__(self, name, size, place=None):
        self.name, self.size, self.place = name, size, place

    def locate(self):
        return self.place or Path("/nowhere")


def test_a_distribution_is_found_under_any_of_its_names(tmp_path):
    (tmp_path / "big.so").write_bytes(b"x" * 50)
    installed = {
        "pytorch-triton": Distribution(
            File("a.h", 3), File("big.so", None, tmp_path / "big.so"), File("lost.so", None)
        ),
        "nvidia-cublas": Distribution(),
    }

    def find(name):
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    sizes = library_sizes(tmp_path, find)
    assert sizes["triton"] == {
        "version": "pytorch-triton 3.6.0",
        "bytes": {"headers": 3, "libraries": 50, "all": 53},
    }
    assert sizes["cutlass"] == {"reason": "not installed: pip install nvidia-cutlass"}
    assert "without a list of its files" in sizes["cublas"]["reason"]
    assert set(sizes) == {"tk", *LIBRARIES}


def test_the_tile_library_is_measured_where_it_is():
    size = library_sizes()["tk"]["bytes"]
    assert size["all"] >= size["headers"] > 100_000
    assert size["libraries"] == 0


def test_a_copy_without_a_target_is_not_the_tile_library(tmp_path):
    """Guard: nodes that had no emulation recorded 0.45 MB of 0.66, and Triton's headers came to 18 times that."""
    for name in TARGETS:
        folder = tmp_path / TILE_LIBRARY / "kittens" / "target" / name
        folder.mkdir(parents=True)
        (folder / "a.cuh").write_bytes(b"x" * 10)
    assert library_sizes(tmp_path)["tk"]["bytes"]["headers"] == 10 * len(TARGETS)
    (folder / "a.cuh").unlink()
    folder.rmdir()
    assert library_sizes(tmp_path)["tk"] == {
        "reason": f"this copy of tk_kernels/include lacks {TARGETS[-1]} of its targets"
    }
