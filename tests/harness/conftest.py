"""Fixtures of the harness's tests.  The fakes are found by name in spawned workers, so their folder is on the path."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session", autouse=True)
def end_of_the_warm_worker():
    """Ends the worker that commands share, which the session would wait for."""
    yield
    from harness_support import WARM

    WARM.__exit__()


@pytest.fixture
def contest(device):
    """contest("Cheat") -> (how the cheat ended, how an honest competitor did), both in one group."""
    from harness_contest import contests

    yield from contests(device)


@pytest.fixture
def folder(tmp_path):
    """Where a run would be stored."""
    from harness_support import MANIFEST

    return tmp_path / "c" / MANIFEST["run_id"]


@pytest.fixture
def opened(folder):
    """A run that has just begun, open."""
    from harness_support import MANIFEST

    from harness.runs.store import Store

    with Store.create(folder, MANIFEST) as made:
        yield made


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory):
    """A small complete run on the fake GPU: two problems, ours a tenth faster than the baseline."""
    from harness_support import FAST, main, only_run

    results = tmp_path_factory.mktemp("results")
    arguments = [
        *FAST,
        "device._target_=harness_fakes.FakeGpu",
        "problems=[{grid: {M: [64], N: [48], K: [64, 128]}}]",
        "workload.implementations.tk._target_=harness_fakes.Good",
        "+workload.implementations.tk.speed=1.1",
        "workload.implementations.cublas._target_=harness_fakes.Good",
        "implementations=[tk,cublas]",
        "campaign=test",
        f"results_dir={results}",
    ]
    assert main(arguments) == 0
    return only_run(results)


@pytest.fixture(scope="session")
def published(stored_run, tmp_path_factory):
    """A run mirrored to wandb, offline: the folder that wandb wrote, and every record in it."""
    from harness_support import records

    from harness.command.publish import publish

    where = publish(stored_run, mode="offline", project="tk-test", entity=None, dir=str(tmp_path_factory.mktemp("w")))
    return where, records(where)
