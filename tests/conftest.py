"""Fixtures and options of the whole test suite."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # A job started in the background (`make test &`, many CI runners) inherits an ignored Ctrl-C, and so would the
    # commands that the tests interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Workers share the cores: with a thread a core in each of them, half of the time goes by in waits for one another.
    if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    if os.environ.get("NEED_BROWSER") and (reason := missing_browser()):
        raise pytest.UsageError(f"NEED_BROWSER is set, and the tests marked browser cannot run: {reason}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests marked `long`")
    parser.addoption(
        "--target",
        choices=("sm_80",),
        default="",
        help="operators run code for sm_80 on a GPU, any since Ampere, Hopper's included; what is not built is skipped",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    try:
        return (yield)
    except Exception as error:
        others = (
            "no kernel is built with these options",
            "are options of the kernel for Hopper GPUs",
            "needs a Hopper GPU, whose warpgroups",
        )
        target = item.config.getoption("--target")
        if target and any(words in str(error) for words in others):
            pytest.skip(f"{target} has no kernel with these options")
        if target and f"is not built for {target}" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(autouse=True)
def other_target(request: pytest.FixtureRequest) -> Iterator[None]:
    """With --target, what operators run in a test that is marked `gpu`."""
    if not request.config.getoption("--target") or request.node.get_closest_marker("gpu") is None:
        yield
        return
    from tk_kernels.ops import library

    with library.built_for(request.config.getoption("--target")):
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Workers that share a suite must name its tests alike; an address is another in each of them.
    unstable = [item.nodeid for item in items if re.search(r" at 0x[0-9a-f]+", item.nodeid)]
    if unstable:
        raise pytest.UsageError(f"the id of a test holds an address, so workers disagree: {unstable[0]}; give `ids`")
    asked_for_long = config.getoption("--long") or "long" in config.getoption("-m")
    for item in items:
        if item.get_closest_marker("long") and not asked_for_long:
            item.add_marker(pytest.mark.skip(reason="long; run it with --long"))
    # One worker makes these for all, and others would wait for it: at the beginning they are all of the first worker.
    made_once = ("kept_report", "written", "campaign")
    items.sort(key=lambda item: min((made_once.index(name) for name in names_of(item) if name in made_once), default=3))
    in_browser = [item for item in items if item.get_closest_marker("browser")]
    reason = missing_browser() if in_browser else None
    if reason:
        for item in in_browser:
            item.add_marker(pytest.mark.skip(reason=reason))
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu:
        from tests.which_gpu import missing_gpu

        for item in on_gpu:
            reason = missing_gpu(config.getoption("--target"), item.path)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


def names_of(item: pytest.Item) -> list[str]:
    """The fixtures that a test asks for, and those that they ask for."""
    return getattr(item, "fixturenames", [])


def find_chromium() -> str | None:
    """The browser that tests drive: the one that CHROMIUM names, else the first that is installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def missing_browser() -> str | None:
    """Why tests marked `browser` cannot run here, or None."""
    absent = [name for name in ("playwright", "axe_playwright_python", "html5lib") if find_spec(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed: pip install -c constraints.txt -e '.[dev]'"
    if find_chromium() is None:
        return "no Chromium here: install one (Debian: apt-get install chromium) or name it with CHROMIUM="
    return None


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Each target that runs here: the same test on the CPU and, marked `gpu`, on the GPU."""
    return str(request.param)


@pytest.fixture
def kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty kernel cache of the test's own."""
    folder = tmp_path / "kernel_cache"
    monkeypatch.setenv("TK_KERNELS_CACHE", str(folder))
    monkeypatch.delenv("TK_KERNELS_PREBUILT", raising=False)
    return folder
