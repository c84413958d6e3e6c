"""What experiments need of a bundle, held against the configurations of the workloads and what the baselines import."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.baselines.problems import installs
from tools.bundle import __main__ as command
from tools.bundle.errors import BundleError
from tools.bundle.needs import Asked, Needs, contestants, needs
from tools.bundle.plan import GROUPS_FILE, choose, read_groups
from tools.sources.libraries import read

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def groups():
    return read_groups(GROUPS_FILE, ROOT / "pyproject.toml")


def everyone() -> set[str]:
    """The ``_target_`` of every contestant of every workload."""
    files = sorted((ROOT / "configs" / "workload").glob("*.yaml"))
    workloads = [yaml.safe_load(file.read_text())["workload"] for file in files]
    return {one["_target_"] for workload in workloads for one in workload["implementations"].values()}


NOWHERE = "baselines.attention.flash_attn"
"""It wants a CUDA build that no part has: it would hide flash-attn-4."""


def test_no_contestant_is_forgotten_and_none_that_is_gone_is_named(groups):
    """Who says what to install has a part or a library of that; the others run on core and on what the node has."""
    named = [*(group.contestants for group in groups.values()), *(library.contestants for library in read().values())]
    modules = [module for listed in named for module in listed]
    there = {target.rpartition(".")[0] for target in everyone()}
    assert len(modules) == len(set(modules))
    assert {*modules} < there
    assert {module for module in there - {*modules} if installs(module)} == {NOWHERE}


def test_a_contestant_has_the_part_that_its_own_words_ask_for(groups):
    """What a baseline says to install is what its part packs, or the library that it says to build."""
    pins = {text: group for name, group in groups.items() for text in group.requirements if name != "core"}
    asked = 0
    for module in {target.rpartition(".")[0] for target in everyone()} - {NOWHERE}:
        words = installs(module)
        for entry in [
            *(group for pin, group in pins.items() if pin in words),
            *(library for library in read().values() if f"tools.sources install {library.name} " in words),
        ]:
            assert module in entry.contestants, (module, entry)
            asked += 1
    assert asked > 8


DECODE = ("decode_plan", "paged_attention_decode")
"""What attention loads for few queries."""


@pytest.mark.parametrize(
    ("names", "parts", "libraries", "kernels"),
    [
        (
            ["fig8_attention"],
            "core quack flash_attn_4 kernels",
            "flash_attn_3 thunderkittens",
            {"gpu": ["attention", *DECODE]},
        ),
        (["window_attention"], "core kernels", "flash_attn_3", {"gpu": ["attention_window"]}),
        (["fig7"], "core quack nvmath kernels", "thunderkittens", {"gpu": ["gemm"]}),
        (["fig9_mamba2"], "core linear kernels", "thunderkittens", {"gpu": ["linear_attention"]}),
        (["rotary_cuda_graph"], "core flash_attn_triton liger kernels", "", {"gpu": ["rotary"]}),
        (["ampere_attention"], "core kernels", "", {"sm_80": ["attention_warps", "attention_warps_backward", *DECODE]}),
        (["ampere_rotary"], "core kernels", "", {"gpu": ["rotary"], "sm_80": ["rotary"]}),
        (["thundermla"], "core vllm_decode kernels", "", {"gpu": ["decode_plan", "mla_decode"]}),
        (["nightly_gemm"], "core kernels", "", {"gpu": ["gemm"]}),
        (["gpt_training"], "core kernels", "", {"gpu": ["attention", "rotary"]}),
        (["prefill"], "core kernels", "", {"gpu": ["attention", "rotary"]}),
        (
            ["fig10_fp8", "fig9_fft_conv"],
            "core nvmath kernels",
            "flash_fft_conv deep_gemm thunderkittens",
            {"gpu": ["fft_conv", "gemm_fp8"]},
        ),
    ],
)
def test_experiments_want_what_their_contestants_run_on(groups, names, parts, libraries, kernels):
    found = needs(contestants(names), groups, read())
    assert choose(groups, found.parts) == tuple(parts.split())
    assert (found.libraries, found.kernels) == (
        tuple(libraries.split()),
        {gpus: tuple(k) for gpus, k in kernels.items()},
    )


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("fig8_attention", {"sm_80": ("attention_warps", "attention_warps_backward", *DECODE)}),
        ("window_attention", {"sm_80": ("attention_window_warps",)}),
        ("gpt_training", {"sm_80": ("attention_warps", "attention_warps_backward", "rotary")}),
        ("fig9_hedgehog", {"sm_80": ("hedgehog_warps",)}),
        ("thundermla", {"sm_80": ("decode_plan",)}),
        ("fig10_fp8", {}),
    ],
)
def test_a_node_of_another_target_gets_its_kernels(groups, name, kernels):
    """Guard: a bundle that a machine without a GPU made had Hopper's kernels alone."""
    assert needs(contestants([name], target="sm_80"), groups, read()).kernels == kernels


def test_an_exhibit_stands_for_all_experiments_of_its_name():
    three = ("fig8_attention", "fig8_attention_d64", "fig8_attention_gqa")
    assert contestants(["fig8"]) == contestants(three)
    assert contestants(["fig8"]) > contestants(["fig6_occupancy"])


def test_of_the_released_kernels_those_of_the_experiment_are_wanted(groups):
    found = needs(contestants(["fig8_attention", "fig9_rotary"]), groups, read())
    folder = "site/thunderkittens_released"
    assert found.objects == {"thunderkittens": {f"{folder}/attention.so", f"{folder}/rotary.so"}}


@pytest.mark.parametrize(
    ("name", "said"),
    [("fig8_attentoin", "there is no exhibit 'fig8_attentoin'.*configs/experiment"), ("abstract", "measures nothing")],
)
def test_a_name_that_measures_nothing_is_an_error(name, said):
    with pytest.raises(BundleError, match=f"--for: .*{said}"):
        contestants([name])


def planned(*words):
    return command.planned(command.parser().parse_args(words), "")


def test_what_is_wanted_and_not_packed_is_known(monkeypatch, tmp_path):
    monkeypatch.setenv("TK_SOURCES", str(tmp_path))
    order, absent = planned("--for", "fig8_attention")
    assert absent == ["flash_attn_3", "thunderkittens"]
    assert order.kernels == {"gpu": ("attention", *DECODE)}
    order, absent = planned()
    assert {"quack", "flash_attn_4", "deep_gemm"} <= {*absent}
    assert "wandb" not in absent
    assert order.kernels == {"gpu": ()}
    assert planned("--target", "sm_80")[0].kernels == {"sm_80": ()}
    assert planned("--target", "sm_80", "--for", "fig7_gemm")[0].kernels == {"sm_80": ("gemm",)}


def test_a_build_is_packed_where_it_is_here_and_an_error_where_it_is_named_and_is_not(monkeypatch, tmp_path):
    monkeypatch.setenv("TK_SOURCES", str(tmp_path))
    with pytest.raises(
        BundleError, match=r"no build of flash_attn_3 for Python 3.12 and torch 2.11; .*install LIBRARY"
    ):
        planned("--with", "flash_attn_3")
    build = tmp_path / "flash_attn_3" / "key"
    (build / "site").mkdir(parents=True)
    (build / "manifest.json").write_text("{}")
    order, absent = planned("--for", "fig8_attention")
    assert "flash_attn_3" in order.parts
    assert (order.builds, absent) == ({"flash_attn_3": build}, ["thunderkittens"])
    assert "flash_attn_3" not in planned("--for", "fig8_attention", "--without", "flash_attn_3")[0].parts


def test_needs_name_no_kernels_unless_ours_compete(groups):
    assert needs({Asked("baselines.gemm.cublas.Gemm")}, groups, read()) == Needs(("core",), (), {})
