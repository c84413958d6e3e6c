"""tk.linear_attention against float64, on every device that is here, and as a citizen of PyTorch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from operator_examples import Example, sequences
from recurrences import assert_good, normal, scan, uniform
from refusals import assert_refused
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

EXAMPLES: dict[str, Example] = {
    "linear_attention": Example(
        tk.linear_attention,
        lambda: {**sequences(), "log_decay": -torch.rand(1), "initial_state": torch.rand(1, 1, 64, 64)},
        dense=("q", "k", "v"),
    ),
}

OPERATOR = torch.ops.tk_kernels.linear_attention.default
LENGTHS = (1, 63, 64, 65, 100, 129, 200, 1000)


def decays(kind: str, B: int, H: int, N: int, device: str) -> Tensor | None:
    if kind == "none":
        return None
    if kind == "head":
        return uniform(H, low=-0.2, high=0.0, device=device)
    ranges = {"step": (-0.3, 0.0), "remembers": (-1e-6, 0.0), "forgets": (-30.0, -3.0), "mixed": (-20.0, 0.0)}
    low, high = ranges[kind]
    drawn = uniform(B, H, N, low=low, high=high, device=device)
    return drawn * (drawn < -10) if kind == "mixed" else drawn


def check(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None = None, **options: Any) -> Tensor:
    """The operator's output, once it and the final state are found as near float64 as they have to be."""
    out, state = tk.linear_attention(q, k, v, log_decay, return_final_state=True, **options)
    options.pop("segments", None)
    options["scale"] = q.shape[-1] ** -0.5 if options.get("scale") is None else options["scale"]
    exact, emulated = (scan(q, k, v, log_decay, **options, rounded=rounded) for rounded in (False, True))
    assert out.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    assert_good((out, state), exact, emulated)
    return out


def operands(B: int, G: int, H: int, N: int, Dk: int, Dv: int, device: str, seed: int = 0) -> list[Tensor]:
    shapes = ((B, G, N, Dk), (B, G, N, Dk), (B, H, N, Dv))
    return [normal(*shape, device=device, seed=3 * seed + i) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("kind", ["none", "head", "step"])
@pytest.mark.parametrize(("Dk", "Dv"), [(64, 64), (128, 64), (64, 128), (128, 128)])
def test_random_shapes(device: str, Dk: int, Dv: int, kind: str) -> None:
    draw = random.Random(f"{Dk} {Dv} {kind}")
    for seed in range(4 if device == "cpu" else 40):
        B, G, N = draw.randint(1, 2), draw.choice((1, 1, 2, 3)), draw.choice(LENGTHS)
        H = G * draw.choice((1, 2, 3, 4))
        state = (
            None if seed % 2 else torch.randn(B, H, Dk, Dv, generator=torch.Generator().manual_seed(seed)).to(device)
        )
        inputs = operands(B, G, H, N, Dk, Dv, device, seed)
        check(*inputs, decays(kind, B, H, N, device), initial_state=state)


@pytest.mark.parametrize("kind", ["remembers", "forgets", "mixed"])
@pytest.mark.parametrize("D", [64, 128])
def test_decays_near_one_and_near_zero(device: str, D: int, kind: str) -> None:
    inputs = operands(1, 1, 2, 300, D, D, device)
    check(*inputs, decays(kind, 1, 2, 300, device), initial_state=torch.ones(1, 2, D, D, device=device))


@pytest.mark.parametrize("decay", [0.0, -1e-8, -1e3, -1e38, -math.inf])
def test_a_decay_of_each_head_may_keep_or_forget_everything(device: str, decay: float) -> None:
    inputs = operands(1, 1, 2, 130, 64, 64, device)
    check(*inputs, torch.full((2,), decay, device=device), initial_state=torch.ones(1, 2, 64, 64, device=device))


def test_what_is_forgotten_leaves_no_trace(device: str) -> None:
    q, k, v = operands(1, 1, 2, 200, 64, 64, device)
    decay = torch.zeros(1, 2, 200, device=device)
    decay[:, :, 90] = -math.inf
    out = tk.linear_attention(q, k, v, decay)
    v[:, :, :90] = 1e4
    again = tk.linear_attention(q, k, v, decay)
    assert not torch.equal(out[:, :, :90], again[:, :, :90])
    assert torch.equal(out[:, :, 90:], again[:, :, 90:])


@pytest.mark.parametrize("segments", [1, 3, 100])
@pytest.mark.parametrize(("G", "Dk", "Dv"), [(1, 64, 64), (3, 64, 64), (1, 128, 64), (3, 128, 128)])
def test_segments(device: str, segments: int, G: int, Dk: int, Dv: int) -> None:
    inputs = operands(1, G, 3, 610, Dk, Dv, device)
    state = uniform(1, 3, Dk, Dv, low=-1.0, high=1.0, device=device)
    check(*inputs, decays("step", 1, 3, 610, device), initial_state=state, segments=segments)
    check(*inputs, decays("head", 1, 3, 610, device), segments=segments)


@pytest.mark.parametrize("kind", ["none", "step"])
@pytest.mark.parametrize("N", [4096, pytest.param(16384, marks=pytest.mark.long)])
def test_long_sequences_do_not_drift(device: str, N: int, kind: str) -> None:
    inputs, decay = operands(1, 1, 1, N, 64, 64, device), decays(kind, 1, 1, N, device)
    exact, emulated = (scan(*inputs, decay, 64**-0.5, rounded=rounded) for rounded in (False, True))
    for segments in (None, 1):
        out, state = tk.linear_attention(*inputs, decay, return_final_state=True, segments=segments)
        assert_good((out, state), exact, emulated)
        error, allowed = (float((x[:, :, -256:] - exact[0][:, :, -256:]).norm()) for x in (out, emulated[0]))
        assert error <= 1.2 * allowed


@pytest.mark.parametrize("heads", [1, 7, 64, 256])
def test_any_number_of_heads(device: str, heads: int) -> None:
    B = 4 if heads >= 64 else 1
    inputs = operands(B, 1, heads // B, 70, 64, 64, device)
    check(*inputs, decays("step", B, heads // B, 70, device))


def test_a_sequence_in_two_halves_is_the_sequence(device: str) -> None:
    q, k, v = operands(1, 2, 4, 300, 128, 64, device)
    g = decays("step", 1, 4, 300, device)
    assert g is not None
    whole, state = tk.linear_attention(q, k, v, g, return_final_state=True, segments=1)
    parts = [slice(0, 128), slice(128, 300)]  # chunks meet where they would
    outs, carried = [], None
    for rows in parts:
        out, carried = tk.linear_attention(
            q[:, :, rows], k[:, :, rows], v[:, :, rows], g[:, :, rows], initial_state=carried, return_final_state=True
        )
        outs.append(out)
    assert torch.equal(torch.cat(outs, 2), whole)
    assert carried is not None
    assert torch.equal(carried, state)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1, 4.0, -0.3])
def test_scale(device: str, scale: float) -> None:
    inputs = operands(1, 1, 2, 100, 64, 64, device)
    check(*inputs, decays("step", 1, 2, 100, device), scale=scale)


def layouts(device: str) -> dict[str, tuple[Tensor, bool]]:
    """v of (2, 2, 35, 64) in memory in every way, and whether it has to be copied."""
    packed = normal(2, 35, 6, 64, device=device).transpose(1, 2)
    return {
        "contiguous": (normal(2, 2, 35, 64, device=device), False),
        "rows outside heads": (normal(2, 35, 2, 64, device=device).transpose(1, 2), False),
        "window of packed heads": (packed[:, 2:4], False),
        "every second row": (normal(2, 2, 70, 64, device=device)[:, :, 1::2], False),
        "half of the columns": (normal(2, 2, 35, 128, device=device)[..., 64:], False),
        "odd pitch": (normal(2, 2, 35, 67, device=device)[..., :64], True),
        "base not aligned": (normal(2, 2, 35, 72, device=device)[..., 3:67], True),
        "one head for all": (normal(2, 1, 35, 64, device=device).expand(2, 2, 35, 64), True),
    }


@pytest.mark.parametrize("operand", [0, 1, 2], ids=["q", "k", "v"])
@pytest.mark.parametrize("name", layouts("cpu"))
def test_any_strides(device: str, name: str, operand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked: copied.extend(asked))
    inputs = operands(2, 2, 2, 35, 64, 64, device)
    inputs[operand], copy = layouts(device)[name]
    check(*inputs, decays("step", 2, 2, 35, device))
    assert set(copied) == ({("q", "k", "v")[operand]} if copy else set())


def test_strided_decays_and_states(device: str) -> None:
    inputs = operands(2, 1, 4, 70, 64, 64, device)
    by_rows = uniform(2, 70, 4, low=-0.2, high=0.0, device=device).transpose(1, 2)
    turned = uniform(2, 4, 64, 64, low=-1.0, high=1.0, device=device).mT
    check(*inputs, by_rows, initial_state=turned)


def test_out_lies_as_v_does(device: str) -> None:
    q, k, v = operands(2, 1, 2, 35, 64, 64, device)
    assert tk.linear_attention(q, k, v).is_contiguous()
    by_rows = normal(2, 35, 2, 64, device=device).transpose(1, 2)
    assert tk.linear_attention(q, k, by_rows).transpose(1, 2).is_contiguous()


def test_what_lies_beside_the_operands_is_not_read(device: str) -> None:
    """Windows whose neighbours are NaN: rows before and after, heads before and after, columns beside."""
    inputs = []
    for plain in operands(1, 2, 4, 70, 64, 64, device):
        wide = plain.new_full((3, plain.shape[1] + 2, plain.shape[2] + 3, 128), float("nan"))
        window = wide[1:2, 1:-1, 1:-2, 64:]
        window.copy_(plain)
        inputs.append(window)
    check(*inputs, decays("step", 1, 4, 70, device))


def test_nans_stay_in_their_head_and_behind_their_chunk(device: str) -> None:
    q, k, v = operands(1, 2, 4, 200, 64, 64, device)
    decay = torch.zeros(1, 4, 200, device=device)
    v[0, 0, 130, 2] = float("nan")
    if device == "cuda":
        decay[0, 3, 150] = float("nan")
    out = tk.linear_attention(q, k, v, decay)
    assert bool(out[0, 0, :128].isfinite().all())
    assert bool(out[0, 0, 130:, 2].isnan().all())
    assert bool(out[0, 0, :, 3:].isfinite().all())
    assert bool(out[0, 1:3].isfinite().all())
    assert bool(out[0, 3].isfinite().all()) == (device == "cpu")


def test_same_inputs_give_the_same_bits(device: str) -> None:
    inputs = operands(2, 1, 4, 300, 64, 64, device)
    g = decays("step", 2, 4, 300, device)
    first = tk.linear_attention(*inputs, g, segments=3)
    assert all(torch.equal(tk.linear_attention(*inputs, g, segments=3), first) for _ in range(3))


@pytest.mark.parametrize("seed", range(5))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    for G, H, Dk, Dv in ((1, 2, 64, 64), (2, 2, 64, 64), (1, 1, 128, 128), (1, 3, 128, 64)):
        check(*operands(1, G, H, 300, Dk, Dv, "cpu"), decays("step", 1, H, 300, "cpu"), segments=1 + seed % 3)


def mistakes(device: str) -> dict[str, tuple[Callable[[], object], str]]:
    """A wrong call each, and the words that say so."""
    q, k, v = operands(2, 2, 4, 16, 64, 64, device)
    f: Any = tk.linear_attention
    return {
        "scale nan": (lambda: f(q, k, v, scale=math.nan), "scale: got nan, needs a finite number"),
        "scale text": (lambda: f(q, k, v, scale="1"), "scale: got '1', needs a number or None"),
        "scale huge": (lambda: f(q, k, v, scale=10**400), "scale: got an integer of 1329 bits"),
        "flag": (lambda: f(q, k, v, return_final_state="x"), "return_final_state: got 'x', needs True or False"),
        "segments": (lambda: f(q, k, v, segments=0), "segments: got 0, needs an integer from 1 to"),
    }


def test_mistakes_are_value_errors_that_name_the_argument(device: str) -> None:
    with torch.inference_mode():
        assert_refused(mistakes(device))


def test_growing_and_undefined_decays_are_refused_on_the_cpu() -> None:
    inputs = operands(1, 1, 2, 16, 64, 64, "cpu")
    for shape in ((2,), (1, 2, 16)):
        decay = torch.zeros(shape)
        decay.view(-1)[1] = 0.25
        with pytest.raises(ValueError, match=r"log_decay: got 0\.25, needs numbers that are not above 0"):
            tk.linear_attention(*inputs, decay)
        decay.view(-1)[1] = math.nan
        with pytest.raises(ValueError, match="log_decay: has a NaN"):
            tk.linear_attention(*inputs, decay)


def test_a_tangent_is_not_lost_in_silence(device: str) -> None:
    q, k, v = operands(1, 1, 1, 16, 64, 64, device)
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(v, torch.ones_like(v))
        with pytest.raises(NotImplementedError, match="v: has a tangent"):
            tk.linear_attention(q, k, x)
        for name, plain in {
            "log_decay": -torch.ones(1, 1, 16, device=device),
            "initial_state": torch.zeros(1, 1, 64, 64, device=device),
        }.items():
            given = {name: torch.autograd.forward_ad.make_dual(plain, torch.ones_like(plain))}
            with pytest.raises(NotImplementedError, match=f"{name}: has a tangent"):
                tk.linear_attention(q, k, v, **given)


def test_opcheck(device: str) -> None:
    inputs = operands(1, 1, 2, 70, 64, 128, device)
    torch.library.opcheck(OPERATOR, tuple(inputs))
    state = torch.ones(1, 2, 64, 128, device=device)
    torch.library.opcheck(OPERATOR, (*inputs, decays("step", 1, 2, 70, device), 0.3, state, 2))


def test_compiles_as_one_graph(device: str) -> None:
    def layer(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        out, state = tk.linear_attention(q * 2, k, v, g, return_final_state=True)
        return tk.linear_attention(q, k, out, scale=-0.1, initial_state=state) + 1, state

    inputs = (*operands(1, 1, 2, 70, 64, 64, device), uniform(2, low=-1.0, high=0.0, device=device))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for got, wanted in zip(compiled(*inputs), layer(*inputs), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.long
def test_compiles_with_inductor_and_dynamic_sizes(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    compiled = torch.compile(lambda q, k, v: tk.linear_attention(q, k, v).relu(), fullgraph=True, dynamic=True)
    for N in (16, 70):
        inputs = operands(1, 1, 2, N, 64, 64, device)
        assert torch.equal(compiled(*inputs), tk.linear_attention(*inputs).relu())


def test_fake_tensors_need_no_kernel() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q = torch.empty(2, 1, 70, 128, dtype=torch.bfloat16, device="cuda")
        v = torch.empty(2, 70, 8, 64, dtype=torch.bfloat16, device="cuda").transpose(1, 2)
        out, state = tk.linear_attention(q, q, v, torch.empty(8, device="cuda"), return_final_state=True)
    assert (tuple(out.shape), out.stride(), out.dtype, out.device.type) == (v.shape, v.stride(), v.dtype, "cuda")
    assert (tuple(state.shape), state.dtype) == ((2, 8, 128, 64), torch.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("segments", [1, 4])
def test_cuda_graph_replays_on_new_inputs(segments: int) -> None:
    inputs = operands(2, 1, 4, 700, 64, 64, "cuda")
    g = decays("step", 2, 4, 700, "cuda")
    for _ in range(2):
        tk.linear_attention(*inputs, g, segments=segments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = tk.linear_attention(*inputs, g, segments=segments)
    for tensor, other in zip(inputs, operands(2, 1, 4, 700, 64, 64, "cuda", seed=5), strict=True):
        tensor.copy_(other)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, tk.linear_attention(*inputs, g, segments=segments))


@pytest.mark.gpu
@pytest.mark.parametrize(("B", "H", "N"), [(16, 16, 4096), (1, 8, 16384), (4, 64, 1000)])
def test_many_blocks(B: int, H: int, N: int) -> None:
    check(*operands(B, 1, H, N, 64, 64, "cuda"), decays("step", B, H, N, "cuda"))
