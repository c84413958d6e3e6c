"""Random inputs."""

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
