"""One line of a kernel or of its pipeline changed, compiled for the cpu target, and run."""

from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Callable, Sequence
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
    "grid/packed_sums.cuh",
)
CHANGEABLE = ("pipeline/", *OPERATIONS)
NUMBERS = "relative error"
Result = tuple[int, str]
"""Code of run_mutant, and its message."""
CHOICE = """\
// Which of the mistakes that the kernel's copy carries is made; 0: none.
static int mistake = 0;
extern "C" __attribute__((visibility("default"))) void make_mistake(int number) { mistake = number; }
"""


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
    alone: bool = False  # changes more than statements and expressions, so that no other can be compiled with it


def sources(
    folder: Path,
    kernel: str,
    program: str,
    mutants: Sequence[Mutant],
    change: Callable[[str, Sequence[Edit]], str],
) -> tuple[Path, Path]:
    """Copies of what may change, with the mutants' edits made by `change`: (folder of headers, source to compile)."""
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
    for header in Path(__file__).parent.glob("*mutants.h"):
        shutil.copy(header, copy)
    source = copy / f"{program}_mutants.cu"
    source.write_text(CHOICE + Path(__file__).with_name(source.name).read_text())
    edits: dict[str, list[Edit]] = {}
    for number, mutant in enumerate(mutants, 1):
        for name, old, new in ((mutant.file, mutant.old, mutant.new), *mutant.also):
            edits.setdefault(name, []).append((number, old, new))
    for name, made in edits.items():
        file = next(
            place / name
            for place in (copy, *(copy / one for one in lent), *library.iterdir())
            if (place / name).exists()
        )
        file.write_text(change(file.read_text(), made))
    return changed, source


def library_that_stays() -> str:
    """What every mutant includes and none changes."""
    lines = (INCLUDE_ROOT / "kittens.cuh").read_text().splitlines()
    kept = [line for line in lines if line.startswith("#include") and not any(name in line for name in CHANGEABLE)]
    return "\n".join(kept) + "\n"


class Carrier:
    """Runs of one kernel and of its mutants.

    One library carries all mutants of a schedule, compiled at its first use; a number says which of them runs. Those
    that are `alone` have a library each. `program` is named after the kernel unless given.
    """

    def __init__(self, folder: Path, kernel: str, mutants: Sequence[Mutant], program: str | None = None) -> None:
        self.folder, self.kernel, self.program = folder, kernel, program or kernel
        self.mutants = mutants
        self.libraries: dict[tuple[int, str], ctypes.CDLL] = {}

    def itself(self, schedule: int = 0) -> Callable[[int], Result]:
        """run(seed) of the kernel with no mistake."""
        return self._run(self._carrying(schedule), 0)

    def mutant(self, mutant: Mutant) -> Callable[[int], Result]:
        """run(seed) of the kernel with one mistake."""
        if mutant.alone:
            return self._run(self._library(mutant.schedule, mutant.name, [mutant], carried=False), 0)
        return self._run(self._carrying(mutant.schedule), self._carried(mutant.schedule).index(mutant) + 1)

    def _carried(self, schedule: int) -> list[Mutant]:
        return [mutant for mutant in self.mutants if mutant.schedule == schedule and not mutant.alone]

    def _carrying(self, schedule: int) -> ctypes.CDLL:
        return self._library(schedule, "carried", self._carried(schedule), carried=True)

    def _library(self, schedule: int, name: str, mutants: Sequence[Mutant], carried: bool) -> ctypes.CDLL:
        if (schedule, name) not in self.libraries:
            changed, source = sources(
                self.folder / f"{schedule}_{name}",
                self.kernel,
                self.program,
                mutants,
                with_choices if carried else edited,
            )
            defines = (f"SCHEDULE={schedule}",)
            self.libraries[schedule, name] = load(
                compile_library(source, changed=changed, defines=defines, prefix=library_that_stays())
            )
        return self.libraries[schedule, name]

    @staticmethod
    def _run(library: ctypes.CDLL, number: int) -> Callable[[int], Result]:
        message = ctypes.create_string_buffer(1 << 16)

        def run(seed: int) -> Result:
            library.make_mistake(number)
            message.value = b""
            code = library.run_mutant(ctypes.c_ulonglong(seed), message, len(message))
            return code, message.value.decode()

        return run


Edit = tuple[int, str, str]
"""Number of a mutant; in one file, its text, and what that becomes."""


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text with every edit made."""
    for _, old, new in edits:
        begin, end = only_place(text, old)
        text = text[:begin] + new + text[end:]
    return text


def with_choices(text: str, edits: Sequence[Edit]) -> str:
    """The text, where each edit is made only if `mistake` has its number.

    Where edits overlap, the choice is among all that they change together: statements, which end with a semicolon, or
    else an expression.
    """
    spans = sorted((*whole_comment(text, *only_place(text, old)), number, new) for number, old, new in edits)
    places: list[tuple[int, int, list[tuple[int, int, int, str]]]] = []  # begin, end, and the edits in between
    for span in spans:
        if places and span[0] < places[-1][1]:
            begin, end, inside = places[-1]
            places[-1] = (begin, max(end, span[1]), [*inside, span])
        else:
            places.append((span[0], span[1], [span]))
    for begin, end, inside in reversed(places):
        old = text[begin:end]
        news = [(number, text[begin:at] + new + text[to:end]) for at, to, number, new in inside]
        if re.sub(r"//.*", "", old).rstrip().endswith(";"):
            made = "".join(f"if (mistake == {number}) {{ {new}\n}} else " for number, new in news) + f"{{ {old}\n}}"
        else:
            made = "(" + "".join(f"mistake == {number} ? ({new}) : " for number, new in news) + f"({old}))"
        text = text[:begin] + made + text[end:]
    return text


def whole_comment(text: str, begin: int, end: int) -> tuple[int, int]:
    """The place, up to the end of its last line where it ends in a comment."""
    in_comment = "//" in text[text.rfind("\n", 0, end) + 1 : end]
    return begin, text.index("\n", end) if in_comment else end


def only_place(text: str, old: str) -> tuple[int, int]:
    """Where the text has `old`, however the lines are broken: (begin, end)."""
    found = list(re.finditer(r"\s+".join(re.escape(word) for word in old.split()), text))
    assert len(found) == 1, f"there is {len(found)} times the text that the mutant changes: {old}"
    return found[0].span()


def check_reports(mutant: Mutant, run: Callable[[int], Result]) -> None:
    """Every seed of a mutant's run ends in one of the reports that the mutant names."""
    for seed in SEEDS:
        code, report = run(seed)
        assert code == (2 if mutant.reports == (NUMBERS,) else 1), f"seed {seed}: {report or 'no report'}"
        assert any(re.search(pattern, report, re.DOTALL) for pattern in mutant.reports), f"seed {seed}: {report}"
