"""The example that prefills prompts: tiny, on a CPU; logits agree, a wrong attention is found, pairs alternate."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest
import torch

TINY = ["--model", "tiny", "--lengths", "40", "--device", "cpu"]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    pytest.importorskip("transformers", reason="the extra `examples` is not installed")
    return importlib.import_module("examples.prefill")


def test_the_logits_are_sdpas(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert example.main(TINY) == 0
    said = capsys.readouterr().out
    assert said.startswith("40 tokens: logits of ours lie ")
    assert said.endswith("tk and SDPA agree\n")
    assert "a second" not in said


def test_a_wrong_attention_is_found(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tk_kernels.integrations import transformers

    right = transformers.attention

    def uncausal(*tensors: torch.Tensor, causal: bool, **options: Any) -> Any:
        return right(*tensors, causal=False, **options)

    monkeypatch.setattr(transformers, "attention", uncausal)
    assert example.main(TINY) == 1
    assert "tk and SDPA differ" in capsys.readouterr().out


def test_pairs_alternate_and_their_ratio_is_of_speeds(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[str] = []

    def took(model: Any, tokens: torch.Tensor, attention: str) -> float:
        order.append(attention)
        return {"tk": 2.0, "sdpa": 3.0}[attention]

    monkeypatch.setattr(example, "seconds", took)
    example.paired(None, torch.zeros(1, 16384), 9)
    assert order[:4] == ["sdpa", "tk", "tk", "sdpa"]
    assert len(order) == 20
    said = capsys.readouterr().out
    assert said == "16384 tokens: 8192 a second, 1.500 times SDPA's [1.500, 1.500] over 9 pairs, the aim is 1.02\n"


@pytest.mark.parametrize(("name", "billions"), [("llama-3.1-8b", 8.03), ("qwen2.5-7b", 7.62)])
def test_the_shapes_are_those_of_their_names(example: ModuleType, name: str, billions: float) -> None:
    with torch.device("meta"):
        model = example.AutoModelForCausalLM.from_config(example.config(name, 64))
    assert abs(sum(one.numel() for one in model.parameters()) / 1e9 - billions) < 0.01
    assert model.config.hidden_size // model.config.num_attention_heads == 128
