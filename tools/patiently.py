"""Run a command that says much and waits long: ``python tools/patiently.py [--log FILE] TITLE COMMAND...``.

What it says goes to the log. Here stands one line, which grows every 8 seconds by the time and by what it said last,
where that is new. If it fails, the end of the log is shown, and its exit code is this one's. Standard library alone:
`make` runs this before anything is installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

EVERY_SECONDS = 8.0
SHOWN_OF_A_FAILURE = 20
"""Lines."""
WIDTH = 60
"""Of what it said last, in characters."""


def run(title: str, command: Sequence[str], log: Path) -> int:
    """The exit code of the command; 130 if it was interrupted."""
    started = time.monotonic()
    print(f"{title} ...", end="", flush=True)
    said: list[str] = []
    told = ""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
    except OSError as error:
        print(f"\nerror: {command[0]} does not start: {error.strerror}", file=sys.stderr)
        return 127
    assert process.stdout is not None
    reader = threading.Thread(target=_read, args=(process.stdout, log, said), daemon=True)
    reader.start()
    try:
        while _is_at_work(process):
            last = said[-1][:WIDTH] if said else ""
            print(f" {time.monotonic() - started:.0f} s{f' ({last})' if last != told else ''} ...", end="", flush=True)
            told = last
    except KeyboardInterrupt:
        print(flush=True)
        process.wait()
        return 130
    reader.join()
    if process.returncode:
        print(flush=True)
        print("\n".join(said[-SHOWN_OF_A_FAILURE:]), file=sys.stderr)
        print(f"error: {title}: exit code {process.returncode}; all it said is in {log}", file=sys.stderr)
    else:
        print(f" done, {time.monotonic() - started:.0f} s", flush=True)
    return process.returncode


def _is_at_work(process: subprocess.Popen[str]) -> bool:
    """Whether the command is still there after some seconds."""
    try:
        process.wait(timeout=EVERY_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _read(output: object, log: Path, said: list[str]) -> None:
    """Note what a command says, in its log and line by line."""
    with log.open("a", encoding="utf-8") as file:
        for line in output:  # type: ignore[attr-defined]
            file.write(line)
            if line.strip():
                said.append(line.strip())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tools/patiently.py", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--log", type=Path, required=True, help="file that takes all the command says")
    parser.add_argument("title", help="what is done, for the reader")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    options = parser.parse_args(arguments)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    return run(options.title, options.command, options.log)


if __name__ == "__main__":
    sys.exit(main())
