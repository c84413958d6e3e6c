"""A kernel's mutants: all of its mistakes in one program, compiled for the cpu target, and run by number."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from changes_that_are_right import RIGHT
from mutants_by_hand import WRITTEN
from mutation_rules import REPORTED, Edit, edits, with_all, without_comments
from tile_compile import compile_library

from tk_kernels.toolchain.units import INCLUDE_ROOT, KERNELS_ROOT

DRIVERS = Path(__file__).with_name("mutants")
LIBRARY = INCLUDE_ROOT / "kittens"
# Of the tile library, what may be changed: the pipelines, and operations that do a kernel's own work.
CHANGEABLE = (
    "pipeline/",
    "program/",
    "ops/second_order.cuh",
    "ops/decays.cuh",
    "ops/softmax.cuh",
    "ops/masks.cuh",
    "ops/through.cuh",
)
TIMEOUT_S = 120
CHOICE = """\
namespace mutants {{
constexpr int mistakes = {count};
static int made_number = 0;  // 0: none
static bool matters[mistakes + 1];
// Whether this mistake is made; `differs`: whether that makes a difference here.
inline bool made(int number, bool differs = true) {{
    if (differs) matters[number] = true;
    return number == made_number;
}}
}}  // namespace mutants
"""


def drivers() -> list[str]:
    return sorted(path.stem for path in DRIVERS.glob("*.cu"))


def sources_of(driver: str) -> dict[str, Path]:
    """What a mutant may change, by name: what the driver includes of kernels, its own .cuh, and CHANGEABLE."""
    found = {str(path.relative_to(LIBRARY)): path for path in sorted(LIBRARY.rglob("*.cuh"))}
    found = {name: path for name, path in found.items() if name.startswith(CHANGEABLE)}
    waiting = [(DRIVERS / f"{driver}.cu", KERNELS_ROOT)]
    while waiting:
        source, folder = waiting.pop()
        for included in re.findall(r'^#include "([^"]+)"', source.read_text(), re.MULTILINE):
            path = (folder / included).resolve()
            if path.exists() and path.is_relative_to(KERNELS_ROOT) and path not in found.values():
                found[str(path.relative_to(KERNELS_ROOT))] = path
                waiting.append((path, path.parent))
    return {**found, **{path.name: path for path in DRIVERS.glob(f"{driver}.cuh")}}


class Carrier:
    """One kernel's mutants, numbered from 1: those of the rules, and those of WRITTEN, by hand.

    A program carries them all; it is compiled once a schedule, when it is first run.
    """

    def __init__(self, driver: str, folder: Path) -> None:
        self.driver, self.folder = driver, folder
        self.sources = sources_of(driver)
        self.texts = {name: path.read_text() for name, path in self.sources.items()}
        self.programs: dict[int, Path] = {}

    @cached_property
    def schedules(self) -> range:
        found = re.search(r"constexpr int schedules = (\d+);", (DRIVERS / f"{self.driver}.cu").read_text())
        return range(int(found[1]) if found else 1)

    @cached_property
    def mutants(self) -> list[Sequence[Edit]]:
        right = [(reason_for, *self._place(file, text)) for reason_for, file, text, _ in RIGHT.get(self.driver, ())]
        found = {}
        for file, text in self.texts.items():
            for edit in edits(file, text) if file.endswith((".cu", ".cuh")) else []:
                if not any(
                    kind == edit.kind and name == file and begin <= edit.begin and edit.end <= end
                    for kind, name, begin, end in right
                ):
                    found.setdefault((file, edit.begin, edit.end, "".join(edit.new.split())), edit)
        return [*((edit,) for edit in found.values()), *self._written()]

    def _written(self) -> Iterator[Sequence[Edit]]:
        for mutant in WRITTEN.get(self.driver, ()):
            changes = (mutant,) if isinstance(mutant[0], str) else mutant
            yield [self._change(*change) for change in changes]

    def _change(self, file: str, old: str, new: str) -> Edit:
        name, begin, end = self._place(file, old)
        changed = without_comments(self.texts[name])[begin:end].rstrip()
        return Edit("written", name, begin, begin + len(changed), new, statement=changed.endswith(";"))

    def _place(self, file: str, text: str) -> tuple[str, int, int]:
        """Where a file has a text, whose lines may be broken, or the part in angle quotes: (name, begin, end)."""
        parts = re.fullmatch(r"(?:(.*)«)?([^«»]*)(?:»(.*))?", text, re.DOTALL).groups("")
        before, part, after = (r"\s*".join(map(re.escape, re.findall(r"\w+|\S", given))) for given in parts)
        places = [
            (name, *found.span(1))
            for name, whole in self.texts.items()
            if f"/{name}".endswith(f"/{file}")
            for found in re.finditer(rf"{before}\s*({part})\s*{after}", whole)
        ]
        assert len(places) == 1, f"{self.driver}: {file} has {len(places)} times the text {text}"
        return places[0]

    def kind(self, number: int) -> str:
        return self.mutants[number - 1][0].kind

    def told(self, number: int) -> str:
        """A mutant in a line: its kind, and what becomes what in which line of which file."""
        return "; ".join(map(self._told, self.mutants[number - 1]))

    def _told(self, edit: Edit) -> str:
        text = self.texts[edit.file]
        line = text.count("\n", 0, edit.begin) + 1
        old, new = (" ".join(given.split()) for given in (text[edit.begin : edit.end], edit.new))
        return f"{edit.kind} {edit.file}:{line} {old} -> {new or 'nothing'}"

    def run(self, schedule: int, number: int, seeds: int) -> list[str]:
        """A line a seed, as the program prints them; `hangs` where it does not end, `dies` where it ends too early."""
        if schedule not in self.programs:
            self.programs[schedule] = self._compiled(schedule)
        command = [str(self.programs[schedule]), str(number), str(seeds)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return ["hangs"]
        return [*ran.stdout.splitlines(), *([f"dies {ran.returncode}"] if ran.returncode else [])]

    def is_told(self, number: int, lines: list[str]) -> bool:
        """Whether each seed's line tells of the mistake: as a report or, where the kind may, in the numbers."""
        others = () if self.kind(number) in REPORTED else ("numbers", "dies", "hangs")
        return all(line.startswith(("report", *others)) for line in lines)

    def _compiled(self, schedule: int) -> Path:
        changed, copy = self.folder / "include", self.folder / "kernels"
        if not copy.exists():
            for name, path in self.sources.items():
                to = changed / "kittens" / name if path.is_relative_to(LIBRARY) else copy / name
                to.parent.mkdir(parents=True, exist_ok=True)
                numbered = [
                    (number, edit)
                    for number, mutant in enumerate(self.mutants, 1)
                    for edit in mutant
                    if edit.file == name
                ]
                to.write_text(with_all(self.texts[name], numbered))
            shutil.copy(INCLUDE_ROOT / "kittens.cuh", changed)  # what it includes is looked for beside it first
            for header in DRIVERS.glob("*.h"):
                shutil.copy(header, copy)
            text = (DRIVERS / f"{self.driver}.cu").read_text()
            (copy / f"{self.driver}.cu").write_text(CHOICE.format(count=len(self.mutants)) + text)
        return compile_library(
            copy / f"{self.driver}.cu",
            changed=changed,
            defines=(f"SCHEDULE={schedule}",),
            prefix=library_that_stays(),
            program=True,
        )


def library_that_stays() -> str:
    """What every mutant includes and none changes."""
    lines = (INCLUDE_ROOT / "kittens.cuh").read_text().splitlines()
    kept = [line for line in lines if line.startswith("#include") and not any(name in line for name in CHANGEABLE)]
    return "\n".join(kept) + "\n"
