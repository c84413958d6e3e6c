"""Finding libraries: site folders, nvidia-cutlass-dsl's inner folder, sentences for what is absent."""

from __future__ import annotations

import importlib
import sys

import pytest

from baselines.common import sites
from baselines.common.baseline import Library


@pytest.fixture(autouse=True)
def restored_path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    importlib.invalidate_caches()


def package(folder, name, text=""):
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    return folder


def madeup(module):
    return Library("madeup", "pip install madeup", modules=(module,), packages=())


def test_site_folder_comes_first(tmp_path, monkeypatch):
    package(tmp_path, "madeup_library")
    monkeypatch.setenv("TK_BASELINES_SITE_MADEUP", str(tmp_path))
    assert madeup("madeup_library").absent() is None
    assert sys.path[0] == str(tmp_path)


def test_using_a_site_twice_adds_it_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TK_BASELINES_SITE_MADEUP", str(tmp_path))
    sites.use_site("madeup")
    sites.use_site("madeup")
    assert sys.path.count(str(tmp_path)) == 1


def test_the_site_that_is_used_last_comes_first(tmp_path, monkeypatch):
    """Guard: of two libraries that own one import folder, one would be measured under both names."""
    for name in ("one", "other"):
        package(tmp_path / name, "madeup_shared")
        monkeypatch.setenv(f"TK_BASELINES_SITE_{name.upper()}", str(tmp_path / name))
    for name in ("one", "other", "one"):
        sites.use_site(name)
        assert sites.package_folders("madeup_shared") == [tmp_path / name / "madeup_shared"]


def test_site_that_is_no_folder_is_a_reason_and_not_an_exception(tmp_path, monkeypatch):
    monkeypatch.setenv("TK_BASELINES_SITE_MADEUP", str(tmp_path / "gone"))
    reason = madeup("sys").absent()
    assert reason is not None
    assert "TK_BASELINES_SITE_MADEUP" in reason
    assert "no folder" in reason


def test_absent_module_comes_with_the_command():
    assert sites.missing(["madeup_a"], "pip install a") == "madeup_a is not installed: pip install a"
    assert sites.missing(["madeup_a", "madeup_b"], "go") == "madeup_a and madeup_b are not installed: go"
    assert sites.missing(["json"], "go") is None


def test_looking_for_a_module_does_not_import_it(tmp_path, monkeypatch):
    package(tmp_path, "madeup_explosive", "raise RuntimeError('imported')")
    monkeypatch.setenv("TK_BASELINES_SITE_MADEUP", str(tmp_path))
    assert madeup("madeup_explosive").absent() is None


@pytest.mark.skipif(sites.missing(["cutlass"], "") is None, reason="cutlass is installed here")
def test_inner_folder_of_cutlass_dsl_is_found(tmp_path, monkeypatch):
    package(tmp_path / "nvidia_cutlass_dsl" / "dsl_packages", "cutlass")
    monkeypatch.setenv("TK_BASELINES_SITE_QUACK", str(tmp_path))
    sites.use_site("quack")
    sites.use_cutlass_dsl()
    assert sites.missing(["cutlass"], "go") is None


def test_version_comes_from_the_first_distribution_that_is_there():
    assert sites.distribution_version("no-such-distribution-here", "pytest") == pytest.__version__
    assert sites.distribution_version("no-such-distribution-here") is None
