"""What the user sees, where it cannot be shown."""

import signal

from harness_support import FAST, bench, contestant, only_run, small

from harness.runs import load_manifest


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
