"""Which kernels the FP8 GEMM has, and which a product gets on 132 multiprocessors: choice.cuh, for the cpu target."""

from __future__ import annotations

import ctypes
import re
import subprocess

import pytest
import torch

import tk_kernels as tk
from tk_kernels.toolchain.compilers import find_gxx
from tk_kernels.toolchain.targets import CPU
from tk_kernels.toolchain.units import INCLUDE_ROOT, find_unit

# Of products with fast accumulation and at most one scale an operand, in the words of the error that lists them.
BUILT = (
    "tile 128x256 stages 4 cluster 1x1 cooperative",
    "tile 128x128 stages 6 cluster 1x1 pingpong",
    "tile 64x128 stages 8 cluster 1x1 cooperative",
    "tile 128x192 stages 4 cluster 1x1 pingpong",
    "tile 128x160 stages 5 cluster 1x1 pingpong",
    "tile 16x128 stages 6 cluster 1x1 swapped",
    "tile 64x128 stages 8 cluster 1x1 swapped",
    "tile 128x64 stages 8 cluster 1x1 swapped",
    "tile 128x256 stages 4 cluster 2x1 cooperative",
    "tile 128x192 stages 4 cluster 2x1 pingpong",
)

PROGRAM = """
#include "kittens.cuh"
namespace machine {
inline int multiprocessors() { return 132; }
}
#define multiprocessors machine::multiprocessors
#include "../gemm/choice.cuh"
#include "gemm_fp8.cuh"
using namespace tk::gemm;
using scaled = tk::gemm_fp8::scaled_product<kittens::bf16, false>;
void no_launch(const problem<scaled>&, const options&, void*) {}
const built<scaled> kernels[] = {%s};
extern "C" __attribute__((visibility("default"))) int chosen(int m, int n, int k) {
    const scaled::extra extra{{nullptr, 1, 1, m, 1, 0, 0, 0}, {nullptr, 1, 1, 1, n}, false, false, false};
    const problem<scaled> p{{nullptr, nullptr, nullptr, m, n, k, k, k, n}, extra};
    return int(&choose(kernels, %d, p, {}, "gemm_fp8") - kernels);
}
"""


def operand(rows: int) -> torch.Tensor:
    return torch.zeros(rows, 32).to(torch.float8_e4m3fn)


def test_the_kernels_that_are_built() -> None:
    with pytest.raises(ValueError, match="there are") as caught:
        tk.gemm_fp8(operand(48), operand(64).t(), tile="96x96")
    assert tuple(line.strip() for line in str(caught.value).splitlines()[1:]) == BUILT


@pytest.fixture(scope="module")
def chooser(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The chooser over BUILT, where the machine has 132 multiprocessors."""
    folder, here = tmp_path_factory.mktemp("choice"), find_unit("gemm_fp8").path
    counts = re.findall(r"run\(fast_kernels<operation>, (\d+)\)", (here / "gemm_fp8.cu").read_text())
    assert len(counts) == 1
    entries = []
    for kernel in BUILT:
        _, tile, _, stages, _, cluster, schedule = kernel.split()
        sizes = ", ".join([*tile.split("x"), stages, *cluster.split("x")])
        entries.append(f"{{{{{sizes}, {schedule}}}, no_launch}}")
    source, output = folder / "choice.cc", folder / "choice.so"
    source.write_text(PROGRAM % (", ".join(entries), int(counts[0])))
    flags = [flag for flag in CPU.flags if not flag.startswith("-O")]
    includes = [here, INCLUDE_ROOT / "kittens" / "target" / "cpu", INCLUDE_ROOT]
    command = [find_gxx().path, *flags, "-O0", "-march=native", "-shared", *(f"-I{path}" for path in includes)]
    done = subprocess.run([*command, str(source), "-o", str(output)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(output))


# As trials had them (README.md of the kernel). On an H200 160 columns make fewer rounds. On an H100 a cluster pays
# where rows begin inside a sector of 32 bytes, and not at 1504.
CHOSEN = {
    5120: "128x160 pingpong",
    1504: "128x160 pingpong",
    4096: "128x128 pingpong",
    8192: "128x192 pingpong",
    512: "64x128 cooperative",
    2000: "128x256 2x1 cooperative",
    3008: "128x192 pingpong",
    3216: "128x256 2x1 cooperative",
    5008: "128x256 2x1 cooperative",
}


@pytest.mark.parametrize("size", CHOSEN)
def test_cubes_on_132_multiprocessors(chooser: ctypes.CDLL, size: int) -> None:
    _, tile, _, _, _, cluster, schedule = BUILT[chooser.chosen(size, size, size)].split()
    assert f"{tile} {cluster} {schedule}".replace("1x1 ", "") == CHOSEN[size]
