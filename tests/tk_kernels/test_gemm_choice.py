"""Which of the built kernels a GEMM gets where only some of its options are forced: choice.cuh, for the cpu target.

And for sm_80, whose own kernels are chosen among.
"""

from __future__ import annotations

import ctypes
import itertools
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_gemm import BUILT, BUILT_FOR_SM_80

from tk_kernels.kernels.gemm.options import encode_options
from tk_kernels.toolchain.compilers import find_gxx, find_nvcc
from tk_kernels.toolchain.targets import CPU, SM_80
from tk_kernels.toolchain.units import INCLUDE_ROOT, find_unit

CHOICES = 21
"""The first of ASKED, which problems get unless told otherwise."""
BY_WARPS = "tile 128x128 stages 3 cluster 1x1 by_warps"
ASKED = (*BUILT[: CHOICES - 1], BY_WARPS, *BUILT[CHOICES - 1 :])
"""What gemm.cu lists; a target builds those that fit it, with as many of their stages as it has room for."""

SHAPES = ((64, 128, 64), (512, 512, 512), (1024, 1024, 64), (4096, 4096, 4096), (8192, 8192, 8192), (100, 40000, 128))

PROGRAM = """
#include "kittens.cuh"
namespace machine {
inline int multiprocessors() { return %d; }
}
#define multiprocessors machine::multiprocessors
#include "choice.cuh"
using namespace tk::gemm;
void no_launch(const problem<product>&, const options&, void*) {}
template <config Asked> constexpr config shape = fitted<product>(Asked);
template <config Asked>
constexpr built<product> entry = {shape<Asked>, fits<product>(Asked, shape<Asked>) ? no_launch : nullptr};
const built<product> kernels[] = {%s};
problem<product> sized(int m, int n, int k) { return {nullptr, nullptr, nullptr, m, n, k, k, n, n}; }
extern "C" __attribute__((visibility("default"))) int named(int index, char* text, int size) {
    std::snprintf(text, size, "%%s", name(kernels[index].shape).c_str());
    return kernels[index].start != nullptr;
}
extern "C" __attribute__((visibility("default"))) int split(int index, int m, int n, int k, int forced) {
    options o;
    o.split = forced;
    const config& c = kernels[index].shape;
    if (c.divided) return parts_of(c, sized(m, n, k), o, clusters_of(c));
    return c.consumers == swapped ? best_split(c, sized(m, n, k), o) : 0;
}
extern "C" __attribute__((visibility("default"))) double predicted(int index, int m, int n, int k, int forced) {
    options o;
    o.split = forced;
    return clocks(kernels[index].shape, sized(m, n, k), o);
}
extern "C" __attribute__((visibility("default"))) int chosen(int m, int n, int k, int stages, int persistent, int order,
                                                             int tile_m, int tile_n, int cluster_m, int cluster_n,
                                                             int schedule, int split) {
    const options o{stages, persistent, order, tile_m, tile_n, cluster_m, cluster_n, schedule, split};
    try {
        return int(&choose(kernels, %d, sized(m, n, k), o, "gemm") - kernels);
    } catch (const std::invalid_argument&) {
        return -1;
    }
}
"""


def has(kernel: str, options: dict[str, Any]) -> bool:
    """Whether a kernel has what these options force."""
    _, tile, _, stages, _, cluster, schedule, *more = kernel.split()
    found = {"tile": tile, "stages": int(stages), "cluster": cluster, "schedule": schedule}
    if schedule == "swapped" and {"order", "persistent"} & options.keys():
        return False
    if schedule == "by_warps" and "split" in options:
        return False
    if schedule in ("cooperative", "pingpong") and options.get("split") not in (
        (None, *range(2, 9)) if "divided" in more else (None, 1)
    ):
        return False
    agrees = all(found.get(name, value) == value for name, value in options.items())
    return agrees and ("hilbert" in more) == (options.get("order") == "hilbert")  # the other orders are every kernel's


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The chooser on the cpu target's machine of 4 multiprocessors."""
    return compile_chooser(tmp_path_factory, 4)


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The same where the machine has 132."""
    return compile_chooser(tmp_path_factory, 132)


@pytest.fixture(scope="module")
def a100(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The chooser of sm_80, on 108 multiprocessors."""
    return compile_chooser(tmp_path_factory, 108, SM_80.name)


def compile_chooser(
    tmp_path_factory: pytest.TempPathFactory, multiprocessors: int, target: str = CPU.name
) -> ctypes.CDLL:
    """The chooser over ASKED; on a machine of so many multiprocessors."""
    entries = []
    for kernel in ASKED:
        _, tile, _, stages, _, cluster, schedule, *more = kernel.split()
        tile, cluster = tile.replace("x", ", "), cluster.replace("x", ", ")
        schedule = "in_turn" if kernel == BUILT[2] else f"schedule::{schedule}"
        given = f".tile{{{tile}}}, .stages = {stages}, .cluster{{{cluster}}}, .consumers = {schedule}"
        given += "".join(f", .{flag} = true" for flag in ("hilbert", "divided") if flag in more)
        entries.append(f"entry<config{{{given}}}>")
    folder = tmp_path_factory.mktemp("choice")
    source, output = folder / ("choice.cc" if target == CPU.name else "choice.cu"), folder / "choice.so"
    source.write_text(PROGRAM % (multiprocessors, ", ".join(entries), CHOICES))
    if target == CPU.name:
        flags = [flag for flag in CPU.flags if not flag.startswith("-O")]
        command = [find_gxx().path, *flags, "-O0", "-march=native", "-shared"]
    else:
        nvcc = find_nvcc()
        flags = [flag for flag in SM_80.flags if not flag.startswith(("-gencode", "-Xptxas", "-lineinfo"))]
        command = [nvcc.path, *flags, "-arch=compute_80", "-ccbin", find_gxx().path]
        command += [f"-L{nvcc.library_dir}", "-cudart=static", "-shared"]
    includes = [find_unit("gemm").path, INCLUDE_ROOT / "kittens" / "target" / target, INCLUDE_ROOT]
    command += [f"-I{path}" for path in includes]
    done = subprocess.run([*command, str(source), "-o", str(output)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    loaded = ctypes.CDLL(str(output))
    loaded.predicted.restype = ctypes.c_double
    return loaded


def built(library: ctypes.CDLL) -> dict[int, str]:
    """The names of the kernels that the target builds, by their places in ASKED."""
    text = ctypes.create_string_buffer(200)
    there = [index for index in range(len(ASKED)) if library.named(index, text, len(text))]
    return {index: (library.named(index, text, len(text)), text.value.decode())[1] for index in there}


def choose(library: ctypes.CDLL, shape: tuple[int, int, int], options: dict[str, Any]) -> str | None:
    """The kernel that runs, None for a refusal."""
    index = library.chosen(*shape, *encode_options(**options))
    return None if index < 0 else built(library)[index]


FORCED: dict[str, tuple[Any, ...]] = {
    "stages": (None, 1, 2, 3, 4),
    "tile": (None, "16x128", "64x128", "128x128", "128x192", "128x256", "256x128"),
    "cluster": (None, "1x1", "2x1", "1x2"),
    "schedule": (None, "cooperative", "pingpong", "swapped", "by_warps"),
    "order": (None, "row_major", "hilbert"),
    "split": (None, 1, 4, 8),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_not_forced_is_chosen_to_fit(library: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    """The quickest of the usual ones that has what is forced, else of the others, else a refusal."""
    refused, names = 0, built(library)
    for values in itertools.product(*FORCED.values()):
        options = {name: value for name, value in zip(FORCED, values, strict=True) if value is not None}
        wanted = None
        for tier in (range(CHOICES), range(CHOICES, len(ASKED))):
            able = [index for index in tier if index in names and has(names[index], options)]
            if able:
                split = options.get("split", 0)
                wanted = names[min(able, key=lambda index: library.predicted(index, *shape, split))]
                break
        assert choose(library, shape, options) == wanted, options
        refused += wanted is None
    assert 0 < refused


def test_a_schedule_alone_leaves_the_tile_to_the_shape(library: ctypes.CDLL) -> None:
    tiles = {choose(library, shape, {"schedule": "cooperative", "split": 1}) for shape in SHAPES}
    assert tiles == {BUILT[0], BUILT[3]}
    tiles = {choose(library, shape, {"schedule": "pingpong", "split": 1}) for shape in SHAPES}
    assert tiles == {BUILT[1], BUILT[2], BUILT[15]}


def test_stages_alone_leave_the_tile_to_the_shape(library: ctypes.CDLL) -> None:
    assert {choose(library, shape, {"stages": 4, "split": 1}) for shape in SHAPES} == {BUILT[0], BUILT[1]}
    assert {choose(library, shape, {"stages": 2}) for shape in SHAPES} == {BUILT[CHOICES]}


def test_a_cluster_alone_leaves_the_tile_to_the_shape(library: ctypes.CDLL) -> None:
    found = {choose(library, shape, {"cluster": "2x1"}) for shape in SHAPES}
    assert len(found) > 1
    assert all(kernel is not None and "cluster 2x1" in kernel for kernel in found)


# On 132 multiprocessors, as measured on an H200 or H100 (README.md of the kernel): parts that K is divided into, 0 for
# none.
NAMED = {
    (1, 4096, 4096): ("16x64 swapped", 1),
    (16, 6144, 4096): ("16x64 swapped", 1),
    (16, 14336, 4096): ("16x128 swapped", 1),
    (1, 4096, 14336): ("16x128 swapped", 2),
    (64, 4096, 4096): ("64x64 swapped", 1),
    (64, 6144, 4096): ("64x128 cooperative", 0),
    (64, 14336, 4096): ("64x256 cooperative", 0),
    (1, 8192, 28672): ("16x128 swapped", 1),
    (16, 8192, 28672): ("16x128 swapped", 1),
    (64, 4096, 14336): ("64x64 swapped", 1),
    (128, 4096, 4096): ("128x64 swapped", 2),
    (128, 6144, 4096): ("64x128 cooperative", 0),
    (128, 14336, 4096): ("64x256 cooperative", 0),
    (128, 4096, 14336): ("128x64 swapped", 2),
    (256, 4096, 4096): ("64x128 cooperative", 0),
    (256, 28672, 4096): ("128x256 cooperative", 0),
    (384, 28672, 4096): ("128x192 pingpong divided", 2),
    (512, 14336, 4096): ("128x192 pingpong divided", 3),
    (768, 14336, 4096): ("128x192 pingpong divided", 2),
    (512, 5120, 13824): ("128x128 pingpong divided", 4),
    (640, 8192, 8192): ("128x256 cooperative divided", 4),
    (1280, 5120, 5120): ("128x192 pingpong divided", 8),
    (512, 512, 512): ("64x128 cooperative", 0),
    (1024, 1024, 1024): ("64x128 cooperative", 0),
    (1504, 1504, 1504): ("128x192 pingpong", 0),
    (1536, 1536, 1536): ("128x192 pingpong", 0),
    (2000, 2000, 2000): ("128x256 2x1 cooperative", 0),
    (2048, 2048, 2048): ("128x256 cooperative", 0),
    (3072, 3072, 3072): ("128x192 pingpong", 0),
    (4096, 4096, 64): ("128x256 cooperative", 0),
    (4096, 4096, 128): ("64x192 pingpong", 0),
    (4096, 4096, 256): ("128x128 pingpong", 0),
    (4096, 4096, 4096): ("128x128 pingpong", 0),
    (3584, 3584, 3584): ("128x256 cooperative", 0),
    (2560, 2560, 2560): ("128x192 pingpong divided", 6),
    (5120, 5120, 5120): ("128x192 pingpong divided", 5),
    (8192, 8192, 8192): ("128x192 pingpong", 0),
    (16384, 16384, 16384): ("128x192 pingpong divided", 2),
    (1000, 1000, 1000): ("64x128 2x1 cooperative", 0),
    (3000, 3000, 3000): ("128x192 2x1 pingpong", 0),
    (5000, 5000, 5000): ("128x256 2x1 cooperative divided", 8),
    (96, 3584, 18944): ("128x64 swapped", 2),
    (256, 3584, 18944): ("128x128 pingpong divided", 2),
    (32, 3584, 18944): ("32x64 swapped", 2),
    (32, 18944, 3584): ("64x256 cooperative", 0),
    (256, 18944, 3584): ("256x160 cooperative", 0),
    (48, 4096, 4096): ("64x64 swapped", 1),
    (256, 4096, 14336): ("128x128 pingpong divided", 2),
    (123, 2560, 10240): ("128x64 swapped", 2),
}


@pytest.mark.parametrize("shape", NAMED, ids=lambda shape: "x".join(map(str, shape)))
def test_named_shapes_on_an_h200(h200: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    kernel = choose(h200, shape, {})
    assert kernel is not None
    _, tile, _, _, _, cluster, *how = kernel.split()
    name = " ".join(part for part in (tile, cluster, *how) if part != "1x1")
    assert (name, h200.split(ASKED.index(kernel), *shape, 0)) == NAMED[shape]


def test_a_last_round_without_idle_clusters_is_never_divided(h200: ctypes.CDLL) -> None:
    """Where no tile has two parts, the kernel that does not divide is chosen, whatever the schedule."""
    for size in (*range(64, 9000, 64), *range(1000, 9000, 100)):
        shape = (size, size, size)
        for schedule in ("cooperative", "pingpong"):
            kernel = choose(h200, shape, {"schedule": schedule})
            assert kernel is not None
            assert "divided" not in kernel or h200.split(ASKED.index(kernel), *shape, 0) > 1


def test_the_last_round_is_divided_among_all_clusters(h200: ctypes.CDLL) -> None:
    cooperative, pingpong, small, _ = (ASKED.index(kernel) for kernel in ASKED if kernel.endswith("divided"))
    for index, tile in ((cooperative, (256, 256)), (pingpong, (128, 192)), (small, (128, 128))):
        assert [h200.split(index, *tile, 8192, forced) for forced in range(2, 9)] == [*range(2, 9)]
    assert [h200.split(pingpong, 128, 192, k, 8) for k in (64, 448, 449, 768, 960, 961, 1984, 1985)] == [
        1, 1, 2, 3, 3, 4, 7, 8
    ]  # fmt: skip
    tiles = (16, 17, 26, 27, 33, 34, 44, 45, 66, 67, 132, 133, 199)
    assert [h200.split(pingpong, 128, 192 * count, 8192, 8) for count in tiles] == [
        8, 7, 5, 4, 4, 3, 3, 2, 2, 1, 1, 8, 1
    ]  # fmt: skip


def test_parts_are_those_that_take_the_least_time(h200: ctypes.CDLL) -> None:
    """Of the counts that a tile can have: as many as clusters are there for, of four steps or more."""
    shapes = ((5000, 5000, 5000), (2560, 2560, 2560), (1536, 1536, 1536), (768, 6144, 4096), (200, 300, 2000))
    divided = [index for index, kernel in enumerate(ASKED) if kernel.endswith("divided")]
    for index, shape in itertools.product(divided, shapes):
        able = [parts for parts in range(1, 9) if h200.split(index, *shape, parts) == parts]
        assert h200.split(index, *shape, 0) == min(able, key=lambda parts: h200.predicted(index, *shape, parts))


# What a divided kernel has taken by the parts that its tiles had at most, us (H100).
BY_PARTS = {
    ("tile 128x256 stages 4 cluster 2x1 cooperative divided", 5000): {2: 377.6, 3: 371.3, 4: 366.2},
    ("tile 128x192 stages 4 cluster 1x1 pingpong divided", 5120): {2: 353.4, 3: 347.8, 4: 346.4},
    ("tile 128x192 stages 4 cluster 1x1 pingpong divided", 2560): {2: 62.7, 3: 59.8, 4: 59.0},
    ("tile 128x256 stages 4 cluster 2x1 cooperative divided", 3000): {2: 104.4, 3: 99.8, 4: 96.8},
}


@pytest.mark.parametrize(("kernel", "size"), BY_PARTS, ids=str)
def test_another_part_changes_what_was_measured(h200: ctypes.CDLL, kernel: str, size: int) -> None:
    """At 1.75 GHz. Nothing of the model was fitted to these."""
    measured = BY_PARTS[kernel, size]
    predicted = {parts: h200.predicted(ASKED.index(kernel), size, size, size, parts) / 1750 for parts in measured}
    for parts in (2, 3):
        change = predicted[parts + 1] - predicted[parts]
        assert change == pytest.approx(measured[parts + 1] - measured[parts], abs=1.3)


# Of the undivided kernel's time, what a divided one has taken in so many parts (H100).
SHARES = {
    ("tile 128x256 stages 4 cluster 2x1 cooperative divided", (5000, 5000, 5000), 4): 366.2 / 392.2,
    ("tile 128x192 stages 4 cluster 1x1 pingpong divided", (5120, 5120, 5120), 4): 346.4 / 365.5,
    ("tile 128x192 stages 4 cluster 1x1 pingpong divided", (768, 14336, 4096), 2): 131.2 / 138.9,
}


@pytest.mark.parametrize(("kernel", "shape", "parts"), SHARES, ids=str)
def test_a_divided_round_gains_what_was_measured(
    h200: ctypes.CDLL, kernel: str, shape: tuple[int, int, int], parts: int
) -> None:
    divided = h200.predicted(ASKED.index(kernel), *shape, parts)
    undivided = h200.predicted(ASKED.index(kernel.removesuffix(" divided")), *shape, 1)
    assert divided / undivided == pytest.approx(SHARES[kernel, shape, parts], abs=0.025)


FORCED_ON_H100 = Path(__file__).parent / "fixtures" / "gemm_forced_h100.txt"
MEAN_REGRET = {(1, 8): 0.027, (9, 128): 0.058, (129, 512): 0.033, (513, 8192): 0.018}
"""By rows of A. What a kernel that is chosen takes more than the fastest that was forced, whose noise is 1 to 2 %."""


@pytest.mark.parametrize("rows", MEAN_REGRET, ids=str)
def test_what_is_chosen_is_near_the_fastest_that_was_forced(h200: ctypes.CDLL, rows: tuple[int, int]) -> None:
    """On 168 problems, which the constants of the model were fitted to among others, and 41 that exhibits record."""
    regrets, unmeasured = [], 0
    for line in FORCED_ON_H100.read_text().splitlines()[1:]:
        M, N, K, *times = line.split()
        shape = (int(M), int(N), int(K))
        if not rows[0] <= shape[0] <= rows[1]:
            continue
        took = {name: float(us) for name, us in (entry.split("=") for entry in times) if name != "cublas"}
        kernel = choose(h200, shape, {})
        assert kernel is not None
        _, tile, _, _, _, cluster, *how = kernel.split()
        name = f"{'-'.join([tile, cluster, *how])}/{h200.split(ASKED.index(kernel), *shape, 0)}"
        unmeasured += name not in took
        regrets.append(took.get(name, min(took.values())) / min(took.values()) - 1)
    assert statistics.mean(regrets) < MEAN_REGRET[rows]
    assert max(regrets) < 0.22
    assert unmeasured <= 0.1 * len(regrets)


def test_a_forced_split_is_never_more_than_the_steps_of_k(library: ctypes.CDLL) -> None:
    assert [library.split(4, 1, 128, 65, forced) for forced in (1, 2, 8)] == [1, 2, 2]
    chosen = choose(library, (1, 128, 65), {"split": 2})
    assert chosen is not None
    assert chosen.endswith("swapped")


def test_each_target_builds_what_fits_it(library: ctypes.CDLL, a100: ctypes.CDLL) -> None:
    assert tuple(built(library).values()) == BUILT
    assert tuple(built(a100).values()) == BUILT_FOR_SM_80


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_not_forced_is_chosen_to_fit_for_sm_80(a100: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    names = built(a100)
    for schedule in (None, "cooperative", "pingpong", "swapped", "by_warps"):
        options = {} if schedule is None else {"schedule": schedule}
        able = [index for index, kernel in names.items() if has(kernel, options)]
        wanted = names[min(able, key=lambda index: a100.predicted(index, *shape, 0))] if able else None
        assert choose(a100, shape, options) == wanted, options


# On an A100's 108 multiprocessors, by count: no GPU without a copy engine has been measured.
NAMED_FOR_SM_80 = {
    (1, 4096, 4096): BUILT_FOR_SM_80[2],
    (16, 14336, 4096): BUILT_FOR_SM_80[2],
    (64, 4096, 4096): BUILT_FOR_SM_80[3],
    (512, 512, 512): BUILT_FOR_SM_80[3],
    (128, 14336, 4096): BY_WARPS,
    (1024, 1024, 1024): BY_WARPS,
    (4096, 4096, 4096): BY_WARPS,
    (5000, 5000, 5000): BY_WARPS,
    (16384, 16384, 16384): BY_WARPS,
}


@pytest.mark.parametrize("shape", NAMED_FOR_SM_80, ids=lambda shape: "x".join(map(str, shape)))
def test_named_shapes_on_an_a100(a100: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    """Large products are the warps' that copy for themselves."""
    assert choose(a100, shape, {}) == NAMED_FOR_SM_80[shape]
