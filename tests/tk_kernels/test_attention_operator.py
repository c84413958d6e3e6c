"""tk.attention as a citizen of PyTorch: tracing, compilation, gradients, CUDA graphs, streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tk_kernels as tk

FORWARD = torch.ops.tk_kernels.attention.default
BACKWARD = torch.ops.tk_kernels.attention_backward.default


def heads(B: int, H: int, N: int, D: int, device: str, seed: int = 0) -> Tensor:
    """Random normal (B, H, N, D) bfloat16."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + N * 1009 + H)
    return torch.randn(B, H, N, D, generator=generator).to(torch.bfloat16).to(device)


def operands(device: str, N: int = 33, Nkv: int = 40, D: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """q of 4 heads, k and v of 2; q has its rows outside its heads, as a projection leaves them."""
    q = heads(2, N, 4, D, device).transpose(1, 2)
    return q, heads(2, 2, Nkv, D, device, 1), heads(2, 2, Nkv, D, device, 2)


def leaves(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_() for tensor in tensors]


def sdpa(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True, "scale": 0.3, "deterministic": True}, {"options": [1, 0, -1]}, {"causal": True, "window": 9}],
    ids=["automatic", "backward", "forward", "window"],
)
def test_opcheck(device: str, D: int, gradient: bool, options: dict[str, Any]) -> None:
    arguments = tuple(tensor.requires_grad_(gradient) for tensor in operands(device, D=D))
    torch.library.opcheck(FORWARD, arguments, options)


@pytest.mark.parametrize("options", [{}, {"causal": True, "scale": 0.3, "window": 20}], ids=["automatic", "options"])
def test_opcheck_of_the_backward(device: str, options: dict[str, Any]) -> None:
    q, k, v = operands(device)
    out, lse = FORWARD(q, k, v, **options)
    torch.library.opcheck(BACKWARD, (heads(2, 4, 33, 64, device, 3), q, k, v, out, lse), options)


def test_a_pending_minus_sign_is_carried_out(device: str) -> None:
    q, k, v = operands(device)
    assert torch.equal(tk.attention(q, k, torch._neg_view(v)), -tk.attention(q, k, v))
    assert torch.equal(tk.attention(torch._neg_view(q), k, v), tk.attention(-q, k, v))


def test_compiles_as_one_graph(device: str) -> None:
    def layer(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        out, lse = tk.attention(q * 2, k, v, causal=True, return_lse=True, order="row_major")
        return tk.attention(out, k, v, scale=-0.1) + 1, lse

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for got, wanted in zip(compiled(*operands(device)), layer(*operands(device)), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_with_its_gradient(device: str, dynamic: bool) -> None:
    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tk.attention(q, k, v, causal=True, deterministic=True).float().pow(2).sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for N in (33, 65):
        inputs = operands(device, N, N)
        one, other = leaves(*inputs), leaves(*inputs)
        compiled(*one).backward()
        loss(*other).backward()
        for got, wanted in zip(one, other, strict=True):
            assert torch.equal(got.grad, wanted.grad)


def test_compiles_with_inductor_and_dynamic_sizes(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Inductor keeps compiled graphs on disk by the operator's name: one with an older signature must not be met.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def layer(x: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = x.unflatten(-1, (4, 64)).transpose(1, 2)
        return tk.attention(q, k, v).transpose(1, 2).flatten(2).relu()

    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for N in (16, 33):
        x = heads(1, 2, N, 256, device)[0]
        inputs = (x, heads(2, 2, N, 64, device, 1), heads(2, 2, N, 64, device, 2))
        assert torch.equal(compiled(*inputs), layer(*inputs))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
def test_gradients_are_those_of_pytorchs_attention(device: str, D: int, causal: bool) -> None:
    inputs, dout = operands(device, 40, 40, D), heads(2, 4, 40, D, device, 3)
    results = []
    for function, is_causal in ((tk.attention, {"causal": causal}), (sdpa, {"is_causal": causal})):
        own = leaves(*inputs)
        function(*own, **is_causal).backward(dout)
        results.append([leaf.grad for leaf in own])
    for ours, theirs in zip(*results, strict=True):
        assert ours is not None and theirs is not None  # noqa: PT018
        torch.testing.assert_close(ours, theirs, rtol=2**-6, atol=2**-5)
        assert ours.stride() == theirs.stride()


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_gradient_is_the_slope_of_the_function(device: str, causal: bool) -> None:
    """Along random directions: the change of float64 attention over a small step is what dq, dk and dv say."""

    def value(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (tensor.repeat_interleave(2, dim=1) for tensor in (k, v))
        scores = q @ k.mT / 8
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1 + 40 - 33), -torch.inf)
        return ((scores.softmax(-1) @ v) * dout.double()).sum()

    dout = heads(2, 4, 33, 64, device, 3)
    inputs = leaves(*operands(device))
    grads = torch.autograd.grad(tk.attention(*inputs, causal=causal), inputs, dout)
    point = [tensor.detach().double() for tensor in inputs]
    for index, grad in enumerate(grads):
        direction = torch.zeros_like(point[index])
        direction[:, :, 7:21] = grad.double()[:, :, 7:21]  # some rows, along their own gradient
        step = 1e-4 / float(direction.norm())
        ends = [
            value(*(p + sign * step * direction if i == index else p for i, p in enumerate(point))) for sign in (1, -1)
        ]
        slope = float(ends[0] - ends[1]) / (2 * step)
        assert slope == pytest.approx(float((grad.double() * direction).sum()), rel=2**-7)


@pytest.mark.parametrize("only", [0, 1, 2], ids=["q", "k", "v"])
def test_gradient_of_one_input_alone(device: str, only: int) -> None:
    inputs = operands(device)
    inputs[only].requires_grad_()
    tk.attention(*inputs).float().sum().backward()
    assert [tensor.grad is not None for tensor in inputs] == [index == only for index in range(3)]


def test_gradient_of_a_sum_is_expanded_and_copied(device: str) -> None:
    one, other = leaves(*operands(device)), leaves(*operands(device))
    tk.attention(*one).sum().backward()
    out = tk.attention(*other)
    out.backward(torch.ones_like(out))
    for got, wanted in zip(one, other, strict=True):
        torch.testing.assert_close(got.grad, wanted.grad, rtol=0, atol=2**-8)


def test_lse_carries_no_gradient(device: str) -> None:
    out, lse = tk.attention(*leaves(*operands(device)), return_lse=True)
    assert out.requires_grad
    assert not lse.requires_grad
    assert (lse.dtype, tuple(lse.shape)) == (torch.float32, (2, 4, 33))


def test_second_derivative_is_refused_in_words(device: str) -> None:
    q, k, v = leaves(*operands(device))
    (first,) = torch.autograd.grad(tk.attention(q, k, v).float().pow(2).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="attention: it has no second derivative"):
        first.float().sum().backward()


def test_wrong_arguments_of_the_backward_are_named(device: str) -> None:
    q, k, v = operands(device)
    out, lse = FORWARD(q, k, v)
    with pytest.raises(ValueError, match=r"dout: got shape \(2, 4, 32, 64\), needs \(2, 4, 33, 64\)"):
        BACKWARD(out[:, :, 1:], q, k, v, out, lse)
    with pytest.raises(ValueError, match=r"lse: got dtype float64, needs float32"):
        BACKWARD(out, q, k, v, out, lse.double())
    with pytest.raises(ValueError, match="scale: got nan"):
        BACKWARD(out, q, k, v, out, lse, False, float("nan"))


@pytest.mark.gpu
def test_cuda_graph_replays_on_new_inputs() -> None:
    inputs = leaves(*operands("cuda", 300, 300, 128))
    dout = heads(2, 4, 300, 128, "cuda", 3)

    def step() -> list[Tensor]:
        out = tk.attention(*inputs, causal=True)
        return [out, *torch.autograd.grad(out, inputs, dout)]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for seed, tensor in enumerate((*inputs, dout)):
            tensor.copy_(heads(2, tensor.shape[1], 300, 128, "cuda", 10 + seed))
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    for got, wanted in zip(captured, step(), strict=True):
        torch.testing.assert_close(got, wanted, rtol=2**-6, atol=2**-8)  # dq is a sum of no fixed order


@pytest.mark.gpu
def test_scratch_of_the_backward_is_not_given_away_early() -> None:
    """Backward after backward on one stream, with allocations between: each must give the same gradients."""
    inputs, dout = leaves(*operands("cuda", 1000, 1000, 128)), heads(2, 4, 1000, 128, "cuda", 3)
    grads = []
    for _ in range(20):
        out = tk.attention(*inputs, deterministic=True)
        grads.append(torch.autograd.grad(out, inputs, dout))
        torch.full((2, 4, 1000, 128), float("nan"), device="cuda")
    assert all(torch.equal(got, wanted) for later in grads[1:] for got, wanted in zip(later, grads[0], strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("direction", ["fwd", "bwd"])
def test_profiler_sees_the_kernels_by_their_expected_names(direction: str) -> None:
    import re
    from types import SimpleNamespace

    from tk_kernels.implementations import Attention

    problem = SimpleNamespace(D=128, dtype="bf16", direction=direction, causal=True)
    q, k, v = operands("cuda", 300, 300, 128)
    implementation = Attention()
    call = implementation.prepare(problem, {"q": q, "k": k, "v": v, "dout": torch.randn_like(q)})
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    names: list[Any] = [event.name for event in profile.events()]
    assert all(any(re.search(pattern, name) for name in names) for pattern in implementation.kernel_names(problem)), (
        names
    )
    foreign = implementation.foreign_kernel_names()
    assert not [name for name in names if any(re.search(pattern, name) for pattern in foreign)]


def test_pytorchs_own_switch_makes_gradients_deterministic(device: str) -> None:
    """Guard: `are_deterministic_algorithms_enabled` in `attention`. The two ways to dQ round differently here."""
    inputs, dout = leaves(*operands(device, 200, 400, 64)), heads(2, 4, 200, 64, device, 3)

    def dq(**options: bool) -> Tensor:
        return torch.autograd.grad(tk.attention(*inputs, **options), inputs, dout)[0]

    summed, wanted = dq(), dq(deterministic=True)
    assert not torch.equal(summed, wanted)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(dq(), wanted)
    finally:
        torch.use_deterministic_algorithms(False)
