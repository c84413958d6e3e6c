"""The example that trains a small Llama: it agrees with PyTorch's attention, and it really runs ours."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest
import torch


@pytest.fixture(scope="module")
def example() -> ModuleType:
    pytest.importorskip("transformers", reason="the extra `examples` is not installed")
    return importlib.import_module("examples.llama_attention")


def test_without_its_extra_the_example_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "examples.llama_attention", raising=False)
    with pytest.raises(SystemExit, match=r"transformers is not installed: pip install -e '.\[examples\]'"):
        importlib.import_module("examples.llama_attention")


WIDE = ["--head-dim", "128", "--heads-kv", "1", "--length", "65"]


@pytest.mark.parametrize("options", [[], WIDE], ids=str)
def test_loss_and_gradients_are_sdpas(
    device: str, options: list[str], example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    status = example.main(["--device", device, "--layers", "1", "--batch", "1", *options])
    said = capsys.readouterr().out
    assert status == 0, said
    assert "tk and SDPA agree within the rounding of bfloat16" in said
    assert "layers.0.self_attn.q_proj.weight" in said
    assert "too far" not in said


def test_the_kernel_and_not_pytorch_does_it(device: str, example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import LlamaConfig

    def unwanted(*arguments: Any, **keywords: Any) -> None:
        raise AssertionError("PyTorch's attention was called")

    config = LlamaConfig(
        vocab_size=64, hidden_size=128, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1,
    )  # fmt: skip
    example.register()
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", unwanted)
    step = example.train_one_step(config, torch.arange(40, device=device)[None], "tk", torch.bfloat16)
    assert step.loss > 0
    assert len(step.gradients) == 12


def test_a_wrong_attention_is_found(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from tk_kernels.integrations import transformers

    right = transformers.attention

    def uncausal(*tensors: torch.Tensor, causal: bool, **keywords: Any) -> Any:
        return right(*tensors, causal=False, **keywords)

    monkeypatch.setattr(transformers, "attention", uncausal)
    assert example.main(["--device", "cpu", "--layers", "1", "--batch", "1", "--length", "40"]) == 1
