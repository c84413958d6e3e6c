"""Which groups a bundle holds, for which node."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.baselines.problems import installs
from tools.bundle.errors import BundleError
from tools.bundle.plan import (
    GROUPS_FILE,
    KERNELS,
    NODE_PACKAGES_FILE,
    Group,
    Node,
    choose,
    find_build,
    read_groups,
    read_node,
)
from tools.sources.libraries import read

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def groups():
    return read_groups(GROUPS_FILE, ROOT / "pyproject.toml")


def names(group):
    return [canonicalize_name(Requirement(text).name) for text in group.requirements]


def test_every_dependency_of_the_project_is_packed_or_on_the_node(groups):
    node = read_node("3.12", "2.11", NODE_PACKAGES_FILE)
    packed = [name for group in groups.values() for name in names(group)]
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {canonicalize_name(Requirement(text).name) for text in wanted} <= {*packed, *node.has}
    assert len(packed) == len(set(packed))
    assert "apache-tvm-ffi" in names(groups["core"])


def test_a_group_needs_groups_above_it(groups):
    """What they hold is packed once, with them."""
    order = list(groups)
    assert all(order.index(need) < order.index(name) for name, group in groups.items() for need in group.needs)


MEASURED_WITH = {
    "quack": ("gemm.quack",),
    "flash_attn_4": ("attention.flash_attn_4",),
    "linear": ("linear.flash_linear_attention", "linear.mamba_ssm"),
    "flash_attn_triton": ("rows.flash_attn_triton",),
    "liger": ("rows.liger",),
    "vllm_decode": ("decode.flash_mla",),
    "nvmath": ("gemm.cublas_tuned",),
}


@pytest.mark.parametrize("name", MEASURED_WITH)
def test_a_part_has_the_version_that_the_project_measures_with(groups, name):
    """Of what its baselines say to install, and of the extra `baselines`, where that names it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["baselines"]
    pinned = {canonicalize_name(Requirement(text).name): text for text in extras}
    install = " ".join(installs(f"baselines.{module}") for module in MEASURED_WITH[name])
    named = 0
    for one in map(Requirement, groups[name].requirements):
        assert pinned.get(canonicalize_name(one.name), str(one)) == str(one)
        named += f"{one.name}{one.specifier}" in install.replace("[cu13]", "") and bool(str(one.specifier))
    assert named >= len(MEASURED_WITH[name])
    assert all(f"{key}={value}" in install for key, value in groups[name].build.items() if "FORCE" not in key)
    assert bool(groups[name].build) == bool(groups[name].source_only)


def test_of_shared_folders_and_large_wheels_only_what_the_baselines_import_is_kept(groups):
    from baselines.rows import flash_attn_triton, liger

    files = {one.library.file for one in (flash_attn_triton.Rotary, flash_attn_triton.DropoutAddLayernorm)}
    keep = groups["flash_attn_triton"].keep
    assert files <= set(keep)
    # What would hide flash-attn-4, or be another version of it, in the folder that both own.
    assert not [path for path in keep if path == "flash_attn/__init__.py" or "cute" in path or "*" in path]
    assert groups["liger"].keep == [liger.Rotary.library.file]


def test_of_a_group_what_it_keeps_is_packed_with_its_metadata():
    paths = ["a/one.py", "a/two.py", "b/one.py", "a-1.0.dist-info/METADATA"]
    dropped = ["a/one.pyi", "a/__pycache__/one.pyc", "a.pth", "bin/a", "a-1.0.dist-info/RECORD"]

    def taken(**patterns):
        return [path for path in (*paths, *dropped) if Group(**patterns).takes(path)]

    assert taken() == paths
    assert taken(drop=["*/two.py"], keep=["a/*"]) == ["a/one.py", "a-1.0.dist-info/METADATA"]


DEFAULT = ("core", "linear", "flash_attn_triton", "liger", "nvmath")


def test_default_parts(groups):
    assert tuple(name for name, group in groups.items() if group.default) == DEFAULT


@pytest.mark.parametrize(
    ("base", "with_", "without", "parts"),
    [
        ("core kernels", "", "", "core kernels"),
        ("core nvmath kernels", "wandb", "nvmath", "core wandb kernels"),
        ("core kernels", "quack", "kernels", "core quack"),
        ("core kernels", "flash_attn_4", "", "core quack flash_attn_4 kernels"),
        ("core kernels", "flash_attn_3", "", "core flash_attn_3 kernels"),
        ("core flash_attn_4 flash_attn_3", "", "quack", "core flash_attn_3"),
        ("core quack flash_attn_4 flash_attn_3", "", "flash_attn_4,flash_attn_3", "core quack"),
    ],
)
def test_choose(groups, base, with_, without, parts):
    """A part brings what it runs on and goes with it."""
    split = (text.replace(",", " ").split() for text in (base, with_, without))
    assert choose(groups, *split, read()) == tuple(parts.split())


def test_unknown_part_is_named_with_the_known_ones(groups):
    parts = "core, quack, flash_attn_4, linear, flash_attn_triton, liger, vllm_decode, nvmath, wandb, madeup, kernels"
    with pytest.raises(BundleError, match=f"got the part flash, a bundle has {parts}"):
        choose(groups, ("core", KERNELS), (), ("flash",), ["madeup"])


def test_node_packages_from_a_file_or_a_pip_freeze_and_torch_is_always_the_nodes_own(tmp_path):
    listing = tmp_path / "mine.txt"
    listing.write_text("# a comment, with words\nnumpy==2.1  # pinned\nPyYAML scikit_learn\nlocal @ file:///x\n")
    assert read_node("3.12", "2.11", listing).has == {"numpy", "pyyaml", "scikit-learn", "local", "torch"}


@pytest.mark.parametrize(("python", "torch", "named"), [("3", "2.11", "--python"), ("3.12", "2.11.0", "--torch")])
def test_versions_are_major_minor(python, torch, named):
    with pytest.raises(BundleError, match=named):
        read_node(python, torch, NODE_PACKAGES_FILE)


def test_the_newest_build_for_the_node_is_found_whatever_runs_here(tmp_path, monkeypatch):
    monkeypatch.setenv("TK_SOURCES", str(tmp_path))
    builds = {"foreign": {"python": "3.7"}, "fitting": {"python": "3.99", "torch": "2.11.0+cu130"}, "for_any": {}}
    for age, (key, manifest) in enumerate(builds.items()):
        (tmp_path / "madeup" / key / "site").mkdir(parents=True)
        path = tmp_path / "madeup" / key / "manifest.json"
        path.write_text(json.dumps(manifest))
        os.utime(path, ns=(0, 10**9 * (9 - age)))
    node = Node("3.12", "2.11", frozenset())
    assert find_build("madeup", replace(node, python="3.99")) == tmp_path / "madeup" / "fitting"
    assert find_build("madeup", node) == tmp_path / "madeup" / "for_any"
    assert find_build("other", node) is None
