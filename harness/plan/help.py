"""`--help` of the command: what it does, examples, the choices of each group, and the files of configs/ as they are.

The comments of the files are the only description of a key, so that help and files cannot differ.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from harness.records.errors import HarnessError
from harness.records.naming import closest
from harness.records.places import CONFIGS

FLAGS = ("--help", "-h")
GROUPS = ("workload", "timer", "device", "wandb", "experiment")

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
Your own kernel joins with +workload.implementations.mine._target_=my_package.my_function.
Results are stored in <results_dir>/<gpu>/<campaign>/<run>/ and mirrored to wandb; exit codes are 0 (all passed or
cannot run here), 1 (a case failed), 2 (a mistake in the arguments), 130 (interrupted).
--cfg job prints the configuration, -sc install=bash completes keys in a shell, --hydra-help is Hydra's own help.
"""


def help_text(arguments: list[str], configs: Path = CONFIGS) -> str:
    """The whole help; with `workload=<name>` or another group's choice among the arguments that choice's file alone.

    Raises `HarnessError` for a choice that there is not.
    """
    choices = {group: sorted(path.stem for path in (configs / group).glob("*.yaml")) for group in GROUPS}
    for word in arguments:
        group, _, name = word.partition("=")
        if group in GROUPS:
            known = choices[group]
            if name not in known:
                raise HarnessError(f"{word} is no choice: there is {', '.join(known)}{closest(name, known)}")
            return _file(configs / group / f"{name}.yaml")
    rows = [
        textwrap.fill(f"{group}: {', '.join(known)}", 110, subsequent_indent="  ") for group, known in choices.items()
    ]
    keys = (configs / "config.yaml").read_text().partition("\nhydra:")[0]
    return "\n".join([HEADER, EXAMPLES, "Groups, group=choice", *rows, "", keys, FOOTER.rstrip()])


def main() -> int:
    """Prints the help for the process's arguments; gives the exit code.  Raises `HarnessError`."""
    print(help_text(sys.argv[1:]))
    return 0


def _file(path: Path) -> str:
    """A file of a group as it is, behind those that it builds on, whose keys it may change."""
    text = path.read_text()
    below = re.findall(r"^  - (?!_self_)(\w+)$", text, flags=re.MULTILINE)
    return "\n".join(
        [*(_file(path.with_name(f"{name}.yaml")) for name in below), f"# {path.parent.name}={path.stem}", text]
    )
