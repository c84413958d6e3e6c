"""A last dimension that is not dense: the attentions refuse it (test_contract.py), the other operators copy it."""

from __future__ import annotations

import pytest
import torch
from operator_examples import examples
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands

EXAMPLES = examples()


def inside_out(tensor: Tensor) -> Tensor:
    """The same matrices with dense columns: a transposed tensor that was transposed. A vector lies two apart."""
    if tensor.dim() == 1:
        return tensor.repeat_interleave(2)[::2]
    return tensor.mT.contiguous().mT


@pytest.mark.parametrize(("operator", "name"), [(o, n) for o, example in EXAMPLES.items() for n in example.copied])
def test_the_others_copy_it(operator: str, name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(tk_operands, "log_copies_once", lambda _, asked, *how: copied.extend(asked))
    function = EXAMPLES[operator]
    inputs = {key: tensor.to(device) for key, tensor in function.operands().items()}
    expected = function(*inputs.values())
    assert copied == []
    inputs[name] = inside_out(inputs[name])
    got = function(*inputs.values())
    assert copied == [name]
    pairs = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
    assert all(torch.equal(*pair) for pair in pairs)


def test_no_operator_is_left_out() -> None:
    """`fft_conv_filter` is PyTorch's own operators; `scaled_dot_product_attention` is `attention` or PyTorch's.

    Plans are made on the host, of numbers.
    """
    planning = {"decode_plan", "DecodePlan", "DecodeCosts", "llama_plan", "LlamaPlan", "LlamaShape"}
    others = {"__version__", "fft_conv_filter", "llama_decode"}  # which takes a model and no tensors of its caller's
    assert set(tk.__all__) - others - planning <= set(EXAMPLES)
    bare = {name for name, example in EXAMPLES.items() if not (example.dense or example.copied)}
    assert bare == {"scaled_dot_product_attention"}
