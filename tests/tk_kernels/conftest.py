"""The helpers beside the tests of the kernels can be imported by their own names; a kernel folder of a few lines."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tk_kernels import toolchain
from tk_kernels.toolchain.building import BuildOptions

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def scale(tmp_path: Path) -> toolchain.Unit:
    """A private copy of the kernel folder `scale`."""
    shutil.copytree(FIXTURES / "scale", tmp_path / "kernels" / "scale")
    return toolchain.open_units(tmp_path / "kernels" / "scale")[0]


@pytest.fixture(scope="session")
def builds_of_scale(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds `scale` for the cpu target, for this machine and for others: made once for all tests."""
    cache = tmp_path_factory.mktemp("builds_of_scale")
    kernel = toolchain.open_units(FIXTURES / "scale")[0]
    for portable in (False, True):
        toolchain.build(kernel, toolchain.CPU, BuildOptions(cache=cache, portable=portable))
    return cache


@pytest.fixture
def warm_cache(kernel_cache: Path, builds_of_scale: Path) -> Path:
    """A kernel cache of the test's own, in which `scale` is built already; its key knows no paths."""
    shutil.copytree(builds_of_scale, kernel_cache)
    return kernel_cache
