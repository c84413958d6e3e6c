"""tk.fft_conv against float64, on every device that is here, and as a citizen of PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from convolutions import convolved, emulated
from operator_examples import Example, bf16
from refusals import assert_refused
from torch import Tensor

import tk_kernels as tk
from tk_kernels.implementations import FftConv
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "fft_conv": Example(
        tk.fft_conv,
        lambda: {"u": bf16(1, 2, 1024), "k_f": tk.fft_conv_filter(torch.randn(2, 1024))},
        copied=("u", "k_f"),
        larger=lambda seed: (
            operands(16, 64, 4096, "cpu", seed)[0],
            tk.fft_conv_filter(operands(1, 64, 4096, "cpu")[1]),
        ),
    ),
}

OPERATOR = torch.ops.tk_kernels.fft_conv.default
LARGEST_ERROR = 6e-3  # relative L2, by the tensor cores' roundings


def operands(B: int, D: int, N: int, device: str, seed: int = 0, length: int | None = None) -> tuple[Tensor, Tensor]:
    """u (B, D, N) bfloat16, k (D, length or N) float32, random normal."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + 7 * B + 3 * D + N)
    u = torch.randn(B, D, N, generator=generator).to(torch.bfloat16)
    return u.to(device), torch.randn(D, length or N, generator=generator).to(device)


def check(u: Tensor, k: Tensor, causal: bool = False) -> Tensor:
    """y, once it is found as near float64 as the roundings allow, in each sequence and in all."""
    k_f = tk.fft_conv_filter(k, n=u.shape[2], causal=causal)
    y = tk.fft_conv(u, k_f, causal=causal)
    assert y.dtype == torch.bfloat16
    assert y.shape == u.shape
    assert y.is_contiguous()
    got, u, k = y.double().cpu(), u.cpu(), k.cpu()
    exact = convolved(u, k, causal)
    norm = exact.norm(dim=-1)
    error, allowed = ((x - exact).norm(dim=-1) for x in (got, emulated(u, k, causal)))
    # Two drawings of the same roundings: of one short sequence they scatter by more than of many long ones.
    assert float(error.norm()) <= (1.1 + 2 * exact.numel() ** -0.5) * float(allowed.norm())
    assert float(error.norm()) <= LARGEST_ERROR * float(norm.norm()) or u.shape[2] < 1024
    assert bool((error <= 2 * allowed + 1e-3 * norm).all())
    return y


@pytest.mark.parametrize("N", [1024, 2048, 4096, 8192])
@pytest.mark.parametrize("B", [1, 2, 3, 5, 16, 17])
def test_circular(device: str, N: int, B: int) -> None:
    check(*operands(B, 2, N, device))


@pytest.mark.parametrize("N", [1, 63, 64, 65, 100, 512, 513, 1000, 1024, 1025, 2047, 2048, 2049, 3001, 4096])
def test_causal(device: str, N: int) -> None:
    check(*operands(3, 2, N, device), causal=True)


@pytest.mark.parametrize("B", [1, 4, 5])
@pytest.mark.parametrize("N", [500, 1000, 2048, 4096])
def test_causal_batches(device: str, N: int, B: int) -> None:
    check(*operands(B, 3, N, device), causal=True)


@pytest.mark.parametrize("D", [1, 3, 132, 133, pytest.param(1024, marks=pytest.mark.long)])
@pytest.mark.parametrize("N", [1024, 4096, 8192])
def test_any_number_of_channels(device: str, N: int, D: int) -> None:
    check(*operands(1 if D > 3 else 4, D, N, device))


@pytest.mark.parametrize(("B", "D", "N"), [(132, 1, 1024), (133, 3, 1024), (3, 133, 1024), (133, 2, 4096)])
def test_large_batches(device: str, B: int, D: int, N: int) -> None:
    check(*operands(B, D, N, device))


@pytest.mark.parametrize("length", [1, 3, 128, 700])
@pytest.mark.parametrize("causal", [False, True])
def test_short_filters(device: str, length: int, causal: bool) -> None:
    check(*operands(2, 2, 1024, device, length=length), causal)


@pytest.mark.parametrize(
    ("N", "causal"), [*((N, False) for N in (1024, 2048, 4096, 8192)), *((N, True) for N in (1024, 2048, 4096))]
)
def test_a_filter_of_one_impulse_delays(device: str, N: int, causal: bool) -> None:
    """Every delay class of the decomposition: by nothing, within a row, by a row, by half, by all but one."""
    delays = (0, 1, 64, N // 2, N - 1)
    u, _ = operands(4, 5, N, device)
    k = torch.zeros(5, N, device=device)
    k[range(5), delays] = 1.0
    y = tk.fft_conv(u, tk.fft_conv_filter(k, causal=causal), causal=causal).float()
    for channel, delay in enumerate(delays):
        wanted = u[:, channel].float().roll(delay, -1)
        if causal:
            wanted[:, :delay] = 0
        # Alone, a causal one's noise is as large as if what is carried around the end were there.
        assert float((y[:, channel] - wanted).norm() / u[:, channel].float().norm()) < LARGEST_ERROR


def test_causal_outputs_do_not_see_the_future(device: str) -> None:
    u, k = operands(2, 2, 1024, device)
    u[:, :, :700] = 0
    y = tk.fft_conv(u, tk.fft_conv_filter(k, causal=True), causal=True)
    assert float(y[:, :, :700].float().abs().max()) < 0.02 * float(y.float().abs().max())


@pytest.mark.parametrize("N", [1024, 4096, 8192])
def test_sequences_do_not_leak_into_their_partners(device: str, N: int) -> None:
    """Two sequences are one complex one: a loud one beside a silent one."""
    u, k = operands(4, 2, N, device)
    u[1::2] = 0
    y = tk.fft_conv(u, tk.fft_conv_filter(k)).float()
    assert float(y[1::2].norm()) < LARGEST_ERROR * float(y[0::2].norm())


@pytest.mark.parametrize("N", [1024, 4096])
def test_a_causal_sequence_has_no_partner(device: str, N: int) -> None:
    """The error of each is its own, however loud the others are."""
    u, k = operands(4, 2, N, device)
    u[1::2] *= 1e-3
    y = tk.fft_conv(u, tk.fft_conv_filter(k, causal=True), causal=True).double().cpu()
    exact = convolved(u.cpu(), k.cpu(), causal=True)
    assert bool(((y - exact).norm(dim=-1) < 1.5 * LARGEST_ERROR * exact.norm(dim=-1)).all())


def test_a_nan_stays_in_its_channel(device: str) -> None:
    u, k = operands(6, 3, 1024, device)
    u[2, 1, 17] = float("nan")
    y = tk.fft_conv(u, tk.fft_conv_filter(k))
    finite = y.isfinite().all(-1)
    # Those below one another in a tile are multiplied by zeros of the block-diagonal factor, which a NaN passes.
    assert not bool(finite[2, 1])
    assert bool(finite[:, [0, 2]].all())


def layouts(device: str) -> dict[str, tuple[Tensor, bool]]:
    """(3, 4, 1024) in memory in every way, and whether it has to be copied."""

    def normal(*shape: int) -> Tensor:
        return operands(*shape, device)[0]

    return {
        "channels outside": (normal(4, 3, 1024).transpose(0, 1), False),
        "window of channels": (normal(3, 9, 1024)[:, 2:6], False),
        "every second batch": (normal(6, 4, 1024)[::2], False),
        "part of the length": (normal(3, 4, 2048)[:, :, 8:1032], False),
        "odd pitch": (normal(3, 4, 1027)[:, :, :1024], True),
        "base not aligned": (normal(3, 4, 2048)[:, :, 3:1027], True),
        "channels inside": (normal(3, 1024, 4).mT, True),
        "one batch for all": (normal(1, 4, 1024).expand(3, 4, 1024), True),
    }


@pytest.mark.parametrize("name", layouts("cpu"))
def test_any_strides(device: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    u, copy = layouts(device)[name]
    check(u, operands(1, 4, 1024, device)[1])
    assert copied == (["u"] if copy else [])


def test_a_spectrum_of_any_strides(device: str) -> None:
    u, k = operands(2, 4, 1024, device)
    k_f = tk.fft_conv_filter(k)
    expected = tk.fft_conv(u, k_f)
    assert torch.equal(tk.fft_conv(u, k_f.transpose(0, 1).contiguous().transpose(0, 1)), expected)


def test_what_lies_beside_the_operands_is_neither_read_nor_written(device: str) -> None:
    u, k = operands(3, 2, 512, device)
    wide = u.new_full((5, 4, 1536), float("nan"))
    window = wide[1:4, 1:3, 512:1024]
    window.copy_(u)
    check(window, k, causal=True)
    assert int(wide.isnan().sum()) == wide.numel() - window.numel()


@pytest.mark.parametrize("seed", range(5))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    check(*operands(9, 5, (1024, 2048, 4096, 8192)[seed % 4], "cpu"))
    check(*operands(9, 5, (1024, 2048, 4096)[seed % 3], "cpu"), causal=True)


def test_filter_layout(device: str) -> None:
    """Real and imaginary parts of the transform over its number of points, frequency c + R d at (c, d / 2), odd d
    32 columns further on; causal: of a frequency a quarter higher."""
    k = operands(1, 3, 2048, device)[1]
    for causal, sparse in ((False, 1), (True, 4)):
        k_f = tk.fft_conv_filter(k, causal=causal)
        assert k_f.shape == (3, 2, 32, 64)
        assert k_f.is_contiguous()
        exact = torch.fft.fft(k.double(), sparse * 2048) / 2048  # causal: those in between, too
        for c, d in ((0, 0), (1, 0), (0, 1), (31, 63)):
            wanted = exact[:, sparse * (c + 32 * d) + causal]
            wanted = torch.stack((wanted.real, wanted.imag), 1)
            torch.testing.assert_close(k_f[:, :, c, d // 2 + d % 2 * 32].double(), wanted, rtol=2**-8, atol=1e-4)


def mistakes(device: str) -> dict[str, tuple[Callable[[], object], str]]:
    """A wrong call each, and the words that say so."""
    u, k = operands(2, 3, 1024, device)
    k_f = tk.fft_conv_filter(k)
    f: Any = tk.fft_conv
    g: Any = tk.fft_conv_filter
    return {
        "length": (lambda: f(u[:, :, :1000], k_f), "u: got length 1000, supported are 1024, 2048, 4096, 8192"),
        "causal length": (
            lambda: f(u.repeat(1, 1, 5), k_f, causal=True),
            "u: got length 5120, supported are 1 to 4096",
        ),
        "operator": (lambda: OPERATOR(u[..., :64], k_f), "u: got length 64, supported are 1024, 2048, 4096, 8192"),
        "filter's length": (lambda: g(k[:, :1000]), "k: got length 1000, supported are 1024, 2048, 4096, 8192"),
        "filter too long": (lambda: g(k, n=512, causal=True), "k: got length 1024, needs at most n = 512"),
        "n": (lambda: g(k, n=0), "n: got 0, needs a positive integer"),
        "n unsupported": (lambda: g(k, n=4097, causal=True), "n: got length 4097, supported are 1 to 4096"),
        "filter's causal": (lambda: g(k, causal="yes"), "causal: got 'yes', needs True or False"),
    }


def test_mistakes_are_value_errors_that_name_the_argument(device: str) -> None:
    with torch.inference_mode():
        assert_refused(mistakes(device))


@pytest.mark.parametrize(("N", "causal"), [(1024, False), (100, True)])
def test_opcheck(device: str, N: int, causal: bool) -> None:
    u, k = operands(2, 2, N, device)
    torch.library.opcheck(OPERATOR, (u, tk.fft_conv_filter(k, causal=causal), causal))


@pytest.mark.parametrize("filter", ["outside", "inside"])
@pytest.mark.parametrize("causal", [False, True])
def test_prepared_call_convolves(device: str, filter: str, causal: bool) -> None:
    problem = SimpleNamespace(B=2, D=2, N=1024, causal=causal, filter=filter, dtype="bf16", direction="fwd")
    u, k = operands(2, 2, 1024, device)
    implementation = FftConv()
    assert implementation.supports(problem, device) is None
    y = implementation.prepare(problem, {"u": u, "k": k})()
    assert torch.equal(y, tk.fft_conv(u, tk.fft_conv_filter(k, causal=causal), causal=causal))


def test_the_implementation_refuses_in_words() -> None:
    problem = {"B": 1, "D": 1, "N": 1024, "causal": False, "filter": "outside", "dtype": "bf16", "direction": "fwd"}
    for change, words in (
        ({"dtype": "fp32"}, "takes bf16, not fp32"),
        ({"direction": "bwd"}, "no kernel of its own for direction bwd"),
        ({"N": 512}, "takes N of 1024, 2048, 4096, 8192, not 512"),
        ({"N": 8192, "causal": True}, "takes N up to 4096 where it is causal, not 8192"),
    ):
        assert words in (FftConv().supports(SimpleNamespace(**(problem | change)), "cpu") or "")
    with pytest.raises(TypeError, match="'stages', it takes target"):
        FftConv(stages=2)


@pytest.mark.parametrize(
    ("target", "N", "reason"),
    [
        ("sm_80", 8192, "tk fft_conv takes N of 8192 on Hopper GPUs alone"),
        ("sm_80", 4096, None),
        ("sm_80", 1024, None),
        ("sm_90a", 8192, None),
        ("sm_80", 512, "tk fft_conv takes N of 1024, 2048, 4096, 8192, not 512"),
    ],
)
def test_the_longest_transform_needs_a_copy_engine(target: str, N: int, reason: str | None) -> None:
    problem = SimpleNamespace(B=1, D=1, N=N, causal=False, filter="outside", dtype="bf16", direction="fwd")
    assert FftConv(target=target).supports(problem, "cuda") == reason


def test_8192_points_are_refused_in_words_where_registers_stay(device: str, request: pytest.FixtureRequest) -> None:
    """By code for sm_80, before the launch; the cpu target passes registers on, as a Hopper GPU does."""
    u, k = operands(1, 1, 8192, device)
    if device == "cpu" or not request.config.getoption("--target"):
        check(u, k)
        return
    with pytest.raises(
        ValueError, match="needs a Hopper GPU, whose warpgroups pass registers on; there are 1024, 2048"
    ):
        tk.fft_conv(u, tk.fft_conv_filter(k))


@pytest.mark.gpu
def test_a_graph_captured_before_any_call_holds_its_own_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("tk_kernels.kernels.fft_conv.operator")  # the package's name of it is the function
    monkeypatch.setattr(module, "_known_constants", {})
    u, k = operands(2, 2, 4096, "cuda")
    k_f = tk.fft_conv_filter(k)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = tk.fft_conv(u, k_f)
    assert module._known_constants == {}
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, tk.fft_conv(u, k_f))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("N", "causal"), [(1024, False), (2048, False), (4096, False), (8192, False), (2048, True), (4096, True)]
)
def test_full_sizes(N: int, causal: bool) -> None:
    u, k = operands(16, 1024, N, "cuda")
    y = tk.fft_conv(u, tk.fft_conv_filter(k, causal=causal), causal=causal)
    assert bool(y.isfinite().all())
    for b, d in ((0, 0), (15, 1023), (7, 133)):
        exact = convolved(u[b : b + 1, d : d + 1].cpu(), k[d : d + 1].cpu(), causal)
        assert float((y[b, d].double().cpu() - exact).norm() / exact.norm()) < LARGEST_ERROR
