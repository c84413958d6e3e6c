"""tk.gemm_fp8 against float64, on every device that is here, as a citizen of PyTorch, and as a harness runs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from layouts import amid_nans
from operator_examples import Example, e4m3
from refusals import assert_refused
from torch import Tensor

import tk_kernels as tk
from tk_kernels.implementations import GemmFp8
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "gemm_fp8": Example(
        tk.gemm_fp8,
        lambda: {"a": e4m3(64, 64), "b": e4m3(48, 64).t(), "scale_a": torch.ones(()), "scale_b": torch.ones(())},
        copied=("a",),
        larger=lambda seed: (
            quantised(300, 640, "cpu", seed),
            quantised(304, 640, "cpu", seed + 2).t(),
            *scales("both", 300, 304, "cpu").values(),
        ),
    ),
}

E4M3 = torch.float8_e4m3fn
OPERATOR = torch.ops.tk_kernels.gemm_fp8.default
BF16_ROUNDING = 2.0**-8  # half a unit in the last place of a mantissa just above 1

SHAPES = (
    *((m, n, k) for m in (1, 63, 64, 129) for n in (1, 65, 128, 250) for k in (16, 144)),
    (300, 520, 400),
    (64, 64, 2048),
    (257, 16, 1040),
)


def quantised(rows: int, cols: int, device: str, seed: int = 0) -> Tensor:
    """(rows, cols) e4m3, random normal."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + 7 * rows + cols)
    return torch.randn(rows, cols, generator=generator).to(E4M3).to(device)


def scales(form: str, M: int, N: int, device: str) -> dict[str, Tensor]:
    """Keyword arguments of a call, none, for the matrices or for rows and columns."""
    generator = torch.Generator().manual_seed(M + N)

    def factors(*shape: int) -> Tensor:
        return (torch.rand(shape, generator=generator) + 0.5).to(device)

    return {
        "none": {},
        "one": {"scale_b": factors()},
        "tensor": {"scale_a": factors(1, 1), "scale_b": factors(1)},
        "rows": {"scale_a": factors(M, 1)},
        "columns": {"scale_a": factors(), "scale_b": factors(1, N)},
        "both": {"scale_a": factors(M, 1), "scale_b": factors(1, N)},
    }[form]


FORMS = ("none", "one", "tensor", "rows", "columns", "both")


def exact(a: Tensor, w: Tensor, given: dict[str, Tensor]) -> Tensor:
    product = a.cpu().double() @ w.cpu().double().t()
    for scale in given.values():
        product = product * scale.cpu().double()
    return product


def check(a: Tensor, w: Tensor, given: dict[str, Tensor] | None = None, **options: Any) -> Tensor:
    """scale_a scale_b a w^T, once it is found right in every element."""
    given = given or {}
    c = tk.gemm_fp8(a, w.t(), **given, **options)
    wanted = exact(a, w, given)
    assert c.dtype == options.get("out_dtype", torch.bfloat16)
    assert c.shape == wanted.shape
    assert c.is_contiguous()
    size = a.cpu().double().abs() @ w.cpu().double().abs().t()
    for scale in given.values():
        size = size * scale.cpu().double()
    # The tensor cores' sums of e4m3 have about 14 bits; the cpu target's have all of fp32. Without fast accumulation so
    # have those of each lot of K, which fp32 then adds: what the lots lose is together what the whole may.
    sums = (2.0**-12 if a.is_cuda else 2.0**-16) * size
    if c.dtype == E4M3:
        wanted = wanted.clamp(-448, 448)
        rounding = wanted.abs() * 2.0**-4 * 1.01 + 2.0**-10
    else:
        rounding = wanted.abs() * BF16_ROUNDING * 1.01
    assert bool(((c.cpu().double() - wanted).abs() <= rounding + sums * 1.07).all())
    return c


@pytest.mark.parametrize(("M", "N", "K"), SHAPES)
def test_any_size(device: str, M: int, N: int, K: int) -> None:
    check(quantised(M, K, device), quantised(N, K, device, 1))


@pytest.mark.parametrize("fast_accum", [True, False])
@pytest.mark.parametrize("out_dtype", [torch.bfloat16, E4M3])
@pytest.mark.parametrize("form", FORMS)
def test_every_scale_and_result(device: str, form: str, out_dtype: torch.dtype, fast_accum: bool) -> None:
    M, N, K = 131, 200, 592
    given = scales(form, M, N, device)
    check(quantised(M, K, device), quantised(N, K, device, 1), given, out_dtype=out_dtype, fast_accum=fast_accum)


@pytest.mark.parametrize("tile", ["128x256", "128x192", "128x160", "128x128", "64x128"])
def test_every_tile(device: str, tile: str) -> None:
    check(quantised(300, 400, device), quantised(520, 400, device, 1), scales("tensor", 300, 520, device), tile=tile)


@pytest.mark.parametrize("out_dtype", [torch.bfloat16, E4M3])
@pytest.mark.parametrize(
    ("M", "N", "K"), [(1, 1, 16), (127, 159, 128), (257, 161, 1040), (130, 321, 656), (384, 480, 784)]
)
def test_columns_by_160(device: str, M: int, N: int, K: int, out_dtype: torch.dtype) -> None:
    """B comes 32 rows at a time and results leave in strips of 32 columns: sizes at and around their borders."""
    a, b, given = quantised(M, K, device), quantised(N, K, device, 1), scales("one", M, N, device)
    check(a, b, given, out_dtype=out_dtype, tile="128x160", schedule="pingpong")


@pytest.mark.parametrize("out_dtype", [torch.bfloat16, E4M3])
@pytest.mark.parametrize(("M", "N", "K"), [(1, 264, 1008), (13, 130, 336), (100, 257, 128)])
def test_split(device: str, M: int, N: int, K: int, out_dtype: torch.dtype) -> None:
    a, b, given = quantised(M, K, device), quantised(N, K, device, 1), scales("tensor", M, N, device)
    for tile in ("16x128", "64x128", "128x64"):
        for split in (1, 3):
            check(a, b, given, out_dtype=out_dtype, tile=tile, schedule="swapped", split=split)


@pytest.mark.parametrize("tile", ["128x192", "128x128"])
@pytest.mark.parametrize("K", [16, 1024, 1040, 2176])
def test_promoted_sums(device: str, tile: str, K: int) -> None:
    check(quantised(300, K, device), quantised(520, K, device, 1), tile=tile, fast_accum=False)


def test_clusters(device: str) -> None:
    for tile in ("128x256", "128x192"):
        check(quantised(520, 400, device), quantised(300, 400, device, 1), tile=tile, cluster="2x1")


def test_e4m3_results_are_the_rounded_ones(device: str) -> None:
    """Of small sums, which fp32 and the tensor cores have exactly."""
    a = torch.randint(-4, 5, (70, 64)).float().to(E4M3).to(device)
    w = torch.randint(-4, 5, (90, 64)).float().to(E4M3).to(device)
    product = exact(a, w, {})
    c = tk.gemm_fp8(a, w.t(), out_dtype=E4M3, scale_a=torch.tensor(8.0, device=device))
    wanted = (8 * product).clamp(-448, 448).float().to(E4M3)
    assert int((8 * product).abs().gt(448).sum()) > 100
    assert torch.equal(c.cpu().view(torch.uint8) & 0x7F, wanted.view(torch.uint8) & 0x7F)
    assert torch.equal(c.cpu().float(), wanted.float())


def test_every_value_of_e4m3(device: str) -> None:
    """Each of the 254 finite values comes through multiplied by one, subnormal ones too."""
    values = torch.arange(256, dtype=torch.uint8)
    values = values[values % 128 != 127].view(E4M3)
    a = torch.zeros(254, 16).to(E4M3)
    a.view(torch.uint8)[:, 0] = values.view(torch.uint8)
    w = torch.zeros(16, 16).to(E4M3)
    w.view(torch.uint8)[:, 0] = torch.ones(16).to(E4M3).view(torch.uint8)
    for dtype in (torch.bfloat16, E4M3):
        c = tk.gemm_fp8(a.to(device), w.to(device).t(), out_dtype=dtype).float().cpu()
        assert torch.equal(c, values.float()[:, None].expand(254, 16))


def test_a_nan_stays_in_its_row_and_column(device: str) -> None:
    a, w = quantised(150, 160, device), quantised(140, 160, device, 1)
    a.view(torch.uint8)[7, 9] = 0x7F
    for dtype in (torch.bfloat16, E4M3):
        finite = ~tk.gemm_fp8(a, w.t(), out_dtype=dtype).float().isnan()
        assert not bool(finite[7].any())
        assert bool(finite[[i for i in range(150) if i != 7]].all())


def layouts(device: str) -> dict[str, tuple[Tensor, Tensor, bool]]:
    """a (60, 64) and w (50, 64) in memory in every way, and whether one has to be copied."""
    a, w = quantised(60, 64, device), quantised(50, 64, device, 1)
    wide = quantised(60, 256, device)
    return {
        "window of a": (wide[:, 64:128], w, False),
        "every second row": (quantised(120, 64, device)[::2], w, False),
        "a transposed": (quantised(64, 60, device).t(), w, True),
        "odd pitch of a": (quantised(60, 67, device)[:, :64], w, True),
        "base of w not aligned": (a, quantised(50, 256, device)[:, 3:67], True),
        "odd pitch of w": (a, quantised(50, 67, device)[:, :64], True),
        "one row": (quantised(1, 64, device), w, False),
    }


@pytest.mark.parametrize("name", layouts("cpu"))
def test_any_strides(device: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked, how: copied.extend(asked))
    a, w, copy = layouts(device)[name]
    check(a, w)
    matrices = [one for one in copied if one != "the result"]
    assert matrices == (["the transpose of b" if " w " in f" {name} " else "a"] if copy else [])


def test_strided_scales(device: str) -> None:
    a, w = quantised(40, 32, device), quantised(48, 32, device, 1)
    rows, columns = torch.rand(40, 3, device=device)[:, 1:2], torch.rand(48, 2, device=device).t()[:1]
    check(a, w, {"scale_a": rows, "scale_b": columns})


def test_what_lies_beside_the_operands_is_not_read(device: str) -> None:
    check(amid_nans(quantised(100, 176, device)), quantised(70, 176, device, 1))


@pytest.mark.parametrize("fast_accum", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_any_schedule(seed: int, fast_accum: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    check(quantised(200, 1200, "cpu", seed), quantised(330, 1200, "cpu", seed + 9), fast_accum=fast_accum)


def mistakes() -> dict[str, tuple[Callable[[], object], str]]:
    """A wrong call each, and the words that say so."""
    a, b = quantised(40, 32, "cpu"), quantised(48, 32, "cpu", 1).t()
    f: Any = tk.gemm_fp8
    return {
        "out_dtype": (
            lambda: f(a, b, out_dtype=torch.float16),
            "out_dtype: got torch.float16, needs torch.bfloat16 or",
        ),
        "tile": (
            lambda: f(a, b, tile="96x96"),
            r"no kernel is built with these options together; there are:\n  tile 128",
        ),
        "tile of promoted": (
            lambda: f(a, b, tile="128x256", fast_accum=False),
            r"there are:\n  tile 128x192 stages 4 cluster 1x1 cooperative promotion 8",
        ),
    }


def test_mistakes_are_named() -> None:
    assert_refused(mistakes())


@pytest.mark.parametrize("out_dtype", [torch.bfloat16, E4M3])
def test_it_is_an_operator(device: str, out_dtype: torch.dtype) -> None:
    a, b = quantised(40, 32, device), quantised(48, 32, device, 1).t()
    arguments = (a, b, None, torch.ones(1, 48, device=device), out_dtype, True)
    # Not test_schema: it compares inputs before and after by operations that PyTorch does not have of e4m3.
    torch.library.opcheck(OPERATOR, arguments, test_utils=("test_faketensor", "test_autograd_registration"))
    compiled = torch.compile(lambda a, b: tk.gemm_fp8(a, b, out_dtype=out_dtype), backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(a, b).float(), tk.gemm_fp8(a, b, out_dtype=out_dtype).float())


@pytest.mark.parametrize("options", [{"stages": 4}, {"tile": "128x128"}, {"persistent": 0, "schedule": "cooperative"}])
def test_options_given_in_part_reach_the_kernel_through_the_dispatcher(device: str, options: dict[str, Any]) -> None:
    """It leaves out the last of an operator's arguments where they are the defaults."""
    a, b = quantised(40, 32, device), quantised(48, 32, device, 1).t()
    compiled = torch.compile(lambda a, b: tk.gemm_fp8(a, b, **options), backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(a, b), tk.gemm_fp8(a, b, **options))


@pytest.mark.gpu
@pytest.mark.parametrize("K", [1024, 4096, 16384])
def test_errors_are_those_of_the_library(K: int) -> None:
    """Within 1.1 of cuBLASLt's, with fast accumulation and without."""
    a, w = quantised(256, K, "cuda"), quantised(512, K, "cuda", 1)
    wanted, one = a.double() @ w.double().t(), torch.ones((), device="cuda")
    for fast in (True, False):
        ours = tk.gemm_fp8(a, w.t(), fast_accum=fast)
        theirs = torch._scaled_mm(a, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)
        error, allowed = ((c.double() - wanted).norm() for c in (ours, theirs))
        assert float(error) <= 1.1 * float(allowed)


def lost(K: int, fast: bool) -> float:
    """The share of sums of K positive products that is missing, in the mean, which bf16's rounding leaves alone."""
    a, w = (quantised(rows, K, "cuda").float().abs().to(E4M3) for rows in (256, 512))
    exactly = a.double() @ w.double().t()
    product = tk.gemm_fp8(a, w.t(), fast_accum=fast, tile="128x128")  # one that does not divide K among blocks
    return float((1 - product.double() / exactly).mean())


@pytest.mark.gpu
@pytest.mark.parametrize("K", [8192, 16384])
def test_promoted_sums_lose_no_more_than_those_of_a_lot(K: int) -> None:
    """The tensor cores cut sums off at each step, by more the larger they are; a lot is 1024 of K."""
    promoted = lost(K, False)
    assert lost(K, True) > 4 * promoted
    assert abs(promoted) < 1.25 * lost(1024, True)


def harness_problem(**keys: Any) -> Any:
    return SimpleNamespace(
        **{"M": 70, "N": 96, "K": 64, "out": "bf16", "scales": "tensor", "dtype": "e4m3", "direction": "fwd", **keys}
    )


@pytest.mark.parametrize("out", ["bf16", "e4m3"])
def test_prepared_call(device: str, out: str) -> None:
    implementation = GemmFp8(fast_accum=0, tile="128x128")
    problem = harness_problem(out=out)
    assert implementation.available() is None
    assert implementation.supports(problem, torch.device(device).type) is None
    a, w, given = quantised(70, 64, device), quantised(96, 64, device, 1), scales("both", 70, 96, device)
    c = implementation.prepare(problem, {"a": a, "b": w.t(), **given})()
    wanted = tk.gemm_fp8(
        a, w.t(), **given, out_dtype=E4M3 if out == "e4m3" else torch.bfloat16, fast_accum=False, tile="128x128"
    )
    assert torch.equal(c.float(), wanted.float())
    manifest = implementation.build_manifest()
    assert manifest is not None
    assert manifest["name"] == "gemm_fp8"


def test_refusals_and_options() -> None:
    assert "not bf16" in str(GemmFp8().supports(harness_problem(dtype="bf16"), "cpu"))
    assert "direction bwd" in str(GemmFp8().supports(harness_problem(direction="bwd"), "cpu"))
    with pytest.raises(TypeError, match="got the option 'order'"):
        GemmFp8(order="hilbert")
    with pytest.raises(ValueError, match="fast_accum: got 2, needs 0 or 1"):
        GemmFp8(fast_accum=2)


def test_kernel_names_are_told_from_the_bf16_kernels() -> None:
    (pattern,) = GemmFp8().kernel_names(harness_problem())
    mangled = (
        "_ZN7kittens12kernel_entryINS_3lcfIN2tk4gemm6kernelIXtlNS3_6configELi128ELi256ELi4ELi1ELi1EEENS2_8gemm_fp814"
        "scaled_productI13__nv_bfloat16Lb0EEEEEEEEvNT_7globalsE"
    )
    assert re.search(pattern, mangled)
    assert not re.search(
        pattern, mangled.replace("NS2_8gemm_fp814scaled_productI13__nv_bfloat16Lb0EEE", "NS3_7productE")
    )
