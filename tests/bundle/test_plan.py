"""Which groups a bundle holds, for which node."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.bundle.errors import BundleError
from tools.bundle.plan import GROUPS_FILE, KERNELS, NODE_PACKAGES_FILE, choose, default_parts, read_groups, read_node
from tools.sources.libraries import read

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def groups():
    return read_groups(GROUPS_FILE, ROOT / "pyproject.toml")


def test_every_dependency_of_the_project_is_packed_or_on_the_node(groups):
    node = read_node("3.12", "2.11", [str(NODE_PACKAGES_FILE)])
    packed = {canonicalize_name(r.name) for group in groups.values() for r in group.requirements}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for text in wanted:
        name = canonicalize_name(Requirement(text).name)
        assert name in packed | node.has, name
    assert "apache-tvm-ffi" in {r.name for r in groups["core"].requirements}


def test_quack_is_the_version_that_the_project_measures_with(groups):
    from baselines.gemm.quack import INSTALL

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["baselines"]
    pins = {r.name: str(r) for r in groups["quack"].requirements}
    assert pins["quack-kernels"] in extras
    assert pins["quack-kernels"] in INSTALL
    assert pins["nvidia-cutlass-dsl"] in INSTALL


def test_a_dependency_is_in_one_group_alone(groups):
    names = [canonicalize_name(r.name) for group in groups.values() for r in group.requirements]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("with_", "without", "minimal", "parts"),
    [
        ((), (), False, ("core", "linear", "flash_attn_triton", "liger", "nvmath", "kernels")),
        ((), (), True, ("core", "kernels")),
        (("wandb",), ("nvmath",), False, ("core", "linear", "flash_attn_triton", "liger", "wandb", "kernels")),
        (("quack",), ("kernels",), True, ("core", "quack")),
        (("flash_attn_4",), (), True, ("core", "quack", "flash_attn_4", "kernels")),
        (("flash_attn_3",), (), True, ("core", "flash_attn_3", "kernels")),
    ],
)
def test_choose(groups, with_, without, minimal, parts):
    base = ("core", KERNELS) if minimal else default_parts(groups)
    assert choose(groups, base, with_, without, read()) == parts


@pytest.mark.parametrize(
    ("without", "parts"),
    [
        ((), ("core", "quack", "flash_attn_4", "flash_attn_3", "kernels")),
        (("quack",), ("core", "flash_attn_3", "kernels")),
        (("flash_attn_4", "flash_attn_3"), ("core", "quack", "kernels")),
    ],
)
def test_what_experiments_want_brings_what_it_runs_on_and_goes_with_it(groups, without, parts):
    assert choose(groups, ("core", "flash_attn_4", "flash_attn_3", KERNELS), (), without, read()) == parts


def test_unknown_part_is_named_with_the_known_ones(groups):
    parts = "core, quack, flash_attn_4, linear, flash_attn_triton, liger, vllm_decode, nvmath, wandb, madeup, kernels"
    with pytest.raises(BundleError, match=f"got the part 'flash', a bundle has {parts}"):
        choose(groups, (), (), ("flash",), ["madeup"])


def test_a_part_is_not_both_with_and_without(groups):
    with pytest.raises(BundleError, match="wandb: named by --with and by --without"):
        choose(groups, (), ("wandb",), ("wandb",))


def test_a_part_goes_with_what_it_runs_on(groups):
    with pytest.raises(BundleError, match="flash_attn_4 runs on quack, which --without leaves out"):
        choose(groups, (), ("flash_attn_4",), ("quack",))


def test_flash_attn_4_is_the_version_that_the_project_measures_with(groups):
    from baselines.attention.flash_attn_4 import INSTALL

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["baselines"]
    (pin,) = groups["flash_attn_4"].requirements
    assert str(pin) in extras
    assert f"{pin.name}[cu13]{pin.specifier}" in INSTALL


def test_the_linear_attentions_libraries_are_the_versions_that_the_project_measures_with(groups):
    from baselines.linear import flash_linear_attention, mamba_ssm

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["baselines"]
    pins = {r.name: str(r) for r in groups["linear"].requirements}
    assert pins["fla-core"] in extras
    assert pins["fla-core"] in flash_linear_attention.INSTALL
    assert pins["mamba-ssm"] in mamba_ssm.INSTALL
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert {pins["fla-core"], pins["mamba-ssm"]} <= set(constraints)
    assert all(f"{name}={value}" in mamba_ssm.INSTALL for name, value in groups["linear"].build)
    assert groups["linear"].build


def test_the_triton_kernels_of_flash_attn_are_the_ones_that_the_baselines_import(groups):
    from baselines.rows import flash_attn_triton

    group = groups["flash_attn_triton"]
    (pin,) = group.requirements
    assert str(pin) in flash_attn_triton.INSTALL
    assert dict(group.build).items() >= {"FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"}.items()
    assert {"torch", "einops"} <= group.never
    modules = {flash_attn_triton.Rotary._module, flash_attn_triton.DropoutAddLayernorm._module}
    assert {f"flash_attn/ops/triton/{module}.py" for module in modules} <= set(group.keep)
    # What would hide flash-attn-4, or be another version of it, in the folder that both own.
    assert not [path for path in group.keep if path == "flash_attn/__init__.py" or "cute" in path or "*" in path]


def test_the_rotary_kernel_of_liger_is_the_one_that_the_baseline_imports(groups):
    from baselines.rows import liger

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["baselines"]
    (pin,) = groups["liger"].requirements
    assert str(pin) in extras
    assert str(pin) in liger.INSTALL
    assert str(pin) in (ROOT / "constraints.txt").read_text().splitlines()
    assert groups["liger"].keep == (f"{liger.MODULE.replace('.', '/')}.py",)
    assert {"torch", "triton"} <= groups["liger"].never


def test_node_packages_from_a_file_a_pip_freeze_and_names(tmp_path):
    listing = tmp_path / "mine.txt"
    listing.write_text("# a comment, with words\nnumpy==2.1  # pinned\nPyYAML scikit_learn\nlocal @ file:///x\n")
    node = read_node("3.12", "2.11", [str(listing), "Rich,einops==0.8"])
    assert node.has == {"numpy", "pyyaml", "scikit-learn", "local", "rich", "einops", "torch"}


def test_torch_is_always_the_nodes_own():
    assert "torch" in read_node("3.12", "2.11", []).has


@pytest.mark.parametrize(("python", "torch", "named"), [("3", "2.11", "--python"), ("3.12", "2.11.0", "--torch")])
def test_versions_are_major_minor(python, torch, named):
    with pytest.raises(BundleError, match=named):
        read_node(python, torch, [])


def test_a_list_file_that_is_not_there_is_named():
    with pytest.raises(BundleError, match=r"there is no file node/gone\.txt"):
        read_node("3.12", "2.11", ["node/gone.txt"])


def test_unknown_key_and_bad_requirement_are_named(tmp_path):
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\ndependencies = ["numpy"]\n')
    groups = tmp_path / "groups.toml"
    groups.write_text("[core]\ndefalt = true\n")
    with pytest.raises(BundleError, match=r"group core has \['defalt'\], known keys are"):
        read_groups(groups, project)
    groups.write_text('[core]\n[x]\nrequirements = ["not a requirement"]\n')
    with pytest.raises(BundleError, match="is no requirement"):
        read_groups(groups, project)
    groups.write_text('[core]\n[x]\nneeds = ["y"]\nrequirements = []\n[y]\nrequirements = []\n')
    with pytest.raises(BundleError, match="group x needs 'y', which is no group above it"):
        read_groups(groups, project)
    groups.write_text("[core\n")
    with pytest.raises(BundleError, match="is not valid TOML"):
        read_groups(groups, project)
    with pytest.raises(BundleError, match=r"missing; run from a checkout"):
        read_groups(tmp_path / "gone.toml", project)


def test_nvmath_is_the_version_that_the_project_measures_with(groups):
    from baselines.gemm.cublas_tuned import INSTALL

    (pin,) = groups["nvmath"].requirements
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["baselines"]
    assert str(pin) in extras
    assert str(pin) in INSTALL
    assert str(pin) in (ROOT / "constraints.txt").read_text().splitlines()
