"""A Llama of the `transformers` package, trained for one step with PyTorch's attention and with this repository's.

    pip install -e '.[examples]'
    python examples/llama_attention.py                 # on the GPU where there is one, else on the CPU
    python examples/llama_attention.py --layers 4 --length 300 --head-dim 128

The model is small and its weights are random: nothing is downloaded. It runs three times on the same tokens: with
PyTorch's SDPA in float32 (the yardstick), with SDPA in bfloat16, and with `attn_implementation="tk"` in bfloat16. Two
bfloat16 runs that are both right lie about as far from each other as each lies from float32. So the loss and every
gradient of ours must be no farther from SDPA's than twice SDPA's own distance to float32.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import torch
from torch import Tensor

from tk_kernels.integrations.transformers import register

try:
    from transformers import LlamaConfig, LlamaForCausalLM
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    sys.exit("transformers is not installed: pip install -e '.[examples]'")


@dataclass(frozen=True)
class Step:
    """What one training step gives: the loss, and the gradient of each parameter, in float64."""

    loss: float
    gradients: dict[str, Tensor]


def train_one_step(config: LlamaConfig, tokens: Tensor, attention: str, dtype: torch.dtype) -> Step:
    """Loss and gradients of predicting each of `tokens` (B, N) from those before it; the same weights each time."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(torch.bfloat16).to(tokens.device, dtype)
    model.set_attn_implementation(attention)
    loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    loss.backward()
    gradients = {name: p.grad.double() for name, p in model.named_parameters() if p.grad is not None}
    return Step(loss.item(), gradients)


def compare(exact: Step, sdpa: Step, ours: Step) -> list[tuple[str, float, float, bool]]:
    """Rows (quantity, SDPA's distance to float32, ours to SDPA, whether it is near enough), distances relative."""
    rows = [("loss", abs(sdpa.loss / exact.loss - 1), abs(ours.loss / sdpa.loss - 1))]
    for name, gradient in exact.gradients.items():
        norm = gradient.norm()
        theirs = float((sdpa.gradients[name] - gradient).norm() / norm)
        between = float((ours.gradients[name] - sdpa.gradients[name]).norm() / norm)
        rows.append((name.removeprefix("model."), theirs, between))
    rounding = 2.0**-8  # the loss is one number: its distance may be 0 by chance
    return [
        (name, theirs, between, between <= max(2 * theirs, rounding if name == "loss" else 0.0))
        for name, theirs, between in rows
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the three steps, print the table; 0 when ours agrees with SDPA."""
    parser = argparse.ArgumentParser(description="One training step of a small Llama, SDPA beside tk_kernels.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4, help="query heads")
    parser.add_argument("--heads-kv", type=int, default=2, help="key and value heads, a divisor of the query heads")
    parser.add_argument("--head-dim", type=int, default=64, choices=(64, 128))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=100, help="tokens in a sequence")
    chosen = parser.parse_args(arguments)

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=chosen.heads * chosen.head_dim,
        intermediate_size=2 * chosen.heads * chosen.head_dim,
        num_hidden_layers=chosen.layers,
        num_attention_heads=chosen.heads,
        num_key_value_heads=chosen.heads_kv,
        max_position_embeddings=chosen.length,
    )
    tokens = torch.randint(512, (chosen.batch, chosen.length), generator=torch.Generator().manual_seed(1))
    tokens = tokens.to(chosen.device)
    register()
    exact = train_one_step(config, tokens, "sdpa", torch.float32)
    sdpa = train_one_step(config, tokens, "sdpa", torch.bfloat16)
    ours = train_one_step(config, tokens, "tk", torch.bfloat16)

    rows = compare(exact, sdpa, ours)
    width = max(len(name) for name, *_ in rows)
    print(f"loss: float32 {exact.loss:.5f}, SDPA {sdpa.loss:.5f}, tk {ours.loss:.5f} (on {chosen.device})")
    print(f"{'relative distance':{width}}  SDPA to float32  tk to SDPA")
    for name, theirs, between, near in rows:
        print(f"{name:{width}}  {theirs:15.2e}  {between:10.2e}{'' if near else '  too far'}")
    apart = [name for name, *_, near in rows if not near]
    print(f"differs: {', '.join(apart)}" if apart else "tk and SDPA agree within the rounding of bfloat16")
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
