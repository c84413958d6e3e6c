"""One line of a kernel or of its pipeline changed, compiled for the cpu target, and run."""

from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Callable
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
        wanted = r"\s+".join(re.escape(word) for word in old.split())  # however the lines are broken
        found = re.findall(wanted, text)
        assert len(found) == 1, f"{name} has {len(found)} times the text that the mutant changes: {old}"
        file.write_text(text.replace(found[0], new))
    return changed, source


def library_that_stays() -> str:
    """What every mutant includes and none changes."""
    lines = (INCLUDE_ROOT / "kittens.cuh").read_text().splitlines()
    kept = [line for line in lines if line.startswith("#include") and not any(name in line for name in CHANGEABLE)]
    return "\n".join(kept) + "\n"


def runner(
    folder: Path, kernel: str, schedule: int, mutant: Mutant | None, program: str | None = None
) -> Callable[[int], tuple[int, str]]:
    """run(seed) -> (code of run_mutant, its message). `program` is named after the kernel unless given."""
    changed, source = sources(folder, kernel, mutant, program or kernel)
    defines = (f"SCHEDULE={schedule}",)
    library = load(
        compile_library(source, changed=changed, optimise="-O0", defines=defines, prefix=library_that_stays())
    )
    message = ctypes.create_string_buffer(1 << 16)

    def run(seed: int) -> tuple[int, str]:
        message.value = b""
        code = library.run_mutant(ctypes.c_ulonglong(seed), message, len(message))
        return code, message.value.decode()

    return run


def check_every_seed(folder: Path, kernel: str, mutant: Mutant, program: str | None = None) -> None:
    """Every seed ends in one of the reports that the mutant names."""
    run = runner(folder, kernel, mutant.schedule, mutant, program)
    for seed in SEEDS:
        code, report = run(seed)
        assert code == (2 if mutant.reports == (NUMBERS,) else 1), f"seed {seed}: {report or 'no report'}"
        assert any(re.search(pattern, report, re.DOTALL) for pattern in mutant.reports), f"seed {seed}: {report}"
