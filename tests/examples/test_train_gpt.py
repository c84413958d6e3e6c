"""The example that trains a GPT: tiny, on a CPU; both models learn alike, and a wrong operator is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tk_kernels as tk
from examples import train_gpt

TINY = ["--shape", "tiny", "--lengths", "40", "--tokens", "80", "--windows", "2", "--steps", "1", "--device", "cpu"]


def test_both_train_alike_and_no_cpu_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_gpt.main(TINY) == 0
    said = capsys.readouterr().out
    assert "tk and SDPA agree" in said
    first, last = (float(word) for word in said.split("loss ")[1].split(";")[0].split(" to "))
    assert 0 < last < first < 6  # it learns; bytes drawn evenly have 5.5
    assert "tokens a second" not in said


@pytest.mark.parametrize("operator", ["attention", "rotary"])
def test_a_wrong_operator_is_found(
    operator: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = getattr(tk, operator)

    def wrong(*tensors: torch.Tensor, **options: Any) -> torch.Tensor:
        return right(*tensors, **{**options, "causal": False}) if operator == "attention" else tensors[0]

    monkeypatch.setattr(train_gpt.tk, operator, wrong)
    assert train_gpt.main(TINY) == 1
    assert "tk and SDPA differ" in capsys.readouterr().out


def test_losses_that_drift_apart_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_gpt, "logits_agree", lambda *_: True)
    monkeypatch.setattr(train_gpt, "NEAR", 0.0)
    assert train_gpt.main(TINY) == 1


def test_the_shapes_are_those_of_their_names() -> None:
    for name, millions in (("124m", 124), ("1b", 1000)):
        shape = train_gpt.SHAPES[name]
        with torch.device("meta"):
            block = train_gpt.Block(shape, ours=True)
        count = shape.layers * sum(one.numel() for one in block.parameters()) + shape.vocabulary * shape.width
        assert abs(count / 1e6 / millions - 1) < 0.02


def test_text_that_is_too_short_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "short.txt").write_text("short")
    assert train_gpt.main([*TINY, "--text", str(tmp_path)]) == 2
    assert "has 5 bytes, needs more than 41" in capsys.readouterr().err
