"""Headers that no folder of sources holds: builds write them into their cache."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tk_kernels import toolchain
from tk_kernels.toolchain import wgmma
from tk_kernels.toolchain.building import BuildOptions

INCLUDED = re.compile(r'#include "([^"]*_generated[^"]*)"')


def folder_of(target: toolchain.Target, cache: Path) -> Path:
    (option,) = wgmma.include_options(target, cache)
    return Path(option.removeprefix("-I"))


def test_what_the_library_includes_is_written() -> None:
    """Guard: the name in the library and that of the generator are one; the folder of sources holds none."""
    folders = BuildOptions().include / "kittens" / "target"
    for target in toolchain.TARGETS.values():
        sources = [path for name in target.folders for path in (folders / name).rglob("*.cuh")]
        included = {name for path in sources for name in INCLUDED.findall(path.read_text())}
        assert (len(sources) > 10, included) == (True, set(wgmma.headers(target)))
    assert not list(BuildOptions().include.rglob("*_generated*"))


def test_many_compilers_at_once_find_one_whole_header(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        (folder,) = set(pool.map(lambda _: folder_of(toolchain.SM_90A, tmp_path), range(32)))
    assert (folder / wgmma.NAME).read_text() == wgmma.generate()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / wgmma.NAME], "nothing is left beside"
    before = (folder / wgmma.NAME).stat()
    assert folder_of(toolchain.SM_90A, tmp_path) == folder
    assert (folder / wgmma.NAME).stat().st_mtime_ns == before.st_mtime_ns, "a second build writes nothing"


@pytest.mark.parametrize("target", toolchain.TARGETS)
def test_another_header_is_another_build(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: a kernel that was built with other wrappers is not taken for this one."""
    kernel, wanted = toolchain.find_unit("gemm"), toolchain.find_target(target)
    before = toolchain.source_hash(kernel, wanted), wgmma.include_options(wanted, tmp_path)
    text = wgmma.generate()
    monkeypatch.setattr(wgmma, "generate", lambda: f"{text}// changed\n")
    after = toolchain.source_hash(kernel, wanted), wgmma.include_options(wanted, tmp_path)
    same = target != toolchain.SM_90A.name
    assert (before[0] == after[0], before[1] == after[1]) == (same, same)
