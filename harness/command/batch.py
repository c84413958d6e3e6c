"""`python -m harness batch`: commands of the harness one after the other, with one worker for all of them.

Standard input has the words of a command a line, as a shell has them; empty lines and comments (#) are skipped.  Each
command is a run of its own.  All share one worker, so it is started once, and keeps what libraries hold
in a process (tuned choices, workspaces, the state of generators).  The exit code is the highest of theirs; an
interruption or a line that cannot be read ends the batch.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence

from harness.command import cli
from harness.measure.supervisor import Worker
from harness.records import provenance
from harness.records.errors import HarnessError

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives its exit code.  Raises `HarnessError` for a line that cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m harness batch",
        description="Runs the commands that standard input has, a line each, with one worker for all.",
        epilog="example: python -m harness batch < commands.txt, with a line such as experiment=fig7_gemm",
    )
    parser.add_argument(
        "--answers",
        type=int,
        metavar="FD",
        help="for programs: this file descriptor gets the exit code of each command as a line",
    )
    fd = parser.parse_args(argv).answers
    stream = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what the commands start may not read them
    commands = filter(None, map(_words, iter(stream.readline, "")))
    try:
        if fd is None:
            return run(commands, lambda code: None)
        with os.fdopen(fd, "w", buffering=1) as answers:
            return run(commands, lambda code: print(code, file=answers))
    except KeyboardInterrupt:  # between two commands
        return INTERRUPTED


def run(commands: Iterable[Sequence[str]], answer: Callable[[int], None]) -> int:
    """Runs the commands, given by their words; `answer` is told the exit code of each when it has ended.

    The worker runs the sources as they were at the start, but a manifest would name the current ones; so a command
    after a change is refused.
    """
    highest, began = 0, provenance.source()
    with Worker(keep=True) as worker:
        for words in commands:
            if provenance.source() != began:
                print("the sources have changed since this batch began: begin it again", file=sys.stderr)
                code = MISTAKE
            else:
                code = _command(words, worker)
            highest = max(highest, code)
            answer(code)
            if code == INTERRUPTED:
                break
    return highest


def _words(line: str) -> list[str]:
    """The words of a line; raises `HarnessError`."""
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise HarnessError(f"{line.strip()}: {error}") from None


def _command(words: Sequence[str], worker: Worker) -> int:
    try:
        return cli.main(words, worker)
    except SystemExit as end:  # Hydra's, for --help and its like
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BrokenPipeError:  # the reader of stdout has seen enough: so has the batch
        raise
    except Exception:  # a mistake of ours: the others run all the same
        traceback.print_exc()
        return FAILED
