"""On the node: ``bundle/run`` with the node's own Python and torch."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from harness.records.provenance import digest
from tools.bundle import archive
from tools.bundle.assemble import LAUNCHER
from tools.bundle.node import unpack

ROOT = Path(__file__).resolve().parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TORCH = ".".join(importlib.metadata.version("torch").split(".")[:2])


INNER = "nvidia_cutlass_dsl/dsl_packages/madeup_inner.py"


@pytest.fixture
def bundle(checkout, tmp_path):
    """A bundle inside a checkout, for this machine's Python and torch, with two packages and a kernel."""
    folder = checkout / "bundle"
    shutil.copytree(LAUNCHER, folder)
    put(folder, "core", tmp_path, "site/madeup_outer.py", f"site/{INNER}")
    put(folder, "kernels", tmp_path, "kernels/gemm-sm_90a-0/gemm.so")
    return folder


def put(folder, part, tmp_path, *names):
    """Adds an archive with these files to a bundle."""
    (tmp_path / "content").write_text("{}")
    file = folder / "site" / f"{part}.tar.xz"
    archive.pack(dict.fromkeys(names, tmp_path / "content"), file, tmp_path / "cache")
    write_info(folder, {one.name: digest(one) for one in (folder / "site").iterdir()})


def write_info(folder, archives, python=PYTHON, torch=TORCH):
    info = {"archives": archives, "node": {"python": python, "torch": torch}}
    (folder / "build_info.json").write_text(json.dumps(info))


def archives_of(folder):
    return json.loads((folder / "build_info.json").read_text())["archives"]


@pytest.fixture
def run(bundle, tmp_path):
    def call(*command, **environment):
        return subprocess.run(
            [str(bundle / "run"), *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": sys.executable, "TK_BUNDLE_SITE": str(tmp_path / "site"), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_packages_kernels_stamp_and_checkout_are_in_place(run, bundle, checkout):
    code = (
        "import json, os, madeup_outer, madeup_inner, tk_kernels; "
        "print(json.dumps([os.environ[k] for k in ('TK_KERNELS_PREBUILT', 'TK_BUILD_INFO')] + [tk_kernels.__file__]))"
    )
    done = run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    prebuilt, info, package = json.loads(done.stdout)
    assert (Path(prebuilt) / "gemm-sm_90a-0" / "gemm.so").is_file()
    assert info == str(bundle / "build_info.json")
    assert package.startswith(str(checkout))


def test_a_bundle_without_kernels_sets_none(run, bundle):
    write_info(bundle, {name: digest for name, digest in archives_of(bundle).items() if name != "kernels.tar.xz"})
    done = run("python", "-c", "import madeup_outer, os; print(os.environ.get('TK_KERNELS_PREBUILT'))")
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


def test_libraries_built_from_source_are_where_the_baselines_look(run, bundle, tmp_path):
    build = "sources/madeup/key"
    put(bundle, "madeup", tmp_path, f"{build}/manifest.json", f"{build}/site/madeup_built.py")
    code = f"""import sys; sys.path.append({str(ROOT)!r})
from baselines.common import built, sites
sites.use_site("madeup")
print(sites.missing(["madeup_built"], ""), built.site("madeup"))"""
    done = run("python", "-c", code, TK_SOURCES="/elsewhere")
    assert done.returncode == 0, done.stderr
    found, site = done.stdout.split()
    assert found == "None"
    assert Path(site).is_relative_to(tmp_path / "site")


def test_a_bundle_without_builds_leaves_the_variable_alone(run):
    code = "import os; print(os.environ.get('TK_SOURCES'))"
    assert run("python", "-c", code, TK_SOURCES="/elsewhere").stdout == "/elsewhere\n"


def test_the_commands_own_status_comes_back(run):
    assert run("python", "-c", "raise SystemExit(7)").returncode == 7


def test_a_python_that_knows_no_filter_unpacks_too(bundle, tmp_path, monkeypatch):
    """Guard: Debian 12 has Python 3.11.2, whose tarfile has no filters."""

    def extractall(self, path):
        return everything(self, path, **filters)

    everything = tarfile.TarFile.extractall
    filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    archive_file = bundle / "site" / "core.tar.xz"
    unpack.unpack(archive_file, digest(archive_file), tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "site" / "madeup_outer.py").is_file()


def test_unpacked_once_and_again_when_an_archive_changes(run, bundle, tmp_path):
    for folders in (1, 1, 2):
        assert run("true").returncode == 0
        assert len(list((tmp_path / "site").iterdir())) == folders
        for folder in (tmp_path / "site").iterdir():
            (folder / "marker").touch()
        if (tmp_path / "seen").exists():
            put(bundle, "more", tmp_path, "site/more.py")
        (tmp_path / "seen").touch()
    assert len(list((tmp_path / "site").glob("*/marker"))) == 2


def failed(done, *words):
    assert done.returncode != 0
    assert done.stderr.startswith("bundle/run: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_no_command_and_no_such_interpreter(run):
    for done, said in ((run(), "name a command"), (run("true", PYTHON="/no/such/python"), "/no/such/python")):
        assert (done.returncode, done.stderr.count("\n"), said in done.stderr) == (1, 1, True), done.stderr


@pytest.mark.parametrize(("what", "mine", "other"), [("python", PYTHON, "3.7"), ("torch", TORCH, "1.4")])
def test_another_python_or_torch_is_refused(run, bundle, what, mine, other):
    write_info(bundle, archives_of(bundle), **{what: other})
    failed(run("true"), f"has {what} {mine}", f"the bundle is for {other}", f"--{what} {mine}")


def test_a_longer_minor_version_is_another_version(run, bundle):
    write_info(bundle, archives_of(bundle), torch=TORCH[:-1])
    failed(run("true"), "the bundle is for")


def test_damaged_archive(run, bundle, tmp_path):
    path = bundle / "site" / "core.tar.xz"
    path.write_bytes(path.read_bytes()[:-20])
    failed(run("true"), "is damaged", "copy it again")
    assert not list((tmp_path / "site").iterdir())


def test_missing_archive(run, bundle):
    (bundle / "site" / "core.tar.xz").unlink()
    failed(run("true"), "cannot be used", "core.tar.xz")


def test_truncated_stamp(run, bundle):
    (bundle / "build_info.json").write_text('{"archives": {')
    failed(run("true"), "cannot be used")


def test_outside_a_checkout(run, bundle, checkout):
    shutil.rmtree(checkout / "tk_kernels")
    failed(run("true"), "holds no tk_kernels", "TK_ROOT")


def test_site_folder_of_somebody_else(run, tmp_path):
    if os.getuid() != 0:
        pytest.skip("only root can make another user's folder")
    (tmp_path / "site").mkdir()
    os.chown(tmp_path / "site", 12345, 12345)
    failed(run("true"), "belongs to another user", "TK_BUNDLE_SITE")
