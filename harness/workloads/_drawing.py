"""Random inputs, and the parts of outputs that are looked at."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def draw(
    shape: tuple[int, ...],
    generator: torch.Generator,
    distribution: str,
    known: Sequence[str],
    dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    """A tensor on the generator's device: U(-1, 1) for `uniform`, zeros for `zeros`, N(0, 1) for any other.

    known: what the workload has; raises `ValueError` for a distribution that is none of them.
    """
    if distribution not in known:
        raise ValueError(f"distribution: got {distribution!r}, supported are {', '.join(known)}")
    tensor = torch.empty(shape, dtype=dtype, device=generator.device)
    if distribution == "uniform":
        return tensor.uniform_(-1, 1, generator=generator)
    return tensor.zero_() if distribution == "zeros" else tensor.normal_(generator=generator)


def sample(count: int, most: int, seed: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """`most` of the first `count` whole numbers, ascending, with the first and the last among them, or all."""
    if most >= count:
        return torch.arange(count, device=device)
    inner = 1 + torch.randperm(count - 2, generator=torch.Generator().manual_seed(seed))[: most - 2]
    return torch.cat([inner, torch.tensor([0, count - 1])]).sort().values.to(device)
