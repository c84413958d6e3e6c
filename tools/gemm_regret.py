"""`python -m tools.gemm_regret`: what the choice of a GEMM kernel costs, on problems to which nothing was fitted.

M is drawn log-uniform from 1 to 8192 and (N, K) from the layers of public models, by a fixed seed. Each kernel that
fits is forced, split by split, and timed beside the default in interleaved rounds, the L2 overwritten before each call.
Regret is the default's time over that of the fastest. `--list` prints the problems as an experiment takes them.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import statistics
import sys
from collections.abc import Sequence

import torch

import tk_kernels as tk
from harness.records.errors import ended
from tk_kernels.kernels.gemm import tuning

SEED, PROBLEMS = 2026, 200
ROWS = ((1, 8), (9, 128), (129, 512), (513, 8192))

MODELS = """
Llama-2-7B 4096 4096 4096 11008 2; Llama-2-13B 5120 5120 5120 13824 2; Llama-2-70B 8192 8192 1024 28672 2
Llama-3-8B 4096 4096 1024 14336 2; Llama-3.1-405B 16384 16384 1024 53248 2; Llama-3.2-1B 2048 2048 512 8192 2
Llama-3.2-3B 3072 3072 1024 8192 2; TinyLlama-1.1B 2048 2048 256 5632 2; Mistral-Nemo-12B 5120 4096 1024 14336 2
Mistral-Small-24B 5120 4096 1024 32768 2; Mistral-Large-123B 12288 12288 1024 28672 2
Codestral-22B 6144 6144 1024 16384 2; Qwen2.5-0.5B 896 896 128 4864 2; Qwen2.5-1.5B 1536 1536 256 8960 2
Qwen2.5-3B 2048 2048 256 11008 2; Qwen2.5-7B 3584 3584 512 18944 2; Qwen2.5-14B 5120 5120 1024 13824 2
Qwen2.5-32B 5120 5120 1024 27648 2; Qwen2.5-72B 8192 8192 1024 29568 2; Qwen3-0.6B 1024 2048 1024 3072 2
Qwen3-1.7B 2048 2048 1024 6144 2; Qwen3-4B 2560 4096 1024 9728 2; Qwen3-8B 4096 4096 1024 12288 2
Qwen3-14B 5120 5120 1024 17408 2; Qwen3-32B 5120 8192 1024 25600 2; Gemma-2B 2048 2048 256 16384 2
Gemma-7B 3072 4096 4096 24576 2; Gemma-2-2B 2304 2048 1024 9216 2; Gemma-2-9B 3584 4096 2048 14336 2
Gemma-2-27B 4608 4096 2048 36864 2; Gemma-3-1B 1152 1024 256 6912 2; Gemma-3-4B 2560 2048 1024 10240 2
Gemma-3-12B 3840 4096 2048 15360 2; Gemma-3-27B 5376 4096 2048 21504 2; Phi-2 2560 2560 2560 10240 1
Phi-3-mini 3072 3072 3072 8192 2; Phi-4 5120 5120 1280 17920 2; Falcon-7B 4544 4544 64 18176 1
Falcon-40B 8192 8192 512 32768 1; Falcon-180B 14848 14848 512 59392 1; OPT-1.3B 2048 2048 2048 8192 1
OPT-6.7B 4096 4096 4096 16384 1; OPT-30B 7168 7168 7168 28672 1; OPT-66B 9216 9216 9216 36864 1
GPT-2 768 768 768 3072 1; GPT-2-XL 1600 1600 1600 6400 1; GPT-NeoX-20B 6144 6144 6144 24576 1
BLOOM-176B 14336 14336 14336 57344 1; Yi-6B 4096 4096 512 11008 2; Yi-34B 7168 7168 1024 20480 2
StableLM-2-12B 5120 5120 1280 13824 2; Command-R-35B 8192 8192 8192 22528 2
Command-R-plus-104B 12288 12288 1024 33792 2; DBRX 6144 6144 1024 10752 2; Granite-3-8B 4096 4096 1024 12800 2
Nemotron-4-15B 6144 6144 1024 24576 1; DeepSeek-67B 8192 8192 1024 22016 2; SmolLM2-360M 960 960 320 2560 2
ViT-H 1280 1280 1280 5120 1; BERT-large 1024 1024 1024 4096 1; T5-XXL 4096 4096 4096 10240 2
"""
"""Name, width, widths of all query heads and of all key heads, inner width of the feed-forward, its first matrices."""


def layers() -> list[tuple[int, int]]:
    """(N, K) of each model's four products: heads, attention's output, up, and down."""
    found = []
    for model in MODELS.replace("\n", ";").split(";"):
        if model.strip():
            width, queries, keys, inner, first = map(int, model.split()[1:])
            found += [(queries + 2 * keys, width), (width, queries), (first * inner, width), (width, inner)]
    return found


def problems() -> list[tuple[int, int, int]]:
    """M, N and K of each problem, by M."""
    draw, among = random.Random(SEED), layers()
    return sorted((round(math.exp(draw.uniform(0, math.log(8192)))), *draw.choice(among)) for _ in range(PROBLEMS))


def measure(M: int, N: int, K: int, flush: torch.Tensor) -> tuple[float, float, str]:
    """The default's time, that of the fastest kernel, us, and the options that force it."""
    a, b = (torch.randn(size, device=flush.device).to(torch.bfloat16) for size in ((M, K), (K, N)))
    call = functools.partial(tk.gemm, a, b, out=a.new_empty((M, N)))
    options = [{}, *tuning.forced(M, N, K, tuning.listed(lambda: call(tile="1x1")))]
    timed = tuning.timed([functools.partial(call, **given) for given in options], flush)
    best = min(timed, key=timed.__getitem__)
    return timed[0], timed[best], str(options[best] or "the default")


def shown(measured: Sequence[tuple[int, float]]) -> str:
    """Mean and worst regret by rows of A, of (M, regret)."""
    lines = []
    for low, high in ROWS:
        found = [regret for M, regret in measured if low <= M <= high]
        if found:
            mean, worst = statistics.mean(found), max(found)
            lines.append(f"M {low:4} to {high:4}: {len(found):3} problems, mean {mean:.1%}, worst {worst:.1%}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the problems, or measure them."""
    parser = argparse.ArgumentParser(prog="python -m tools.gemm_regret", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the problems and stop")
    parser.add_argument("--first", type=int, default=PROBLEMS, help="so many of them, drawn from the list")
    given = parser.parse_args(arguments)
    chosen = problems()
    if given.list:
        print("problems:", *(f"  - {{M: {M}, N: {N}, K: {K}}}" for M, N, K in chosen), sep="\n")
        return 0
    flush, measured = torch.empty(tuning.FLUSHED, dtype=torch.int8, device="cuda"), []
    for M, N, K in random.Random(SEED).sample(chosen, given.first):
        default, best, options = measure(M, N, K, flush)
        measured.append((M, default / best - 1))
        print(f"{M} x {N} x {K}: {default:.1f} us, {best:.1f} by {options}", flush=True)
    print(shown(measured))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
