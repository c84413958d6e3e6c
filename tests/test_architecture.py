"""The arrows between the rooms, read from the sources: who may import whom, and who may know the hardware."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("tk_kernels", "baselines", "harness", "paper_figures")

# Room -> modules of other rooms that it may import.
ALLOWED: dict[str, tuple[str, ...]] = {
    "tk_kernels": (),
    "baselines": (),
    "harness": (),
    "paper_figures": tuple(
        f"harness.{name}" for name in ("results", "naming", "errors", "provenance", "records", "stats")
    ),
}


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imported(path: Path) -> list[tuple[str, int]]:
    """Absolute names of all modules a file imports, anywhere in it, with the line."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module" and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                names.append((argument.value, node.lineno))
    return names


def crossings(room: str, path: Path) -> list[str]:
    """Imports of `path`, a file of `room`, that no arrow allows."""
    found = []
    for name, line in imported(path):
        other = name.split(".")[0]
        allowed = any(name == way or name.startswith(way + ".") for way in ALLOWED[room])
        if other in (*ROOMS, "tests", "tools") and other != room and not allowed:
            found.append(f"{path.name}:{line} imports {name}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_imports_follow_the_arrows(room: str) -> None:
    assert sources(room), f"{room} has no sources"
    assert [crossing for path in sources(room) for crossing in crossings(room, path)] == []


def test_the_test_sees_a_wrong_arrow(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "def f():\n    from harness.results import load_run\n    import tk_kernels.ops\n"
        "    importlib.import_module('baselines.gemm.cublas')\n"
    )
    assert len(crossings("baselines", wrong)) == 2
    assert len(crossings("tk_kernels", wrong)) == 2
    assert len(crossings("paper_figures", wrong)) == 2


def between_families(path: Path, family: str) -> list[str]:
    """Imports of `path`, a file of a family of baselines, from another family; everyone may import `common`."""
    found = []
    for name, line in imported(path):
        room, *inside = name.split(".")
        if room == "baselines" and inside and inside[0] not in (family, "common"):
            found.append(f"{family}/{path.name}:{line} imports {name}")
    return found


def test_a_family_of_baselines_imports_what_is_common_and_no_other_family(tmp_path: Path) -> None:
    rooms = sorted(path for path in (ROOT / "baselines").iterdir() if (path / "__init__.py").exists())
    assert {room.name for room in rooms} == {"attention", "common", "fft_conv", "gemm", "linear", "rows"}
    assert [wrong for room in rooms for path in room.rglob("*.py") for wrong in between_families(path, room.name)] == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from baselines.common import sites\nfrom baselines.gemm.names import CUBLAS_KERNELS\n")
    assert len(between_families(wrong, "gemm")) == 0
    assert len(between_families(wrong, "rows")) == 1


# Words that only include/kittens/target may say: CUDA's and PTX's own.
HARDWARE = re.compile(
    r"\basm\b|__asm__|<<<|\bthreadIdx\b|\bblockIdx\b|\b__syncthreads\b|\b__shared__\b|\b__shfl\w*|\bwgmma\.|\bmbarrier\."
    r"|\bcp\.async|\bsetmaxnreg\.|\bCUtensorMap\b|#\s*include\s*<(cuda|mma|cooperative_groups)\w*"
    r"|\bcuda(Launch|Malloc|Memcpy|Stream)\w*"
)
TARGET_BRANCH = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b.*$", re.MULTILINE)


def without_comments(text: str) -> str:
    """C++ without its comments, line numbers kept."""
    return re.sub(
        r"//[^\n]*|/\*.*?\*/", lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL
    )  # fmt: skip


def portable_sources() -> list[Path]:
    """C++ of kernels and of the tile library outside its target folders."""
    kernels = ROOT / "tk_kernels" / "kernels"
    library = ROOT / "tk_kernels" / "include"
    targets = library / "kittens" / "target"
    found = [path for path in kernels.rglob("*") if path.suffix in (".cu", ".cuh", ".h", ".cc")]
    found += [path for path in library.rglob("*") if path.is_file() and targets not in path.parents]
    return sorted(found)


def hardware_words(text: str) -> list[str]:
    return [match.group() for match in HARDWARE.finditer(without_comments(text))]


def target_branches(text: str) -> list[str]:
    return [match.group().strip() for match in TARGET_BRANCH.finditer(without_comments(text))]


def test_only_the_target_folder_knows_the_hardware() -> None:
    assert len(portable_sources()) > 5
    found = {path.name: hardware_words(path.read_text()) for path in portable_sources()}
    assert {name: words for name, words in found.items() if words} == {}


def test_no_source_outside_the_target_folder_branches_in_the_preprocessor() -> None:
    found = {path.name: target_branches(path.read_text()) for path in portable_sources()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_test_sees_hardware_and_branches() -> None:
    text = "#ifdef __CUDA_ARCH__\n  int x = threadIdx.x; // asm here is a comment\n#endif\n/* wgmma.fence */"
    assert hardware_words(text) == ["threadIdx"]
    assert target_branches(text) == ["#ifdef __CUDA_ARCH__"]


def test_kernels_include_the_library_by_one_name() -> None:
    for path in (ROOT / "tk_kernels" / "kernels").rglob("*.cu*"):
        for name in re.findall(r'#\s*include\s*[<"](kittens[^>"]*)[>"]', path.read_text()):
            assert name == "kittens.cuh", f"{path.name} includes {name}"


@pytest.mark.parametrize("room", [*ROOMS, "tools"])
def test_files_hold_one_concept(room: str) -> None:
    too_long = {path.name: n for path in sources(room) if (n := len(path.read_text().splitlines())) > 500}
    assert too_long == {}
