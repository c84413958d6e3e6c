"""Prefill of models of today's shapes, with `attn_implementation="tk"` beside SDPA's, in turns.

    pip install -e '.[cuda,examples]'
    python examples/prefill.py                                        # Llama-3.1-8B's shape, 2k to 64k, on a GPU.
    python examples/prefill.py --model qwen2.5-7b --lengths 16384
    python examples/prefill.py --model tiny --lengths 40              # A CPU is not timed.

Weights are random: nothing is downloaded. First the logits of a short prompt are compared. Ours must be no farther from
SDPA's than twice the distance between SDPA and eager attention, which are both right. Then prompts of each length run
in pairs, and each pair gives one ratio of tokens a second.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.stats import median_interval
from tk_kernels.integrations.transformers import register

try:
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    sys.exit("transformers is not installed: pip install -e '.[examples]'")

AIM = {16384: 1.02}
"""What ours should reach, in tokens a second over SDPA's, by the length of the prompt."""
SHORT = 256
"""Tokens of the prompt whose logits are compared."""


def config(model: str, longest: int) -> Any:
    """The shape of a published model, or a tiny one."""
    shapes: dict[str, tuple[type, dict[str, int]]] = {
        "llama-3.1-8b": (
            LlamaConfig,
            {"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32}
            | {"num_attention_heads": 32, "num_key_value_heads": 8},
        ),
        "qwen2.5-7b": (
            Qwen2Config,
            {"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28}
            | {"num_attention_heads": 28, "num_key_value_heads": 4},
        ),
        "tiny": (
            LlamaConfig,
            {"vocab_size": 128, "hidden_size": 256, "intermediate_size": 128, "num_hidden_layers": 2}
            | {"num_attention_heads": 4, "num_key_value_heads": 2},
        ),
    }
    kind, sizes = shapes[model]
    return kind(**sizes, max_position_embeddings=max(longest, SHORT))


def prefill(model: Any, tokens: Tensor, attention: str) -> Tensor:
    """The logits of the last token of prompts (B, N): (B, vocabulary)."""
    model.set_attn_implementation(attention)
    with torch.no_grad():
        return model(input_ids=tokens, use_cache=True, logits_to_keep=1).logits[:, -1]


def agrees(model: Any, tokens: Tensor) -> bool:
    """Whether ours lies as near to SDPA's as two right ones lie."""
    eager, theirs, ours = (prefill(model, tokens, name).double() for name in ("eager", "sdpa", "tk"))
    norm = theirs.norm()
    apart, allowed = float((ours - theirs).norm() / norm), 2 * float((eager - theirs).norm() / norm)
    print(f"{tokens.shape[1]} tokens: logits of ours lie {apart:.2e} from SDPA's; {allowed:.2e} is allowed")
    return apart <= allowed


def seconds(model: Any, tokens: Tensor, attention: str) -> float:
    """One prefill on a GPU, waited for."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    prefill(model, tokens, attention)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def paired(model: Any, tokens: Tensor, pairs: int) -> None:
    """Times both in pairs, whose order alternates, behind one of each; prints the ratio."""
    taken: dict[str, list[float]] = {"tk": [], "sdpa": []}
    for number in range(pairs + 1):
        for name in list(taken)[:: 1 if number % 2 else -1]:
            taken[name].append(seconds(model, tokens, name))
    ratios = np.array(taken["sdpa"][1:]) / np.array(taken["tk"][1:])
    known, length = median_interval(ratios), tokens.shape[1]
    aim = f", the aim is {AIM[length]:.2f}" if length in AIM else ""
    rate = tokens.numel() / float(np.median(taken["tk"][1:]))
    print(
        f"{length} tokens: {rate:.0f} a second, {np.median(ratios):.3f} times SDPA's "
        f"[{known.low:.3f}, {known.high:.3f}] over {pairs} pairs{aim}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Compares, then times on a GPU; 0 when the logits agree."""
    parser = argparse.ArgumentParser(description="Prefill with tk's attention and with SDPA, in turns.")
    parser.add_argument("--model", choices=("llama-3.1-8b", "qwen2.5-7b", "tiny"), default="llama-3.1-8b")
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096, 8192, 16384, 32768, 65536])
    parser.add_argument("--pairs", type=int, default=9, help="of timed prefills at each length")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    chosen = parser.parse_args(arguments)
    register()
    torch.manual_seed(0)
    with torch.device(chosen.device):
        own = config(chosen.model, max(chosen.lengths))
        model = AutoModelForCausalLM.from_config(own, dtype=torch.bfloat16).eval()
        tokens = torch.randint(own.vocab_size, (1, max(*chosen.lengths, SHORT)))
    lengths = chosen.lengths if chosen.device == "cuda" else []
    agreed = agrees(model, tokens[:, : min(SHORT, *chosen.lengths)])
    for length in lengths if agreed else []:
        paired(model, tokens[:, :length], chosen.pairs)
    print("tk and SDPA agree" if agreed else "tk and SDPA differ")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
