"""The baselines of the long convolution: right on the CPU where they run there, and each knows its own kernels."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.baselines.problems import small

ROOT = Path(__file__).resolve().parents[3]


def load(target: str) -> Any:
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)


# Names as the profiler gives them, by who runs them.
KERNELS = {
    "torch_fft": ("void vector_fft<4096u, EPT<16u>, 1u>", "void regular_fft_r2c<1024u, EPT<8u>>(arguments)"),
    "triton_monarch": ("baseline_monarch",),
    "flash_fft_conv": ("void monarch_conv_cuda_32_32_32_kernel<...>",),
}  # fmt: skip
OURS = "void kittens::kernel_entry<kittens::lcsf<tk::fft_conv::kernel<64>>>(Globals)"


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_baseline_knows_its_kernels_and_disowns_others(name: str) -> None:
    implementation = load(f"baselines.fft_conv.{name}.FftConv")()
    own, foreign = implementation.kernel_names(small("fft_conv")), implementation.foreign_kernel_names()
    for kernel in KERNELS[name]:
        assert all(re.search(pattern, kernel) for pattern in own), kernel
        assert not any(re.search(pattern, kernel) for pattern in foreign), kernel
    strangers = [kernel for other, kernels in KERNELS.items() if other not in (name, "torch_fft") for kernel in kernels]
    for kernel in (*strangers, OURS):
        assert any(re.search(pattern, kernel) for pattern in foreign), kernel


def test_flash_fft_conv_is_its_package_and_its_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: `available`.  They are two distributions, and the first is imported without the second."""
    monkeypatch.setenv("TK_BASELINES_SITE_FLASH_FFT_CONV", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module, missing in (("einops", "flashfftconv and monarch_cuda are"), ("flashfftconv", "monarch_cuda is")):
        (tmp_path / f"{module}.py").touch()
        importlib.invalidate_caches()
        assert load("baselines.fft_conv.flash_fft_conv.FftConv")().available().startswith(f"{missing} not installed: ")
    (tmp_path / "monarch_cuda.py").touch()
    importlib.invalidate_caches()
    assert load("baselines.fft_conv.flash_fft_conv.FftConv")().available() is None


def test_flash_fft_convs_kernel_is_called_on_what_its_module_makes_of_the_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the filter kept, a call transforms nothing and reads u anew; the library is left as it was."""
    library, conv = types.ModuleType("flashfftconv"), types.ModuleType("flashfftconv.conv")
    transforms: list[int] = []

    def monarch_conv_forward_16_16_16(u: Any, spectrum: Any, factor: Any, no_gate: Any, points: int) -> Any:
        return (torch.fft.ifft(torch.fft.fft(u.float() * factor) * spectrum).real / factor).to(u.dtype)

    def forward(u: Any, k: Any) -> Any:
        transforms.append(1)
        return vars(conv)["monarch_conv_forward_16_16_16"](u, torch.fft.fft(k), torch.tensor(2.0), None, k.shape[-1])

    module = types.SimpleNamespace(to=lambda device: forward)
    vars(library).update(FlashFFTConv=lambda points, dtype: module, conv=conv)
    vars(conv).update(monarch_conv_forward_16_16_16=monarch_conv_forward_16_16_16, monarch_conv_forward=None)
    for one in (library, conv):
        monkeypatch.setitem(sys.modules, one.__name__, one)
    problem = small("fft_conv", N=4096)
    u, k = torch.randn(2, 3, 4096).bfloat16(), torch.randn(3, 4096)
    baseline = load("baselines.fft_conv.flash_fft_conv.FftConv")
    plain, kept = (baseline(kept=one).prepare(problem, {"u": u, "k": k}) for one in (0, 1))
    assert torch.equal(kept(), plain())
    u.mul_(-3)
    before = len(transforms)
    assert torch.equal(kept(), kept())
    assert len(transforms) == before
    assert torch.equal(kept(), plain())
    assert vars(conv)["monarch_conv_forward_16_16_16"] is monarch_conv_forward_16_16_16
    for keys, words in (({"filter": "inside"}, "filter=inside"), ({"N": 2**16}, "up to 32768 points")):
        assert words in baseline(kept=1).supports(small("fft_conv", **keys), "cuda")
        assert words not in (baseline().supports(small("fft_conv", **keys), "cuda") or "")


def test_a_filter_inside_the_clock_is_cuffts_work_too() -> None:
    implementation = load("baselines.fft_conv.triton_monarch.FftConv")()
    assert len(implementation.kernel_names(small("fft_conv", filter="inside"))) == 2
    assert len(implementation.kernel_names(small("fft_conv"))) == 1


@pytest.mark.parametrize("transform", ["real", "complex"])
@pytest.mark.parametrize("keys", [{}, {"filter": "inside"}, {"N": 100, "causal": True}, {"N": 7}])
def test_torch_fft_on_the_cpu_is_right(transform: str, keys: dict[str, object]) -> None:
    problem = small("fft_conv", **keys)
    implementation = load("baselines.fft_conv.torch_fft.FftConv")(transform=transform)
    assert implementation.supports(problem, "cpu") is None
    generator = torch.Generator().manual_seed(problem.N)
    u = torch.randn(problem.B, problem.D, problem.N, generator=generator).bfloat16()
    k = torch.randn(problem.D, problem.N, generator=generator)
    y = implementation.prepare(problem, {"u": u, "k": k})()
    points = 2 * problem.N if problem.causal else problem.N
    exact = torch.fft.ifft(torch.fft.fft(u.double(), points) * torch.fft.fft(k.double(), points)).real
    exact = exact[..., : problem.N]
    assert y.dtype == torch.bfloat16
    assert y.is_contiguous()
    assert float((y.double() - exact).norm()) <= 2**-8 * float(exact.norm())


def test_lengths_that_are_not_taken_are_named() -> None:
    for name in ("triton_monarch", "flash_fft_conv"):
        implementation = load(f"baselines.fft_conv.{name}.FftConv")()
        assert "N=1000" in implementation.supports(small("fft_conv", N=1000), "cuda")


INTERPRETED = """
import torch
from baselines.fft_conv.triton_monarch import Config, bind, make_factors, spectrum
for of, batches, length in ((1024, 3, 1024), (2048, 2, 1000), (4096, 1, 4096)):
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(batches, 2, length, generator=generator).half()
    k = torch.randn(2, length, generator=generator) / length**0.5
    y = bind(u, spectrum(k, of, u.dtype), make_factors(of, u), Config(4, 1, 2))()
    exact = torch.fft.irfft(torch.fft.rfft(u.double(), of) * torch.fft.rfft(k.double(), of), of)[..., :length]
    print(float((y.double() - exact).norm() / exact.norm()))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_the_monarch_kernel_in_the_interpreter() -> None:
    """In fp16: the interpreter multiplies bf16 as if it were an integer."""
    probe = "import numpy; int(numpy.array([1]))"  # what the interpreter does, which numpy 2.4 refuses
    if subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode:
        pytest.skip("Triton's interpreter needs numpy < 2.4")
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    errors = [float(line) for line in done.stdout.split()]
    assert len(errors) == 3
    assert max(errors) < 1e-3


@pytest.mark.parametrize(("factors", "length"), [((32, 32), 1024), ((16, 16, 16), 4096), ((16, 16, 16, 16), 65536)])
def test_flash_fft_convs_bound_is_its_roundings(factors: tuple[int, ...], length: int) -> None:
    """The library's steps in PyTorch, rounded where it rounds: above the workload's 6e-3 where it needs its own bound,
    below that bound, and not below half of it."""
    bound, reason = load("baselines.fft_conv.flash_fft_conv.FftConv")().tolerance(small("fft_conv", N=length))
    assert "bf16" in reason
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(8, length, generator=generator).bfloat16().float()
    k = torch.randn(8, length, generator=generator) / length**0.5
    exact = torch.fft.irfft(torch.fft.rfft(u.double()) * torch.fft.rfft(k.double()), length)
    spectrum = _product(_transform(u + 0j, factors, -1) / length, _rounded(torch.fft.fft(k)))
    y = _transform(spectrum, factors, 1).real.bfloat16().double()
    assert bound / 2 < float((y - exact).norm() / exact.norm()) < bound


def _rounded(z: torch.Tensor) -> torch.Tensor:
    return torch.complex(z.real.bfloat16().float(), z.imag.bfloat16().float())


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """An elementwise product of complex bf16 numbers: real products are rounded, and so are their sums."""
    rr, ii, ri, ir = (
        (x * y).bfloat16().float() for x, y in ((a.real, b.real), (a.imag, b.imag), (a.real, b.imag), (a.imag, b.real))
    )
    return _rounded(torch.complex(rr - ii, ri + ir))


def _transform(x: torch.Tensor, factors: tuple[int, ...], sign: int) -> torch.Tensor:
    """The DFT of the last dimension by matrices of these orders, with twiddles between them."""
    length, first = x.shape[-1], factors[0]
    orders = torch.arange(first)
    matrix = _rounded(torch.exp(sign * 2j * torch.pi * (orders[:, None] * orders) / first))
    if len(factors) == 1:
        return _rounded(x @ matrix)
    rest = length // first
    parts = _rounded(torch.einsum("ka,...ab->...kb", matrix, x.reshape(*x.shape[:-1], first, rest)))
    twiddles = _rounded(torch.exp(sign * 2j * torch.pi * (orders[:, None] * torch.arange(rest)) / length))
    deeper = _transform(_product(parts, twiddles), factors[1:], sign)
    return deeper.transpose(-1, -2).reshape(*x.shape[:-1], length)
