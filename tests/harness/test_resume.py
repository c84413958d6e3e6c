"""`kill -9` of the command at any moment, and running it again, gives the tables of an undisturbed run.

The fake GPU replays the same samples for a group whenever it is timed, so that the files can be compared byte for byte.
"""

import contextlib
import gzip
import json
import os
import random
import signal
import time

import pytest
from harness_support import FAST, bench, contestant, running

from harness.command.cli import main
from harness.records import provenance
from harness.runs import load_run

PROBLEMS = [f"M=8;N=8;K={k}" for k in (8, 16, 24, 32)]
RUN = "20261121T120000Z-abcdef"
FILES = tuple(f"group-{number:04}.json.gz" for number in (1, 2, 3, 4))


def arguments(results, log):
    """A sweep whose every number is determined: as many warm-up calls as input sets, as many rounds as asked for."""
    return [
        *FAST,
        "seed=0",
        "timer.warmup_seconds=1e-9",
        "timer.budget_seconds=60",
        "timer.min_rounds=12",
        "timer.max_rounds=12",
        *contestant("slow", "Slow", seconds=0.01, log=log),
        *contestant("other", "Good", speed=1.1),
        "implementations=[slow,other]",
        "problems=[{grid: {M: [8], N: [8], K: [8, 16, 24, 32]}}]",
        f"results_dir={results}",
    ]


def prepared(log):
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def run_folder(results):
    found = [path.parent for path in results.glob(f"*/*/{RUN}/manifest.json")]
    return found[0] if found else None


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    log = folder / "log"
    assert main([*arguments(folder, log), f"run_id={RUN}"]) == 0
    return run_folder(folder), len(prepared(log))


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_resume_after_kill(tmp_path, undisturbed, kills, capsys):
    """Guards: groups are committed as a whole, a resumed run skips what is stored."""
    results, log = tmp_path / "results", tmp_path / "log"
    log_elsewhere = undisturbed[0].parents[2] / "log"
    moments = random.Random(kills)

    def command():
        folder = run_folder(results)
        if folder is None:
            return [*arguments(results, log), f"run_id={RUN}"], []
        path = folder / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["git_commit"] = provenance.source().git_commit  # whatever was committed since
        path.write_text(json.dumps(manifest))
        return [f"resume={folder}"], [group["problem"] for group in manifest["groups"]]

    for _ in range(kills):
        words, stored = command()
        log.unlink(missing_ok=True)
        process = bench(words)
        after = moments.randrange(undisturbed[1])
        deadline = time.monotonic() + 240
        while len(prepared(log)) <= after and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(moments.random() * 0.2)
        process.kill()
        process.communicate()
        assert not set(prepared(log)) & set(stored), "what was stored was measured again"
        workers = {int(line.split()[1]) for line in log.read_text().splitlines()} if log.exists() else set()
        deadline = time.monotonic() + 120
        while any(running(pid) for pid in workers) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(running(pid) for pid in workers), "the worker outlived its parent"
    words, stored = command()
    log.unlink(missing_ok=True)
    assert main(words) == 0
    assert set(prepared(log)) == set(PROBLEMS) - set(stored)
    assert capsys.readouterr().out.count("already measured in this run, kept") == len(stored)

    folder = run_folder(results)
    assert folder is not None
    for name in FILES:
        wanted, stored = (gzip.decompress((where / name).read_bytes()) for where in (undisturbed[0], folder))
        assert stored == wanted.replace(str(log_elsewhere).encode(), str(log).encode()), name
    run = load_run(folder)
    assert run.manifest["status"] == "completed"
    assert [group["problem"] for group in run.manifest["groups"]] == PROBLEMS
    assert len(run.measurements) == 8
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_hanging_worker_ends_with_its_parent(tmp_path):
    """Guard: the kernel's signal on the parent's death; a worker in a hanging call never sees its pipe close."""
    log = tmp_path / "log"
    process = bench(
        [*FAST, *contestant("hangs", "HangsFirst", log=log), "implementations=[hangs]", f"results_dir={tmp_path}"]
    )
    deadline = time.monotonic() + 240
    while not prepared(log) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()  # and not for the end of its output, which the worker holds open
    (worker,) = {int(line.split()[1]) for line in log.read_text().splitlines()}
    try:
        deadline = time.monotonic() + 120
        while running(worker) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not running(worker)
    finally:
        process.stdout.close()
        process.stderr.close()
        with contextlib.suppress(OSError):
            os.kill(worker, signal.SIGKILL)
