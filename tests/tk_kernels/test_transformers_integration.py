"""`attn_implementation="tk"`: what runs is right, and what the kernel does not do is refused in words."""

from __future__ import annotations

import copy
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tk_kernels.integrations.transformers import attention_forward, mamba2_scan, mamba2_scans, no_mask, register

LAYER = torch.nn.Module()


def named(parameter: Any) -> str:
    """A test's id: the options' names, for tensors, objects and functions have no text that stays the same."""
    return ",".join(parameter) if isinstance(parameter, dict) else str(parameter)


def tensors(
    n: int = 40, keys: int = 0, heads: int = 2, groups: int = 1, d: int = 64, dtype: Any = torch.bfloat16
) -> Any:
    generator = torch.Generator().manual_seed(0)

    def drawn(h: int, length: int) -> torch.Tensor:
        return torch.randn(1, h, length, d, generator=generator).to(dtype)

    return drawn(heads, n), drawn(groups, keys or n), drawn(groups, keys or n)


@pytest.mark.parametrize("causal", [True, False])
def test_it_is_attention_with_rows_before_heads(causal: bool) -> None:
    q, k, v = tensors(33, keys=50)
    out, weights = attention_forward(LAYER, q, k, v, None, is_causal=causal, scaling=0.2)
    assert weights is None
    assert out.shape == (1, 33, 2, 64)
    allowed = torch.ones(33, 50, dtype=torch.bool).tril(50 - 33) if causal else None  # the bottom right: a cache
    exact = torch.nn.functional.scaled_dot_product_attention(
        *(x.double() for x in (q, k, v)), attn_mask=allowed, scale=0.2, enable_gqa=True
    )
    assert torch.allclose(out.transpose(1, 2).double(), exact, atol=2e-2)


def test_a_layer_says_whether_it_is_causal() -> None:
    q, k, v = tensors()
    layer = torch.nn.Module()
    layer.is_causal = False  # type: ignore[assignment]
    full, _ = attention_forward(layer, q, k, v, None)
    causal, _ = attention_forward(LAYER, q, k, v, None)
    assert torch.equal(full, attention_forward(LAYER, q, k, v, None, is_causal=False)[0])
    assert not torch.equal(full, causal)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention_mask": torch.zeros(1, 1, 40, 40)}, r"mask of its own \(4-D attention_mask\).*use .*'sdpa'"),
        ({"dropout": 0.1}, r"drops attention weights \(dropout 0.1\).*use attention_dropout=0 or .*'sdpa'"),
        ({"cu_seq_lens_q": torch.tensor([0, 40])}, "packs sequences of several lengths.*use .*'flash_attention_2'"),
        ({"sliding_window": 16, "is_causal": False}, "a window of 16 keys in both directions.*'sdpa'"),
        ({"softcap": 30.0}, r"softcap.*'eager'"),
        ({"s_aux": torch.zeros(2)}, r"sinks.*'eager'"),
        ({"position_bias": torch.zeros(1)}, r"position_bias.*'sdpa'"),
        ({"cache": object()}, "paged cache.*'sdpa'"),
        ({"output_attentions": True}, r"output_attentions.*'eager'"),
    ],
    ids=named,
)
def test_what_the_kernel_does_not_do_is_refused(options: dict[str, Any], words: str) -> None:
    """Guard: each would otherwise be left out in silence, and the numbers be of another model."""
    q, k, v = tensors()
    mask = options.pop("attention_mask", None)
    with pytest.raises(ValueError, match=f"attn_implementation='tk': the model .*{words}"):
        attention_forward(LAYER, q, k, v, mask, **options)


@pytest.mark.parametrize(
    ("own", "words"),
    [({"dtype": torch.float16}, "got dtype float16.*dtype=torch.bfloat16"), ({"d": 80}, "here D = 80")],
)
def test_other_tensors_are_refused(own: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        attention_forward(LAYER, *tensors(**own), None)


def test_options_that_change_nothing_are_taken() -> None:
    q, k, v = tensors()
    plain, _ = attention_forward(LAYER, q, k, v, None)
    same, _ = attention_forward(LAYER, q, k, v, None, 0.0, sliding_window=40, softcap=None, output_attentions=False)
    assert torch.equal(plain, same)


def windowed(*_: Any) -> bool:
    return True


def causal_mask_function(*_: Any) -> bool:
    return True


def test_a_plain_batch_needs_no_mask() -> None:
    whole = torch.ones(2, 8, dtype=torch.bool)
    taken: list[dict[str, Any]] = [
        {"attention_mask": whole},
        {"q_offset": 5, "kv_length": 13},  # a prompt's second part, with a cache
        {"mask_function": windowed, "local_size": 8},  # shorter than its window
        {"mask_function": causal_mask_function, "allow_is_causal_skip": False},
        {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": True},
    ]
    for options in taken:
        assert no_mask(2, 8, **{"kv_length": 8, **options}) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention_mask": torch.tensor([[True] * 8, [False] * 3 + [True] * 5])}, "padding.*batches of one length"),
        ({"kv_length": 64}, "cache longer than what it has seen.*a dynamic cache"),
        ({"local_size": 4, "mask_function": windowed}, "a window of 4 keys that is cut into chunks, or not causal"),
        ({"local_size": 8, "kv_offset": 1, "q_offset": 1}, "a window of 8 keys that is cut into chunks"),
        (
            {"mask_function": windowed, "allow_is_causal_skip": False},
            "position_ids that start again.*'flash_attention_2'",
        ),
    ],
    ids=named,
)
def test_other_masks_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        no_mask(2, 8, **{"kv_length": 8, **options})


def test_it_is_registered_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a fake of the two registries, which need nothing installed."""
    kept: dict[str, Any] = {}

    def registry(kind: str) -> SimpleNamespace:
        return SimpleNamespace(register=lambda name, function: kept.update({f"{kind} {name}": function}))

    fake = ModuleType("transformers")
    fake.AttentionInterface, fake.AttentionMaskInterface = registry("attention"), registry("mask")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", fake)
    register()
    register("mine")
    assert kept == {
        "attention tk": attention_forward,
        "mask tk": no_mask,
        "attention mine": attention_forward,
        "mask mine": no_mask,
    }


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="needs transformers 5 or newer.*pip install 'transformers>=5'"):
        register()


@pytest.fixture(scope="module")
def llama() -> Any:
    """A Llama of random weights that the kernel attends for."""
    transformers = pytest.importorskip("transformers", reason="the extra `examples` is not installed")
    register()
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=128, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()


def logits(model: Any, implementation: str, **inputs: Any) -> torch.Tensor:
    model.set_attn_implementation(implementation)
    with torch.no_grad():
        return model(**inputs).logits.double()


def test_a_model_gives_what_sdpa_gives(llama: Any) -> None:
    inputs = {"input_ids": torch.arange(40)[None] % 64, "attention_mask": torch.ones(1, 40, dtype=torch.long)}
    ours, theirs = (logits(llama, name, **inputs) for name in ("tk", "sdpa"))
    assert (ours - theirs).norm() / theirs.norm() < 2e-2


def test_a_decoder_attends_what_an_encoder_saw() -> None:
    """Guard: cross-attention was told of a cache longer than what it has seen. Bart's, and GPT-2's where it has one."""
    transformers = pytest.importorskip("transformers", reason="the extra `examples` is not installed")
    register()
    torch.manual_seed(0)
    heads = {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    config = transformers.BartConfig(
        vocab_size=64, d_model=64, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, **heads
    )
    bart = transformers.BartForConditionalGeneration(config).to(torch.bfloat16).eval()
    tokens = {"bos_token_id": None, "eos_token_id": None}
    config = transformers.GPT2Config(
        vocab_size=64, n_embd=64, n_layer=1, n_head=1, n_positions=64, add_cross_attention=True, **tokens
    )
    gpt2 = transformers.GPT2LMHeadModel(config).to(torch.bfloat16).eval()
    seen, asked = torch.arange(3, 24)[None], torch.arange(5, 14)[None]
    for model, inputs in (
        (bart, {"input_ids": seen, "decoder_input_ids": asked}),
        (gpt2, {"input_ids": asked, "encoder_hidden_states": torch.randn(1, 21, 64, dtype=torch.bfloat16)}),
    ):
        ours, theirs = (logits(model, name, **inputs) for name in ("tk", "sdpa"))
        assert (ours - theirs).norm() / theirs.norm() < 2e-2


def test_a_model_generates_with_its_cache(llama: Any) -> None:
    """One token after the other sees all of the cache, as the whole sequence at once does."""
    llama.set_attn_implementation("tk")
    prompt = torch.arange(1, 10)[None]
    text = llama.generate(prompt, max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert text.shape == (1, 12)
    whole = logits(llama, "tk", input_ids=text[:, :-1])
    best, chosen = whole[0, -1].max(), whole[0, -1, text[0, -1]]
    assert best - chosen < 0.05  # the same token, or as good a one within bfloat16


@pytest.mark.parametrize("family", ["Mistral", "Qwen3", "Gemma3"])
def test_a_sliding_window_is_transformers_own(family: str) -> None:
    """At once, by way of a cache in two parts, and generated: the same keys as under transformers' own mask."""
    transformers = pytest.importorskip("transformers", reason="the extra `examples` is not installed")
    register()
    names = {"Qwen3": {"use_sliding_window": True, "max_window_layers": 0}, "Gemma3": {"query_pre_attn_scalar": 64}}
    config = getattr(transformers, f"{family}{'Text' * (family == 'Gemma3')}Config")(
        vocab_size=64, hidden_size=128, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=64, sliding_window=7, pad_token_id=0, eos_token_id=None,
        **names.get(family, {}),
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForCausalLM")(config).to(torch.bfloat16).eval()
    tokens = torch.arange(1, 41)[None]
    ours, theirs = (logits(model, name, input_ids=tokens) for name in ("tk", "sdpa"))
    assert (ours - theirs).norm() / theirs.norm() < 2e-2
    model.set_attn_implementation("tk")
    with torch.no_grad():
        past = model(tokens[:, :20], use_cache=True).past_key_values
        for part in (tokens[:, 20:39], tokens[:, 39:]):
            later = model(part, past_key_values=past, use_cache=True).logits.double()
    assert (later[:, -1] - theirs[:, -1]).norm() / theirs[:, -1].norm() < 2e-2


def test_a_window_in_chunks_is_refused() -> None:
    masks = pytest.importorskip("transformers.masking_utils", reason="the extra `examples` is not installed")
    chunked = masks.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="cut into chunks"):
        no_mask(2, 8, kv_length=8, local_size=4, mask_function=chunked)
    no_mask(2, 8, kv_length=8, local_size=4, mask_function=masks.sliding_window_causal_mask_function(4))


def test_a_model_with_padding_or_packed_rows_is_refused(llama: Any) -> None:
    tokens = torch.arange(40)[None] % 64
    padded = torch.ones(1, 40, dtype=torch.long)
    padded[0, :7] = 0
    with pytest.raises(ValueError, match="was given padding"):
        logits(llama, "tk", input_ids=tokens, attention_mask=padded)
    starts_again = torch.arange(40)[None] % 20
    with pytest.raises(ValueError, match="packs several sequences into a row"):
        logits(llama, "tk", input_ids=tokens, position_ids=starts_again, use_cache=False)
    with pytest.raises(ValueError, match="packs several sequences into a row.*without a cache"):
        logits(llama, "tk", input_ids=tokens, position_ids=starts_again)  # here transformers does not look for them


@pytest.fixture(scope="module")
def mamba() -> Any:
    """A Mamba-2 of random weights with heads and states as released ones have, whose steps are limited."""
    transformers = pytest.importorskip("transformers", reason="the extra `examples` is not installed")
    config = transformers.Mamba2Config(
        vocab_size=64, hidden_size=64, expand=2, num_heads=2, head_dim=64, state_size=128, n_groups=1,
        num_hidden_layers=2, chunk_size=64, time_step_limit=(0.002, 0.05), bos_token_id=0, eos_token_id=0,
        pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.Mamba2ForCausalLM(config).to(torch.bfloat16).eval()


def test_a_mamba2_model_gives_its_logits(mamba: Any) -> None:
    """As near the model in float64 as it is in bfloat16 on its own scan, and the limit of steps counts."""
    tokens = {"input_ids": torch.arange(70)[None] * 7 % 64}
    with torch.no_grad():
        theirs = mamba(**tokens).logits.double()
        with mamba2_scans(mamba):
            ours = mamba(**tokens).logits.double()
            wide = [layer.mixer.time_step_limit for layer in mamba.backbone.layers]
            for layer in mamba.backbone.layers:
                layer.mixer.time_step_limit = (0.0, float("inf"))
            unlimited = mamba(**tokens).logits.double()
            for layer, limit in zip(mamba.backbone.layers, wide, strict=True):
                layer.mixer.time_step_limit = limit
        again = mamba(**tokens).logits.double()
        exact = copy.deepcopy(mamba).double()(**tokens).logits
    assert torch.equal(theirs, again), "behind it the model has its own scan"
    apart = [float((one - exact).norm() / exact.norm()) for one in (theirs, ours, unlimited)]
    assert apart[1] < 1.5 * apart[0] < 2e-2
    assert apart[2] > 2 * apart[1]


def test_a_mamba2_model_generates_from_the_state_that_the_kernel_left(mamba: Any) -> None:
    prompt = torch.arange(1, 20)[None]
    with mamba2_scans(mamba):
        text = mamba.generate(prompt, max_new_tokens=3, do_sample=False)
        with torch.no_grad():
            whole = mamba(input_ids=text[:, :-1]).logits.double()
    best, chosen = whole[0, -1].max(), whole[0, -1, text[0, -1]]
    assert best - chosen < 0.05


def test_a_mamba2_model_trains(mamba: Any) -> None:
    """Each gradient is as near that in float64 as with the model's own scan."""
    tokens = torch.arange(40)[None] * 7 % 64
    found = []
    for model, place in (
        (copy.deepcopy(mamba).double(), nullcontext()),
        (mamba, nullcontext()),
        (mamba, mamba2_scans(mamba)),
    ):
        model.zero_grad()
        with place:
            model.train()(input_ids=tokens, labels=tokens).loss.backward()
        found.append([one.grad.double().clone() for one in model.eval().parameters()])
    for exact, theirs, ours in zip(*found, strict=True):
        assert (ours - exact).norm() < 1.5 * (theirs - exact).norm() + 0.01 * exact.norm()


def test_a_scan_that_the_kernel_does_not_do_is_refused(llama: Any) -> None:
    x, dt, A, B = torch.zeros(1, 8, 2, 64).bfloat16(), torch.ones(1, 8, 2), -torch.ones(2), torch.zeros(1, 8, 1, 64)
    given: list[Any] = [x, dt, A, B.bfloat16(), B.bfloat16(), 64]
    for options, words in (
        ({"z": x}, "got a gate"),
        ({"seq_idx": torch.zeros(1, 8)}, r"packed sequences \(seq_idx\).*mamba_ssm"),
    ):
        with pytest.raises(ValueError, match=words):
            mamba2_scan(*given, **options)
    with pytest.raises(ValueError, match="LlamaForCausalLM has no layer"), mamba2_scans(llama):
        pass
