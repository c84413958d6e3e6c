"""What the exhibits of whole language models share."""

from __future__ import annotations

from collections.abc import Mapping

BASELINE = ("sdpa_cudnn", "sdpa_flash")
"""The backends of PyTorch's SDPA, of which the faster counts."""

STEPS = 3
"""Of a call of gpt_training, where the problem does not say."""

GPT_SIZES = {"12": "GPT of 124M weights", "18": "GPT of 1B weights"}
PREFILL_MODELS = {"32": "Llama-3.1-8B's shape", "28": "Qwen2.5-7B's shape"}


def gpt(keys: Mapping[str, str]) -> str:
    """The size of the GPT that is trained, by its layers."""
    return GPT_SIZES.get(keys["L"], f"GPT of {keys['L']} layers")


def model(keys: Mapping[str, str]) -> str:
    """The model that takes the prompt, by its layers."""
    return PREFILL_MODELS.get(keys["L"], f"{keys['L']} layers")


def trained_tokens_per_second(keys: Mapping[str, str], latency_us: float) -> float:
    """Tokens of all steps of a call over its time."""
    return int(keys.get("steps", STEPS)) * int(keys["B"]) * int(keys["T"]) / latency_us * 1e6


def prompt_tokens_per_second(keys: Mapping[str, str], latency_us: float) -> float:
    """Tokens of the prompts over the time of a call."""
    return int(keys["B"]) * int(keys["N"]) / latency_us * 1e6
