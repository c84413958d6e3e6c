"""A GPT trained on text that this machine has, with this repository's operators beside PyTorch's best SDPA.

    pip install -e '.[cuda]'
    python examples/train_gpt.py                                     # 124M on a Hopper GPU, at three lengths.
    python examples/train_gpt.py --shape 1b --lengths 4096
    python examples/train_gpt.py --shape tiny --lengths 40 --tokens 80 --windows 2 --steps 1    # A CPU, in seconds.

Two copies of one model see the same batches. One attends and rotates with `tk.attention` and `tk.rotary`, the other
with the fastest backend of SDPA and plain PyTorch. On a GPU torch.compile has both. First their logits are compared:
ours must be no farther from SDPA's than twice SDPA's own distance to float32. Then they train in alternating windows,
so that clock and heat meet both. Each pair of windows gives one ratio of tokens a second. A CPU is not timed.

Tokens are the bytes of Python's standard library, or of the files in `--text`: nothing is downloaded.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import tk_kernels as tk
from harness.stats import median_interval

BARS = {1024: 1.00, 4096: 1.03, 16384: 1.05}
"""What ours should reach, in tokens a second over SDPA's, by the length of a sequence."""
NEAR = 0.01
"""The losses of a window, which bfloat16 lets drift apart, agree within this share."""
BACKENDS = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


@dataclass(frozen=True)
class Shape:
    """Layers, heads of so many entries, and the vocabulary that decides the cost of the head; bytes use 256 of it."""

    layers: int
    heads: int
    head_dim: int
    vocabulary: int = 50304

    @property
    def width(self) -> int:
        return self.heads * self.head_dim


SHAPES = {"124m": Shape(12, 12, 64), "1b": Shape(18, 16, 128), "tiny": Shape(2, 2, 64, 256)}


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of q, k, v (B, H, T, D) by PyTorch."""
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The rotary embedding of x (B, H, T, D) in plain PyTorch, half-split."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1).to(x.dtype)


def of_tk(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same attention by this repository's kernel."""
    return cast(Tensor, tk.attention(q, k, v, causal=True))


class Block(nn.Module):
    """Attention and a feed-forward part, each behind a norm."""

    def __init__(self, shape: Shape, ours: bool) -> None:
        super().__init__()
        self.shape, self.attend, self.rotate = shape, of_tk if ours else sdpa, tk.rotary if ours else turned
        self.norms = nn.ModuleList(nn.RMSNorm(shape.width) for _ in range(2))
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x: (B, T, width)."""
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.shape.heads, self.shape.head_dim))
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()
        attended = self.attend(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    """A decoder with rotary positions and a head tied to its embedding."""

    def __init__(self, shape: Shape, length: int, ours: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape, ours) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        half = shape.head_dim // 2
        angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, vocabulary) of tokens (B, T)."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return nn.functional.linear(self.norm(x), self.embedding.weight)


@dataclass
class Contestant:
    """A model in training, and what its windows gave."""

    model: nn.Module
    step: Any
    optimizer: torch.optim.Optimizer
    tokens_per_second: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def contestant(shape: Shape, length: int, ours: bool, device: str) -> Contestant:
    """A model with the same weights each time, in bfloat16 where a product is computed."""
    torch.manual_seed(0)
    model = Gpt(shape, length, ours).to(device)

    def loss(tokens: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            logits = model(tokens[:, :-1])
        return nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    step = torch.compile(loss) if device == "cuda" else loss
    return Contestant(model, step, torch.optim.AdamW(model.parameters(), lr=3e-4, fused=device == "cuda"))


def text(folder: Path | None) -> np.ndarray:
    """The bytes of all readable files of a folder, or of the standard library: (n,) uint8."""
    files = sorted((folder or Path(sysconfig.get_path("stdlib"))).glob("*" if folder else "*.py"))
    data = b"".join(path.read_bytes() for path in files if path.is_file())
    return np.frombuffer(data, dtype=np.uint8)


def batches(data: np.ndarray, batch: int, length: int, device: str) -> Iterator[Tensor]:
    """Endless batches (batch, length + 1) from places that a seed draws."""
    generator = np.random.default_rng(0)
    while True:
        starts = generator.integers(0, len(data) - length - 1, batch)
        rows = np.stack([data[start : start + length + 1] for start in starts])
        yield torch.from_numpy(rows.astype(np.int64)).to(device)


def logits_agree(shape: Shape, length: int, tokens: Tensor, device: str) -> bool:
    """Whether ours are as near to SDPA's as two right bfloat16 models are."""
    made = []
    for ours, exact in ((False, True), (False, False), (True, False)):
        model = contestant(shape, length, ours, device).model
        with torch.no_grad(), nullcontext() if exact else torch.autocast(device, torch.bfloat16):
            made.append(model(tokens[:1, :-1]).double())
    yardstick, theirs, own = made
    norm = yardstick.norm()
    apart, allowed = float((own - theirs).norm() / norm), 2 * float((theirs - yardstick).norm() / norm)
    print(f"T = {length}: logits of ours lie {apart:.2e} from SDPA's; {allowed:.2e} is allowed")
    return apart <= allowed


def fastest_backend(shape: Shape, length: int, batch: int) -> SDPBackend:
    """The backend of SDPA with the shortest forward and backward pass at this shape, of those that take it."""
    times: dict[SDPBackend, float] = {}
    size = (batch, shape.heads, length, shape.head_dim)
    q, k, v = (torch.randn(size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    for backend in BACKENDS:
        try:
            with sdpa_kernel(backend):
                for _ in range(3):  # the last one counts
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    sdpa(q, k, v).sum().backward()
                    torch.cuda.synchronize()
                    times[backend] = time.perf_counter() - start
        except RuntimeError:  # it does not take this shape, or is not built in
            times.pop(backend, None)
    return min(times, key=lambda one: times[one])


def window(one: Contestant, data: Sequence[Tensor], device: str) -> None:
    """Trains on some batches; adds tokens a second and the mean loss."""
    losses = []
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for tokens in data:
        loss = one.step(tokens)
        loss.backward()
        one.optimizer.step()
        one.optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    mean = float(torch.stack(losses).mean())  # waits for the GPU
    seconds = time.perf_counter() - start
    one.losses.append(mean)
    one.tokens_per_second.append(sum(tokens[:, 1:].numel() for tokens in data) / seconds)


def compare(shape: Shape, length: int, chosen: argparse.Namespace, data: np.ndarray) -> bool:
    """Trains both at one length and prints what came of it; whether their losses agree."""
    batch = max(1, chosen.tokens // length)
    supply = batches(data, batch, length, chosen.device)
    if not logits_agree(shape, length, next(supply), chosen.device):
        return False
    backend = fastest_backend(shape, length, batch) if chosen.device == "cuda" else SDPBackend.MATH
    both = [contestant(shape, length, ours, chosen.device) for ours in (True, False)]
    with sdpa_kernel(backend):
        for number in range(chosen.windows + 1):
            shared = [next(supply) for _ in range(chosen.steps)]
            for one in both if number % 2 else both[::-1]:
                window(one, shared, chosen.device)
    ours, theirs = both
    apart = max(abs(a / b - 1) for a, b in zip(ours.losses, theirs.losses, strict=True))
    print(f"T = {length}: loss {theirs.losses[0]:.3f} to {theirs.losses[-1]:.3f}; ours differs by {apart:.2e} at most")
    if chosen.device == "cuda":
        pairs = zip(ours.tokens_per_second[1:], theirs.tokens_per_second[1:], strict=True)  # the first window compiles
        ratios = np.array([a / b for a, b in pairs])
        known = median_interval(ratios)
        bar = BARS.get(length)
        aim = "" if bar is None else f", the aim is {bar:.2f}"
        print(
            f"T = {length}: {np.median(ours.tokens_per_second[1:]):.0f} tokens a second, {np.median(ratios):.3f} times "
            f"SDPA's ({backend.name}) [{known.low:.3f}, {known.high:.3f}] over {len(ratios)} pairs{aim}"
        )
    return apart <= NEAR


def main(arguments: list[str] | None = None) -> int:
    """Compares at every length; 0 when logits and losses agree."""
    parser = argparse.ArgumentParser(
        description="Trains a GPT with tk's operators and with SDPA, in alternating windows."
    )
    parser.add_argument("--shape", choices=SHAPES, default="124m")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(BARS), help="tokens of a sequence")
    parser.add_argument("--tokens", type=int, default=32768, help="of a step")
    parser.add_argument("--windows", type=int, default=12, help="of each model, behind one that compiles")
    parser.add_argument("--steps", type=int, default=5, help="of a window")
    parser.add_argument("--text", type=Path, help="folder of files to train on; Python's standard library without it")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    chosen = parser.parse_args(arguments)
    data = text(chosen.text)
    if len(data) < max(chosen.lengths) + 2:
        print(f"--text {chosen.text} has {len(data)} bytes, needs more than {max(chosen.lengths) + 1}", file=sys.stderr)
        return 2
    agreed = [compare(SHAPES[chosen.shape], length, chosen, data) for length in chosen.lengths]
    print("tk and SDPA agree" if all(agreed) else "tk and SDPA differ")
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
