"""A GPT trained on text that this machine has, with this repository's operators beside PyTorch's SDPA.

    pip install -e '.[cuda]'
    python examples/train_gpt.py                                  # 124M on a GPU, at three lengths.
    python examples/train_gpt.py --shape 1b --lengths 4096
    python examples/train_gpt.py --device cpu                     # a tiny model is verified, in seconds; not timed.

The model and its text are the harness's workload `gpt_training`; this is a run of it. Losses and gradients are held to
float64 first. Then whole steps are timed in turns, under torch.compile. `experiment=gpt_training` measures all of it.
"""

from __future__ import annotations

import argparse
import sys

import torch

from harness.command.cli import main as harness

SHAPES = {"124m": (12, 12, 64, 50304), "1b": (18, 16, 128, 50304), "tiny": (2, 2, 64, 256)}
"""Layers, heads, entries of a head, and the vocabulary that decides the cost of the head; bytes use 256 of it."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the workload at every length; 0 when losses and gradients are right."""
    parser = argparse.ArgumentParser(description="Trains a GPT with tk's operators and with SDPA, in turns.")
    parser.add_argument("--shape", choices=SHAPES, help="124m on a GPU, tiny on a CPU, if not given")
    parser.add_argument("--lengths", type=int, nargs="+", help="tokens of a sequence; 1024 4096 16384, on a CPU 40")
    parser.add_argument("--tokens", type=int, default=16384, help="of a step")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--results", default="results", help="where the run is stored")
    chosen = parser.parse_args(arguments)
    on_gpu = chosen.device == "cuda"
    shape = chosen.shape or ("124m" if on_gpu else "tiny")
    layers, heads, dim, vocabulary = SHAPES[shape]
    tokens = chosen.tokens if shape != "tiny" else min(chosen.tokens, 80)
    problems = ",".join(
        f"{{L:{layers},H:{heads},D:{dim},V:{vocabulary},B:{max(1, tokens // length)},T:{length}}}"
        for length in chosen.lengths or ([1024, 4096, 16384] if on_gpu else [40])
    )
    beside = "sdpa_cudnn,sdpa_flash" if on_gpu else "sdpa_math"
    run = ["workload=gpt_training", f"device={chosen.device}", "wandb=disabled", f"results_dir={chosen.results}"]
    return harness([*run, f"implementations=[tk,{beside}]", f"problems=[{problems}]", "limits.case_seconds=600"])


if __name__ == "__main__":
    sys.exit(main())
