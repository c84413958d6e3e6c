"""`tk.distributed`: collectives of ranks that run side by side on the CPU."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import Tensor

from tk_kernels.distributed import all_gather, all_reduce, all_to_all, reduce_scatter, world
from tk_kernels.distributed.memory import MULTICAST_OFF
from tk_kernels.distributed.operators import COLLECTIVES


def drawn(shape: tuple[int, ...], ranks: int, seed: int) -> list[Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draws).bfloat16() for _ in range(ranks)]


def summed(xs: list[Tensor]) -> Tensor:
    """In float32 in the order of the ranks, rounded once."""
    total = torch.zeros(xs[0].shape)
    for x in xs:
        total += x.float()
    return total.bfloat16()


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("way", ["one_shot", "two_shot"])
@pytest.mark.parametrize("shape", [(8,), (1,), (3, 7), (5, 520), (4, 2, 1024)])
def test_all_ranks_get_the_same_sums(way: str, shape: tuple[int, ...], ranks: int) -> None:
    xs = drawn(shape, ranks, 0)
    with world(ranks) as groups:
        outs = [all_reduce(x, group, way=way) for x, group in zip(xs, groups, strict=True)]
    for out in outs:
        assert out.shape == shape
        assert torch.equal(out, summed(xs))


def test_calls_of_many_sizes_and_both_ways_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: staging is used again by the next call but one, which may have other sizes, while a rank is behind."""
    sizes = [(4000,), (100_000,), (16,), (100_000,), (4000,), (300_000,), (8,)]
    for seed in range(5):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        calls = [drawn(size, 3, seed + i) for i, size in enumerate(sizes)]
        with world(3) as groups:
            outs = [
                [all_reduce(x, group, way=("one_shot", "two_shot")[i % 2], blocks=2) for i, x in enumerate(own)]
                for own, group in zip(zip(*calls, strict=True), groups, strict=True)
            ]
        for i, xs in enumerate(calls):
            assert all(torch.equal(of_rank[i], summed(xs)) for of_rank in outs), f"seed {seed}, call {i}"


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("shape", [(1,), (2, 7), (3, 520), (2, 2, 1024)])
def test_rows_come_where_they_belong(shape: tuple[int, ...], ranks: int) -> None:
    """Gathered in the order of the ranks; of parts, each rank's; sums in float32."""
    whole = (ranks * shape[0], *shape[1:])
    xs, ys = drawn(shape, ranks, 0), drawn(whole, ranks, 1)
    with world(ranks) as groups:
        outs = [
            (all_gather(x, group), reduce_scatter(y, group), all_to_all(y, group))
            for x, y, group in zip(xs, ys, groups, strict=True)
        ]
    total = summed(ys)
    for rank, (gathered, scattered, exchanged) in enumerate(outs):
        part = slice(rank * shape[0], (rank + 1) * shape[0])
        assert torch.equal(gathered, torch.cat(xs))
        assert torch.equal(scattered, total[part])
        assert torch.equal(exchanged, torch.cat([y[part] for y in ys]))


def test_what_is_not_dense_is_copied() -> None:
    xs = [x.t() for x in drawn((24, 40), 2, 0)]
    with world(2) as groups:
        outs = [all_reduce(x, group) for x, group in zip(xs, groups, strict=True)]
    assert all(out.is_contiguous() and torch.equal(out, summed(xs)) for out in outs)


def test_ranks_that_do_not_call_are_told() -> None:
    xs = drawn((64,), 3, 0)
    words = r"(?s)deadlock.*rank 0, block 0, warp 0: await .* waits for flag . of rank 0"
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(RuntimeError, match=words))
        groups = stack.enter_context(world(3))
        for x, group in zip(xs[:2], groups[:2], strict=True):
            all_reduce(x, group)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"way": "three_shot"}, "way: got 'three_shot', needs one of one_shot, two_shot"),
        ({"blocks": 65}, "blocks: got 65, needs an integer from 1 to 64"),
        ({"group": "nobody"}, "group: 'nobody' has no ranks on the device cpu; CPU tensors need a `world`"),
    ],
)
def test_mistakes_are_named(keywords: dict[str, object], words: str) -> None:
    with world(2) as groups, pytest.raises(ValueError, match=words):
        all_reduce(torch.zeros(8, dtype=torch.bfloat16), **({"group": groups[0]} | keywords))


def test_a_group_needs_torch_distributed() -> None:
    with pytest.raises(RuntimeError, match="torch.distributed is not initialised"):
        all_reduce(torch.zeros(8, dtype=torch.bfloat16))


def test_a_world_that_is_over_has_no_groups() -> None:
    with world(2) as groups:
        pass
    with pytest.raises(ValueError, match="has no ranks"):
        all_reduce(torch.zeros(8, dtype=torch.bfloat16), groups[0])


def test_the_variables_that_keep_multicast_off_are_the_known_ones() -> None:
    assert set(MULTICAST_OFF) == {"NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"}


def test_parts_need_a_dimension_that_the_ranks_divide() -> None:
    with world(2) as groups, pytest.raises(ValueError, match=r"x: got shape \(3, 8\), needs a first .* 2 ranks divide"):
        all_to_all(torch.zeros(3, 8, dtype=torch.bfloat16), groups[0])


def test_tracing_knows_the_shapes() -> None:
    collective = torch.ops.tk_kernels._collective
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(6, 5, dtype=torch.bfloat16)
        rows = {what: collective(x, what, "some", 3).shape[0] for what in COLLECTIVES}
    assert rows == {"all_reduce": 6, "all_reduce_in_two": 6, "all_gather": 18, "reduce_scatter": 2, "all_to_all": 6}
