"""Which of the built kernels a GEMM gets where only some of its options are forced: choice.cuh, for the cpu target."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from typing import Any

import pytest
from test_gemm import BUILT

from tk_kernels.ops.gemm_options import encode_options
from tk_kernels.toolchain.compilers import find_gxx
from tk_kernels.toolchain.kernel_folder import INCLUDE_ROOT, find_kernel
from tk_kernels.toolchain.targets import CPU

CHOICES = 4
"""The first of BUILT, which problems get unless told otherwise."""

SHAPES = ((64, 128, 64), (512, 512, 512), (1024, 1024, 64), (4096, 4096, 4096), (8192, 8192, 8192), (100, 40000, 128))

PROGRAM = """
#include "choice.cuh"
using namespace tk::gemm;
const built<product> kernels[] = {%s};
problem<product> sized(int m, int n, int k) { return {nullptr, nullptr, nullptr, m, n, k, k, n, n}; }
extern "C" __attribute__((visibility("default"))) double predicted(int index, int m, int n, int k) {
    return clocks(kernels[index].shape, sized(m, n, k));
}
extern "C" __attribute__((visibility("default"))) int chosen(int m, int n, int k, int stages, int persistent, int order,
                                                             int tile_m, int tile_n, int cluster_m, int cluster_n,
                                                             int schedule) {
    const options o{stages, persistent, order, tile_m, tile_n, cluster_m, cluster_n, schedule};
    try {
        return int(&choose(kernels, %d, sized(m, n, k), o, "gemm") - kernels);
    } catch (const std::invalid_argument&) {
        return -1;
    }
}
"""


def has(kernel: str, options: dict[str, Any]) -> bool:
    """Whether one of BUILT has what these options force."""
    _, tile, _, stages, _, cluster, schedule, *order = kernel.split()
    found = {"tile": tile, "stages": int(stages), "cluster": cluster, "schedule": schedule}
    agrees = all(found.get(name, value) == value for name, value in options.items())
    return agrees and bool(order) == (options.get("order") == "hilbert")  # the other orders are every kernel's


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The chooser over BUILT, on the cpu target's machine of 4 multiprocessors."""
    entries = []
    for kernel in BUILT:
        _, tile, _, stages, _, cluster, schedule, *order = kernel.split()
        sizes = ", ".join([*tile.split("x"), stages, *cluster.split("x")])
        entries.append(f"{{{{{sizes}, {'true' if schedule == 'pingpong' else 'false'}, {str(bool(order)).lower()}}}}}")
    folder = tmp_path_factory.mktemp("choice")
    source, output = folder / "choice.cc", folder / "choice.so"
    source.write_text(PROGRAM % (", ".join(entries), CHOICES))
    flags = [flag for flag in CPU.flags if not flag.startswith("-O")]
    includes = [find_kernel("gemm").path, INCLUDE_ROOT / "kittens" / "target" / "cpu", INCLUDE_ROOT]
    command = [find_gxx().path, *flags, "-O0", "-march=native", "-shared", *(f"-I{path}" for path in includes)]
    done = subprocess.run([*command, str(source), "-o", str(output)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    loaded = ctypes.CDLL(str(output))
    loaded.predicted.restype = ctypes.c_double
    return loaded


def choose(library: ctypes.CDLL, shape: tuple[int, int, int], options: dict[str, Any]) -> str | None:
    """The kernel of BUILT that runs, None for a refusal."""
    index = library.chosen(*shape, *encode_options(**options))
    return None if index < 0 else BUILT[index]


FORCED: dict[str, tuple[Any, ...]] = {
    "stages": (None, 1, 2, 3, 4),
    "tile": (None, "64x128", "128x128", "128x192", "128x256", "256x128"),
    "cluster": (None, "1x1", "2x1", "1x2"),
    "schedule": (None, "cooperative", "pingpong"),
    "order": (None, "row_major", "hilbert"),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_not_forced_is_chosen_to_fit(library: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    """The quickest of the usual four that has what is forced, else of the others, else a refusal."""
    refused = 0
    for values in itertools.product(*FORCED.values()):
        options = {name: value for name, value in zip(FORCED, values, strict=True) if value is not None}
        wanted = None
        for tier in (range(CHOICES), range(CHOICES, len(BUILT))):
            able = [index for index in tier if has(BUILT[index], options)]
            if able:
                wanted = BUILT[min(able, key=lambda index: library.predicted(index, *shape))]
                break
        assert choose(library, shape, options) == wanted, options
        refused += wanted is None
    assert 0 < refused


def test_a_schedule_alone_leaves_the_tile_to_the_shape(library: ctypes.CDLL) -> None:
    tiles = {choose(library, shape, {"schedule": "cooperative"}) for shape in SHAPES}
    assert tiles == {BUILT[0], BUILT[3]}
    tiles = {choose(library, shape, {"schedule": "pingpong"}) for shape in SHAPES}
    assert tiles == {BUILT[1], BUILT[2]}


def test_stages_alone_leave_the_tile_to_the_shape(library: ctypes.CDLL) -> None:
    assert {choose(library, shape, {"stages": 4}) for shape in SHAPES} == {BUILT[0], BUILT[1]}
    assert {choose(library, shape, {"stages": 2}) for shape in SHAPES} == {BUILT[5]}


def test_a_cluster_alone_gets_a_kernel_outside_the_usual_four(library: ctypes.CDLL) -> None:
    found = {choose(library, shape, {"cluster": "2x1"}) for shape in SHAPES}
    assert len(found) > 1
    assert all(kernel is not None and "cluster 2x1" in kernel for kernel in found)
