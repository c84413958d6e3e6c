"""`--help` of the command: what it does, examples, and every group and key with the comment that configs/ has on it.

The comments of the files are the only description of a key, so that help and files cannot differ.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.records.errors import HarnessError
from harness.records.naming import closest
from harness.records.places import CONFIGS

FLAGS = ("--help", "-h")
WIDTH = 110
"""Columns of the text."""
COLUMN = 30
"""Where descriptions begin."""

HEADER = """\
tk-bench: verify kernels, then measure them beside their rivals in interleaved rounds.

usage: python -m harness [key=value ...]           (tk-bench is the same command)
       python -m harness -m key=value,value ...    every combination, one run
       python -m harness resume=<run folder>       go on with a run that was interrupted
       python -m harness workload=<name> --help    a workload's problem and contestants
       python -m harness timer=<name> --help       a timer's keys; so for device and wandb
"""

EXAMPLES = """\
Examples
  python -m harness experiment=fig7_gemm plan=true            what would run, for how long, what is missing
  python -m harness experiment=fig7_gemm                      one figure's sweep, on a GPU
  python -m harness workload=gemm problem.K=64 'implementations=[tk,"tk[stages=2]",cublas]'
  python -m harness -m workload=gemm problem.K=64,128,256 'implementations=[tk,cublas]'
  python -m harness workload=gemm 'problems=[{M:256,N:256,K:256}]' 'implementations=[tk]' device=cpu
  python -m harness -m hydra/launcher=submitit_slurm experiment=fig7_gemm,fig8_attention
"""

FOOTER = """\
Results are stored in <results_dir>/<gpu>/<campaign>/<run>/ and mirrored to wandb; exit codes are 0 (all passed or
cannot run here), 1 (a case failed), 2 (a mistake in the arguments), 130 (interrupted).
--cfg job prints the configuration, -sc install=bash completes keys in a shell, --hydra-help is Hydra's own help.
"""

_LINE = re.compile(r"(?P<indent> *)(?P<entry>- )?(?P<key>[\w.]+):(?P<value>.*?)(?:\s{2,}|\s)#\s?(?P<text>.*)$")
_PLAIN = re.compile(r"(?P<indent> *)(?P<key>[\w.]+):\s*(?P<value>[^#]*)$")


@dataclass(frozen=True)
class Key:
    """A line of a file of configs/: `limits.case_seconds`, its value there, and its comment."""

    name: str
    value: str
    text: str
    group: bool = False
    """Whether it chooses a file of a group."""


def help_text(arguments: list[str], configs: Path = CONFIGS) -> str:
    """The whole help; with `workload=<name>` or another group's choice among the arguments that of the choice alone.

    Raises `HarnessError` for a choice that there is not.
    """
    for group in ("workload", "timer", "device", "wandb"):
        named = [word.partition("=")[2] for word in arguments if word.startswith(f"{group}=")]
        if named:
            path = _file(configs, group, named[-1])
            return _workload(path) if group == "workload" else _choice(path)
    found = keys(configs / "config.yaml")
    groups = [row for one in found if one.group for row in _row(one.name, one.text, _choices(configs, one.name))]
    settings = [row for one in found if not one.group for row in _row(_given(one), one.text)]
    return "\n".join(
        [HEADER, EXAMPLES, "Groups, group=choice", *groups, "", "Keys, key=value", *settings, "", FOOTER.rstrip()]
    )


def main() -> int:
    """Prints the help for the process's arguments; gives the exit code."""
    try:
        print(help_text(sys.argv[1:]))
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def keys(path: Path) -> list[Key]:
    """The keys of a file of configs/ that have a comment, in order; Hydra's own are left out."""
    found, parents = [], list[tuple[int, str]]()
    for line in path.read_text().splitlines():
        match = _LINE.match(line) or _PLAIN.match(line)
        if match is None:
            continue
        indent, key, value = len(match["indent"]), match["key"], match["value"].strip()
        parents = [one for one in parents if one[0] < indent]
        names = [name for _, name in parents]
        parents.append((indent, key))
        if "hydra" in (key, *names[:1]) or "text" not in match.groupdict():
            continue
        if match["entry"]:
            found.append(Key(key, value, match["text"], group=True))
        else:
            found.append(Key(".".join([*names, key]), value, match["text"]))
    return found


def _choices(configs: Path, group: str) -> str:
    return ", ".join(sorted(path.stem for path in (configs / group).glob("*.yaml")))


def _file(configs: Path, group: str, name: str) -> Path:
    """The file of a choice; raises `HarnessError` if there is none."""
    known = sorted(path.stem for path in (configs / group).glob("*.yaml"))
    if name not in known:
        raise HarnessError(f"{group}={name} is no choice: there is {', '.join(known)}{closest(name, known)}")
    return configs / group / f"{name}.yaml"


def _title(path: Path) -> str:
    """`timer=cuda_events: ` and what the file's first comment says."""
    comments = [line[1:].strip() for line in path.read_text().splitlines() if line.startswith("#")]
    said = next((one for one in comments if not one.startswith("@package")), "")
    return f"{path.parent.name}={path.stem}: {said}"


def _choice(path: Path) -> str:
    """The keys of a file of a group, and of those that it builds on."""
    below = re.findall(r"^  - (?!_self_)(\w+)$", path.read_text(), flags=re.MULTILINE)
    files = [*(path.with_name(f"{name}.yaml") for name in below), path]
    found = {key.name: key for file in files for key in keys(file)}
    own = [Key(f"{path.parent.name}.{one.name}", one.value, one.text) for one in found.values()]
    return "\n".join([_title(path), "", *(row for one in own for row in _row(_given(one), one.text))])


def _workload(path: Path) -> str:
    """A workload's problem and who competes at it."""
    prefix = "workload.implementations."
    found = keys(path)
    contestants = [one for one in found if one.name.startswith(prefix) and one.name.count(".") == 2]
    problem = next(line for line in path.read_text().splitlines() if line.startswith("problem:"))
    values, _, remark = problem.removeprefix("problem:").partition("#")
    return "\n".join(
        [
            _title(path),
            "",
            "Problem, problem.KEY=value",
            f"  {' '.join(_pairs(values))}",
            f"  {remark.strip()}",
            "",
            "Contestants, 'implementations=[...]'",
            *(row for one in contestants for row in _row(one.name.removeprefix(prefix), one.text)),
            "",
            "Your own joins with +workload.implementations.mine._target_=my_package.my_function",
        ]
    )


def _pairs(mapping: str) -> list[str]:
    """`{M: 1, N: 2}` as `M=1` and `N=2`."""
    return [f"{key}={value}" for key, value in yaml.safe_load(mapping.replace("null", "'null'")).items()]


def _given(key: Key) -> str:
    """`limits.call_seconds=20`; what only holds keys has no value."""
    return f"{key.name}={key.value}" if key.value else key.name


def _row(name: str, text: str, choices: str = "") -> Iterator[str]:
    """A name, its description, and on lines of their own what it may be."""
    lines = textwrap.wrap(text, WIDTH - COLUMN) + (textwrap.wrap(f"[{choices}]", WIDTH - COLUMN) if choices else [])
    first = f"  {name}".ljust(COLUMN - 1)
    if len(first) >= COLUMN:  # it needs a line of its own
        lines.insert(0, "")
    yield f"{first} {lines[0] if lines else ''}".rstrip()
    yield from (f"{'':{COLUMN}}{line}" for line in lines[1:])
