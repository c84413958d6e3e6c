"""`python -m harness batch`: commands of the harness one after the other, with one worker for all of them.

Standard input has a command a line, with `python -m harness` before it or without; empty lines and comments (#) are
skipped.  Each command is a run of its own.  All share one worker, so it is started once, and keeps what libraries hold
in a process (tuned choices, workspaces, the state of generators).  The exit code is the highest of theirs; an
interruption or a line that cannot be read ends the batch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence

from harness.command import cli
from harness.measure.supervisor import Worker
from harness.records import provenance
from harness.records.errors import HarnessError

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m harness batch",
        description="Runs the commands that standard input has, a line each, with `python -m harness` before it or "
        "without, with one worker for all.",
        epilog="example: python -m harness batch < commands.txt, with a line such as experiment=fig7_gemm",
    )
    parser.add_argument(
        "--answers",
        type=int,
        metavar="FD",
        help="for programs: each line is a JSON list of words, and this file descriptor gets its exit code as a line",
    )
    fd = parser.parse_args(argv).answers
    stream = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what the commands start may not read them
    lines = iter(stream.readline, "")
    try:
        if fd is None:
            return run(_typed(lines), lambda code: None)
        with os.fdopen(fd, "w", buffering=1) as answers:
            return run(map(_words, lines), lambda code: print(code, file=answers))
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
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
    """The words of a program's line; raises `HarnessError`."""
    try:
        words = json.loads(line)
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise HarnessError(f'{line.strip()}: a line is a JSON list of words, such as ["experiment=fig7_gemm"]')
    return words


def _typed(lines: Iterable[str]) -> Iterator[list[str]]:
    """The words behind `python -m harness` of each line, as a shell would have them, of those that are no comment.

    A whole command is taken too, as pages have it: `python -m harness experiment=fig7_gemm   # on a GPU`.
    """
    for line in lines:
        text = line.strip()
        try:
            words = list(itertools.takewhile(lambda word: not word.startswith("#"), _split(text)))
        except ValueError as error:
            raise HarnessError(f"{text}: {error}") from None
        if words:
            yield _behind_the_harness(words)


def _split(text: str) -> Iterator[str]:
    """As `shlex.split`, one word after the other: what stands behind a `#` need not be words."""
    words = shlex.shlex(text, posix=True, punctuation_chars=False)
    words.whitespace_split, words.commenters = True, ""
    return words


def _behind_the_harness(words: list[str]) -> list[str]:
    """The words of a command without its beginning; raises `HarnessError` for another command."""
    if words[0] == "tk-bench":
        return words[1:]
    if not re.fullmatch(r"python[\d.]*", words[0].rpartition("/")[2]):
        return words
    if words[1:3] != ["-m", "harness"]:
        raise HarnessError(
            f"{shlex.join(words)}: a line is a command of the harness, such as experiment=fig7_gemm or "
            "python -m harness experiment=fig7_gemm"
        )
    return words[3:]


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
