"""Finding compilers, and what is said when one is missing, too old, or in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tk_kernels.toolchain import compilers
from tk_kernels.toolchain.errors import CompilerMissingError


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    def clear() -> None:
        for finder in (compilers.find_gxx, compilers.find_nvcc, compilers.find_nvdisasm):
            finder.cache_clear()

    clear()
    yield
    clear()


def program(path: Path, says: str) -> Path:
    """An executable that prints `says`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def toolkit(root: Path) -> Path:
    """A folder laid out like the CUDA compiler's wheels."""
    program(root / "bin" / "nvcc", "Cuda compilation tools, release 13.0, V13.0.88")
    (root / "lib").mkdir(exist_ok=True)
    (root / "lib" / "libcudart_static.a").touch()
    return root


def test_real_compilers_are_found() -> None:
    assert int(compilers.find_gxx().version.split(".")[0]) >= 12
    assert (Path(compilers.find_nvcc().library_dir) / "libcudart_static.a").is_file()


def test_missing_gxx_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CompilerMissingError, match="no-such-compiler: no such C.. compiler.*apt-get install g"):
        compilers.find_gxx()


def test_empty_cxx_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "")
    assert Path(compilers.find_gxx().path).name == "g++"


def test_cxx_with_arguments_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "ccache g++")
    with pytest.raises(CompilerMissingError, match=r"CXX is 'ccache g\+\+', needs to be .* one program"):
        compilers.find_gxx()


@pytest.mark.parametrize("version", ["11.4.0", "", "garbage"])
def test_old_or_odd_gxx_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("CXX", str(program(tmp_path / "g++", version)))
    with pytest.raises(CompilerMissingError, match="12 or newer is needed"):
        compilers.find_gxx()


def test_missing_nvcc_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "wheel_roots", lambda: ())
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CompilerMissingError, match="no CUDA compiler.*pip install"):
        compilers.find_nvcc()


def test_wheels_come_before_cuda_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheels, home = toolkit(tmp_path / "wheels"), toolkit(tmp_path / "home")
    monkeypatch.setattr(compilers, "wheel_roots", lambda: (wheels,))
    monkeypatch.setenv("CUDA_HOME", str(home))
    assert compilers.find_nvcc().path == str(wheels / "bin" / "nvcc")
    compilers.find_nvcc.cache_clear()
    monkeypatch.setattr(compilers, "wheel_roots", lambda: ())
    assert compilers.find_nvcc().path == str(home / "bin" / "nvcc")


def test_wheels_of_mixed_releases_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    releases = {"nvidia-cuda-nvcc": "13.0.88", "nvidia-nvvm": "13.2.51", "nvidia-cuda-crt": "13.0.88"}
    monkeypatch.setattr(compilers, "wheel_roots", lambda: (toolkit(tmp_path / "cu13"),))
    monkeypatch.setattr(compilers.importlib.metadata, "version", releases.__getitem__)
    with pytest.raises(CompilerMissingError, match="mixed releases .*nvidia-nvvm 13.2.51"):
        compilers.find_nvcc()


def test_wrong_cuda_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compilers, "wheel_roots", lambda: ())
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(CompilerMissingError, match=f"CUDA_HOME is {tmp_path}, which has no bin/nvcc"):
        compilers.find_nvcc()


def test_old_nvcc_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = toolkit(tmp_path)
    program(home / "bin" / "nvcc", "Cuda compilation tools, release 11.8, V11.8.89")
    monkeypatch.setattr(compilers, "wheel_roots", lambda: ())
    monkeypatch.setenv("CUDA_HOME", str(home))
    with pytest.raises(CompilerMissingError, match="is CUDA 11.8.89, 12.8 or newer is needed"):
        compilers.find_nvcc()
