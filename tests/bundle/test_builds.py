"""Libraries built from source inside a bundle: which build fits the node, and what of it is packed."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import replace

import pytest

from tools.bundle import builds
from tools.bundle.errors import BundleError
from tools.bundle.plan import Node
from tools.sources.libraries import Library

NODE = Node("3.12", "2.11", frozenset({"torch"}))
MADEUP = Library("madeup", "https://example.org", "1" * 40, "MIT", ("madeup",), "nvcc", ("b.x",), "madeup/{library}.so")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A function that puts a build with two shared objects into the cache of `tools.sources`."""
    monkeypatch.setenv("TK_SOURCES", str(tmp_path / "sources"))

    def put(key, **manifest):
        folder = tmp_path / "sources" / "madeup" / key
        (folder / "site" / "madeup" / "__pycache__").mkdir(parents=True)
        for name in ("a.so", "b.so", "COMMIT", "__pycache__/a.pyc"):
            (folder / "site" / "madeup" / name).write_text(name)
        (folder / "site" / "madeup" / "a.so").chmod(0o755)
        (folder / "manifest.json").write_text(json.dumps({"library": "madeup", **manifest}))
        return folder

    return put


def members(path):
    with tarfile.open(path) as tar:
        return {member.name: member.mode for member in tar.getmembers()}


def test_the_newest_build_for_the_node_is_found_whatever_runs_here(cache):
    foreign = cache("foreign", python="3.7", torch="2.11")
    fitting = cache("fitting", python="3.99", torch="2.11.0+cu130", commit="c" * 40)
    older = cache("for_any", commit="d" * 40)
    for age, folder in enumerate((foreign, fitting, older)):
        os.utime(folder / "manifest.json", ns=(0, 10**9 * (9 - age)))
    found = builds.find(MADEUP, replace(NODE, python="3.99"))
    assert found.folder == fitting
    assert found.stamp == {"key": "fitting", "commit": "c" * 40}
    assert builds.find(MADEUP, NODE).folder == older


def test_a_build_for_another_node_is_named_and_refused(cache):
    cache("foreign", python="3.7")
    with pytest.raises(BundleError) as caught:
        builds.find(MADEUP, NODE)
    for words in (
        "no build of madeup for Python 3.12 and torch 2.11",
        "foreign is built for python 3.7, the node is 3.12",
    ):
        assert words in str(caught.value)
    assert "tools.sources install madeup PATH, or leave it out with --without madeup" in str(caught.value)


def test_a_build_is_packed_as_it_lies_in_the_cache(cache, tmp_path):
    cache("key")
    target = tmp_path / "madeup.tar.xz"
    builds.pack(builds.find(MADEUP, NODE), target, tmp_path / "packed")
    found = members(target)
    assert found == {
        "madeup/key/manifest.json": 0o644,
        "madeup/key/site/madeup/COMMIT": 0o644,
        "madeup/key/site/madeup/a.so": 0o755,
        "madeup/key/site/madeup/b.so": 0o644,
    }


def test_of_files_that_serve_one_contestant_each_those_wanted_are_packed(cache, tmp_path):
    cache("key")
    target = tmp_path / "madeup.tar.xz"
    builds.pack(builds.find(MADEUP, NODE, {"madeup/b.so"}), target, tmp_path / "packed")
    assert [name for name in members(target) if name.endswith(".so")] == ["madeup/key/site/madeup/b.so"]
    assert "madeup/key/site/madeup/COMMIT" in members(target)
