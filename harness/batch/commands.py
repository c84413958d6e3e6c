"""The lines of a batch: each a command of the harness, all with one worker."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence

from harness import cli
from harness.worker.supervisor import Worker

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.batch",
        description="Runs the commands that standard input has, a line each as behind `python -m harness`, with one "
        "worker for all.",
    )
    parser.add_argument(
        "--answers", type=int, metavar="FD", help="file descriptor that gets the exit code of each command, a line each"
    )
    fd = parser.parse_args(argv).answers
    lines = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what the commands start may not read them
    try:
        if fd is None:
            return run(iter(lines.readline, ""), lambda code: None)
        with os.fdopen(fd, "w", buffering=1) as answers:
            return run(iter(lines.readline, ""), lambda code: print(code, file=answers))
    except KeyboardInterrupt:  # between two commands
        return INTERRUPTED


def run(lines: Iterable[str], answer: Callable[[int], None]) -> int:
    """Runs the commands of these lines; `answer` is told the exit code of each when it has ended."""
    highest = 0
    with Worker(keep=True) as worker:
        for line in lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            code = _command(text, worker)
            highest = max(highest, code)
            answer(code)
            if code == INTERRUPTED:
                break
    return highest


def _command(text: str, worker: Worker) -> int:
    try:
        words = shlex.split(text)
    except ValueError as error:
        print(f"{text}: {error}", file=sys.stderr)
        return 2
    try:
        return cli.main(words, worker)
    except SystemExit as end:  # Hydra's, for --help and its like
        return end.code if isinstance(end.code, int) else 0
