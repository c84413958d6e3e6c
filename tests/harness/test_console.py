"""What the user sees, where it cannot be shown."""

import pytest
from rich.console import Console

from harness.console import Screen


def test_a_log_on_a_full_disk_stops_nothing(capsys):
    """Guard: what cannot be printed is said once on stderr, and the sweep goes on."""
    with open("/dev/full", "w") as full:
        screen = Screen(out=Console(file=full))
        for _ in range(3):
            screen._line("a line")
    assert capsys.readouterr().err.splitlines() == [
        "stdout cannot be written (No space left on device): no more is shown, results are stored"
    ]


def test_a_reader_who_has_seen_enough_ends_the_command():
    class Head:
        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            pass

    with pytest.raises(BrokenPipeError):
        Screen(out=Console(file=Head()))._line("a line")
