"""The kernels that docs/tile_library.md prints: they compile for every target and compute what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tile_compile import caller, compile_library

from tk_kernels.toolchain import TARGETS

MANUAL = Path(__file__).parents[2] / "docs" / "tile_library.md"
HOST = r"""
#include "guarded.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int run_scale(void* in, void* out, int tiles, char* message, int size) {
    using matrix = scale::matrix;
    const auto tensor = [&](void* data) { return matrix(static_cast<bf16*>(data), 1, 1, 64, 64 * tiles); };
    const int shared_bytes = st_bf<64, 64>::bytes + sizeof(semaphore);
    return guarded([&] { launch<scale>({tiles, shared_bytes}, nullptr, {tensor(in), tensor(out)}); }, message, size);
}

EXPORT int run_product(void* a, void* b, void* c, int M, int N, int K, char* message, int size) {
    const auto tensor = [](void* data, int rows, int cols) {
        return product::matrix(static_cast<bf16*>(data), 1, 1, rows, cols);
    };
    return guarded(
        [&] {
            void* stream = nullptr;
            const product::globals g{tensor(a, M, K),   tensor(b, K, N),   tensor(c, M, N),
                                     divide_up(M, 64), divide_up(N, 64), divide_up(K, 64)};
            // LAUNCH
        },
        message, size);
}
"""


def kernels() -> str:
    """The page's whole kernels: blocks that include the library. The launch is as its comment there says."""
    blocks = re.findall(r"^```cpp\n(#include \"kittens.cuh\"\n.*?)^```$", MANUAL.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    launch = re.search(r"^// (launch_tasks<.*;)$", blocks[1], re.MULTILINE)
    assert launch is not None
    return "".join(blocks) + HOST.replace("// LAUNCH", launch[1])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manual")
    (folder / "guarded.h").write_text(Path(__file__).with_name("guarded.h").read_text())
    (folder / "manual.cu").write_text(kernels())
    return folder / "manual.cu"


@pytest.mark.parametrize("target", TARGETS)
def test_the_kernels_of_the_page_compile(source: Path, target: str) -> None:
    assert compile_library(source, target).stat().st_size > 0


def test_the_first_one_scales(source: Path, device: str) -> None:
    x = torch.randn(64, 192, generator=torch.Generator().manual_seed(0)).bfloat16().to(device)
    out = torch.full_like(x, float("nan"))
    caller(source, device)("run_scale", x, out, 3)
    assert torch.equal(out, 2 * x)


@pytest.mark.parametrize("sizes", [(64, 64, 64), (1000, 136, 200), (8, 264, 72)])
def test_the_one_on_a_pipeline_multiplies(
    source: Path, device: str, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    M, N, K = sizes
    draws = torch.Generator().manual_seed(0)
    a = torch.randint(-3, 4, (M, K), generator=draws).bfloat16().to(device)
    b = torch.randint(-3, 4, (K, N), generator=draws).bfloat16().to(device)
    for seed in range(5):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        c = a.new_full((M, N), float("nan"))
        caller(source, device)("run_product", a, b, c, M, N, K)
        assert torch.equal(c, (a.float() @ b.float()).relu().bfloat16())  # small integers: the sums are exact


@pytest.mark.parametrize(
    ("place", "columns", "words"),
    [
        (0, 60, "tensor map of a tensor of (1, 1, 64, 60): got a row stride of 120 bytes, needs a positive"),
        (1, 64, "tensor map of a tensor of (1, 1, 64, 64): got a base 2 bytes past a multiple of 16, needs one at a"),
        (0, 0, "tensor map of a tensor of (1, 1, 64, 0): got an extent of 0, needs every one to be positive"),
    ],
)
def test_a_tensor_that_no_tile_can_be_loaded_from_is_told(source: Path, place: int, columns: int, words: str) -> None:
    """On the cpu target, which says which of the demands it is."""
    memory = torch.zeros(80 * 64, dtype=torch.bfloat16)
    b, c = torch.zeros(64 * 64, dtype=torch.bfloat16), torch.zeros(64 * 64, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match=re.escape(words)):
        caller(source, "cpu")("run_product", memory[place:], b, c, 64, 64, columns)
