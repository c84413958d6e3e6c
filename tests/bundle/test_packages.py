"""What uv installs for a node, from wheels and sources that lie on disk: uv itself runs, without a network."""

from __future__ import annotations

import tarfile

import pytest

from tools.bundle import packages
from tools.bundle.errors import BundleError
from tools.bundle.plan import Group, Node
from tools.uv import environment

ELSEWHERE = "cp312-cp312-manylinux_2_28_x86_64"


@pytest.fixture
def install(make_wheel, tmp_path, monkeypatch):
    """A function that installs a group for a node of Python 3.12, out of the wheels that were made."""
    for name in ("UV_OFFLINE", "UV_NO_CONFIG"):
        monkeypatch.setenv(name, "1")
    for name, value in {"UV_FIND_LINKS": "wheels", "UV_CACHE_DIR": "uv"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("UV_INDEX", "")
    (tmp_path / "wheels").mkdir()
    pins = tmp_path / "constraints.txt"

    def call(*requirements, has=(), packed=(), pinned="", **group):
        pins.write_text(pinned)
        node = Node("3.12", "2.11", frozenset({"torch", *has}))
        number = len(list(tmp_path.glob("site*")))
        return packages.install(Group(requirements, **group), node, packed, pins, tmp_path / f"site{number}")

    return call


def test_dependencies_follow_and_what_the_node_has_does_not(make_wheel, install):
    """Guard: torch is gigabytes, and not the node's; it is not here, so that whoever asks for it fails."""
    make_wheel("a", requires=["b>=1", "numpy", "torch"])
    make_wheel("b", requires=["c"])
    make_wheel("c")
    assert install("a", "numpy>=2", has=["numpy"]) == {"a": "1.0", "b": "1.0", "c": "1.0"}
    assert install("a", has=["numpy"], packed=["b"]) == {"a": "1.0"}
    assert install("a", never=["numpy", "b"]) == {"a": "1.0"}
    assert install("a", "c", has=["c"], never=["*"]) == {"a": "1.0"}
    assert install("c", packed=["c"]) == {}


def test_versions_are_those_of_the_constraints(make_wheel, install):
    for version in ("1.0", "2.0"):
        make_wheel("a", version)
    assert install("a") == {"a": "2.0"}
    assert install("a", pinned="a==1.0\ntorch==99\n") == {"a": "1.0"}


def test_python_and_platform_are_those_of_the_node_and_not_of_this_machine(make_wheel, install, tmp_path):
    make_wheel("a", requires=['b; python_version < "3.12"', 'c[x]; python_version == "3.12"', 'd; os_name == "nt"'])
    make_wheel("c", requires=['e; extra == "x"', 'f; extra == "y"'], tag=ELSEWHERE)
    make_wheel("e")
    assert install("a") == {"a": "1.0", "c": "1.0", "e": "1.0"}
    make_wheel("new", tag="cp312-cp312-manylinux_2_34_x86_64")
    with pytest.raises(BundleError, match="uv found no packages of new for Python 3.12 .*new"):
        install("new")


def test_a_contradiction_ends_with_the_words_of_uv(make_wheel, install):
    make_wheel("a", requires=["b<2"])
    make_wheel("b", "2.0")
    with pytest.raises(BundleError, match="uv found no packages of a, b>=2 for .*b<2"):
        install("a", "b>=2")


def source(folder, more=""):
    """A source of `built`, which wants a variable and is built with this environment's setuptools."""
    (folder / "built").mkdir()
    (folder / "built" / "__init__.py").write_text("")
    (folder / "setup.py").write_text(
        "import os, setuptools\n"
        "assert os.environ['SKIP_CUDA'] == 'TRUE'\n"
        f"setuptools.setup(name='built', version='1.0', packages=['built'], {more})\n"
    )
    (folder / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: built\nVersion: 1.0\n")
    with tarfile.open(folder / "wheels" / "built-1.0.tar.gz", "w:gz") as tar:
        for name in ("built", "setup.py", "PKG-INFO"):
            tar.add(folder / name, f"built-1.0/{name}")


def test_a_source_is_built_with_its_variables_and_only_where_the_group_says_so(install, tmp_path):
    source(tmp_path)
    assert install("built", source_only=["built"], build={"SKIP_CUDA": "TRUE"}) == {"built": "1.0"}
    with pytest.raises(BundleError, match="no packages of built"):
        install("built")


def test_what_is_built_here_for_this_machine_alone_is_refused(install, tmp_path):
    """Guard: the node's Python and torch are others."""
    source(tmp_path, "ext_modules=[setuptools.Extension('built.c', [])]")
    with pytest.raises(BundleError, match="built"):
        install("built", source_only=["built"], build={"SKIP_CUDA": "TRUE"})


def test_the_indexes_of_pip_are_those_of_uv(monkeypatch, tmp_path):
    """Guard: behind a company's mirror PyPI itself is not there."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://file.example/simple\nextra-index-url =\n    https://a.example\n    file:///b\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert environment().items() >= {
        ("UV_DEFAULT_INDEX", "https://file.example/simple"),
        ("UV_INDEX", "https://a.example file:///b"),
    }
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable.example/simple")
    assert environment()["UV_DEFAULT_INDEX"] == "https://variable.example/simple"
