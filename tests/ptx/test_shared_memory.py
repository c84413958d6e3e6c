"""What a block may have is asked of the device: the same kernel on the interpreted machines of several GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
CONVOLUTION = """
import sys
sys.path[:0] = ["tests/ptx"]
import library, torch
import tk_kernels as tk
from tk_kernels import toolchain
loaded = library.load("fft_conv", library.cache())
toolchain.load = lambda name, target, *root: loaded
generator = torch.Generator().manual_seed(1)
u, k = (torch.randn(*shape, generator=generator) for shape in ((3, 3, {N}), (3, {N})))
y = tk.fft_conv(u.bfloat16(), tk.fft_conv_filter(k, causal={causal}), causal={causal})
torch.save(y, "{output}")
"""


def convolve(output: Path, kilobytes: int, N: int = 4096, causal: bool = True) -> subprocess.CompletedProcess[str]:
    """The convolution on a machine whose blocks have so much; in a process of its own, which asks its device once."""
    program = CONVOLUTION.format(N=N, causal=causal, output=output)
    environment = {**os.environ, "PTX_BLOCK_KB": str(kilobytes)}
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.long
@pytest.mark.parametrize("causal", [False, True])
def test_one_stage_and_two_give_the_same_bits(tmp_path: Path, causal: bool) -> None:
    for kilobytes in (99, 163):
        done = convolve(tmp_path / str(kilobytes), kilobytes, causal=causal)
        assert done.returncode == 0, done.stderr
    assert torch.equal(torch.load(tmp_path / "99"), torch.load(tmp_path / "163"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kilobytes", "N", "words"),
    [
        (64, 4096, "a block of the kernel needs 90 KB of shared memory, and one has 64 KB on this GPU"),
        (163, 8192, "fft_conv: a transform of 8192 points needs a Hopper GPU, whose warpgroups pass registers on"),
    ],
)
def test_what_a_machine_cannot_run_is_refused_before_the_launch(
    tmp_path: Path, kilobytes: int, N: int, words: str
) -> None:
    done = convolve(tmp_path / "out", kilobytes, N=N, causal=False)
    assert done.returncode != 0
    assert words in done.stderr
