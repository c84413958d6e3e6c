"""tk.gemm by kernels that divide the tiles of the last round among idle clusters: each part is added once."""

from __future__ import annotations

import pytest
import torch
from test_gemm import BUILT, assert_good, forced, matrix, runs_for_sm_80
from torch import Tensor

import tk_kernels as tk

DIVIDED = tuple(kernel for kernel in BUILT if kernel.endswith("divided"))
# Of each, on so many multiprocessors of the cpu target: tails in every dimension, steps that no number of parts
# divides, with the last round alone and behind another; and the parts that its tiles can have.
LAST_ROUNDS = [
    (DIVIDED[0], 4, (200, 230, 1033), (2,)),  # one tile for two clusters
    (DIVIDED[0], 4, (700, 250, 1100), (2,)),  # three
    (DIVIDED[0], 16, (200, 230, 2120), (3, 4, 5, 8)),  # one for eight
    (DIVIDED[1], 4, (100, 187, 1033), (2, 3, 4)),  # one for four
    (DIVIDED[1], 4, (120, 917, 1161), (2, 3, 4)),  # five
    (DIVIDED[1], 4, (250, 550, 1000), (2,)),  # six
    (DIVIDED[1], 8, (100, 187, 2120), (5, 6, 7, 8)),  # one for eight
    (DIVIDED[2], 4, (250, 300, 1161), (2,)),  # six for four
    (DIVIDED[2], 8, (100, 1100, 2120), (2, 5, 8)),  # nine for eight
]


@pytest.mark.parametrize(("kernel", "multiprocessors", "shape", "parts"), LAST_ROUNDS, ids=str)
def test_divided_last_round(
    device: str,
    kernel: str,
    multiprocessors: int,
    shape: tuple[int, int, int],
    parts: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Every part is added once, in the same order each time, whatever the blocks' speeds."""
    if runs_for_sm_80(device, request.config):
        pytest.skip("built for Hopper")
    monkeypatch.setenv("KITTENS_MULTIPROCESSORS", str(multiprocessors))
    M, N, K = shape
    a, b = matrix(M, K, device), matrix(K, N, device, seed=1)
    results = [tk.gemm(a, b, **{**forced(kernel), "split": 1})]
    for split in parts:
        first = None
        for seed in range(5):
            monkeypatch.setenv("KITTENS_SEED", str(seed))
            out = torch.full((M, N), float("nan"), dtype=torch.bfloat16, device=device)
            tk.gemm(a, b, out=out, **{**forced(kernel), "split": split})
            assert_good(out, a, b)
            assert first is None or torch.equal(out, first), "the same bits every time"
            first = out
        assert first is not None
        if device == "cpu":
            assert not any(torch.equal(first, other) for other in results), "sums in another order"
        results.append(first)


def test_divided_takes_any_number_of_tiles_and_steps(device: str, request: pytest.FixtureRequest) -> None:
    """Full rounds alone, fewer steps than two parts need, and more parts than there are clusters."""
    if runs_for_sm_80(device, request.config):
        pytest.skip("built for Hopper")
    for kernel in DIVIDED:
        for M, N, K in ((1, 1, 1), (500, 250, 600), (128, 768, 600), (40, 40, 448), (40, 40, 450)):
            a, b = matrix(M, K, device), matrix(K, N, device, seed=1)
            for split in (2, 3, 4, 8):
                assert_good(tk.gemm(a, b, **{**forced(kernel), "split": split}), a, b)


# What is left for the last round of 132 multiprocessors: 4 tiles of 400, 4 of 400 with tails, 12 of 144, 16 of 280; 1;
# 4 of 400, 12 of 144.
LARGE_LAST_ROUNDS = [
    (DIVIDED[0], (5120, 5120, 1033)),
    (DIVIDED[0], (5000, 5000, 1000)),
    (DIVIDED[0], (3000, 3000, 3000)),
    (DIVIDED[1], (2560, 2560, 2560)),
    (DIVIDED[1], (100, 190, 20011)),
    (DIVIDED[2], (2560, 2560, 2560)),
    (DIVIDED[2], (1530, 1533, 1536)),
]


@pytest.mark.gpu
@pytest.mark.parametrize(("kernel", "shape"), LARGE_LAST_ROUNDS, ids=str)
def test_divided_last_round_on_a_gpu(kernel: str, shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = matrix(M, K, "cuda"), matrix(K, N, "cuda", seed=1)
    for split in range(2, 9):
        results = [tk.gemm(a, b, **{**forced(kernel), "split": split}) for _ in range(20)]
        assert_good(results[0], a, b)
        assert all(torch.equal(results[0], result) for result in results)


@pytest.mark.gpu
@pytest.mark.parametrize(("kernel", "shape"), LARGE_LAST_ROUNDS, ids=str)
def test_divided_last_round_in_a_cuda_graph(kernel: str, shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = matrix(M, K, "cuda"), matrix(K, N, "cuda", seed=1)
    expected = tk.gemm(a, b, **forced(kernel))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [tk.gemm(a, b, **forced(kernel)) for _ in range(2)]
    for _ in range(10):
        for out in found:
            out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(out, expected) for out in found)


@pytest.mark.gpu
@pytest.mark.parametrize(("kernel", "shape"), LARGE_LAST_ROUNDS, ids=str)
def test_divided_last_rounds_on_two_streams(kernel: str, shape: tuple[int, int, int]) -> None:
    """Each call has counters and sums of its own."""
    M, N, K = shape
    operands = [(matrix(M, K, "cuda", seed), matrix(K, N, "cuda", seed + 1)) for seed in (1, 5)]
    expected = [tk.gemm(a, b, **forced(kernel)) for a, b in operands]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    found: list[list[Tensor]] = [[], []]
    for _ in range(20):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                found[i].append(tk.gemm(*operands[i], **forced(kernel)))
    torch.cuda.synchronize()
    for wanted, results in zip(expected, found, strict=True):
        assert all(torch.equal(wanted, result) for result in results)
