"""tk.llama_decode against float64, its plans, and what a call refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import tk_kernels as tk
from tk_kernels import LlamaShape

SMALL = LlamaShape(layers=2, width=512, inner=1024, heads=8, kv_heads=2, dim=64, vocabulary=1024)
HEADER, INSTRUCTION = 16, 16
OPCODE, LAYER, SIGNALS, AT_LEAST, FIRST, COUNT, SLOT = range(7)
SEQUENCE, KV_HEAD, SPLIT = FIRST, COUNT, SLOT
QKV, ATTEND, OUT, GATE_UP, DOWN, HEAD = range(1, 7)
SPLITS, PROJECTED_SLOTS, ADDED_SLOTS = 12, 13, 14


def drawn(s: LlamaShape, positions: int, device: str, biased: bool = False, normed: bool = False) -> dict[str, Tensor]:
    """Operands by name, but for the plan; nothing of the cache is a number."""
    made = torch.Generator().manual_seed(0)

    def of(*size: int, scale: float = 1.0, mean: float = 0.0) -> Tensor:
        return (mean + torch.randn(size, generator=made) * scale).bfloat16().to(device)

    L, W, F, H, K, D, V, B = s
    rows = (H + 2 * K) * D
    angles = torch.arange(positions)[:, None] * 500000.0 ** (-torch.arange(0, D, 2) / D)
    cache = torch.full((2, L, B, K, positions, D), math.nan, dtype=torch.bfloat16, device=device)
    given = {
        "logits": torch.full((B, V), math.nan, device=device),
        "tokens": torch.randint(0, V, (B,), generator=made, dtype=torch.int32).to(device),
        "positions": torch.zeros(B, dtype=torch.int32, device=device),
        "k_cache": cache[0],
        "v_cache": cache[1],
        "embedding": of(V, W),
        "qkv": of(L, rows, W, scale=W**-0.5),
        "out": of(L, W, H * D, scale=(H * D) ** -0.5),
        "gate": of(L, F, W, scale=W**-0.5),
        "up": of(L, F, W, scale=W**-0.5),
        "down": of(L, W, F, scale=F**-0.5),
        "norms": of(2 * L + 1, W, scale=0.1, mean=1),
        "cos": angles.cos().float().to(device),
        "sin": angles.sin().float().to(device),
    }
    given["head"] = given["embedding"]
    if biased:
        given["bias"] = of(L, rows, scale=0.5)
    if normed:
        given["head_norms"] = of(2 * L, D, scale=0.1, mean=1)
    return given


def at(given: dict[str, Tensor], positions: list[int]) -> None:
    """Keys and values before these positions."""
    made = torch.Generator().manual_seed(1)
    for i, length in enumerate(positions):
        for cache in (given["k_cache"], given["v_cache"]):
            size = (*cache[:, i, :, :length].shape,)
            cache[:, i, :, :length] = torch.randn(size, generator=made).bfloat16().to(cache.device)
    given["positions"].copy_(torch.tensor(positions, dtype=torch.int32))


def wanted(s: LlamaShape, given: dict[str, Tensor], sequence: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, keys and values of a sequence's token, in float64; keys and values are rounded as they are stored."""
    L, _, _, H, K, D, _, _ = s
    w = {name: one.double() for name, one in given.items() if one.is_floating_point()}
    position = int(given["positions"][sequence])
    cos, sin = w["cos"][position], w["sin"][position]

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight

    def turned(x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["embedding"][int(given["tokens"][sequence])]
    keys, values = [], []
    for layer in range(L):
        y = w["qkv"][layer] @ norm(x, w["norms"][2 * layer])
        q, k, v = (y + w["bias"][layer] if "bias" in w else y).view(-1, D).split([H, K, K])
        if "head_norms" in w:
            q, k = norm(q, w["head_norms"][2 * layer]), norm(k, w["head_norms"][2 * layer + 1])
        q, k, v = turned(q), turned(k).bfloat16().double(), v.bfloat16().double()
        keys.append(k), values.append(v)
        every_k = torch.cat([w["k_cache"][layer, sequence, :, :position], k[:, None]], 1)
        every_v = torch.cat([w["v_cache"][layer, sequence, :, :position], v[:, None]], 1)
        weights = (torch.einsum("kgd,knd->kgn", q.view(K, -1, D), every_k) * D**-0.5).softmax(-1)
        x = x + w["out"][layer] @ torch.einsum("kgn,knd->kgd", weights, every_v).reshape(-1)
        y = norm(x, w["norms"][2 * layer + 1])
        x = x + w["down"][layer] @ (torch.nn.functional.silu(w["gate"][layer] @ y) * (w["up"][layer] @ y))
    return w["head"] @ norm(x, w["norms"][2 * L]), torch.stack(keys), torch.stack(values)


def assert_right(s: LlamaShape, given: dict[str, Tensor], positions: list[int], blocks: int) -> None:
    at(given, positions)
    plan = tk.llama_plan(s, device=given["logits"].device, blocks=blocks)
    plan.verify()
    exact = [wanted(s, given, i) for i in range(s.batch)]
    before = [given[name].clone() for name in ("k_cache", "v_cache")]
    logits = tk.llama_decode(**given, plan=plan)
    assert logits is given["logits"]
    assert not plan.words.any(), "the counters are not left cleared"
    for i, (of_logits, *new) in enumerate(exact):
        # Every operand of a product is rounded to bf16, so that a logit is off by about 2^-8 of their size, and by
        # four times that where many are compared.
        assert float((logits[i].double() - of_logits).abs().max() / of_logits.std()) < 0.02
        for cache, old, one in zip(("k_cache", "v_cache"), before, new, strict=True):
            place = (slice(None), i, slice(None), positions[i])
            assert float((given[cache][place].double() - one).abs().max()) < 0.05
            old[place] = given[cache][place]
    for cache, old in zip(("k_cache", "v_cache"), before, strict=True):
        assert torch.equal(given[cache].nan_to_num(7.0), old.nan_to_num(7.0)), "more than one position has changed"


@pytest.mark.parametrize(
    ("changed", "positions", "blocks", "extra"),
    [
        ({}, [0], 4, {}),
        ({}, [63], 3, {}),
        ({"width": 576, "inner": 1216, "heads": 14, "vocabulary": 528}, [700], 4, {"biased": True}),  # Qwen2's kind
        ({"heads": 16, "kv_heads": 8, "dim": 128, "batch": 2}, [32, 127], 4, {"normed": True}),  # Qwen3's kind
        ({"heads": 8, "kv_heads": 1, "layers": 1, "batch": 8}, [33, 1, 2, 3, 300, 100, 64, 0], 4, {}),
        ({"width": 2560, "heads": 3, "kv_heads": 1, "layers": 1, "dim": 128}, [200], 4, {}),
        ({"width": 2560, "layers": 1, "batch": 3}, [15, 16, 17], 2, {}),
    ],
)
def test_it_is_right(
    device: str, changed: dict[str, int], positions: list[int], blocks: int, extra: dict[str, bool]
) -> None:
    shape = SMALL._replace(**changed)
    assert_right(shape, drawn(shape, max(positions) + 1, device, **extra), positions, blocks)


@pytest.mark.gpu
@pytest.mark.parametrize("position", [0, 160, 2048])
def test_a_token_of_llama_1b(position: int) -> None:
    shape = LlamaShape(2, 2048, 8192, 32, 8, 64, 128256)
    assert_right(shape, drawn(shape, position + 1, "cuda"), [position], 128)


def test_the_same_bits_from_every_seed_and_position_by_position(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One plan serves all positions; a token that another call had appended is seen as this call's own would be."""
    given, plan = drawn(SMALL, 70, device), tk.llama_plan(SMALL, device=device, blocks=4)
    seen = []
    for seed in range(3):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        at(given, [62])
        for position in (62, 63, 64):
            given["positions"].fill_(position)
            seen.append(tk.llama_decode(**given, plan=plan).clone())
    assert all(torch.equal(seen[i], seen[i % 3]) for i in range(9))
    assert not torch.equal(seen[0], seen[1])


@pytest.mark.parametrize(
    ("changed", "extra"),
    [
        ({}, {}),
        ({"heads": 4, "kv_heads": 1, "dim": 128, "batch": 3, "layers": 1}, {"normed": True, "biased": True}),
    ],
)
def test_several_tokens_a_launch_are_those_of_one_each(
    device: str, changed: dict[str, int], extra: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Across a page of keys; to the bit, in the caches too."""
    shape, rounds = SMALL._replace(**changed), 5
    positions = [60, 3, 126][: shape.batch]
    given = drawn(shape, 132, device, **extra)
    given["head"] = given["embedding"].roll(1, 0)  # else a token is often followed by itself
    plan = tk.llama_plan(shape, device=device, blocks=4)
    at(given, positions)
    caches = [given[name].clone() for name in ("k_cache", "v_cache")]
    together = torch.full((shape.batch, rounds), -1, dtype=torch.int32, device=device)
    monkeypatch.setenv("KITTENS_SEED", "3")
    tk.llama_decode(**given, plan=plan, chosen=together)
    assert not plan.words.any()
    one_by_one = given | {"logits": given["logits"].clone(), "k_cache": caches[0], "v_cache": caches[1]}
    for column in together.T:
        tk.llama_decode(**one_by_one, plan=plan)
        one_by_one["tokens"] = one_by_one["logits"].argmax(-1).int()
        one_by_one["positions"] = one_by_one["positions"] + 1
        assert torch.equal(column, one_by_one["tokens"])
    assert len(together[0].unique()) > 2
    for name in ("logits", "k_cache", "v_cache"):
        assert torch.equal(given[name].nan_to_num(7.0), one_by_one[name].nan_to_num(7.0))


def test_of_equal_logits_the_lowest_token_is_chosen(device: str) -> None:
    """Within a row block, a block and the launch; all are equal, too, and all below zero."""
    shape = SMALL._replace(layers=1)
    given, plan = drawn(shape, 8, device), tk.llama_plan(shape, device=device, blocks=4)
    chosen = torch.zeros(1, 1, dtype=torch.int32, device=device)
    tk.llama_decode(**given, plan=plan)
    best = given["embedding"][int(given["logits"].argmax())]
    for lowest, *others in ([37, 41, 46], [37, 60, 200], [250, 255, 700, 1000], [1023], range(1024)):
        given["head"] = given["embedding"] * 0.125
        given["head"][[lowest, *others]] = best
        tk.llama_decode(**given, plan=plan, chosen=chosen)
        assert int(chosen) == lowest
    given["head"] = -best.repeat(1024, 1)
    given["head"][[300, 301, 900]] *= 0.5
    tk.llama_decode(**given, plan=plan, chosen=chosen)
    assert int(chosen) == 300


def test_the_largest_logit_of_more_blocks_than_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITTENS_MULTIPROCESSORS", "130")
    shape = LlamaShape(layers=1, width=64, inner=64, heads=1, kv_heads=1, dim=64, vocabulary=16 * 130)
    given, plan = drawn(shape, 2, "cpu"), tk.llama_plan(shape, device="cpu", blocks=130)
    chosen = torch.zeros(1, 1, dtype=torch.int32)
    tk.llama_decode(**given, plan=plan)
    best = given["embedding"][int(given["logits"].argmax())]
    for lowest, *others in ([16 * 129 + 3], [16 * 100 + 5, 16 * 128]):
        given["head"] = given["embedding"] * 0.125
        given["head"][[lowest, *others]] = best
        tk.llama_decode(**given, plan=plan, chosen=chosen)
        assert int(chosen) == lowest


@pytest.mark.gpu
@pytest.mark.parametrize("rounds", [None, 16])
def test_a_cuda_graph_counts_positions_on(rounds: int | None) -> None:
    """A step, or several tokens a launch, captured once: the position moves between replays."""
    many = rounds or 1
    given, plan = drawn(SMALL, 60 + 4 * many, "cuda"), tk.llama_plan(SMALL)
    at(given, [60])
    more = {} if rounds is None else {"chosen": torch.zeros(1, many, dtype=torch.int32, device="cuda")}
    tk.llama_decode(**given, plan=plan, **more)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tk.llama_decode(**given, plan=plan, **more)
        given["positions"] += many
    for position in range(60, 60 + 4 * many, many):
        graph.replay()
        found = {name: one.clone() for name, one in (given | more).items() if name in ("logits", "chosen")}
        again = given | {"positions": torch.full_like(given["positions"], position)}
        assert torch.equal(found["logits"], tk.llama_decode(**again, plan=plan, **more))
        assert torch.equal(found.get("chosen", torch.empty(0)), more.get("chosen", torch.empty(0)))
    assert int(given["positions"]) == 60 + 4 * many
    assert not plan.words.any()


@pytest.mark.parametrize(
    "shape",
    [
        LlamaShape(16, 2048, 8192, 32, 8, 64, 128256),
        LlamaShape(16, 2048, 8192, 32, 8, 64, 128256, 8),
        LlamaShape(28, 3072, 8192, 24, 8, 128, 128256),
        LlamaShape(32, 4096, 14336, 32, 8, 128, 128256, 4),
        LlamaShape(24, 896, 4864, 14, 2, 64, 151936, 8),
        LlamaShape(28, 3584, 18944, 28, 4, 128, 152064),
        LlamaShape(28, 1024, 3072, 16, 8, 128, 151936, 8),
        LlamaShape(36, 4096, 12288, 32, 8, 128, 151936),
    ],
)
@pytest.mark.parametrize("blocks", [128, 132, 5])
def test_programs_of_known_models_are_right(shape: LlamaShape, blocks: int) -> None:
    pages = assert_all_are_multiplied_once(tk.llama_plan(shape._replace(layers=2), device="cpu", blocks=blocks))
    assert int(pages.max() - pages.min()) <= 2 * -(-shape.width // 512)


def test_random_programs_are_right() -> None:
    made = torch.Generator().manual_seed(0)

    def one(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=made))

    for _ in range(100):
        kv_heads = one(1, 4)
        sizes = (one(1, 3), 64 * one(1, 20), 64 * one(1, 30), kv_heads * one(1, 8), kv_heads, 64, 16 * one(1, 40))
        shape = LlamaShape(*sizes, batch=one(1, 4))
        assert_all_are_multiplied_once(tk.llama_plan(shape, device="cpu", blocks=one(1, 40)))


def assert_all_are_multiplied_once(plan: tk.LlamaPlan) -> Tensor:
    """Every page and every part of the keys is somebody's, every slot at most one's, and all wait for all; the pages
    of each block."""
    plan.verify()
    s, blocks = plan.shape, plan.blocks
    splits, *most = (int(plan.header[one]) for one in (SPLITS, PROJECTED_SLOTS, ADDED_SLOTS))
    queues = plan.program[HEADER:].view(blocks, -1, INSTRUCTION).long()
    attends = s.batch * s.kv_heads * splits
    width, inner, queries = (-(-columns // 512) for columns in (s.width, s.inner, s.heads * s.dim))
    rows = {QKV: (s.heads + 2 * s.kv_heads) * s.dim, OUT: s.width, GATE_UP: s.inner, DOWN: s.width, HEAD: s.vocabulary}
    steps = {QKV: width, OUT: queries, GATE_UP: 2 * width, DOWN: inner, HEAD: width}
    total = torch.zeros(blocks, dtype=torch.int64)
    for n in range(5 * s.layers + 1):
        op, layer = (HEAD, 0) if n == 5 * s.layers else (n % 5 + 1, n // 5)
        here = (queues[..., OPCODE] == op) & (queues[..., LAYER] == layer)
        own = queues[here]
        assert (own[:, SIGNALS] == n).all()
        assert (own[:, AT_LEAST] == (0 if n == 0 else attends if op == OUT else blocks)).all()
        if op == ATTEND:
            parts = (own[:, SEQUENCE] * s.kv_heads + own[:, KV_HEAD]) * splits + own[:, SPLIT]
            assert torch.equal(parts.sort().values, torch.arange(attends))
            continue
        assert torch.equal(here.sum(1), torch.ones(blocks, dtype=torch.int64))
        total += own[:, COUNT]
        ends = own[:, FIRST] + own[:, COUNT]
        assert own[0, FIRST] == 0
        assert torch.equal(own[1:, FIRST], ends[:-1])
        assert ends[-1] == rows[op] // 16 * steps[op]
        if op in (GATE_UP, HEAD):
            assert not (own[:, FIRST] % steps[op]).any()
            continue
        slots: dict[int, list[int]] = {}
        for one, end in zip(own.tolist(), ends.tolist(), strict=True):
            for row in range(one[FIRST] // steps[op], -(-end // steps[op])) if one[COUNT] else ():
                slots.setdefault(row, []).append(one[SLOT] if row == one[FIRST] // steps[op] else 0)
        assert all(found == list(range(len(found))) for found in slots.values())
        assert max(map(len, slots.values())) <= most[op != QKV]
    return total


def test_a_program_that_waits_for_ever_is_told() -> None:
    def words(instruction: int, field: int, by: int) -> str:
        plan = tk.llama_plan(SMALL, device="cpu", blocks=4)
        plan.program[HEADER + INSTRUCTION * instruction + field] += by
        with pytest.raises(ValueError, match=r"^plan: ") as error:
            plan.verify()
        return str(error.value)

    assert "awaits 5 signals of counter 0 for ever, which has 4" in words(1, AT_LEAST, 1)
    assert "for ever" in words(0, OPCODE, -QKV)  # a stop: nothing is this block's
    assert "counter 98 does not exist" in words(0, SIGNALS, 99)


def test_what_no_kernel_takes_is_refused_in_words() -> None:
    def refused(words: str, **changed: int) -> None:
        with pytest.raises(ValueError, match=words):
            tk.llama_plan(SMALL._replace(**changed), device="cpu")

    refused("llama_plan: heads have 96 columns; there are kernels for 64 and 128", dim=96)
    refused("llama_plan: 9 query heads share 1 key heads; up to 8", heads=9, kv_heads=1)
    refused("llama_plan: a width of 5120 is more than a block keeps; it keeps 4096", width=5120)
    refused("llama_plan: width 520 and inner width 1024 need to be multiples of 64", width=520)
    refused("llama_plan: a batch of 9; there are kernels for 8 sequences up to a width of 2048", batch=9)
    refused(r"llama_plan: 8 inputs of up to 14336 columns need 229376 bytes .* a smaller batch", inner=14336, batch=8)
    refused("layers: got 0", layers=0)


def test_a_call_that_is_wrong_is_refused_in_words() -> None:
    given, plan = drawn(SMALL, 8, "cpu"), tk.llama_plan(SMALL, device="cpu")

    def refused(words: str, **changed: Any) -> None:
        with pytest.raises(ValueError, match=words):
            tk.llama_decode(**given | {"plan": plan} | changed)

    refused("plan: got a str, needs what tk.llama_plan returns", plan="plan")
    other = tk.llama_plan(SMALL._replace(batch=2), device="cpu")
    refused("plan: is for batch 2, the call has 1; make another plan", plan=other)
    refused(r"positions: got \[8\], needs 0 to 7: the cache has 8 positions", positions=torch.tensor([8]).int())
    refused(r"tokens: got \[1024\], needs 0 to 1023", tokens=torch.tensor([1024]).int())
    refused(r"k_cache: needs to be contiguous", k_cache=given["k_cache"].mT.contiguous().mT)
    refused("cos: got shape .* needs T >= N|cos: .*a row for each position of the cache, 8", cos=given["cos"][:4])
    refused(
        r"positions: got \[6\], needs 0 to 5: the cache has 8 positions, and 3 are appended",
        positions=torch.tensor([6]).int(),
        chosen=torch.zeros(1, 3).int(),
    )
    refused("chosen: got room for 9 tokens, the cache has 8 positions", chosen=torch.zeros(1, 9).int())
    few = drawn(SMALL._replace(vocabulary=48), 8, "cpu")
    few["chosen"] = torch.zeros(1, 1, dtype=torch.int32)
    plan_of_few = tk.llama_plan(SMALL._replace(vocabulary=48), device="cpu")
    with pytest.raises(ValueError, match="a vocabulary of 48 has less than 16 tokens for each of 4 blocks"):
        tk.llama_decode(**few, plan=plan_of_few)
    refused(r"more blocks|device holds", plan=tk.llama_plan(SMALL, device="cpu", blocks=5))
