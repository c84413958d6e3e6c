"""A kernel folder: its sources, its exceptions to the quality rules, its size in lines.

`tk_kernels/kernels/<name>/` holds one or more `*.cu` (device code and host launcher, written with
`kittens` alone), `binding.cc` (the exported functions), and if need be `kernel.toml`:

    [[allow]]
    finding = "spill"            # spill | wgmma_serialized | setmaxnreg_ignored
    function = "regular expression on the mangled or readable kernel name"
    reason = "why it is no harm here"

    [[refuse]]
    target = "a target that the kernel is not built for"
    reason = "what that target lacks"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import KernelFolderError, closest

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
KERNELS_ROOT = PACKAGE_ROOT / "kernels"
INCLUDE_ROOT = PACKAGE_ROOT / "include"

FINDINGS = ("spill", "wgmma_serialized", "setmaxnreg_ignored")
SOURCE_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".cc", ".toml")
DEVICE_SUFFIXES = (".cu", ".cuh")


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
class KernelFolder:
    """One kernel's sources. `units` are compiled by the device compiler, `binding` by g++."""

    name: str
    path: Path
    units: tuple[Path, ...]
    binding: Path
    allowances: tuple[Allowance, ...]
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Names of the targets that it is not built for, with the reason."""

    def refusal(self, target: str) -> str | None:
        """Why it is not built for a target, in a sentence, or None."""
        reason = self.refusals.get(target)
        return f"{self.name} is not built for {target}: {reason}" if reason else None

    def files(self) -> tuple[Path, ...]:
        """Every file that can change what is built, sorted by name."""
        return tuple(sorted(p for p in self.path.iterdir() if p.is_file() and p.suffix in SOURCE_SUFFIXES))

    def borrowed(self) -> tuple[Path, ...]:
        """Files of other kernels' folders that these files include (`"../gemm/gemm.cuh"`), directly or not, sorted."""
        found: set[Path] = set()
        unread = list(self.files())
        while unread:
            source = unread.pop()
            for name in _QUOTED_INCLUDE.findall(source.read_text()):
                path = (source.parent / name).resolve()
                known = path in found or path.parent == self.path
                if not known and path.parent.parent == self.path.parent and path.is_file():
                    found.add(path)
                    unread.append(path)
        return tuple(sorted(found))

    def lines_of_code(self) -> int:
        """Lines of the `.cu` and `.cuh` files that hold code: neither blank nor comment alone.

        The binding and plain C++ headers are not counted: they are no part of the kernel. Borrowed files are: it needs
        them.
        """
        return sum(self.lines_by_stem().values())

    def lines_by_stem(self, comments: bool = False) -> dict[str, int]:
        """The same, of `forward.cu` and `forward.cuh` together under `forward`; `comments`: of comments as well."""
        count = filled_lines if comments else code_lines
        lines: dict[str, int] = {}
        for path in (*self.files(), *self.borrowed()):
            if path.suffix in DEVICE_SUFFIXES:
                lines[path.stem] = lines.get(path.stem, 0) + count(path.read_text())
        return lines


def open_kernel(path: Path) -> KernelFolder:
    """Read the kernel folder at `path`.

    Raises KernelFolderError when there is no `.cu`, no `binding.cc`, or a `kernel.toml` that does
    not say what this module's docstring allows.
    """
    if not path.is_dir():
        raise KernelFolderError(
            f"{path}: no such kernel folder; known kernels are {', '.join(kernel_names()) or 'none'}"
        )
    units = tuple(sorted(path.glob("*.cu")))
    if not units:
        raise KernelFolderError(f"{path}: holds no .cu file; a kernel folder needs at least one")
    binding = path / "binding.cc"
    if not binding.is_file():
        raise KernelFolderError(f"{path}: holds no binding.cc; it exports the kernel's functions to Python")
    declared = read_declarations(path / "kernel.toml")
    return KernelFolder(path.name, path, units, binding, declared.allowances, declared.refusals)


def kernel_names(root: Path = KERNELS_ROOT) -> tuple[str, ...]:
    """Names of the folders under `root` that hold a kernel, sorted."""
    if not root.is_dir():
        return ()
    return tuple(sorted(p.name for p in root.iterdir() if p.is_dir() and any(p.glob("*.cu"))))


def find_kernel(name: str, root: Path = KERNELS_ROOT) -> KernelFolder:
    """The kernel called `name`; raises KernelFolderError that lists the known ones."""
    known = kernel_names(root)
    if name not in known:
        listed = f"known kernels are {', '.join(known) or 'none'}{closest(name, known)}"
        raise KernelFolderError(f"kernel {name!r} does not exist; {listed}")
    return open_kernel(root / name)


@dataclass(frozen=True)
class Declarations:
    """What a `kernel.toml` says."""

    allowances: tuple[Allowance, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)


def read_declarations(path: Path) -> Declarations:
    """The exceptions and refusals that a `kernel.toml` declares; none when the file does not exist."""
    if not path.is_file():
        return Declarations()
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KernelFolderError(f"{path}: is no valid TOML ({error})") from None
    unknown = sorted(set(content) - {"allow", "refuse"})
    if unknown:
        raise KernelFolderError(f"{path}: unknown key {unknown[0]!r}; the keys are [[allow]] and [[refuse]]")
    tables = {}
    for key in ("allow", "refuse"):
        tables[key] = content.get(key, [])
        if not isinstance(tables[key], list) or not all(isinstance(entry, dict) for entry in tables[key]):
            raise KernelFolderError(f"{path}: {key} must be a list of tables, written [[{key}]]")
    return Declarations(
        tuple(_allowance(path, entry) for entry in tables["allow"]),
        dict(_refusal(path, entry) for entry in tables["refuse"]),
    )


def _refusal(path: Path, entry: dict[str, object]) -> tuple[str, str]:
    """One checked [[refuse]] table."""
    if set(entry) != {"target", "reason"} or not all(isinstance(v, str) and v.strip() for v in entry.values()):
        raise KernelFolderError(f"{path}: [[refuse]] got {entry}, needs exactly the texts target and reason")
    return str(entry["target"]), str(entry["reason"])


def _allowance(path: Path, entry: dict[str, object]) -> Allowance:
    """One checked [[allow]] table."""
    wanted = {"finding", "function", "reason"}
    if set(entry) != wanted or not all(isinstance(value, str) and value.strip() for value in entry.values()):
        raise KernelFolderError(f"{path}: [[allow]] got {entry}, needs exactly the texts finding, function and reason")
    finding, function, reason = (str(entry[key]) for key in ("finding", "function", "reason"))
    if finding not in FINDINGS:
        raise KernelFolderError(f"{path}: finding is {finding!r}, must be one of {', '.join(FINDINGS)}")
    try:
        re.compile(function)
    except re.error as error:
        raise KernelFolderError(f"{path}: function {function!r} is no regular expression ({error})") from None
    return Allowance(finding, function, reason)


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
