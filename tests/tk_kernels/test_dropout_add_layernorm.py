"""tk.dropout_add_layernorm against float64 and against Philox, and statistical tests of its mask."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from operator_examples import Example, bf16
from scipy import stats
from torch import Tensor

import tk_kernels as tk
from tests.philox import keeps

EXAMPLES: dict[str, Example] = {
    "dropout_add_layernorm": Example(
        tk.dropout_add_layernorm,
        lambda: {"x": bf16(1, 8, 128), "residual": bf16(1, 8, 128), "weight": bf16(128), "bias": bf16(128)},
        copied=("x", "residual"),
    ),
}

DIMS = (64, 192, 256, 512, 768, 1024, 1088, 2048, 2112, 4096, 5120, 8192)
LEAST_P = 1e-4  # of a statistical test; seeds are fixed, so that a pass stays a pass


def operands(shape: tuple[int, ...], device: str, seed: int = 0, weights: torch.dtype = torch.bfloat16) -> list[Tensor]:
    """x, residual, weight, bias; the rows of the residual are shifted, so that a wrong mean or variance shows."""
    generator = torch.Generator().manual_seed(seed)
    x, residual = (torch.randn(shape, generator=generator) for _ in range(2))
    residual += 3 * torch.randn(shape[:-1], generator=generator)[..., None]
    weight, bias = (torch.randn(shape[-1], generator=generator).to(weights).to(device) for _ in range(2))
    return [x.bfloat16().to(device), residual.bfloat16().to(device), weight, bias]


def formulas(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor, p: float, eps: float, rms: bool
) -> tuple[Tensor, Tensor]:
    """normed and r in float64, with a mask that is given."""
    r = residual.double() + torch.where(mask, x.double() / (1 - p), 0.0)
    centred = r if rms else r - r.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()
    return (normed if bias is None else normed + bias.double()), r


def assert_rounded(got: Tensor, wanted: Tensor) -> None:
    """One rounding to bfloat16 in the L2 norm and for each element, and float32's share."""
    assert got.dtype == torch.bfloat16
    assert got.is_contiguous()
    rounded = float((wanted.bfloat16().double() - wanted).norm())
    assert float((got.double() - wanted).norm()) <= 1.05 * rounded + 1e-5 * float(wanted.norm())
    assert bool(((got.double() - wanted).abs() <= wanted.abs() * 2**-8 + 1e-4).all())


@pytest.mark.parametrize("D", DIMS)
def test_every_width(device: str, D: int) -> None:
    for number, (rows, p, weights) in enumerate(((1, 0.0, torch.float32), (5, 0.0, torch.bfloat16), (7, 0.3, None))):
        x, residual, weight, bias = operands((rows, D), device, D + number, weights or torch.bfloat16)
        given = bias if number != 1 else None
        for rms in (False, True):
            options: dict[str, Any] = {"p": p, "seed": 11, "rms": rms, "eps": 1e-3}
            y, r, mask = tk.dropout_add_layernorm(x, residual, weight, given, return_mask=True, **options)
            normed, exact = formulas(x, residual, weight, given, mask, p, 1e-3, rms)
            assert_rounded(r, exact)
            assert_rounded(y, normed)
            assert torch.equal(mask.cpu().flatten(), torch.from_numpy(keeps(mask.numel(), p, 11)))
            without = tk.dropout_add_layernorm(x, residual, weight, given, **options)
            assert all(torch.equal(*pair) for pair in zip(without, (y, r), strict=True))


def test_statistics_do_not_cancel(device: str) -> None:
    x, residual, weight, bias = operands((3, 1024), device)
    residual = (residual.float() * 2**-6 + 1000).bfloat16()  # a large mean, of which the variance is a small part
    y, r = tk.dropout_add_layernorm(x, residual, weight, bias)
    everything = torch.ones_like(x, dtype=torch.bool)
    normed, exact = formulas(x, residual, weight, bias, everything, 0.0, 1e-5, False)
    assert_rounded(r, exact)
    assert_rounded(y, normed)


def test_leading_dimensions_and_views(device: str) -> None:
    x, residual, weight, bias = operands((2, 3, 4, 128), device)
    y, _ = tk.dropout_add_layernorm(x, residual, weight, bias, p=0.5, seed=3)
    flat = tk.dropout_add_layernorm(x.view(-1, 128), residual.view(-1, 128), weight, bias, p=0.5, seed=3)
    assert torch.equal(y.view(-1, 128), flat[0])
    wide = torch.cat([x, x, x], -1)
    for view in (wide[..., 128:256], wide[..., 3:131], x.transpose(0, 1).contiguous().transpose(0, 1)):
        expected = tk.dropout_add_layernorm(view.contiguous(), residual, weight, bias, p=0.5, seed=3)
        got = tk.dropout_add_layernorm(view, residual, weight, bias, p=0.5, seed=3)
        assert all(torch.equal(*pair) for pair in zip(got, expected, strict=True))
    single = tk.dropout_add_layernorm(x[0, 0, 0], residual[0, 0, 0], weight)[1]
    assert torch.equal(single, (x[0, 0, 0].float() + residual[0, 0, 0].float()).bfloat16())


@pytest.mark.parametrize("blocks", [1, 2, 7, 1000])
@pytest.mark.parametrize("D", [64, 1024, 2112])
def test_the_grid_decides_nothing(device: str, D: int, blocks: int) -> None:
    x, residual, weight, bias = operands((29, D), device)
    options: dict[str, Any] = {"p": 0.2, "seed": 5, "return_mask": True}
    expected = tk.dropout_add_layernorm(x, residual, weight, bias, **options)
    got = tk.dropout_add_layernorm(x, residual, weight, bias, blocks=blocks, **options)
    assert all(torch.equal(*pair) for pair in zip(got, expected, strict=True))


def draw(rows: int, D: int, device: str, **options: Any) -> Tensor:
    """A mask alone."""
    x, residual, weight, _ = operands((rows, D), device)
    return tk.dropout_add_layernorm(x, residual, weight, return_mask=True, **options)[2]


def test_the_mask_belongs_to_the_element_and_not_to_the_row(device: str) -> None:
    narrow, wide = draw(16, 64, device, p=0.4, seed=1), draw(4, 256, device, p=0.4, seed=1)
    assert torch.equal(narrow.flatten(), wide.flatten())


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_as_many_are_kept_as_should_be(device: str, p: float) -> None:
    mask = draw(256, 1024, device, p=p, seed=17)
    kept, count = int(mask.sum()), mask.numel()
    assert stats.binomtest(kept, count, 1 - p).pvalue > LEAST_P
    # Rows and columns each have their share: the counts scatter as binomials do.
    for dim, size in ((0, 256), (1, 1024)):
        z = (mask.double().sum(dim).cpu().numpy() - size * (1 - p)) / math.sqrt(size * p * (1 - p))
        assert LEAST_P < stats.chi2.cdf((z**2).sum(), len(z)) < 1 - LEAST_P


def independent(a: Tensor, b: Tensor) -> bool:
    """Whether two masks look independent of one another: chi-square of their 2 x 2 table."""
    table = np.histogram2d(a.flatten().cpu().numpy(), b.flatten().cpu().numpy(), bins=2)[0]
    return bool(stats.chi2_contingency(table, correction=False).pvalue > LEAST_P)


def test_rows_columns_seeds_and_offsets_are_independent(device: str) -> None:
    mask = draw(128, 1024, device, p=0.3, seed=23)
    for shift in (1, 2, 3, 4, 8, 32, 64):
        assert independent(mask[:, shift:], mask[:, :-shift])
        assert independent(mask[shift:], mask[:-shift])
    for other in ({"seed": 24}, {"seed": 23 + 2**32}, {"seed": 23, "offset": 1}, {"seed": 23, "offset": 2**32}):
        assert independent(mask, draw(128, 1024, device, p=0.3, **other))
    assert not independent(mask, draw(128, 1024, device, p=0.3, seed=23))


def test_more_dropped_are_the_same_and_more(device: str) -> None:
    few, many = draw(8, 512, device, p=0.1, seed=2), draw(8, 512, device, p=0.6, seed=2)
    assert bool((many <= few).all())
    assert int(many.sum()) < int(few.sum())


def test_a_seed_is_drawn_on_the_cpu() -> None:
    """Guard: under `torch.set_default_device("cuda")` a GPU drew it: another mask, and no capture in a CUDA graph."""
    operands_of = operands((4, 64), "cpu")
    torch.manual_seed(3)
    wanted = tk.dropout_add_layernorm(*operands_of, p=0.5)[0]
    torch.manual_seed(3)
    with torch.device("meta"):
        assert torch.equal(tk.dropout_add_layernorm(*operands_of, p=0.5)[0], wanted)


def test_seeds(device: str) -> None:
    x, residual, weight, _ = operands((4, 512), device)
    torch.manual_seed(1)
    first = tk.dropout_add_layernorm(x, residual, weight, p=0.5)[1]
    second = tk.dropout_add_layernorm(x, residual, weight, p=0.5)[1]
    torch.manual_seed(1)
    again = tk.dropout_add_layernorm(x, residual, weight, p=0.5)[1]
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    state = torch.get_rng_state()
    tk.dropout_add_layernorm(x, residual, weight)
    assert torch.equal(state, torch.get_rng_state())  # p = 0 draws nothing
    largest = draw(1, 64, device, p=0.5, seed=2**64 - 1)
    assert torch.equal(largest, draw(1, 64, device, p=0.5, seed=-1))
    assert torch.equal(largest.cpu().flatten(), torch.from_numpy(keeps(64, 0.5, 2**64 - 1)))


def test_extreme_probabilities(device: str) -> None:
    assert bool(draw(4, 256, device, p=0.0).all())
    assert bool(draw(4, 256, device, p=1e-12, seed=1).all())
    assert int(draw(4, 256, device, p=1 - 1e-12, seed=1).sum()) == 0


def test_what_is_dropped_may_be_infinite(device: str) -> None:
    x, residual, weight, _ = operands((2, 256), device)
    mask = draw(2, 256, device, p=0.5, seed=4)
    r = tk.dropout_add_layernorm(x.masked_fill(~mask, math.inf), residual, weight, p=0.5, seed=4)[1]
    assert torch.equal(r, tk.dropout_add_layernorm(x, residual, weight, p=0.5, seed=4)[1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"p": lambda _: 1.0}, "p: got 1.0, needs a probability in [0, 1)"),
        ({"p": lambda _: -0.1}, "p: got -0.1"),
        ({"p": lambda _: float("nan")}, "p: got nan"),
        ({"p": lambda _: "half"}, "p: got 'half', needs a number"),
        ({"eps": lambda _: -1e-5}, "eps: got -1e-05"),
        ({"eps": lambda _: math.inf}, "eps: got inf"),
        ({"seed": lambda _: 2**64}, "seed: got 18446744073709551616"),
        ({"seed": lambda _: 1.5}, "seed: got 1.5"),
        ({"offset": lambda _: None}, "offset: got None"),
        ({"blocks": lambda _: 0}, "blocks: got 0"),
        ({"rms": lambda _: "no"}, "rms: got 'no'"),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, Any], words: str) -> None:
    names = ("x", "residual", "weight", "bias")
    arguments: dict[str, Any] = dict(zip(names, operands((3, 128), "cpu"), strict=True))
    for name, make in change.items():
        arguments[name] = make(arguments.get(name))
    for bracket in "()[]":
        words = words.replace(bracket, "\\" + bracket)
    with pytest.raises(ValueError, match=words):
        tk.dropout_add_layernorm(**arguments)


def test_opcheck_and_compile(device: str) -> None:
    x, residual, weight, bias = operands((3, 128), device)
    operator = torch.ops.tk_kernels.dropout_add_layernorm.default
    for return_mask in (False, True):
        torch.library.opcheck(operator, (x, residual, weight, bias, 0.25, 1e-5, 7, 0, return_mask))
    compiled = torch.compile(
        lambda x: tk.dropout_add_layernorm(x, residual, weight, p=0.25, seed=7)[0] + 1,
        fullgraph=True,
        backend="aot_eager",
    )
    assert torch.equal(compiled(x), tk.dropout_add_layernorm(x, residual, weight, p=0.25, seed=7)[0] + 1)


def test_a_drawn_seed_is_drawn_anew_by_each_call_of_what_was_compiled_or_exported() -> None:
    x, residual, weight, _ = operands((3, 128), "cpu")

    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return tk.dropout_add_layernorm(x, residual, weight, p=0.5)[0]

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        made = [
            torch.compile(Layer(), fullgraph=True, backend="aot_eager"),
            torch.export.export(Layer(), (x,)).module(),
        ]
        for layer in made:
            torch.manual_seed(4)
            results = [layer(x), layer(x)]
            torch.manual_seed(4)
            assert all(torch.equal(one, Layer()(x)) for one in results)
            assert not torch.equal(*results)


@pytest.mark.gpu
@pytest.mark.parametrize("p", [0.0, 0.1])
def test_large_and_captured_in_a_graph(p: float) -> None:
    x, residual, weight, bias = operands((40_001, 1024), "cuda")
    y, r, mask = tk.dropout_add_layernorm(x, residual, weight, bias, p=p, seed=9, return_mask=True)
    normed, exact = formulas(x, residual, weight, bias, mask, p, 1e-5, False)
    assert_rounded(y, normed)
    assert_rounded(r, exact)
    assert np.array_equal(mask.cpu().numpy().reshape(-1), keeps(mask.numel(), p, 9))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured, _ = tk.dropout_add_layernorm(x, residual, weight, bias, p=p, seed=9)
    graph.replay()
    assert torch.equal(captured, y)
