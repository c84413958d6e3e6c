"""tk.gemm as a citizen of PyTorch: tracing, compilation, gradients, CUDA graphs, streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tk_kernels as tk
from tk_kernels.kernels.gemm import launch as gemm_launch
from tk_kernels.kernels.gemm.options import encode_options


def matrix(rows: int, cols: int, device: str, seed: int = 0) -> Tensor:
    """Random normal (rows, cols) bfloat16."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + rows * 1009 + cols)
    return torch.randn(rows, cols, generator=generator).to(torch.bfloat16).to(device)


@pytest.mark.parametrize("shape", [(16, 32, 24), (7, 3, 5)], ids=str)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"options": list(encode_options(stages=2, persistent=0))}], ids=["automatic", "options"]
)
def test_opcheck(device: str, shape: tuple[int, int, int], gradient: bool, options: dict[str, list[int]]) -> None:
    M, N, K = shape
    a, b = matrix(M, K, device).requires_grad_(gradient), matrix(K, N, device, 1).requires_grad_(gradient)
    torch.library.opcheck(torch.ops.tk_kernels.gemm.default, (a, b), options)


def test_opcheck_of_the_form_with_out(device: str) -> None:
    arguments = (matrix(16, 24, device), matrix(24, 32, device, 1), matrix(16, 32, device, 2))
    torch.library.opcheck(torch.ops.tk_kernels.gemm_out.default, arguments)


def test_a_pending_minus_sign_is_carried_out(device: str) -> None:
    a, b = matrix(16, 24, device), matrix(24, 32, device, 1)
    assert torch.equal(tk.gemm(torch._neg_view(a), b), -tk.gemm(a, b))


def test_zeros_without_memory_are_filled_in(device: str) -> None:
    zeros = torch._efficientzerotensor((16, 24), dtype=torch.bfloat16, device=device)
    assert torch.equal(tk.gemm(zeros, matrix(24, 32, device)), torch.zeros(16, 32, dtype=torch.bfloat16, device=device))


def test_compiles_as_one_graph(device: str) -> None:
    def network(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return tk.gemm(tk.gemm(x, w, stages=2, order="row_major").relu(), v) + 1

    x, w, v = matrix(33, 24, device), matrix(24, 40, device, 1), matrix(40, 17, device, 2)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, w, v), network(x, w, v))


def test_compiles_with_inductor_and_dynamic_sizes(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Inductor keeps compiled graphs on disk by the operator's name: one with an older signature must not be met.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def layer(x: Tensor, w: Tensor) -> Tensor:
        return tk.gemm(x, w).relu()

    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for M in (16, 33, 64):
        x, w = matrix(M, 24, device), matrix(24, 40, device, 1)
        assert torch.equal(compiled(x, w), layer(x, w))


def test_compiled_mistake_names_the_argument(device: str) -> None:
    compiled = torch.compile(lambda a, b: tk.gemm(a, b), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match=r"b: got shape \(16, 24\), needs \(24, N\)"):
        compiled(matrix(16, 24, device), matrix(16, 24, device))


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)], ids=["both", "a", "b"])
@pytest.mark.parametrize("shape", [(40, 48, 56), (11, 13, 7)], ids=str)
def test_gradients_are_those_of_matmul(device: str, needs: tuple[bool, bool], shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = matrix(M, K, device), matrix(K, N, device, 1)
    grad = matrix(M, N, device, 2)
    leaves = [tensor.clone().requires_grad_(need) for tensor, need in zip((a, b), needs, strict=True)]
    tk.gemm(*leaves).backward(grad)
    exact = (grad.double() @ b.double().t(), a.double().t() @ grad.double())
    for leaf, need, wanted in zip(leaves, needs, exact, strict=True):
        assert (leaf.grad is not None) == need
        if leaf.grad is not None:
            torch.testing.assert_close(leaf.grad.double(), wanted, rtol=2**-7, atol=2**-6)


def test_second_derivative(device: str) -> None:
    a, b = matrix(8, 16, device).requires_grad_(), matrix(16, 8, device, 1).requires_grad_()
    (first,) = torch.autograd.grad(tk.gemm(a, b).float().pow(2).sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first.float().sum(), b)
    assert second.shape == b.shape
    assert bool(second.isfinite().all())


def test_works_in_inference_mode(device: str) -> None:
    a, b = matrix(16, 24, device), matrix(24, 32, device, 1)
    with torch.inference_mode():
        assert torch.equal(tk.gemm(a, b), tk.gemm(a, b))
        out = torch.empty_like(tk.gemm(a, b))
        assert torch.equal(tk.gemm(a, b, out=out), tk.gemm(a, b))
        x, table = a[None, None, :, :16].repeat(1, 1, 1, 4), torch.rand(16, 32, device=device)
        wanted = tk.rotary(x, table, table)
        assert torch.equal(tk.rotary(x, table, table, inplace=True), wanted)


def test_import_is_quick_and_builds_nothing() -> None:
    program = (
        "import time, torch; start = time.process_time(); import tk_kernels; print(time.process_time() - start)\n"
        "import sys; print('tvm_ffi' in sys.modules)"
    )
    seconds: list[float] = []
    for _ in range(2):
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        elapsed, loaded = said.stdout.split()
        assert (loaded, said.stderr) == ("False", "")
        seconds.append(float(elapsed))
    assert min(seconds) < 0.5


def misaligned(rows: int, cols: int, device: str, seed: int) -> Tensor:
    """A dense matrix that begins at an odd element, and whose copy lies as it does."""
    return matrix(1, rows * cols + 1, device, seed)[0, 1:].view(rows, cols)


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (matrix(40, 30, "cpu"), matrix(30, 24, "cpu"), 1),
        (matrix(40, 32, "cpu"), matrix(32, 25, "cpu"), 2 | 4),
        (matrix(40, 30, "cpu"), matrix(30, 25, "cpu"), 1 | 2 | 4),
        (misaligned(40, 32, "cpu", 1), matrix(32, 24, "cpu"), 0),
        (matrix(40, 30, "cpu"), misaligned(30, 24, "cpu", 1), 0),
        (misaligned(40, 32, "cpu", 1), matrix(32, 25, "cpu"), 1 | 2 | 4),
        (matrix(40, 32, "cpu"), misaligned(32, 24, "cpu", 1), 0),
    ],
    ids=["a", "b_and_out", "all", "a_alike", "b_alike", "a_alike_then_b", "b_alone_alike"],
)
def test_the_kernel_begins_behind_copies_by_kernels_alone(
    a: Tensor, b: Tensor, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: what lies as its copy does may be copied without a kernel, which none can begin behind."""
    real, heard = gemm_launch.compiled("gemm", a.device), []

    def function(*arguments: Any) -> int:
        heard.append(arguments[3])
        return int(real(*arguments))

    monkeypatch.setattr(gemm_launch, "compiled", lambda kernel, device: function)
    out = tk.gemm(a, b)
    assert heard == [0, told]
    torch.testing.assert_close(out.float(), a.float() @ b.float(), rtol=2**-7, atol=2**-4)


@pytest.mark.gpu
def test_cuda_graph_of_copies_without_a_kernel() -> None:
    a, b = misaligned(256, 512, "cuda", 1), misaligned(512, 384, "cuda", 2)
    tk.gemm(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [tk.gemm(a, b) for _ in range(3)]
    a.copy_(matrix(256, 512, "cuda", 7))
    graph.replay()
    torch.cuda.synchronize()
    for result in results:
        torch.testing.assert_close(result.float(), a.float() @ b.float(), rtol=2**-7, atol=2**-4)


@pytest.mark.gpu
def test_profiler_sees_the_kernel_by_its_expected_name() -> None:
    import re

    from tk_kernels.implementations import Gemm

    a, b = matrix(512, 512, "cuda"), matrix(512, 512, "cuda", 1)
    tk.gemm(a, b)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        tk.gemm(a, b)
        torch.cuda.synchronize()
    names: list[Any] = [event.name for event in profile.events()]
    (pattern,) = Gemm().kernel_names(None)
    assert any(re.search(pattern, name) for name in names), names


@pytest.mark.gpu
@pytest.mark.long
def test_host_time_of_a_call_is_within_10_us_of_matmul() -> None:
    import time

    a, b = matrix(64, 64, "cuda"), matrix(64, 64, "cuda", 1)

    def host_us(call: Any) -> float:
        best = float("inf")
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                call()
            best = min(best, (time.perf_counter() - start) / 200 * 1e6)
        return best

    ours, theirs = host_us(lambda: tk.gemm(a, b)), host_us(lambda: torch.matmul(a, b))
    print(f"host time of a call: tk.gemm {ours:.1f} us, torch.matmul {theirs:.1f} us")
    assert ours - theirs < 10


def test_autograd_sees_a_result_that_is_written_into(device: str) -> None:
    """Guard: increment_version in `_run_out`."""
    a, b, out = matrix(16, 16, device), matrix(16, 16, device), matrix(16, 16, device)
    weight = torch.ones(16, device=device, dtype=torch.bfloat16, requires_grad=True)
    y = (out * weight).sum()
    tk.gemm(a, b, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
