"""`dropout_add_layernorm`: dropout, residual addition and layer normalisation in one pass, as a registered operator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...ops.library import has_elements
from ...ops.operands import launch, rows_of
from ...ops.operator import operator
from ...ops.options import integer

__all__ = ["dropout_add_layernorm"]

LARGEST_DIM, DIM_STEP = 8192, 64
_WORD = 2**64


def _with_seed(keywords: dict[str, Any]) -> None:
    """Draw a seed where dropout has none; seed and offset as signed numbers of 64 bits, which operators take."""
    draws = keywords.get("seed") is None
    for name in ("seed", "offset"):
        value = 0 if draws and name == "seed" else keywords.get(name, 0)
        value = integer(name, value, -_WORD // 2, _WORD - 1)
        keywords[name] = value - _WORD if value >= _WORD // 2 else value
    if draws and keywords.get("p"):
        keywords["seed"] = torch.randint(2**63 - 1, (), device="cpu").item()


@operator(
    fill=_with_seed,
    x="... D bf16",
    residual="... D bf16",
    weight="D bf16|fp32",
    bias="D weight.dtype",
    where=("D % DIM_STEP == 0", "D <= LARGEST_DIM"),
)
def dropout_add_layernorm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    p: float = 0.0,
    eps: float = 1e-5,
    seed: int | None = None,
    offset: int = 0,
    return_mask: bool = False,
    rms: bool = False,
    blocks: int | None = None,
) -> tuple[Tensor, ...]:
    """Return (norm(r) * weight + bias, r) with r = residual + dropout_p(x), and with `return_mask` also the mask.

    D is a multiple of 64 up to 8192; no bias is None. All on one device: a GPU since Ampere (current stream; CUDA
    graphs can capture it) or the CPU (slow: it emulates the kernel and is for correctness). Both results have x's
    shape, bfloat16 and contiguous; the mask is bool, True where x was kept.

    norm(r) = (r - mean) / sqrt(variance + eps) over the last dimension, the variance biased; with `rms` it is
    r / sqrt(mean(r^2) + eps). The statistics are computed in float32 from r before it is rounded: of a row with
    elements beyond 2e17, whose squares may overflow, norm(r) may be zeros.

    Dropout sets each element of x to zero with probability `p`, in steps of 2^-32, and multiplies the others by 1 / (1
    - p). Element i of x, counted in row-major order, is dropped where word i % 4 of Philox 4x32-10 with the counter (i
    / 4, offset) and the key `seed` is below 2^32 p. Seed, offset and shape decide the mask, and nothing else. Without a
    seed one is drawn from PyTorch's default CPU generator, so that torch.manual_seed makes it reproducible; a CUDA
    graph replays the seed that it was captured with. `p=0` has no generator in its kernel.

    `blocks` forces the size of the grid, else it is chosen by shape. The kernel reads dense rows whose base and strides
    are multiples of 16 bytes. Others go through a copy, a last dimension that is not dense too; the first is logged by
    the logger `tk_kernels`.

    There is no backward: an input that requires a gradient is a NotImplementedError where gradients are enabled. Raises
    ValueError that names the argument for a wrong dtype, layout, device, rank or shape, an empty tensor, p outside
    [0, 1), or a negative or infinite eps.
    """
    _require_numbers(p, eps)
    grid = 0 if blocks is None else integer("blocks", blocks, 1, 2**31 - 1)
    dtypes = (x.dtype, x.dtype, *[torch.bool] * return_mask)
    outputs = [torch.empty(x.shape, dtype=dtype, device=x.device) for dtype in dtypes]
    if not has_elements(x):
        return tuple(outputs)
    D = x.shape[-1]
    normed, total, *mask = (tensor.view(-1, D) for tensor in outputs)
    if mask and p == 0:
        outputs[2].fill_(True)
    drawn = mask[0].view(torch.uint8) if mask and p > 0 else None
    rows = {name: rows_of("dropout_add_layernorm", name, tensor) for name, tensor in (("x", x), ("residual", residual))}
    rest = (normed, total, drawn, float(p), float(eps), seed or 0, offset, rms, grid)
    launch("dropout_add_layernorm", "dropout_add_layernorm", {**rows, "weight": weight, "bias": bias}, rest)
    return tuple(outputs)


def _require_numbers(p: float, eps: float) -> None:
    """Raises ValueError."""
    for name, value in (("p", p), ("eps", eps)):
        if isinstance(value, bool) or not isinstance(value, (int, float, torch.SymFloat)):
            raise ValueError(f"{name}: got {value!r}, needs a number")
    if not 0 <= p < 1:
        raise ValueError(f"p: got {p}, needs a probability in [0, 1)")
    if not 0 <= eps < math.inf:
        raise ValueError(f"eps: got {eps}, needs a finite number of at least 0")
