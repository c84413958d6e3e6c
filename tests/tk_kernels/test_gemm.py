"""tk.gemm against float64, on every device that is here: the cpu target always, a Hopper GPU if there is one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operator_examples import Example, bf16
from refusals import assert_refused
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "gemm": Example(
        tk.gemm,
        lambda: {"a": bf16(64, 64), "b": bf16(64, 64)},
        copied=("a", "b"),
        larger=lambda seed: (matrix(2048, 2048, "cpu", seed), matrix(2048, 1600, "cpu", seed + 2)),
        options=({}, {"stages": 2}),
    ),
}


def matrix(rows: int, cols: int, device: str, seed: int = 0) -> Tensor:
    """Random normal (rows, cols) bfloat16."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + rows * 1009 + cols)
    return torch.randn(rows, cols, generator=generator).to(torch.bfloat16).to(device)


def relative_error(result: Tensor, exact: Tensor) -> float:
    """Relative L2 distance of a bfloat16 result to the float64 product."""
    return float((result.double() - exact).norm() / exact.norm())


def assert_good(result: Tensor, a: Tensor, b: Tensor) -> None:
    """Within 1.1x of what rounding the exact product to bfloat16 costs.

    What a float32 sum of K terms may lose comes on top: it only matters where terms cancel in a
    product of a few elements.
    """
    exact = a.double() @ b.double()
    rounding = relative_error(exact.to(torch.bfloat16), exact)
    summing = float((a.double().abs() @ b.double().abs()).norm() / exact.norm()) * a.shape[1] * 2**-23
    assert result.shape == exact.shape
    assert result.dtype == torch.bfloat16
    assert not result.isnan().any()
    assert relative_error(result, exact) <= 1.1 * rounding + summing


def random_shapes(count: int, seed: int) -> list[tuple[int, int, int]]:
    """(M, N, K): ones, primes, powers of two and their neighbours, and anything; small enough for one core."""
    draw = random.Random(seed)
    primes = [2, 3, 5, 7, 13, 31, 61, 67, 127, 131, 197, 251, 257]
    edges = [1, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 255, 256, 257]

    def size() -> int:
        kind = draw.randrange(4)
        if kind == 0:
            return draw.choice(primes)
        if kind == 1:
            return draw.choice(edges)
        return draw.randint(1, 300) if kind == 2 else int(math.exp(draw.uniform(0, math.log(300))))

    shapes = [(1, 1, 1), (1, 257, 64), (257, 1, 64), (64, 64, 1)]
    return shapes + [(size(), size(), size()) for _ in range(count - len(shapes))]


SHAPES = random_shapes(200, seed=2025)


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_random_shapes(device: str, start: int) -> None:
    for M, N, K in SHAPES[start : start + 20]:
        a, b = matrix(M, K, device), matrix(K, N, device, seed=1)
        assert_good(tk.gemm(a, b), a, b)


@pytest.mark.parametrize(
    "options",
    [
        {"stages": 1}, {"stages": 2}, {"stages": 3}, {"stages": 4},
        {"persistent": 0}, {"persistent": 1},
        {"order": "supergroup"}, {"order": "row_major"}, {"order": "hilbert"},
        {"persistent": 0, "order": "hilbert", "stages": 4},
        {"schedule": "cooperative"}, {"schedule": "pingpong"},
    ],
    ids=lambda options: ",".join(f"{key}={value}" for key, value in options.items()),
)  # fmt: skip
@pytest.mark.parametrize("shape", [(300, 520, 200), (65, 129, 333)], ids=str)
def test_options(device: str, options: dict[str, Any], shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = matrix(M, K, device), matrix(K, N, device, seed=1)
    assert_good(tk.gemm(a, b, **options), a, b)


# Every kernel that is built, in the words of the error that lists them.
BUILT = (
    "tile 128x256 stages 4 cluster 1x1 cooperative",
    "tile 128x192 stages 4 cluster 1x1 pingpong",
    "tile 128x128 stages 6 cluster 1x1 pingpong",
    "tile 64x128 stages 8 cluster 1x1 cooperative",
    "tile 16x128 stages 6 cluster 1x1 swapped",
    "tile 64x64 stages 12 cluster 1x1 swapped",
    "tile 128x64 stages 8 cluster 1x1 swapped",
    "tile 128x256 stages 4 cluster 2x1 cooperative",
    "tile 128x192 stages 4 cluster 2x1 pingpong",
    "tile 128x128 stages 6 cluster 2x1 pingpong",
    "tile 64x128 stages 8 cluster 2x1 cooperative",
    "tile 128x256 stages 4 cluster 2x1 cooperative divided",
    "tile 128x192 stages 4 cluster 1x1 pingpong divided",
    "tile 128x128 stages 6 cluster 1x1 pingpong divided",
    "tile 128x256 stages 4 cluster 1x1 cooperative divided",
    "tile 64x192 stages 6 cluster 1x1 pingpong",
    "tile 64x256 stages 5 cluster 1x1 cooperative",
    "tile 256x160 stages 4 cluster 1x1 cooperative",
    "tile 16x64 stages 10 cluster 1x1 swapped",
    "tile 32x64 stages 8 cluster 1x1 swapped",
    "tile 128x256 stages 3 cluster 1x1 cooperative",
    "tile 128x256 stages 2 cluster 1x1 cooperative",
    "tile 128x256 stages 1 cluster 1x1 cooperative",
    "tile 128x256 stages 4 cluster 1x2 cooperative",
    "tile 256x128 stages 4 cluster 2x1 cooperative",
    "tile 128x128 stages 4 cluster 1x1 pingpong",
    "tile 128x256 stages 4 cluster 1x1 cooperative order hilbert",
)

# The same for sm_80, which a GPU runs by --target: of those, what has no cluster and fits its shared memory and
# registers, and the warps that copy for themselves.
BUILT_FOR_SM_80 = (
    "tile 128x128 stages 2 cluster 1x1 cooperative",
    "tile 64x128 stages 3 cluster 1x1 cooperative",
    "tile 16x128 stages 5 cluster 1x1 swapped",
    "tile 64x64 stages 5 cluster 1x1 swapped",
    "tile 128x64 stages 3 cluster 1x1 swapped",
    "tile 128x128 stages 3 cluster 1x1 by_warps",
)


def forced(kernel: str) -> dict[str, Any]:
    """The options that force one of BUILT; those of more than 4 stages are the first that the others match."""
    _, tile, _, stages, _, cluster, schedule, *more = kernel.split()
    options: dict[str, Any] = {"tile": tile, "cluster": cluster, "schedule": schedule}
    if int(stages) <= 4:
        options["stages"] = int(stages)
    if schedule in ("cooperative", "pingpong"):
        options["split"] = 8 if "divided" in more else 1
    return {**options, "order": "hilbert"} if "hilbert" in more else options


def runs_for_sm_80(device: str, config: pytest.Config) -> bool:
    """Whether operators run code for sm_80."""
    return device == "cuda" and bool(config.getoption("--target"))


def test_list_of_built_kernels_is_whole(device: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(ValueError, match="there are:") as failure:
        tk.gemm(matrix(16, 24, device), matrix(24, 32, device), tile="24x40")
    assert tuple(line.strip() for line in str(failure.value).splitlines()[1:]) == (
        BUILT_FOR_SM_80 if runs_for_sm_80(device, request.config) else BUILT
    )


@pytest.mark.parametrize("options", [{}, {"persistent": 0}, {"persistent": 1}, {"order": "row_major"}], ids=str)
def test_warps_that_copy_for_themselves(device: str, options: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """For sm_80: tails in every dimension, fewer steps than stages, more tiles than blocks. Elsewhere in words."""
    for M, N, K in ((300, 520, 200), (65, 129, 333), (129, 8, 1), (1, 257, 64), (400, 700, 65)):
        a, b = matrix(M, K, device), matrix(K, N, device, seed=1)
        if not runs_for_sm_80(device, request.config):
            with pytest.raises(ValueError, match="no kernel is built with these options together"):
                tk.gemm(a, b, schedule="by_warps", **options)
            continue
        assert_good(tk.gemm(a, b, schedule="by_warps", **options), a, b)


@pytest.mark.parametrize("kernel", BUILT)
def test_every_built_kernel(device: str, kernel: str) -> None:
    """More tiles than blocks on the cpu target, whose machine has 4 multiprocessors; tails in every dimension."""
    for M, N, K in ((300, 520, 200), (65, 129, 333)):
        a, b = matrix(M, K, device), matrix(K, N, device, seed=1)
        assert_good(tk.gemm(a, b, **forced(kernel)), a, b)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", BUILT)
def test_every_built_kernel_on_more_tiles_than_multiprocessors(kernel: str) -> None:
    for M, N, K in ((4099, 3001, 777), (129, 40001, 200), (40001, 70, 333)):
        a, b = matrix(M, K, "cuda"), matrix(K, N, "cuda", seed=1)
        for persistent in (0,) if kernel.endswith("swapped") else (1,) if kernel.endswith("divided") else (0, 1):
            assert_good(tk.gemm(a, b, persistent=persistent, **forced(kernel)), a, b)


# One row; tails in every dimension; one step, which no two blocks can divide; more than one row of tiles.
@pytest.mark.parametrize("shape", [(1, 264, 1000), (13, 130, 333), (40, 257, 64), (150, 200, 520)], ids=str)
@pytest.mark.parametrize("tile", ["16x128", "64x64", "128x64"])
def test_split(device: str, tile: str, shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = matrix(M, K, device), matrix(K, N, device, seed=1)
    for split in (1, 2, 3, 8):
        result = tk.gemm(a, b, tile=tile, schedule="swapped", split=split)
        assert_good(result, a, b)
        assert torch.equal(result, tk.gemm(a, b, tile=tile, split=split)), "the same bits every time"


@pytest.mark.parametrize(
    "options",
    [
        {"tile": "64x128", "schedule": "cooperative", "split": 2},
        {"tile": "128x192", "schedule": "pingpong", "cluster": "2x1", "split": 2},
        {"tile": "128x192", "schedule": "pingpong", "split": 2, "persistent": 0},
        {"schedule": "by_warps", "split": 1},
    ],
    ids=str,
)
def test_splits_that_are_not_built_are_refused(device: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no kernel is built with these options together"):
        tk.gemm(matrix(16, 24, device), matrix(24, 32, device), **options)


@pytest.mark.gpu
@pytest.mark.parametrize("start", range(0, 200, 50))
def test_error_is_within_1_1_of_cublas(start: int) -> None:
    for M, N, K in SHAPES[start : start + 50]:
        assert_as_good_as_cublas(matrix(M, K, "cuda"), matrix(K, N, "cuda", seed=1))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape", [(1024, 1024, 1024), (4096, 4096, 4096), (4099, 3001, 777), (130, 70, 20011)], ids=str
)
def test_error_of_large_products_is_within_1_1_of_cublas(shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    assert_as_good_as_cublas(matrix(M, K, "cuda"), matrix(K, N, "cuda", seed=1))


def assert_as_good_as_cublas(a: Tensor, b: Tensor) -> None:
    exact = a.double() @ b.double()
    ours, cublas = relative_error(tk.gemm(a, b), exact), relative_error(torch.matmul(a, b), exact)
    assert ours <= 1.1 * cublas, f"{tuple(a.shape)} x {tuple(b.shape)}: {ours:.3e}, cuBLAS {cublas:.3e}"


def windows(device: str) -> dict[str, tuple[Tensor, Tensor]]:
    """Operands that lie in memory in every way but the plain one."""
    big = matrix(200, 300, device)
    return {
        "transposed a": (matrix(64, 96, device).t(), matrix(64, 80, device, 1)),
        "transposed b": (matrix(96, 64, device), matrix(80, 64, device, 1).t()),
        "rows of odd pitch": (big[:50, :37], matrix(37, 24, device, 1)),
        "aligned window": (big[:50, 8:72], matrix(64, 24, device, 1)),
        "base not aligned": (big[:50, 3:67], matrix(64, 24, device, 1)),
        "every second row": (big[::2, :64], matrix(64, 24, device, 1)),
        "every second column": (big[:, ::2], matrix(150, 24, device, 1)),
        "expanded row": (matrix(1, 64, device).expand(40, 64), matrix(64, 24, device, 1)),
        "expanded column": (matrix(40, 1, device).expand(40, 64), matrix(64, 24, device, 1)),
        "one row of a wide matrix": (big[7:8], matrix(300, 24, device, 1)),
        "one column of a wide matrix": (big[:, 5:6], matrix(1, 24, device, 1)),
    }


@pytest.mark.parametrize("name", windows("cpu"))
def test_any_strides(device: str, name: str) -> None:
    a, b = windows(device)[name]
    assert_good(tk.gemm(a, b), a, b)


@pytest.mark.parametrize(
    "view",
    [
        lambda o: o,
        lambda o: o.new_empty((o.shape[0], 2 * o.shape[1]))[:, : o.shape[1]],
        lambda o: o.new_empty((o.shape[0], o.shape[1] + 3))[:, 1 : 1 + o.shape[1]],
        lambda o: o.new_empty((o.shape[1], o.shape[0])).t(),
    ],
    ids=["plain", "window", "odd window", "transposed"],
)
def test_out_is_written_and_returned(device: str, view: Callable[[Tensor], Tensor]) -> None:
    a, b = matrix(40, 56, device), matrix(56, 72, device, 1)
    out = view(a.new_empty((40, 72)).fill_(float("nan")))
    out.fill_(float("nan"))
    assert tk.gemm(a, b, out=out) is out
    assert_good(out, a, b)


def test_out_window_leaves_its_surroundings(device: str) -> None:
    a, b = matrix(40, 56, device), matrix(56, 64, device, 1)
    buffer = torch.full((42, 80), 7.0, dtype=torch.bfloat16, device=device)
    tk.gemm(a, b, out=buffer[1:41, 8:72])
    assert_good(buffer[1:41, 8:72], a, b)
    buffer[1:41, 8:72] = 7.0
    assert bool((buffer == 7.0).all())


@pytest.mark.parametrize("n", [57, 63, 64, 97])
@pytest.mark.parametrize("rows", [1, 40])
def test_out_window_with_a_tail_leaves_what_is_beside_it(device: str, rows: int, n: int) -> None:
    """TMA writes whole 16-byte units: the rest of the last one belongs to somebody else."""
    a, b = matrix(rows, 56, device), matrix(56, n, device, 1)
    buffer = torch.full((rows + 2, 128), 7.0, dtype=torch.bfloat16, device=device)
    tk.gemm(a, b, out=buffer[1 : rows + 1, 8 : 8 + n])
    assert_good(buffer[1 : rows + 1, 8 : 8 + n], a, b)
    buffer[1 : rows + 1, 8 : 8 + n] = 7.0
    assert bool((buffer == 7.0).all())


def test_what_lies_beside_the_operands_is_not_read(device: str) -> None:
    """Windows whose neighbours are NaN, with tails in every dimension."""
    wide = torch.full((41, 64), float("nan"), dtype=torch.bfloat16, device=device)
    tall = torch.full((48, 112), float("nan"), dtype=torch.bfloat16, device=device)
    wide[:40, :43], tall[:43, :101] = matrix(40, 43, device), matrix(43, 101, device, 1)
    a, b = wide[:40, :43], tall[:43, :101]
    assert_good(tk.gemm(a, b), a, b)


def test_out_beside_an_operand_in_one_buffer_is_no_overlap(device: str) -> None:
    buffer, b = matrix(40, 128, device), matrix(64, 64, device, 1)
    a = buffer[:, :64].clone()
    tk.gemm(buffer[:, :64], b, out=buffer[:, 64:])
    assert_good(buffer[:, 64:], a, b)


def test_result_is_contiguous_whatever_the_size(device: str) -> None:
    for N in (1, 5, 8, 72):
        assert tk.gemm(matrix(9, 16, device), matrix(16, N, device)).is_contiguous()


def test_infinities_and_nans_stay_where_they_belong(device: str) -> None:
    a, b = matrix(70, 40, device), matrix(40, 90, device, 1)
    a[3, 5], b[7, 11] = float("inf"), float("nan")
    result = tk.gemm(a, b)
    touched = torch.zeros(70, 90, dtype=torch.bool, device=device)
    touched[3, :] = touched[:, 11] = True
    assert bool(result.isfinite().logical_xor(touched).all())


def mistakes(device: str) -> dict[str, tuple[Callable[[], object], str]]:
    """A wrong call each, and the words that say so."""
    a, b = matrix(16, 24, device), matrix(24, 32, device, 1)
    square = matrix(16, 16, device)
    return {
        "out is a": (lambda: tk.gemm(square, square.clone(), out=square), "out: shares memory with a"),
        "out is b": (lambda: tk.gemm(square.clone(), square, out=square), "out: shares memory with b"),
        "out is a transposed": (lambda: tk.gemm(square, square.clone(), out=square.t()), "out: shares memory with a"),
        "out expanded": (
            lambda: tk.gemm(a, b, out=a.new_empty(1, 32).expand(16, 32)),
            "out: got strides .*no two elements share memory",
        ),
        "out and gradient": (
            lambda: tk.gemm(a.clone().requires_grad_(), b, out=a.new_empty(16, 32)),
            "out: cannot be given while gradients are recorded",
        ),
        "option": (lambda: tk.gemm(a, b, stages=9), "stages: got 9, needs an integer from 1 to 4"),
        "tile": (lambda: tk.gemm(a, b, tile="24x40"), "gemm: no kernel is built with these options together"),
        "cluster": (lambda: tk.gemm(a, b, cluster="7x7"), "gemm: no kernel is built with these options together"),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyTorch, about its rarer dtypes and layouts
def test_mistakes_are_value_errors_that_name_the_argument(device: str) -> None:
    assert_refused(mistakes(device))


@pytest.mark.gpu
def test_out_on_another_device_is_refused() -> None:
    a, b = matrix(16, 24, "cuda"), matrix(24, 8, "cuda")
    with pytest.raises(ValueError, match="out: is on cpu, needs to be on cuda:0 as a is"):
        tk.gemm(a, b, out=matrix(16, 8, "cpu"))


def test_copies_are_logged_once(device: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tk_operands, "_copies_logged", set())
    with caplog.at_level("INFO", logger="tk_kernels"):
        tk.gemm(matrix(16, 16, device), matrix(16, 16, device))
        assert caplog.messages == []
        for _ in range(2):
            tk.gemm(matrix(16, 13, device), matrix(13, 16, device))
    assert len(caplog.messages) == 1
    assert "a (16, 13) with strides (13, 1) goes through an aligned copy" in caplog.messages[0]
