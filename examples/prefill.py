"""Prefill by models of today's shapes, with this repository's operators beside PyTorch's SDPA.

    pip install -e '.[cuda]'
    python examples/prefill.py                                        # Llama-3.1-8B's shape, 2k to 64k, on a GPU.
    python examples/prefill.py --model qwen2.5-7b --lengths 16384
    python examples/prefill.py --device cpu                           # a tiny model is verified, in seconds; not timed.

Weights are random: nothing is downloaded. The model is the harness's workload `prefill`; this is a run of it. Hidden
states and logits are held to float64 at each length. Then prompts are timed in turns, under torch.compile.
`experiment=prefill` measures all of it. examples/llama_attention.py shows models of `transformers` with our attention.
"""

from __future__ import annotations

import argparse
import sys

import torch

from harness.command.cli import main as harness

MODELS = {
    "llama-3.1-8b": "L:32,H:32,Hkv:8,D:128,F:14336,V:128256",
    "qwen2.5-7b": "L:28,H:28,Hkv:4,D:128,F:18944,V:152064,bias:1",
    "tiny": "L:2,H:4,Hkv:2,D:64,F:128,V:128",
}


def main(arguments: list[str] | None = None) -> int:
    """Runs the workload at every length; 0 when hidden states and logits are right."""
    parser = argparse.ArgumentParser(description="Prefill with tk's operators and with SDPA, in turns.")
    parser.add_argument("--model", choices=MODELS, help="llama-3.1-8b on a GPU, tiny on a CPU, if not given")
    parser.add_argument("--lengths", type=int, nargs="+", help="2k to 64k on a GPU, 40 on a CPU, if not given")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--results", default="results", help="where the run is stored")
    chosen = parser.parse_args(arguments)
    model, lengths = ("llama-3.1-8b", [2**n for n in range(11, 17)]) if chosen.device == "cuda" else ("tiny", [40])
    shape = MODELS[chosen.model or model]
    problems = ",".join(f"{{{shape},B:1,N:{length}}}" for length in chosen.lengths or lengths)
    beside = "sdpa_cudnn,sdpa_flash" if chosen.device == "cuda" else "sdpa_math"
    run = ["workload=prefill", f"device={chosen.device}", "wandb=disabled", f"results_dir={chosen.results}"]
    return harness([*run, f"implementations=[tk,{beside}]", f"problems=[{problems}]", "limits.case_seconds=600"])


if __name__ == "__main__":
    sys.exit(main())
