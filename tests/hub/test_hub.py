"""The repository for a kernel hub: its layout, its digests, and that it loads beside the installed package."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import tk_kernels as tk
from tk_kernels import toolchain
from tools.hub.__main__ import main
from tools.hub.layout import HubError, architecture, digests, variant, write


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("hub") / "repository", "cpu", ["rotary"])


def loaded(path: Path) -> ModuleType:
    """The package as the hub's loader imports it: from its path, under its identifier."""
    name = json.loads((path / "metadata.json").read_text())["id"]
    spec = importlib.util.spec_from_file_location(name, path / "__init__.py", submodule_search_locations=[str(path)])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def module(package: Path) -> Iterator[ModuleType]:
    one = loaded(package)
    yield one
    for name in [name for name in sys.modules if name.partition(".")[0] == one.__name__]:
        del sys.modules[name]


def test_the_folder_is_named_as_the_hub_reads_it(package: Path) -> None:
    assert re.fullmatch(r"tvm-ffi\d\d+-cpu-x86_64-linux", package.name)
    assert package.parent.name == "build"
    assert variant("cu130").endswith("-cu130-x86_64-linux")
    assert (package.parents[1] / "README.md").read_text().startswith("---\nlibrary_name: kernels\n")


def test_the_metadata_has_what_is_required(package: Path) -> None:
    metadata = json.loads((package / "metadata.json").read_text())
    assert metadata["name"] == "tk-kernels"
    assert metadata["id"].isidentifier()
    assert metadata["backend"] == {"type": "cpu"}
    assert (metadata["version"], metadata["license"], metadata["python-depends"]) == (0, "Apache-2.0", [])
    assert metadata["digest"] == {"algorithm": "sha256", "files": digests(package)}
    assert "metadata.json" not in metadata["digest"]["files"]


def test_an_operator_of_it_is_ours_and_runs_what_is_prebuilt(
    package: Path, module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Guard: without its own folder the kernel would be built anew, into the cache."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 2, 5, 64, generator=generator).bfloat16()
    angles = torch.rand(5, 32, generator=generator)
    wanted = tk.rotary(x, angles.cos(), angles.sin())
    monkeypatch.setenv("TK_KERNELS_CACHE", str(tmp_path / "cache"))
    assert torch.equal(module.rotary(x, angles.cos(), angles.sin()), wanted)
    assert not (tmp_path / "cache").exists()
    assert [path.name.rpartition("-")[0] for path in (package / "prebuilt").iterdir()] == ["rotary-cpu"]


def test_operators_have_a_namespace_of_their_own(module: ModuleType) -> None:
    own, ours = getattr(torch.ops, module.__name__), torch.ops.tk_kernels
    assert own.rotary.default is not ours.rotary.default
    assert set(module.__all__) == set(tk.__all__)


def test_older_readers_find_the_same(package: Path, module: ModuleType) -> None:
    path = package / "tk_kernels" / "__init__.py"
    spec = importlib.util.spec_from_file_location("older_reader", path)
    assert spec is not None
    assert spec.loader is not None
    older = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(older)
    assert older.rotary is module.rotary
    assert set(older.__all__) == set(module.__all__)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("text")
    with pytest.raises(HubError, match="is not empty"):
        write(tmp_path, "cpu", ["rotary"])
    assert main([str(tmp_path), "--target", "cpu", "rotary"]) == 1
    assert "hub: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_interruption_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tools.hub.__main__.write", interrupted)
    assert main([str(tmp_path), "rotary"]) == 130
    assert capsys.readouterr().err == f"hub: interrupted; what {tmp_path} holds is incomplete, empty it\n"


@pytest.mark.parametrize(("folder", "words"), [("/dev/null", "is no folder"), ("/proc/x", "cannot be written")])
def test_a_place_that_cannot_be_a_folder_is_said(folder: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([folder, "rotary"]) == 1
    assert capsys.readouterr().err.startswith(f"hub: {folder} {words}")


def test_a_cuda_that_there_is_not_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guard: it became folders of these names, and elsewhere."""
    assert main([str(tmp_path / "new"), "rotary", "--cuda", "x/../y"]) == 1
    assert capsys.readouterr().err == "hub: --cuda is 'x/../y'; name PyTorch's CUDA such as cu130\n"
    assert not (tmp_path / "new").exists()


def test_a_kernel_that_there_is_not_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "new"), "--target", "cpu", "rotation"]) == 1
    assert "rotation" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_architectures_are_written_as_the_hub_reads_them() -> None:
    written = {name: architecture(name) for name, target in toolchain.TARGETS.items() if target.cuda}
    assert written == {"sm_90a": "9.0a", "sm_80": "8.0+PTX"}
