"""`tk.distributed` by a process a GPU, against PyTorch's sums and its own bits of an earlier call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tk_kernels.distributed import all_gather, all_reduce, all_to_all, reduce_scatter
from tk_kernels.distributed.memory import MULTICAST_OFF

pytestmark = pytest.mark.gpu
SIZES = [(8,), (3, 7), (4096,), (5, 520), (1 << 20,), (999_992,)]


def summed(x: torch.Tensor) -> torch.Tensor:
    """In float32 in the order of the ranks, rounded once."""
    each = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(each, x)
    total = torch.zeros(x.shape, device=x.device)
    for one in each:
        total += one.float()
    return total.bfloat16()


def of_rank(rank: int, ranks: int, meeting: str) -> None:
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=ranks, device_id=device)
    draws = torch.Generator(device).manual_seed(rank)
    for size in SIZES:
        for way in ("one_shot", "two_shot", None):
            x = torch.randn(size, generator=draws, device=device).bfloat16()
            assert torch.equal(all_reduce(x, way=way), summed(x)), (size, way)
    for size in [(1,), (3, 7), (5, 520), (7, 100_000)]:
        x = torch.randn(size, generator=draws, device=device).bfloat16()
        y = torch.randn(ranks * size[0], *size[1:], generator=draws, device=device).bfloat16()
        gathered, exchanged = x.new_empty((ranks * size[0], *size[1:])), torch.empty_like(y)
        dist.all_gather_into_tensor(gathered, x)
        dist.all_to_all_single(exchanged, y)
        assert torch.equal(all_gather(x), gathered)
        assert torch.equal(all_to_all(y), exchanged)
        assert torch.equal(reduce_scatter(y), summed(y)[rank * size[0] : (rank + 1) * size[0]])
    # Ranks that are late, by turns, on calls of many sizes, without a word between the hosts.
    calls = []
    for i in range(300):
        x = torch.randn(SIZES[i * 7 % len(SIZES)], generator=draws, device=device).bfloat16()
        if i % ranks == rank:
            torch.cuda._sleep(200_000)
        calls.append((x, all_reduce(x, way=("one_shot", "two_shot", None)[i % 3])))
    for i, (x, y) in enumerate(calls):
        assert torch.equal(y, summed(x)), f"call {i}"
    # A graph, replayed with other numbers in its input.
    x = torch.zeros(4096, dtype=torch.bfloat16, device=device)
    all_reduce(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = all_reduce(all_reduce(x))
    for _ in range(20):
        x.copy_(torch.randn(4096, generator=draws, device=device))
        graph.replay()
        once = summed(x)
        assert torch.equal(y, summed(once))
    dist.destroy_process_group()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs of one host")
def test_ranks_sum_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in MULTICAST_OFF.items():
        monkeypatch.setenv(name, value)
    ranks = min(torch.cuda.device_count(), 8)
    torch.multiprocessing.spawn(of_rank, args=(ranks, str(tmp_path / "meeting")), nprocs=ranks)


@pytest.mark.skipif(torch.cuda.device_count() < 1, reason="needs a GPU")
def test_multicast_has_to_be_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(os.environ, "NCCL_NVLS_ENABLE", raising=False)
    with pytest.raises(RuntimeError, match=r"NVLink multicast must be off: set NCCL_NVLS_ENABLE=0 .*before PyTorch"):
        all_reduce(torch.zeros(8, dtype=torch.bfloat16, device="cuda"), "some")
