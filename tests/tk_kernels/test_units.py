"""Build units: what their folders must hold, what kernel.toml may say, how lines are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tk_kernels import toolchain
from tk_kernels.toolchain.units import code_lines

ROOT = Path(__file__).resolve().parents[2]
GOOD = '[[one.allow]]\nfinding = "spill"\nfunction = "gemm"\nreason = "eight bytes, outside the main loop"\n'


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ((), "holds no .cu file"),
        (("a.cu",), "holds no binding.cc"),
    ],
)
def test_incomplete_folder_says_what_is_missing(tmp_path: Path, files: tuple[str, ...], words: str) -> None:
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(toolchain.errors.KernelFolderError, match=words):
        toolchain.open_units(tmp_path)


def test_every_kernel_of_the_project_opens() -> None:
    assert "gemm" in toolchain.unit_names()
    for name in toolchain.unit_names():
        kernel = toolchain.find_unit(name)
        assert kernel.lines_of_code() > 0
        assert (kernel.path / "README.md").is_file()


def test_lines_are_counted_by_stem(tmp_path: Path) -> None:
    for name, text in {
        "binding.cc": "int b;\n",
        "forward.h": "int h;\n",
        "forward.cuh": "// why\nint f;\nint g;\n",
        "forward.cu": '#include "forward.cuh"\nint i;\n',
        "backward.cu": "int j;\n",
    }.items():
        (tmp_path / name).write_text(text)
    kernel = toolchain.open_units(tmp_path)[0]
    assert kernel.lines_by_stem() == {"backward": 1, "forward": 4}
    assert kernel.lines_of_code() == 5


def test_included_files_are_found_and_counted(tmp_path: Path) -> None:
    """Those that a unit includes by quoted names, of its folder or another's, directly or through one of them."""
    for name, text in {
        "lender/common.cuh": '#include "lender.h"\nint c;\n',
        "lender/lender.h": "int l;\n",
        "lender/unused.cuh": "int u;\n",
        "borrower/binding.cc": "int b;\n",
        "borrower/own.cuh": '#include "../lender/common.cuh"\n#include "kittens.cuh"\n',
        "borrower/borrower.cu": '#include "own.cuh"\n',
        "outside.cuh": "int o;\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    kernel = toolchain.open_units(tmp_path / "borrower")[0]
    assert [path.name for path in kernel.files()] == ["binding.cc", "borrower.cu", "own.cuh", "common.cuh", "lender.h"]
    assert kernel.lines_by_stem() == {"borrower": 1, "own": 2, "common": 2}
    before = toolchain.source_hash(kernel, toolchain.CPU)
    (tmp_path / "lender" / "unused.cuh").write_text("int v;\n")
    assert toolchain.source_hash(kernel, toolchain.CPU) == before
    (tmp_path / "lender" / "lender.h").write_text("int m;\n")
    assert toolchain.source_hash(kernel, toolchain.CPU) != before


def folder_of_two(tmp_path: Path, text: str) -> Path:
    """A folder whose kernel.toml says this, with the sources of two units."""
    folder = tmp_path / "kernels" / "one"
    folder.mkdir(parents=True)
    for name in ("one.cu", "binding.cc", "other.cu", "other_binding.cc"):
        (folder / name).touch()
    (folder / "kernel.toml").write_text(text)
    return folder


def test_a_folder_may_hold_several_units(tmp_path: Path) -> None:
    text = '[one]\nsources = ["one.cu"]\n[other]\nsources = ["other.cu"]\nbinding = "other_binding.cc"\n'
    folder = folder_of_two(tmp_path, text + 'refuse = { cpu = "why" }\n')
    one, other = toolchain.open_units(folder)
    assert toolchain.unit_names(folder.parent) == ("one", "other")
    assert toolchain.find_unit("other", folder.parent) == other
    assert [path.name for path in one.files()] == ["binding.cc", "kernel.toml", "one.cu"]
    assert [path.name for path in other.files()] == ["kernel.toml", "other.cu", "other_binding.cc"]
    assert (one.refusal("cpu"), other.refusal("cpu")) == (None, "other is not built for cpu: why")
    with pytest.raises(toolchain.errors.KernelFolderError, match="known kernels are one, other"):
        toolchain.find_unit("ohter", folder.parent)


def test_every_recorded_unit_is_one_of_the_tree() -> None:
    """A kernel that manifests name and the tree does not know would be stale for ever, and nobody would see it."""
    recorded = {
        build["name"]
        for path in ROOT.glob("results/**/manifest.json")
        for build in json.loads(path.read_text())["kernel_builds"].values()
    }
    assert len(recorded) > 10
    assert recorded <= set(toolchain.unit_names())


def test_allowances_are_read(tmp_path: Path) -> None:
    (allowance,) = toolchain.open_units(folder_of_two(tmp_path, GOOD))[0].allowances
    assert allowance.covers("spill", ("tk::gemm::kernel",))
    assert not allowance.covers("wgmma_serialized", ("tk::gemm::kernel",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[one", "is no valid TOML"),
        ("speed = 3\n", r"speed is 3, must be the table of a unit, written \[speed\]"),
        ("[one]\nspeed = 3\n", "one has the key 'speed'; there are sources, binding, refuse, allow"),
        ("[one]\nsources = 3\n", "one needs a list of sources, tables of refuse and allow"),
        ('[one]\nsources = ["two.cu"]\n', "holds no two.cu, which one needs"),
        ('[one]\nbinding = "two.cc"\n', "holds no two.cc; it exports"),
        ("[one]\nallow = 3\n", "one needs a list of sources, tables of refuse and allow"),
        ("[one]\nrefuse = 3\n", "one needs a list of sources, tables of refuse and allow"),
        ('[one]\nrefuse = { cpu = " " }\n', "must give each target a reason"),
        (GOOD.replace("reason", "because"), "needs exactly the texts finding, function and reason"),
        (GOOD.replace('"eight bytes, outside the main loop"', '" "'), "needs exactly the texts"),
        (GOOD.replace("spill", "slow"), "finding is 'slow', must be one of spill"),
    ],
)
def test_mistakes_in_kernel_toml_are_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    folder = folder_of_two(tmp_path, text)
    with pytest.raises(toolchain.errors.KernelFolderError, match=words) as failure:
        toolchain.open_units(folder)
    assert str(failure.value).startswith(str(folder))
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("\n  \n", 0),
        ("// alone\nint x;  // beside\n", 1),
        ("/* one\n two */\nint x;\n", 1),
        ("int /* inside */ x;\n", 1),
        ("int x; /* starts here\n ends here */ int y;\n", 2),
        ('const char* s = "// no comment";\nconst char* t = "/*";\nint z;\n', 3),
        ('const char* s = "quoted \\" // still text";\n', 1),
    ],
)
def test_lines_of_code(text: str, count: int) -> None:
    assert code_lines(text) == count
