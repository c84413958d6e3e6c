"""Where builds are kept: the cache, what is wrong with an entry of it, prebuilt kernels."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from baselines.common.built import manifests
from tk_kernels import toolchain
from tk_kernels.toolchain import __main__ as command_line
from tk_kernels.toolchain import store
from tk_kernels.toolchain.building import BuildOptions
from tk_kernels.toolchain.processes import Processes


def build_cpu(kernel: toolchain.Unit) -> toolchain.Build:
    return toolchain.build(kernel, toolchain.CPU, BuildOptions())


def test_threads_build_the_same_kernel_once(kernel_cache: Path, scale: toolchain.Unit) -> None:
    builds: list[toolchain.Build] = []
    threads = [threading.Thread(target=lambda: builds.append(build_cpu(scale))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(built.cached for built in builds) == [False, True, True, True]


def test_leftover_of_a_killed_build_is_removed(warm_cache: Path, scale: toolchain.Unit) -> None:
    name = build_cpu(scale).folder.name
    shutil.rmtree(warm_cache / name)
    leftover = warm_cache / f".{name}.tmp-999999"
    leftover.mkdir()
    (leftover / "half.o").write_bytes(b"half")
    assert not build_cpu(scale).cached
    assert not leftover.exists()


def test_a_build_appears_in_one_step(tmp_path: Path) -> None:
    """Guard: who looks while files are still copied would take half a build for a whole one."""
    scratch, entry = tmp_path / "scratch", tmp_path / "entry"
    for folder in (scratch, entry):
        folder.mkdir()
        (folder / store.MANIFEST).write_text(folder.name)
    made = scratch.stat().st_ino
    store.publish(scratch, entry)
    assert entry.stat().st_ino == made
    assert (entry / store.MANIFEST).read_text() == "scratch"


def test_incomplete_entry_is_built_again(warm_cache: Path, scale: toolchain.Unit) -> None:
    first = build_cpu(scale)
    (first.folder / store.MANIFEST).unlink()
    assert not build_cpu(scale).cached


def test_unwritable_cache_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: toolchain.Unit
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TK_KERNELS_CACHE", str(tmp_path / "file"))
    with pytest.raises(toolchain.ToolchainError, match="cannot be written .*set TK_KERNELS_CACHE"):
        build_cpu(scale)


def test_many_builds_say_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TK_KERNELS_CACHE", str(tmp_path / "file"))
    assert command_line.main(["build", "rotary", "based", "--target", "cpu"]) == 1
    said = capsys.readouterr()
    assert said.err.count("cannot be written") == 1
    assert "0 of 2 builds good" in said.out


def test_a_cache_without_locks_is_one_sentence(
    kernel_cache: Path, monkeypatch: pytest.MonkeyPatch, scale: toolchain.Unit
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store.fcntl, "flock", none)
    with pytest.raises(toolchain.ToolchainError, match="No locks available.*set TK_KERNELS_CACHE"):
        build_cpu(scale)


@pytest.mark.parametrize("name", ["NVCC_APPEND_FLAGS", "CPATH", "CPLUS_INCLUDE_PATH"])
def test_compilers_get_no_flags_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: a build with `NVCC_APPEND_FLAGS=-G`, or with headers of Conda, was kept and loaded by later runs."""
    monkeypatch.setenv(name, "-G")
    assert Processes().run(["sh", "-c", f"echo ${name}"]) == (0, "\n")


def test_full_disk_is_one_sentence(kernel_cache: Path, monkeypatch: pytest.MonkeyPatch, scale: toolchain.Unit) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "publish", full)
    with pytest.raises(toolchain.ToolchainError, match="No space left on device.*free some space"):
        build_cpu(scale)


def test_a_compiler_that_fails_on_a_full_disk_is_said_so(
    tmp_path: Path, kernel_cache: Path, monkeypatch: pytest.MonkeyPatch, scale: toolchain.Unit
) -> None:
    """Guard: on a full disk ld wrote a screen of failed assertions and no word of the disk."""
    failing = tmp_path / "g++"
    failing.write_text('#!/bin/sh\ncase "$*" in *-dump*) echo 12.2.0;; *) echo assertion fail; exit 1;; esac\n')
    failing.chmod(0o755)
    monkeypatch.setenv("CXX", str(failing))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=300_000))
    toolchain.compilers.find_gxx.cache_clear()
    try:
        with pytest.raises(
            toolchain.errors.CompileError, match=r"0.3 MiB left: free some space\); it says:\nassertion fail"
        ):
            build_cpu(scale)
    finally:
        toolchain.compilers.find_gxx.cache_clear()


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.99])
def test_truncated_library_is_one_sentence(warm_cache: Path, scale: toolchain.Unit, part: float) -> None:
    library = build_cpu(scale).library
    image = library.read_bytes()
    library.write_bytes(image[: int(part * len(image))])
    with pytest.raises(toolchain.ToolchainError, match=r"scale.so: cannot be loaded \(.*delete the folder") as failure:
        toolchain.load("scale", "cpu", scale.path.parent)
    assert len(str(failure.value).splitlines()) == 1


def test_library_that_cannot_be_linked_is_one_sentence(warm_cache: Path, scale: toolchain.Unit) -> None:
    library = build_cpu(scale).library
    image = library.read_bytes()
    library.write_bytes(image.replace(b"libtvm_ffi.so", b"libtvm_ffx.so"))
    with pytest.raises(toolchain.ToolchainError, match=r"cannot be loaded \(libtvm_ffx.so.*delete the folder"):
        toolchain.load("scale", "cpu", scale.path.parent)


def test_prebuilt_kernel_needs_no_compiler(
    tmp_path: Path, warm_cache: Path, monkeypatch: pytest.MonkeyPatch, scale: toolchain.Unit
) -> None:
    (copy,) = toolchain.export([scale], toolchain.CPU, tmp_path / "prebuilt", BuildOptions(portable=True))
    shutil.rmtree(warm_cache)
    monkeypatch.setenv("TK_KERNELS_PREBUILT", str(tmp_path / "prebuilt"))
    monkeypatch.setenv("PATH", "/nonexistent")
    toolchain.compilers.find_gxx.cache_clear()
    try:
        built = toolchain.ensure_built("scale", "cpu", scale.path.parent)
        assert toolchain.obstacle("scale", "cpu", scale.path.parent) is None
    finally:
        toolchain.compilers.find_gxx.cache_clear()
    assert built.folder == copy
    assert "-march=x86-64-v3" in built.manifest["flags"]


def test_prebuilt_kernel_of_other_sources_is_refused(
    tmp_path: Path, warm_cache: Path, monkeypatch: pytest.MonkeyPatch, scale: toolchain.Unit
) -> None:
    toolchain.export([scale], toolchain.CPU, tmp_path / "prebuilt", BuildOptions(portable=True))
    (scale.path / "scale.h").write_text((scale.path / "scale.h").read_text() + "// newer\n")
    monkeypatch.setenv("TK_KERNELS_PREBUILT", str(tmp_path / "prebuilt"))
    with pytest.raises(toolchain.errors.PrebuiltError, match="make the prebuilt folder again"):
        toolchain.ensure_built("scale", "cpu", scale.path.parent)
    assert "make the prebuilt folder again" in str(toolchain.obstacle("scale", "cpu", scale.path.parent))


def test_prebuilt_variable_must_name_a_folder(monkeypatch: pytest.MonkeyPatch, scale: toolchain.Unit) -> None:
    monkeypatch.setenv("TK_KERNELS_PREBUILT", "/nonexistent")
    with pytest.raises(toolchain.errors.PrebuiltError, match="which is no folder"):
        toolchain.ensure_built("scale", "cpu", scale.path.parent)


def test_export_replaces_what_was_there(tmp_path: Path, warm_cache: Path, scale: toolchain.Unit) -> None:
    toolchain.export([scale], toolchain.CPU, tmp_path / "prebuilt", BuildOptions(portable=True))
    (scale.path / "scale.h").write_text((scale.path / "scale.h").read_text() + "// newer\n")
    (copy,) = toolchain.export([scale], toolchain.CPU, tmp_path / "prebuilt", BuildOptions(portable=True))
    assert list((tmp_path / "prebuilt").iterdir()) == [copy]


def test_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TK_KERNELS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_root() == tmp_path / "tk_kernels"
    monkeypatch.setenv("TK_KERNELS_CACHE", str(tmp_path / "own"))
    assert store.cache_root() == tmp_path / "own"
    assert os.environ["TK_KERNELS_CACHE"]


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: a container's user without a name was told by a traceback; a cache was wherever the process was."""
    monkeypatch.delenv("TK_KERNELS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", "/home/one")
    assert store.cache_root() == Path("/home/one/.cache/tk_kernels")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(toolchain.ToolchainError, match="no home folder.*set TK_KERNELS_CACHE"):
        store.cache_root()
    assert manifests("cutlass") == []
