"""The gradients of tk.linear_attention and tk.mamba2 against float64, and as citizens of PyTorch."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from recurrences import normal, scan, uniform
from torch import Tensor
from torch.nn.functional import softplus

import tk_kernels as tk

Leaves = dict[str, Tensor]
LENGTHS = (1, 63, 64, 65, 129, 200)


def recorded(given: Leaves, double: bool = False) -> Leaves:
    return {name: (one.double() if double else one).detach().clone().requires_grad_() for name, one in given.items()}


def gradients_of(results: tuple[Tensor, Tensor], leaves: Leaves, weights: tuple[Tensor, ...]) -> Leaves:
    """Of the sum of the results times the weights, of which the second may be missing."""
    used = list(zip(results, weights, strict=False))
    found = torch.autograd.grad([x for x, _ in used], list(leaves.values()), [w.to(x.dtype) for x, w in used])
    return dict(zip(leaves, found, strict=True))


def assert_good(found: Leaves, exact: Leaves, emulated: Leaves, terms: float) -> None:
    """Each gradient within 2x of what the definition's own roundings cost, in the L2 norm.

    The ratio of two errors scatters: by rows of bfloat16, whose errors have a common cause, by elements of float32.
    `terms` is the size of what is added in float32 to the gradients of decays, where it may cancel.
    """
    for name, got in found.items():
        wanted = exact[name]
        assert got.shape == wanted.shape, name
        assert bool(got.isfinite().all()), name
        error, allowed, size = (float(x.norm()) for x in (got.double() - wanted, emulated[name] - wanted, wanted))
        rows = got.numel() // (got.shape[-1] if got.dtype == torch.bfloat16 and got.dim() == 4 else 1)
        few = 2.0**-8 * rows**-0.5 * size
        assert error <= 2 * allowed + few + 2.0**-20 * terms, f"{name}: {error} of {size}, not {allowed}"


def linear(given: Leaves, weights: tuple[Tensor, ...], scale: float | None = None, **options: Any) -> Leaves:
    """The gradients of `linear_attention`, once they are found as near those of the definition as they have to be."""
    leaves = recorded(given)
    results = tk.linear_attention(**leaves, scale=scale, return_final_state=True, **options)
    found = gradients_of(results, leaves, weights)
    scale = given["q"].shape[3] ** -0.5 if scale is None else scale
    by_definition = []
    for rounded in (False, True):
        own = recorded(given, double=True)
        by_definition.append(
            gradients_of(scan(**{"log_decay": None, **own}, scale=scale, rounded=rounded), own, weights)
        )
    assert_good(found, *by_definition, float(given["q"].norm() * found["q"].norm()))
    return found


def sequences(B: int, G: int, H: int, N: int, Dk: int, Dv: int, device: str, seed: int = 0) -> Leaves:
    shapes = {"q": (B, G, N, Dk), "k": (B, G, N, Dk), "v": (B, H, N, Dv)}
    return {name: normal(*shape, device=device, seed=3 * seed + i) for i, (name, shape) in enumerate(shapes.items())}


def weights_of(B: int, H: int, N: int, Dk: int, Dv: int, device: str, final: bool = True) -> tuple[Tensor, ...]:
    dout = normal(B, H, N, Dv, device=device, seed=7)
    return (dout, normal(B, H, Dk, Dv, device=device, seed=8).float())[: 1 + final]


@pytest.mark.parametrize("kind", ["none", "head", "step"])
@pytest.mark.parametrize(("Dk", "Dv"), [(64, 64), (128, 64), (64, 128), (128, 128)])
def test_linear_attention(device: str, Dk: int, Dv: int, kind: str) -> None:
    draw = random.Random(f"{Dk} {Dv} {kind}")
    for seed in range(3 if device == "cpu" else 30):
        B, G, N = draw.randint(1, 2), draw.choice((1, 1, 2)), draw.choice(LENGTHS)
        H = G * draw.choice((1, 2, 3, 4))
        given = sequences(B, G, H, N, Dk, Dv, device, seed)
        if kind != "none":
            shape = (H,) if kind == "head" else (B, H, N)
            given["log_decay"] = uniform(*shape, low=-0.3, high=0.0, device=device)
        if seed % 2:
            given["initial_state"] = normal(B, H, Dk, Dv, device=device, seed=seed).float()
        weights = weights_of(B, H, N, Dk, Dv, device, final=seed % 3 > 0)
        linear(given, weights, deterministic=seed % 2 == 0)


@pytest.mark.parametrize(("low", "high"), [(-1e-6, 0.0), (-4.0, -1.0), (-30.0, 0.0)])
def test_decays_near_one_and_near_zero(device: str, low: float, high: float) -> None:
    given = sequences(1, 1, 2, 300, 64, 64, device)
    given["log_decay"] = uniform(1, 2, 300, low=low, high=high, device=device)
    linear(given, weights_of(1, 2, 300, 64, 64, device))


def test_what_is_forgotten_gets_no_gradient(device: str) -> None:
    given = recorded(sequences(1, 1, 2, 200, 64, 64, device))
    decay = torch.zeros(1, 2, 200, device=device)
    decay[:, :, 90] = -torch.inf
    out = tk.linear_attention(**given, log_decay=decay.requires_grad_())
    dv, dg = torch.autograd.grad(out[:, :, 90:].float().sum(), (given["v"], decay))
    assert not dv[:, :, :90].any()
    assert bool(dv[:, :, 90:].any())
    assert float(dg[:, :, 90].abs().max()) <= 1e-2 * float(dg.abs().max())


@pytest.mark.parametrize("N", [2000, pytest.param(8192, marks=pytest.mark.long)])
def test_errors_of_decays_do_not_add_up(device: str, N: int) -> None:
    given = sequences(1, 1, 1, N, 64, 64, device)
    given["log_decay"] = uniform(1, 1, N, low=-0.3, high=0.0, device=device)
    linear(given, weights_of(1, 1, N, 64, 64, device, final=False))


@pytest.mark.parametrize("scale", [0.0, 2.0, -0.3])
def test_scale(device: str, scale: float) -> None:
    given = sequences(1, 1, 2, 100, 64, 64, device)
    given["log_decay"] = uniform(1, 2, 100, low=-0.3, high=0.0, device=device)
    linear(given, weights_of(1, 2, 100, 64, 64, device), scale=scale)


@pytest.mark.parametrize("which", [0, 1])
def test_the_gradient_of_one_result_alone(device: str, which: int) -> None:
    """A gradient of out or of the final state alone is that with zeros for the other."""
    given = recorded(
        sequences(1, 2, 2, 70, 64, 64, device) | {"log_decay": uniform(2, low=-0.2, high=0, device=device)}
    )
    results = tk.linear_attention(**given, return_final_state=True)
    weights = weights_of(1, 2, 70, 64, 64, device)
    alone = torch.autograd.grad(results[which], list(given.values()), weights[which], retain_graph=True)
    zeros = [one if i == which else torch.zeros_like(one) for i, one in enumerate(weights)]
    both = torch.autograd.grad(results, list(given.values()), zeros)
    assert all(torch.equal(x, y) for x, y in zip(alone, both, strict=True))


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("skip", ["none", "head", "column"])
@pytest.mark.parametrize(
    ("G", "H", "S", "dtype", "smooth", "bias"),
    [
        (1, 2, 64, torch.float32, True, True),
        (1, 4, 128, torch.bfloat16, True, True),
        (2, 2, 64, torch.float32, False, False),
        (1, 3, 128, torch.float32, False, True),
    ],
)
def test_mamba2(
    device: str, G: int, H: int, S: int, dtype: torch.dtype, smooth: bool, bias: bool, skip: str, state: bool
) -> None:
    B, N = 2, 100 if skip == "none" else 70
    given = {
        "x": normal(B, N, H, 64, device=device, seed=1),
        "dt": normal(B, N, H, device=device, seed=2).to(dtype),
        "A": uniform(H, low=-1.0, high=-0.1, device=device),
        "B": normal(B, N, G, S, device=device, seed=3),
        "C": normal(B, N, G, S, device=device, seed=4),
    }
    if skip != "none":
        given["D"] = normal(*((H, 64) if skip == "column" else (H,)), device=device, seed=5).float()
    if bias:
        given["dt_bias"] = normal(H, device=device, seed=6)
    if state:
        given["initial_state"] = normal(B, H, 64, S, device=device, seed=7).float()
    weights = (normal(B, N, H, 64, device=device, seed=8), normal(B, H, 64, S, device=device, seed=9).float())
    weights = weights[: 1 + state]
    leaves = recorded(given)
    options: dict[str, Any] = {"dt_softplus": smooth, "deterministic": state, "return_final_state": True}
    found = gradients_of(tk.mamba2(**leaves, **options), leaves, weights)
    by_definition = []
    for rounded in (False, True):
        own = recorded(given, double=True)
        by_definition.append(gradients_of(mamba2_by_definition(**own, smooth=smooth, rounded=rounded), own, weights))
    assert_good(found, *by_definition, float(given["C"].norm() * found["C"].norm()))
    assert all(found[name].dtype == given[name].dtype for name in given)


def mamba2_by_definition(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_state: Tensor | None = None,
    *,
    smooth: bool,
    rounded: bool,
) -> tuple[Tensor, Tensor]:
    """y and the final state in float64."""
    w = dt if dt_bias is None else dt + dt_bias
    w = (softplus(w) if smooth else w.clamp_min(0)).transpose(1, 2)
    c, b, v = (one.transpose(1, 2) for one in (C, B, x))
    initial = None if initial_state is None else initial_state.mT
    y, state = scan(c, b, v, A[:, None] * w, 1.0, initial, w, rounded)
    y = y.transpose(1, 2)
    if D is not None:
        y = y + x * (D if D.dim() == 2 else D[:, None])
    return y, state.mT


def small(device: str, H: int = 2) -> Leaves:
    return sequences(1, 1, H, 70, 64, 64, device) | {
        "log_decay": uniform(1, H, 70, low=-0.3, high=0.0, device=device),
        "initial_state": uniform(1, H, 64, 64, low=-1.0, high=1.0, device=device),
    }


def small_scan(device: str) -> Leaves:
    return {
        "x": normal(1, 70, 4, 64, device=device),
        "dt": uniform(1, 70, 4, low=0.0, high=1.0, device=device),
        "A": uniform(4, low=-1.0, high=-0.1, device=device),
        "B": normal(1, 70, 1, 64, device=device, seed=1),
        "C": normal(1, 70, 1, 64, device=device, seed=2),
        "D": uniform(4, low=0.0, high=1.0, device=device),
        "dt_bias": uniform(4, low=0.0, high=1.0, device=device),
        "initial_state": uniform(1, 4, 64, 64, low=-1.0, high=1.0, device=device),
    }


@pytest.mark.parametrize("smooth", [True, False])
def test_a_limited_step_has_no_gradient_beyond_its_limits(device: str, smooth: bool) -> None:
    """Its kernel is given steps that PyTorch limits; autograd limits them itself here."""
    given = small_scan(device)
    leaves, own = recorded(given), recorded(given)
    found = tk.mamba2(**leaves, dt_softplus=smooth, dt_limit=(0.6, 1.2))
    steps = own["dt"] + own["dt_bias"]
    steps = (softplus(steps) if smooth else steps).clamp(0.6, 1.2)
    rest = {name: one for name, one in own.items() if name not in ("dt", "dt_bias")}
    expected = tk.mamba2(**rest, dt=steps)
    assert torch.equal(found, expected)
    for one in (found, expected):
        one.float().square().sum().backward()
    for name, leaf in leaves.items():
        assert torch.allclose(leaf.grad, own[name].grad, rtol=1e-4, atol=1e-4), name
    assert 0 < float((leaves["dt"].grad == 0).float().mean()) < 1


CALLS = pytest.mark.parametrize(
    ("call", "inputs"), [(tk.linear_attention, small), (tk.mamba2, small_scan)], ids=["linear_attention", "mamba2"]
)


@CALLS
def test_the_gradient_is_the_slope_of_the_function(device: str, call: Any, inputs: Any) -> None:
    """Along its own direction, each input for itself: what `gradcheck` asks, as far as bfloat16 lets it be asked."""
    leaves = recorded(inputs(device))

    def value(**given: Tensor) -> Tensor:
        out, state = call(**given, return_final_state=True)
        return (out.double() * normal(*out.shape, device=device)).sum() + state.double().sum()

    found = torch.autograd.grad(value(**leaves), list(leaves.values()))
    for (name, leaf), gradient in zip(leaves.items(), found, strict=True):
        step = gradient.double() * (0.05 * leaf.double().norm() / gradient.double().norm())
        moved = [(leaf.double() + sign * step).to(leaf.dtype).detach() for sign in (1, -1)]
        if name in ("log_decay", "A"):
            moved = [one.clamp_max(0) for one in moved]
        with torch.no_grad():
            slope = float(value(**{**leaves, name: moved[0]}) - value(**{**leaves, name: moved[1]}))
        expected = float((gradient.double() * (moved[0].double() - moved[1].double())).sum())
        assert slope == pytest.approx(expected, rel=0.03), name


@CALLS
def test_opcheck_with_gradients(device: str, call: Any, inputs: Any) -> None:
    leaves = recorded(inputs(device))
    operator = getattr(torch.ops.tk_kernels, call.__name__).default
    torch.library.opcheck(operator, (), leaves)
    backward = getattr(torch.ops.tk_kernels, f"{call.__name__}_backward").default
    first = next(one for name, one in leaves.items() if name in ("v", "x"))
    given = {name: one.detach() for name, one in leaves.items()}
    torch.library.opcheck(backward, (normal(*first.shape, device=device),), given)


@CALLS
def test_compiles_with_its_gradient(device: str, call: Any, inputs: Any) -> None:
    def loss(given: Leaves) -> Tensor:
        return call(**given, deterministic=True).float().pow(2).sum()

    found = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        leaves = recorded(inputs(device))
        function(leaves).backward()
        found.append([one.grad for one in leaves.values()])
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


@CALLS
def test_a_checkpoint_computes_it_again(device: str, call: Any, inputs: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    found = []
    for again in (False, True):
        leaves = recorded(inputs(device))

        def layer(given: Leaves = leaves) -> Tensor:
            return call(**given, deterministic=True)

        out = checkpoint(layer, use_reentrant=False) if again else layer()
        out.float().pow(2).sum().backward()
        found.append([one.grad for one in leaves.values()])
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


@CALLS
def test_there_is_no_second_derivative(device: str, call: Any, inputs: Any) -> None:
    leaves = recorded(inputs(device))
    first = next(iter(leaves.values()))
    (gradient,) = torch.autograd.grad(call(**leaves).float().pow(2).sum(), first, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient.float().sum().backward()


@CALLS
def test_deterministic_gradients_repeat_bit_by_bit(device: str, call: Any, inputs: Any) -> None:
    def gradients() -> list[Tensor | None]:
        leaves = recorded(inputs(device))
        call(**leaves, deterministic=True).float().pow(2).sum().backward()
        return [one.grad for one in leaves.values()]

    first = gradients()
    for _ in range(3):
        assert all(torch.equal(x, y) for x, y in zip(first, gradients(), strict=True))


def test_the_gradient_of_a_sum_is_expanded_and_copied(device: str) -> None:
    found = []
    for expanded in (True, False):
        leaves = recorded(small(device))
        out = tk.linear_attention(**leaves)
        ones = torch.ones((), dtype=out.dtype, device=device).expand(out.shape)
        out.backward(ones if expanded else ones.contiguous())
        found.append([one.grad for one in leaves.values()])
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_operands_with_rows_outside_heads(device: str) -> None:
    given = small(device, H=4)
    apart = {name: one.transpose(1, 2).contiguous().transpose(1, 2) for name, one in given.items() if name in "qkv"}
    weights = weights_of(1, 4, 70, 64, 64, device)
    one, other = linear(given, weights, deterministic=True), linear({**given, **apart}, weights, deterministic=True)
    assert all(torch.equal(one[name], other[name]) for name in given)


@pytest.mark.parametrize("seed", range(4))
def test_any_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_SEED", str(seed))
    for G, H, Dk, Dv in ((1, 4, 64, 64), (1, 1, 128, 128), (1, 3, 128, 64)):
        given = sequences(1, G, H, 150, Dk, Dv, "cpu")
        given["log_decay"] = uniform(1, H, 150, low=-0.3, high=0.0)
        linear(given, weights_of(1, H, 150, Dk, Dv, "cpu"))


@pytest.mark.gpu
@pytest.mark.parametrize(("B", "H", "N"), [(16, 16, 1024), (1, 80, 2000), (4, 64, 300)])
def test_many_blocks(B: int, H: int, N: int) -> None:
    given = sequences(B, 1, H, N, 64, 64, "cuda")
    given["log_decay"] = uniform(B, H, N, low=-0.3, high=0.0, device="cuda")
    linear(given, weights_of(B, H, N, 64, 64, "cuda"))
