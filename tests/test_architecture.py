"""The arrows between the rooms, read from the sources: who may import whom, and who may know the hardware."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Sequence
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
        f"harness.{name}"
        for name in (
            *("records", "runs", "between"),
            *("plan.planning", "plan.said"),
        )
    ),
}


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imported(path: Path, package: str = "") -> list[tuple[str, int]]:
    """Absolute names of all modules a file of a package imports, anywhere in it, with the line."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            near = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            source = ".".join([*near, *filter(None, [node.module])])
            names += [(f"{source}.{alias.name}", node.lineno) for alias in node.names]
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
        "def f():\n    from harness.runs import load_run\n    import tk_kernels.ops\n"
        "    importlib.import_module('baselines.gemm.cublas')\n"
    )
    assert len(crossings("baselines", wrong)) == 2
    assert len(crossings("tk_kernels", wrong)) == 2
    assert len(crossings("paper_figures", wrong)) == 2


def arrows(folder: Path) -> dict[str, set[str]]:
    """Module of a package -> modules of it that it imports, those for types alone included."""
    paths = {".".join(path.relative_to(folder.parent).with_suffix("").parts): path for path in folder.rglob("*.py")}
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        # `from package.module import thing`: the module; `from package import module`: that one, and not the package.
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        every = imported(path, package)
        closest = (next((one for one in prefixes(other) if one in paths), name) for other, _ in every)
        found[name] = {other for other in closest if other != name}
    return found


def prefixes(name: str) -> list[str]:
    """`a.b.c`, `a.b`, `a`."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def circle(folder: Path) -> list[str]:
    """Modules of a package that import each other in a circle, the first again at the end; empty without any."""
    try:
        graphlib.TopologicalSorter(arrows(folder)).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("room", [*ROOMS, "tools"])
def test_no_room_has_a_circle(room: str) -> None:
    assert sum(map(len, arrows(ROOT / room).values())) > 5
    assert circle(ROOT / room) == []


STOREYS = {
    "harness": ("records", "workloads", "plan", "devices", "measure", "runs", "between", "command"),
    "paper_figures": ("published", "recorded", "judged", "shown", "exhibits", "command"),
}
"""Folders along the way of a measurement, and of a claim: what stands earlier never imports what stands later."""


def storey(module: str) -> int:
    """The storey of a module: 0 is the ground, which every room may use; what starts a command is on top."""
    package, *place = module.split(".")[:2]
    names = ("", *STOREYS[package], "reproduce", "__main__", "compare", "publish")
    return names.index(place[0]) if place and place[0] in names else 0


def up(folder: Path) -> list[str]:
    """Imports of a package that run against its way."""
    return [
        f"{name} imports {other}"
        for name, others in arrows(folder).items()
        for other in sorted(others)
        if storey(other) > storey(name)
    ]


@pytest.mark.parametrize("room", STOREYS)
def test_imports_inside_a_room_go_one_way(room: str) -> None:
    assert up(ROOT / room) == []
    assert {path.parent.name for path in (ROOT / room).glob("*/__init__.py")} == set(STOREYS[room])


def test_the_test_sees_circles_and_arrows_up(tmp_path: Path) -> None:
    package = tmp_path / "paper_figures"
    for folder in ("published", "shown"):
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").touch()
    (package / "published" / "claims.py").write_text("if TYPE_CHECKING:\n    from paper_figures.shown import table\n")
    (package / "shown" / "table.py").write_text("def f():\n    from paper_figures.shown.cells import Cell\n")
    (package / "shown" / "cells.py").write_text("import paper_figures.published.claims\n")
    names = ["paper_figures.published.claims", "paper_figures.shown.table", "paper_figures.shown.cells"]
    assert set(circle(package)) == set(names)
    assert up(package) == [f"{names[0]} imports {names[1]}"]
    (package / "labels.py").write_text("from paper_figures.published.claims import Claim\n")
    (package / "published" / "claims.py").write_text("import paper_figures.labels.more\n")
    assert set(circle(package)) == {names[0], "paper_figures.labels"}
    assert up(package) == [f"paper_figures.labels imports {names[0]}"]


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
    names = {"attention", "common", "decode", "fft_conv", "gemm", "linear", "models", "parallel", "rows"}
    assert {room.name for room in rooms} == names
    assert [wrong for room in rooms for path in room.rglob("*.py") for wrong in between_families(path, room.name)] == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from baselines.common import sites\nfrom baselines.gemm.names import CUBLAS_KERNELS\n")
    assert len(between_families(wrong, "gemm")) == 0
    assert len(between_families(wrong, "rows")) == 1


def test_a_report_loads_nothing_that_plans_or_runs() -> None:
    """Guard: `harness.runs` handed on planning's names, and a binomial quantile cost 0.7 s of scipy.stats."""
    heavy = ("torch", "hydra", "harness.plan.planning", "harness.workloads", "scipy.stats", "tk_kernels", "baselines")
    code = f"import sys, paper_figures.command.reproduce; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def bodies(folder: Path) -> dict[str, list[str]]:
    """Body of each function of a package's modules, docstring apart -> the functions that have it; tiny ones apart."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                if sum(1 for part in body for _ in ast.walk(part)) >= SMALL:
                    text = "\n".join(map(ast.unparse, body))
                    found.setdefault(text, []).append(f"{path.relative_to(folder.parent)}: {node.name}")
    return found


SMALL = 14
"""Nodes of a syntax tree: a function of fewer calls another, or makes an expression of two or three names."""


def twice(folders: Sequence[Path]) -> list[list[str]]:
    """Functions with the body of another one of these packages."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        for text, names in bodies(folder).items():
            found.setdefault(text, []).extend(names)
    return [names for names in found.values() if len(names) > 1]


@pytest.mark.parametrize("rooms", [("tk_kernels",), ("baselines",), ("harness", "paper_figures", "tools")])
def test_no_helper_stands_twice(rooms: tuple[str, ...]) -> None:
    """In packages of which one may import the other. Workloads apart: each says its own definition."""
    found = twice([ROOT / room for room in rooms])
    defined = [names for names in found if all(name.startswith("harness/workloads/") for name in names)]
    assert [names for names in found if names not in defined] == []


def test_the_test_sees_a_helper_that_stands_twice(tmp_path: Path) -> None:
    for room, name in (("one", "f"), ("two", "g")):
        (tmp_path / room).mkdir()
        text = f"def {name}(x):\n    'Says {name}.'\n    return {{key: value + 1 for key, value in x.items()}}\n"
        (tmp_path / room / "here.py").write_text(text + "def tiny(x):\n    return x + 1\n")
    assert twice([tmp_path / "one", tmp_path / "two"]) == [["one/here.py: f", "two/here.py: g"]]


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


# Numbers of one machine, which only a target may say: kernels and cost models read them from `limits`.
MACHINE_NUMBERS = re.compile(
    r"\b(?:227|228|163|164|99|100)\s*\*\s*1024\b|\b65536\b|\b(?:232448|233472)\b"  # shared memory, registers
    r"|\bl2_bytes\s*=\s*[\d(]|\b\d+\s*\*\s*(?:1000\s*\*\s*1000|1024\s*\*\s*1024)\b"  # caches
    r"|\bconsumer_registers\s*=(?:[^;(]*[^;(\w])?[1-9]\d+\b|\b(?:in|de)crease_registers<\s*\d"  # of a thread
)


def machine_numbers(text: str) -> list[str]:
    return [match.group() for match in MACHINE_NUMBERS.finditer(without_comments(text))]


def test_only_the_target_folder_knows_the_machines_numbers() -> None:
    found = {path.name: machine_numbers(path.read_text()) for path in portable_sources()}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


@pytest.mark.parametrize(
    "line",
    [
        "constexpr int bytes = 227 * 1024;",
        "const int each = 65536 / threads;",
        "constexpr int64_t l2_bytes = 80 * 1000 * 1000;",
        "constexpr int64_t l2_bytes = 50000000;",
        "static constexpr int stages = 2, consumer_registers = 240;",
        "static constexpr int consumer_registers = consumers == 3 ? 160 : 232;",
        "increase_registers<232>();",
    ],
)
def test_the_test_sees_a_machines_number(line: str) -> None:
    assert machine_numbers(line)


def test_numbers_that_are_no_machines_are_let_be() -> None:
    text = """static constexpr int consumer_registers = limits::consumer_registers(24, 2);  // 227 * 1024
        static constexpr int consumer_registers = answers ? limits::consumer_registers(40) : 0, rows = 128;
        constexpr int64_t l2_bytes = limits::l2_bytes * 8 / 15; kittens::launch<Kernel>({blocks, 1024}, stream, g);"""
    assert machine_numbers(text) == []


def long_lines(path: Path) -> list[int]:
    """Lines of more than 120 columns: clang-format breaks code, but leaves comments as they are."""
    return [number for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120]


def test_no_line_of_device_code_is_too_long(tmp_path: Path) -> None:
    written = [*portable_sources(), *(ROOT / "tk_kernels" / "include").rglob("*.cuh"), *(ROOT / "tests").rglob("*.cu*")]
    found = {path.name: lines for path in written if (lines := long_lines(path))}
    assert found == {}, "break these comments at 120 columns"
    (tmp_path / "long.cuh").write_text("// " + 117 * "x" + "\n// " + 118 * "x" + "\n")
    assert long_lines(tmp_path / "long.cuh") == [2]


def targets_named(path: Path) -> list[str]:
    """Texts of a Python file, docstrings apart, that give a program a target of GPUs: the word, or after `--target`."""
    tree = ast.parse(path.read_text(), str(path))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    named = re.compile(r"(?:^|--target[ =])sm_\d+a?(?![\w/])")
    return [text.value for text in texts if id(text) not in prose and named.search(text.value)]


def test_one_module_names_the_targets_of_gpus(tmp_path: Path) -> None:
    naming = {path for room in (*ROOMS, "tools") for path in sources(room) if targets_named(path)}
    assert naming == {ROOT / "tk_kernels" / "toolchain" / "targets.py"}
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        '"""sm_90a"""\na = ["sm_80"]\nb = f"build --target sm_90a {1}"\nc = "target/sm_90a/x for sm_90a"\n'
    )
    assert sorted(targets_named(wrong)) == ["build --target sm_90a ", "sm_80"]


HOST_ONLY = "kittens/program/check.h"
"""The library's header for host code alone, which no kernel sees."""


def test_kernels_include_the_library_by_one_name() -> None:
    for path in (ROOT / "tk_kernels" / "kernels").rglob("*.cu*"):
        for name in re.findall(r'#\s*include\s*[<"](kittens[^>"]*)[>"]', path.read_text()):
            assert name in ("kittens.cuh", HOST_ONLY), f"{path.name} includes {name}"


@pytest.mark.parametrize("room", [*ROOMS, "tools", "tests", "examples"])
def test_files_hold_one_concept(room: str) -> None:
    too_long = {path.name: n for path in sources(room) if (n := len(path.read_text().splitlines())) > 500}
    assert too_long == {}
