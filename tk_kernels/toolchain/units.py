"""Build units: what is compiled into one library, its exceptions to the quality rules, its size in lines.

`tk_kernels/kernels/<operator>/` holds all of an operator: device code and host launchers (`*.cu`, `*.cuh`, written with
`kittens` alone), a binding (`*.cc`, the exported functions), the operator in Python, and its README. Where nothing else
is said it is one unit, called as the folder, of all its `*.cu` and `binding.cc`. `kernel.toml` says more, a table each
unit:

    [gemm_fp8]                             # the unit's name
    sources = ["gemm_fp8.cu"]              # without it, all *.cu
    binding = "gemm_fp8_binding.cc"        # without it, binding.cc
    refuse = { sm_80 = "what that target lacks" }

    [[gemm_fp8.allow]]
    finding = "spill"                      # spill | wgmma_serialized | setmaxnreg_ignored
    function = "regular expression on the mangled or readable kernel name"
    reason = "why it is no harm here"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import KernelFolderError, closest

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
KERNELS_ROOT = PACKAGE_ROOT / "kernels"
INCLUDE_ROOT = PACKAGE_ROOT / "include"

FINDINGS = ("spill", "wgmma_serialized", "setmaxnreg_ignored")
DEVICE_SUFFIXES = (".cu", ".cuh")
DECLARATIONS = "kernel.toml"


@dataclass(frozen=True)
class Allowance:
    """A finding that is let pass for the kernels whose name matches, and why."""

    finding: str
    function: str
    reason: str

    def covers(self, finding: str, names: Iterable[str]) -> bool:
        """Whether it lets `finding` pass for a kernel known by any of `names`."""
        return finding == self.finding and any(re.search(self.function, name) for name in names)


@dataclass(frozen=True)
class Unit:
    """One library's sources: `sources` are compiled by the device compiler, `binding` by g++."""

    name: str
    path: Path
    """The folder that they lie in."""
    sources: tuple[Path, ...]
    binding: Path
    allowances: tuple[Allowance, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Names of the targets that it is not built for, with the reason."""

    def refusal(self, target: str) -> str | None:
        """Why it is not built for a target, in a sentence, or None."""
        reason = self.refusals.get(target)
        return f"{self.name} is not built for {target}: {reason}" if reason else None

    def files(self) -> tuple[Path, ...]:
        """Every file that can change what is built, sorted: the sources and what they include by quoted names.

        Those of other operators' folders (`"../gemm/gemm.cuh"`) are among them; the tile library is not.
        """
        found = {*self.sources, self.binding, *self.path.glob(DECLARATIONS)}
        unread = [*self.sources, self.binding]
        while unread:
            source = unread.pop()
            for name in _QUOTED_INCLUDE.findall(source.read_text()):
                path = (source.parent / name).resolve()
                if path not in found and path.parent.parent == self.path.parent and path.is_file():
                    found.add(path)
                    unread.append(path)
        return tuple(sorted(found))

    def lines_of_code(self) -> int:
        """Lines of the `.cu` and `.cuh` files that hold code: neither blank nor comment alone.

        The binding and plain C++ headers are not counted: they are no part of the kernel.
        """
        return sum(self.lines_by_stem().values())

    def lines_by_stem(self, comments: bool = False) -> dict[str, int]:
        """The same, of `forward.cu` and `forward.cuh` together under `forward`; `comments`: of comments as well."""
        count = filled_lines if comments else code_lines
        lines: dict[str, int] = {}
        for path in self.files():
            if path.suffix in DEVICE_SUFFIXES:
                lines[path.stem] = lines.get(path.stem, 0) + count(path.read_text())
        return lines


def open_units(path: Path) -> tuple[Unit, ...]:
    """The units of the folder at `path`, by name.

    Raises KernelFolderError where a unit has no `.cu` or no binding, or `kernel.toml` does not say what this module's
    docstring allows.
    """
    if not path.is_dir():
        raise KernelFolderError(f"{path}: no such kernel folder; known kernels are {', '.join(unit_names()) or 'none'}")
    declared = _declarations(path / DECLARATIONS) or {path.name: {}}
    return tuple(_unit(path.resolve(), name, declared[name]) for name in sorted(declared))


def unit_names(root: Path = KERNELS_ROOT) -> tuple[str, ...]:
    """Names of all units in the folders under `root`, sorted."""
    return tuple(sorted(_folders(root)))


def find_unit(name: str, root: Path = KERNELS_ROOT) -> Unit:
    """The unit called `name`; raises KernelFolderError that lists the known ones."""
    folders = _folders(root)
    if name not in folders:
        listed = f"known kernels are {', '.join(sorted(folders)) or 'none'}{closest(name, tuple(folders))}"
        raise KernelFolderError(f"kernel {name!r} does not exist; {listed}")
    return next(one for one in open_units(folders[name]) if one.name == name)


def _folders(root: Path) -> dict[str, Path]:
    """The folder of each unit under `root`, by the unit's name."""
    return {
        name: path
        for path in (root.iterdir() if root.is_dir() else ())
        if any(path.glob("*.cu"))
        for name in _declarations(path / DECLARATIONS) or (path.name,)
    }


def _declarations(path: Path) -> dict[str, Any]:
    """The tables of a `kernel.toml` by unit; none where the file does not exist."""
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KernelFolderError(f"{path}: is no valid TOML ({error})") from None
    for name, table in content.items():
        if not isinstance(table, dict):
            raise KernelFolderError(f"{path}: {name} is {table!r}, must be the table of a unit, written [{name}]")
    return content


def _unit(path: Path, name: str, table: Mapping[str, Any]) -> Unit:
    """A unit as its table says, checked."""
    unknown = sorted(set(table) - {"sources", "binding", "refuse", "allow"})
    if unknown:
        raise KernelFolderError(
            f"{path / DECLARATIONS}: {name} has the key {unknown[0]!r}; there are sources, binding, refuse, allow"
        )
    given, refused, allowed = table.get("sources"), table.get("refuse", {}), table.get("allow", [])
    if not (isinstance(given, list | None) and isinstance(refused, dict) and isinstance(allowed, list)):
        raise KernelFolderError(f"{path / DECLARATIONS}: {name} needs a list of sources, tables of refuse and allow")
    if not all(map(str.strip, refused.values())):
        raise KernelFolderError(f"{path / DECLARATIONS}: refuse of {name} must give each target a reason")
    sources = tuple(sorted(path.glob("*.cu") if given is None else (path / one for one in given)))
    missing = [one.name for one in sources if not one.is_file()]
    if not sources or missing:
        raise KernelFolderError(f"{path}: holds no {missing[0] if missing else '.cu file'}, which {name} needs")
    binding = path / table.get("binding", "binding.cc")
    if not binding.is_file():
        raise KernelFolderError(f"{path}: holds no {binding.name}; it exports the functions of {name} to Python")
    allowances = tuple(_allowance(path / DECLARATIONS, one) for one in allowed)
    return Unit(name, path, sources, binding, allowances, refused)


def _allowance(path: Path, entry: dict[str, str]) -> Allowance:
    """One [[allow]] table, which has a reason."""
    if set(entry) != {"finding", "function", "reason"} or not all(map(str.strip, entry.values())):
        raise KernelFolderError(f"{path}: allow got {entry}, needs exactly the texts finding, function and reason")
    if entry["finding"] not in FINDINGS:
        raise KernelFolderError(f"{path}: finding is {entry['finding']!r}, must be one of {', '.join(FINDINGS)}")
    return Allowance(**entry)


_QUOTED_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def filled_lines(text: str) -> int:
    """Number of lines that are not blank."""
    return sum(1 for line in text.splitlines() if line.strip())


def code_lines(text: str) -> int:
    """Number of lines of C++ that are left when comments and blank lines are taken away."""

    def without_comment(match: re.Match[str]) -> str:
        found = match.group()
        return found if found.startswith('"') else "\n" * found.count("\n")

    return sum(1 for line in _COMMENT_OR_TEXT.sub(without_comment, text).splitlines() if line.strip())
