"""What the user sees, where it cannot be shown."""

import signal

from harness_support import FAST, bench, contestant, only_run, small
from rich.console import Console

from harness.console import Screen
from harness.results import load_manifest


def test_a_log_on_a_full_disk_stops_nothing(capsys):
    """Guard: what cannot be printed is said once on stderr, and the sweep goes on."""
    with open("/dev/full", "w") as full:
        screen = Screen(out=Console(file=full))
        for _ in range(3):
            screen._line("a line")
    assert capsys.readouterr().err.splitlines() == [
        "stdout cannot be written (No space left on device): no more is shown, results are stored"
    ]


def test_a_reader_who_has_seen_enough_ends_the_command(tmp_path):
    """Guard: it is told from a mistake in the arguments, and the folder is closed."""
    words = [*FAST, *small(), *contestant("good", "Good"), "implementations=[good]", f"results_dir={tmp_path}"]
    process = bench(words)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 128 + signal.SIGPIPE
    manifest = load_manifest(only_run(tmp_path))
    assert manifest["status"] == "failed"
    assert manifest["ended_utc"]
