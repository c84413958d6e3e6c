"""Kernel folders: what they must hold, what kernel.toml may say, how lines are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tk_kernels import toolchain
from tk_kernels.toolchain.kernel_folder import code_lines, read_declarations

GOOD = '[[allow]]\nfinding = "spill"\nfunction = "gemm"\nreason = "eight bytes, outside the main loop"\n'


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
    with pytest.raises(toolchain.KernelFolderError, match=words):
        toolchain.open_kernel(tmp_path)


def test_every_kernel_of_the_project_opens() -> None:
    assert "gemm" in toolchain.kernel_names()
    for name in toolchain.kernel_names():
        kernel = toolchain.find_kernel(name)
        assert kernel.lines_of_code() > 0
        assert (kernel.path / "README.md").is_file()


def test_lines_are_counted_by_stem(tmp_path: Path) -> None:
    for name, text in {
        "binding.cc": "int b;\n",
        "forward.h": "int h;\n",
        "forward.cuh": "// why\nint f;\nint g;\n",
        "forward.cu": "int i;\n",
        "backward.cu": "int j;\n",
    }.items():
        (tmp_path / name).write_text(text)
    kernel = toolchain.open_kernel(tmp_path)
    assert kernel.lines_by_stem() == {"backward": 1, "forward": 3}
    assert kernel.lines_of_code() == 4


def test_borrowed_files_are_found_and_counted(tmp_path: Path) -> None:
    """Those that a kernel includes from another's folder, directly or through one of them."""
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
    kernel = toolchain.open_kernel(tmp_path / "borrower")
    assert [path.name for path in kernel.borrowed()] == ["common.cuh", "lender.h"]
    assert kernel.lines_by_stem() == {"borrower": 1, "own": 2, "common": 2}
    before = toolchain.source_hash(kernel, toolchain.CPU)
    (tmp_path / "lender" / "unused.cuh").write_text("int v;\n")
    assert toolchain.source_hash(kernel, toolchain.CPU) == before
    (tmp_path / "lender" / "lender.h").write_text("int m;\n")
    assert toolchain.source_hash(kernel, toolchain.CPU) != before


def test_allowances_are_read(tmp_path: Path) -> None:
    path = tmp_path / "kernel.toml"
    assert read_declarations(path).allowances == ()
    path.write_text(GOOD)
    (allowance,) = read_declarations(path).allowances
    assert allowance.covers("spill", ("tk::gemm::kernel",))
    assert not allowance.covers("wgmma_serialized", ("tk::gemm::kernel",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[allow", "is no valid TOML"),
        ("speed = 3\n", "unknown key 'speed'"),
        ("allow = 3\n", "allow must be a list of tables"),
        ("refuse = 3\n", "refuse must be a list of tables"),
        ('[[refuse]]\ntarget = "x"\n', "needs exactly the texts target and reason"),
        (GOOD.replace("reason", "because"), "needs exactly the texts finding, function and reason"),
        (GOOD.replace('"eight bytes, outside the main loop"', '" "'), "needs exactly the texts"),
        (GOOD.replace("spill", "slow"), "finding is 'slow', must be one of spill"),
        (GOOD.replace('"gemm"', '"gemm("'), "is no regular expression"),
    ],
)
def test_mistakes_in_kernel_toml_are_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "kernel.toml"
    path.write_text(text)
    with pytest.raises(toolchain.KernelFolderError, match=words) as failure:
        read_declarations(path)
    assert str(failure.value).startswith(str(path))
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
