"""Prefill by a Mamba-2 model: it is the model of transformers, ours is right, and another scan is found."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from harness import workloads
from harness.measure.verification import check_outputs
from harness.workloads._models import decoder, scanning
from harness.workloads._models.scanning import scan_plainly
from tk_kernels import implementations as ours

MODULE: Any = workloads.load("mamba2_prefill")


def problem(**keys: Any) -> Any:
    given = {"L": 2, "W": 128, "V": 128, "B": 2, "N": 70} | keys
    return workloads.parse_problem("mamba2_prefill", given, dtype="bf16", direction="fwd")


@pytest.fixture(scope="module")
def case() -> tuple[Any, dict[str, torch.Tensor], Any]:
    one = problem()
    inputs = MODULE.make_inputs(one, torch.Generator().manual_seed(1), "normal")
    return one, inputs, MODULE.reference(one, inputs, 0)


def test_it_is_the_model_of_transformers(case: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="the extra `examples` is not installed")
    one, inputs, expected = case
    config = transformers.Mamba2Config(
        vocab_size=one.V, hidden_size=one.W, num_hidden_layers=one.L, num_heads=4, head_dim=64, state_size=128,
        n_groups=1, chunk_size=64, layer_norm_epsilon=1e-6, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
        pad_token_id=0,
    )  # fmt: skip
    model = transformers.Mamba2ForCausalLM(config).double().eval()
    with torch.no_grad():
        model.backbone.embeddings.weight.copy_(inputs["embedding"])
        for layer, block in enumerate(model.backbone.layers):
            mixer = block.mixer
            own = {name: inputs[name][layer] for name in one.shape.matrices if name != "embedding"}
            own["taps"] = own["taps"][:, None]
            into = (mixer.in_proj.weight, mixer.out_proj.weight, mixer.conv1d.weight, mixer.conv1d.bias)
            into += (mixer.dt_bias, mixer.A_log, mixer.D)
            for weight, name in zip(into, ("into", "out", "taps", "taps_bias", "bias", "rate", "skip"), strict=True):
                weight.copy_(own[name])
        found = model(inputs["tokens"]).logits[:, -1]
    exact = next(part.values for part in expected if part.output == "logits")
    assert (found - exact).norm() < 1e-5 * exact.norm()  # its scan computes in float32 in any case


def test_ours_is_right_and_another_scan_is_found(case: Any) -> None:
    one, inputs, expected = case

    def check(call: Any) -> Any:
        return check_outputs(MODULE, one, call(), expected, inputs, ours=True)

    result = check(ours.Mamba2Prefill().prepare(one, inputs))
    assert result.passed, result.reason
    wrong: dict[str, Any] = {
        "decays": lambda x, dt, A, *rest: scan_plainly(x, dt, 1.2 * A, *rest),
        "no skip": lambda x, dt, A, B, C, D, bias: scan_plainly(x, dt, A, B, C, 0 * D, bias),
        "bias": lambda *given: scan_plainly(*given[:-1], given[-1] + 0.3),
    }
    assert not [name for name, scan in wrong.items() if check(one.bind(inputs, scan=scan)).passed]


def test_all_layers_run_what_is_compiled_once_before_and_behind_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    counter, compiled = CompileCounterWithBackend("aot_eager"), decoder.compiled
    monkeypatch.setattr(decoder, "as_it_is", lambda function: compiled(function, counter))
    one = problem(L=3)
    inputs = MODULE.make_inputs(one, torch.Generator().manual_seed(1), "normal")
    again = MODULE.make_inputs(one, torch.Generator().manual_seed(2), "normal")
    first, second = (one.bind(given, scan=scan_plainly)() for given in (inputs, again))
    assert counter.frame_count == 2
    assert not torch.equal(first[0], second[0])


@pytest.mark.parametrize(("L", "W", "into", "weights"), [(48, 2048, 8512, 1343757312), (64, 2560, 10576, 2702599680)])
def test_released_shapes(L: int, W: int, into: int, weights: int) -> None:
    """All of a released model's weights but those of its norms."""
    shape = problem(L=L, W=W, V=50288).shape
    assert shape.matrices["into"] == (L, into, W)
    assert sum(map(math.prod, shape.matrices.values())) == weights - (L * 3 + 1) * W
    assert scanning.STATE == 128


def test_mamba_ssm_is_called_with_what_it_takes(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from baselines.linear import mamba_ssm

    def combined(*operands: Any, D: Any, dt_bias: Any, dt_softplus: bool) -> torch.Tensor:
        *given, chunk = operands
        assert (chunk, dt_softplus) == (128, True)
        return scan_plainly(*given, D, dt_bias)

    monkeypatch.setattr(mamba_ssm, "import_kernels", lambda: SimpleNamespace(mamba_chunk_scan_combined=combined))
    monkeypatch.setattr(mamba_ssm, "short_kernels", lambda: ())
    monkeypatch.setattr(mamba_ssm, "_scan_of", mamba_ssm._scan_of.__wrapped__)
    one, inputs, expected = case
    call = mamba_ssm.Mamba2Prefill(chunk=128).prepare(one, inputs)
    assert check_outputs(MODULE, one, call(), expected, inputs).passed
