"""Builds from source: which is found, which is refused, and what installing one leaves behind."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import zipfile

import pytest

from baselines.common import built
from baselines.common.baseline import Library as BaselineLibrary
from tools.sources.__main__ import main
from tools.sources.errors import SourcesError
from tools.sources.install import install
from tools.sources.libraries import Library, named, read

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
BASELINE = BaselineLibrary("madeup", "build it", modules=("madeup_api",), packages=())
MADEUP = Library("madeup", "https://example.org/madeup", "1" * 40, "MIT", ("madeup_api", "madeup_c"), "nvcc", ("gemm",))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TK_SOURCES", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path / "cache"


def made(folder, number=1):
    """A site folder with a module and an extension."""
    folder.mkdir(parents=True)
    (folder / "madeup_api.py").write_text(f"number = {number}\n")
    (folder / "madeup_c.abi3.so").write_bytes(b"code")
    return folder


def archived(path, folder, manifest):
    with tarfile.open(path, "w:xz") as tar:
        tar.add(folder, "site")
        text = json.dumps(manifest).encode()
        info = tarfile.TarInfo("manifest.json")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return path


def test_an_installed_build_is_found_by_its_baseline(tmp_path):
    assert "not installed" in BASELINE.absent()
    manifest = {"library": "madeup", "commit": "2" * 40, "python": HERE}
    build = install(MADEUP, archived(tmp_path / "a.tar.xz", made(tmp_path / "a"), manifest))
    assert BASELINE.absent() is None
    assert sys.path[0] == str(build / "site")
    assert built.described("madeup", "madeup 1") == "madeup 1, built from commit 2222222222"


def test_the_variable_comes_before_a_build(tmp_path, monkeypatch):
    install(MADEUP, made(tmp_path / "a"))
    other = made(tmp_path / "other")
    monkeypatch.setenv("TK_BASELINES_SITE_MADEUP", str(other))
    assert BASELINE.absent() is None
    assert sys.path[0] == str(other)
    assert built.described("madeup", "madeup 1") == "madeup 1"


@pytest.mark.parametrize("made_for", [{"python": "2.7"}, {"torch": "0.1.0+cu130"}])
def test_a_build_for_another_python_or_torch_is_not_used(tmp_path, made_for):
    install(MADEUP, archived(tmp_path / "a.tar.xz", made(tmp_path / "a"), made_for))
    assert built.site("madeup") is None
    (what, version), *_ = made_for.items()
    assert built.misfit(made_for).startswith(f"built for {what} {version[:3]}, here is ")


def test_the_newest_build_that_fits_is_used(tmp_path):
    first = install(MADEUP, made(tmp_path / "a", 1))
    second = install(MADEUP, made(tmp_path / "b", 2))
    os.utime(first / "manifest.json", ns=(1, 1))
    assert built.site("madeup") == second / "site"
    os.utime(second / "manifest.json", ns=(0, 0))
    assert built.site("madeup") == first / "site"


def test_the_same_build_twice_is_one_folder(tmp_path, cache):
    first = install(MADEUP, made(tmp_path / "a"))
    assert install(MADEUP, made(tmp_path / "b")) == first
    assert [path.name for path in (cache / "madeup").iterdir()] == [first.name]


def wheel(tmp_path, tag):
    path = tmp_path / f"madeup-1.0-{tag}-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("madeup_api.py", "")
        archive.writestr("madeup_c.so", "code")
        archive.writestr("madeup-1.0.dist-info/METADATA", "Name: madeup\nVersion: 1.0\n")
    return path


@pytest.mark.parametrize(("tag", "python"), [("cp310-abi3", None), ("cp312-cp312", "3.12")])
def test_a_wheel_says_by_its_tags_which_python_it_is_for(tmp_path, tag, python):
    build = install(MADEUP, wheel(tmp_path, tag), commit="3" * 40)
    manifest = json.loads((build / "manifest.json").read_text())
    assert manifest.get("python") == python
    assert manifest["commit"] == "3" * 40
    assert (build / "site" / "madeup-1.0.dist-info" / "METADATA").is_file()


@pytest.mark.parametrize("part", ["SPLIT", "PACKGQA", "CLUSTER", "BACKWARD", None])
def test_a_build_without_a_part_that_decides_its_speed_is_refused(tmp_path, part):
    """Guard: FlashAttention-3 without its split kernels was an opponent three times too slow."""
    library, site = named("flash_attn_3"), tmp_path / "site"
    site.mkdir()
    for module in library.holds:
        (site / f"{module}.py").touch()
    flags = {f"FLASHATTENTION_DISABLE_{name}": name in (part, "FP8") for name in ("SPLIT", "PACKGQA", "CLUSTER", "FP8")}
    flags["FLASHATTENTION_DISABLE_BACKWARD"] = part == "BACKWARD"
    (site / "flash_attn_config.py").write_text(f"CONFIG = {{'build_flags': {flags}}}\n")
    if part is None:
        assert (install(library, site) / "site" / "flash_attn_config.py").is_file()
    else:
        with pytest.raises(SourcesError, match=f"with 'FLASHATTENTION_DISABLE_{part}': True; build it with FLASH"):
            install(library, site)


def test_what_is_built_leaves_out_nothing_that_is_refused():
    for library in read().values():
        assert library.built
        assert library.wheel
    left_out = named("flash_attn_3").built.partition("{")[2].partition("}")[0].replace("\n", "").split(",")
    assert not {"SPLIT", "PACKGQA", "CLUSTER", "BACKWARD", "HDIM64", "HDIM128"} & {*left_out}


def refusal(source, **options):
    with pytest.raises(SourcesError) as caught:
        install(MADEUP, source, **options)
    return str(caught.value)


def test_what_is_refused_leaves_nothing(tmp_path, cache):
    half = made(tmp_path / "half")
    (half / "madeup_c.abi3.so").unlink()
    assert "holds no madeup_c; a build of madeup holds madeup_api, madeup_c" in refusal(half)
    other = archived(tmp_path / "b.tar.xz", made(tmp_path / "b"), {"library": "other"})
    assert "is a build of other, not of madeup" in refusal(other)
    dated = archived(tmp_path / "c.tar.xz", made(tmp_path / "c"), {"commit": "4" * 40})
    assert "got --commit 55" in refusal(dated, commit="5" * 40)
    (tmp_path / "d.txt").write_text("no archive")
    assert "is no wheel, no folder and no tar archive" in refusal(tmp_path / "d.txt")
    assert "No such file" in refusal(tmp_path / "gone.tar.xz")
    damaged = tmp_path / "e.whl"
    damaged.write_bytes(b"no zip")
    assert "cannot be unpacked" in refusal(damaged)
    bare = tmp_path / "f.tar.xz"
    with tarfile.open(bare, "w:xz") as tar:
        tar.add(made(tmp_path / "f"), "site")
    assert "manifest.json is missing" in refusal(bare)
    assert list((cache / "madeup").iterdir()) == []


def test_a_build_whose_manifest_is_damaged_is_not_used(tmp_path):
    build = install(MADEUP, made(tmp_path / "a"))
    (build / "manifest.json").write_text("{")
    assert built.site("madeup") is None


def test_every_library_is_looked_for_by_a_baseline():
    from baselines.attention import flash_attn_3
    from baselines.fft_conv import flash_fft_conv
    from baselines.gemm import deep_gemm

    for one in (flash_attn_3.Attention, flash_fft_conv.FftConv, deep_gemm.GemmFp8):
        name = one.library.name
        assert name in read()
        assert f"tools.sources install {name}" in one.library.install
        assert len(named(name).commit) == 40


def test_the_command_line_lists_and_refuses(tmp_path, capsys):
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert "flash_attn_3: https://github.com/Dao-AILab/flash-attention at 0251105a2f (BSD-3-Clause)" in said
    assert "not built here; it needs nvcc" in said
    assert "installed with: python -m tools.sources install LIBRARY" in said
    assert main(["install", "flash", str(tmp_path)]) == 1
    assert "got the library 'flash', known are flash_attn_3" in capsys.readouterr().err
