"""One line of a kernel or of its pipeline changed, compiled for the cpu target, and run."""

from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tile_compile import compile_library, load

from tk_kernels.toolchain.kernel_folder import INCLUDE_ROOT, KERNELS_ROOT

SEEDS = range(20)
# Of the tile library, what a mutant may change: the pipelines, and operations that do a kernel's own work.
OPERATIONS = (
    "ops/second_order.cuh",
    "ops/decays.cuh",
    "ops/softmax.cuh",
    "ops/masks.cuh",
    "ops/through.cuh",
    "grid/decayed_states.cuh",
)
CHANGEABLE = ("pipeline/", *OPERATIONS)
NUMBERS = "relative error"
Result = tuple[int, str]
"""Code of run_mutant, and its message."""


@dataclass(frozen=True)
class Mutant:
    """One mistake: in `file`, `old` becomes `new`. A report must match one of `reports`."""

    name: str
    schedule: int
    file: str
    old: str
    new: str
    reports: tuple[str, ...]
    also: tuple[tuple[str, str, str], ...] = ()  # further edits: file, old, new


def sources(folder: Path, kernel: str, mutant: Mutant | None, program: str) -> tuple[Path, Path]:
    """Copies of what may change, with the mutant's edits: (folder of headers, source to compile)."""
    changed, copy = folder / "include", folder / "kernel"
    library = changed / "kittens"
    shutil.copytree(INCLUDE_ROOT / "kittens" / "pipeline", library / "pipeline")
    for name in OPERATIONS:
        (library / name).parent.mkdir(exist_ok=True)
        shutil.copy(INCLUDE_ROOT / "kittens" / name, library / name)
    shutil.copy(INCLUDE_ROOT / "kittens.cuh", changed)  # what it includes is looked for beside it first
    shutil.copytree(KERNELS_ROOT / kernel, copy)
    lent = []  # what it has of other kernels: `../other/header` becomes `other/header`
    for path in [path for path in copy.iterdir() if path.is_file()]:
        text = path.read_text()
        lent += re.findall(r'#include "\.\./(\w+)/', text)
        path.write_text(re.sub(r'#include "\.\./', '#include "', text))
    for name in dict.fromkeys(lent):
        shutil.copytree(KERNELS_ROOT / name, copy / name)
    source = Path(shutil.copy(Path(__file__).with_name(f"{program}_mutants.cu"), copy))
    edits = [(mutant.file, mutant.old, mutant.new), *mutant.also] if mutant else []
    for name, old, new in edits:
        file = next(
            place / name
            for place in (copy, *(copy / one for one in lent), *library.iterdir())
            if (place / name).exists()
        )
        text = file.read_text()
        begin, end = only_place(text, old)
        file.write_text(text[:begin] + new + text[end:])
    return changed, source


def library_that_stays() -> str:
    """What every mutant includes and none changes."""
    lines = (INCLUDE_ROOT / "kittens.cuh").read_text().splitlines()
    kept = [line for line in lines if line.startswith("#include") and not any(name in line for name in CHANGEABLE)]
    return "\n".join(kept) + "\n"


def runner(
    folder: Path, kernel: str, schedule: int, mutant: Mutant | None, program: str | None = None
) -> Callable[[int], Result]:
    """run(seed) of one mutant's library, or of the kernel itself. `program` is named after the kernel unless given."""
    changed, source = sources(folder, kernel, mutant, program or kernel)
    defines = (f"SCHEDULE={schedule}",)
    library = load(
        compile_library(source, changed=changed, optimise="-O0", defines=defines, prefix=library_that_stays())
    )
    message = ctypes.create_string_buffer(1 << 16)

    def run(seed: int) -> Result:
        message.value = b""
        code = library.run_mutant(ctypes.c_ulonglong(seed), message, len(message))
        return code, message.value.decode()

    return run


def runner_of_all(folder: Path, kernel: str, mutants: Sequence[Mutant], program: str) -> Callable[[int, int], Result]:
    """run(number, seed) of one library that carries all mutants, compiled once; number 0 is the kernel itself.

    What changes is statements, which end with a semicolon, or else an expression. The program has `static int mistake`,
    the number of the mutant that runs, and `make_mistake(int)`.
    """
    changed, source = sources(folder, kernel, None, program)
    for path in (folder / "kernel").rglob("*.cuh"):
        edits = [(n, mutant.old, mutant.new) for n, mutant in enumerate(mutants, 1) if mutant.file == path.name]
        path.write_text(with_choices(path.read_text(), edits))
    library = load(compile_library(source, changed=changed, optimise="-O0", prefix=library_that_stays()))
    message = ctypes.create_string_buffer(1 << 16)

    def run(number: int, seed: int) -> Result:
        library.make_mistake(number)
        message.value = b""
        code = library.run_mutant(ctypes.c_ulonglong(seed), message, len(message))
        return code, message.value.decode()

    return run


def with_choices(text: str, edits: Sequence[tuple[int, str, str]]) -> str:
    """The text, where each edit (number, old, new) is made only if `mistake` has its number."""
    chosen: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for number, old, new in edits:
        chosen.setdefault(only_place(text, old), []).append((number, new))
    behind = len(text)
    for (begin, end), news in sorted(chosen.items(), reverse=True):
        assert end <= behind, f"two mutants change parts of: {text[begin:behind]}"
        behind, old = begin, text[begin:end]
        if old.endswith(";"):
            made = "".join(f"if (mistake == {number}) {{ {new} }} else " for number, new in news) + f"{{ {old} }}"
        else:
            made = "(" + "".join(f"mistake == {number} ? ({new}) : " for number, new in news) + f"({old}))"
        text = text[:begin] + made + text[end:]
    return text


def only_place(text: str, old: str) -> tuple[int, int]:
    """Where the text has `old`, however the lines are broken: (begin, end)."""
    found = list(re.finditer(r"\s+".join(re.escape(word) for word in old.split()), text))
    assert len(found) == 1, f"there is {len(found)} times the text that the mutant changes: {old}"
    return found[0].span()


def check_every_seed(folder: Path, kernel: str, mutant: Mutant, program: str | None = None) -> None:
    """Every seed ends in one of the reports that the mutant names."""
    check_reports(mutant, runner(folder, kernel, mutant.schedule, mutant, program))


def check_reports(mutant: Mutant, run: Callable[[int], Result], seeds: Iterable[int] = SEEDS) -> None:
    """Every seed of a mutant's run ends in one of the reports that the mutant names."""
    for seed in seeds:
        code, report = run(seed)
        assert code == (2 if mutant.reports == (NUMBERS,) else 1), f"seed {seed}: {report or 'no report'}"
        assert any(re.search(pattern, report, re.DOTALL) for pattern in mutant.reports), f"seed {seed}: {report}"
