"""The line that a reader sees while a command works."""

from __future__ import annotations

import re
import time

import pytest

from paper_figures.command import progress
from paper_figures.command.progress import Working


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.05)


def wait_for(capsys: pytest.CaptureFixture[str], words: str) -> str:
    """What is said until these words are; fails after some seconds."""
    said, until = "", time.monotonic() + 120
    while words not in said:
        assert time.monotonic() < until, said
        time.sleep(0.02)
        said += capsys.readouterr().out
    return said


def test_the_line_grows_while_it_works_and_ends_with_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    with Working("[1/2] Table 1") as working:
        said = wait_for(capsys, " .")
        working.say("36 of 40 exhibits drawn")
        said += wait_for(capsys, " 36 of 40 exhibits drawn ...")
        working.outcome = "5 of 5 cases passed"
    said += capsys.readouterr().out
    assert said.startswith("[1/2] Table 1: .")
    assert re.search(r" 5 of 5 cases passed, \d+ s\n$", said)
    assert said.count("\n") == 1
    assert said.count("36 of 40") == 1, "what has not changed is said once"


def test_an_exception_ends_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Working("title"):
        raise KeyboardInterrupt
    said = capsys.readouterr().out
    assert said.endswith("\n")
    assert "done" not in said
