"""Outputs with one fault each, which verification refuses, and without it, which it accepts.

The faults are of the kinds that the norm of a whole output hides: a tile that is left out late in a sequence, the last
key of a cache, a parameter that is 1 % off.
"""

from dataclasses import replace
from functools import cache

import pytest
import torch
from wrong_outputs import Case

from harness.workloads import _paged, based

ONE = {"B": 1, "H": 1, "D": 128}
STEPS = {"workload": "linear_attention", "B": 1, "H": 2, "N": 1024, "D": 64, "decay": "step"}
CASES = {
    "gemm": {"workload": "gemm", "M": 256, "N": 256, "K": 4096},
    "fp8": {"workload": "gemm_fp8", "M": 512, "N": 512, "K": 512, "scales": "rowwise"},
    "gelu": {"workload": "gemm_epilogue", "M": 256, "N": 256, "K": 256, "epilogue": "bias_gelu"},
    "gate": {"workload": "gemm_epilogue", "M": 1024, "N": 64, "K": 64, "epilogue": "gate_residual"},
    "attention": {"workload": "attention", **ONE, "N": 768},
    "long": {"workload": "attention", **ONE, "N": 3072},
    "causal": {"workload": "attention", **ONE, "N": 3072, "causal": 1},
    "long causal": {"workload": "attention", **ONE, "N": 6144, "causal": 1},
    "backward": {"workload": "attention", "direction": "bwd", **ONE, "N": 1024},
    "causal backward": {"workload": "attention", "direction": "bwd", **ONE, "N": 1024, "causal": 1},
    "mla": {"workload": "mla_decode", "B": 1, "lengths": "65536", "Q": 1, "H": 16, "page": 64},
    "short mla": {"workload": "mla_decode", "B": 1, "lengths": "4096", "Q": 1, "H": 16, "page": 64},
    "mixed mla": {"workload": "mla_decode", "B": 3, "lengths": "1641+25118+1696", "Q": 4, "H": 16, "page": 64},
    "paged": {"workload": "paged_attention_decode", **ONE, "H": 8, "Hkv": 1, "lengths": "65536", "Q": 1, "page": 256},
    "based": {"workload": "based", "B": 1, "H": 1, "N": 1024, "F": 16, "D": 64},
    "hedgehog": {"workload": "hedgehog", "B": 1, "H": 2, "N": 1024, "D": 128, "F": 64},
    "mamba2": {"workload": "mamba2", "B": 1, "H": 2, "N": 1024, "P": 64, "S": 64, "G": 1},
    "prepared": {"workload": "mamba2", "B": 1, "H": 2, "N": 1024, "P": 64, "S": 64, "G": 1, "boundary": "prepared"},
    "decay": {"workload": "linear_attention", "B": 1, "H": 2, "N": 1024, "D": 64, "decay": "head"},
    "steps": STEPS,
    "mamba2 backward": {"workload": "mamba2", "direction": "bwd", "B": 1, "H": 2, "N": 1024, "P": 64, "S": 64, "G": 1},
    "steps backward": {
        "workload": "linear_attention",
        "direction": "bwd",
        "B": 1,
        "H": 1,
        "N": 1024,
        "D": 64,
        "decay": "step",
    },
    "based backward": {"workload": "based", "direction": "bwd", "B": 1, "H": 1, "N": 512, "F": 16, "D": 64},
    "rotary": {"workload": "rotary", "B": 1, "H": 2, "N": 512, "D": 128},
    "layernorm": {"workload": "dropout_add_layernorm", "B": 1, "N": 512, "D": 1024},
    "dropout": {"workload": "dropout_add_layernorm", "B": 1, "N": 512, "D": 1024, "p": 0.1},
    "convolution": {"workload": "fft_conv", "B": 2, "D": 4, "N": 4096},
    "causal convolution": {"workload": "fft_conv", "B": 2, "D": 4, "N": 4096, "causal": 1},
}


@cache
def case_of(name):
    return Case(**CASES[name])


def off(tensor, where=..., by=1.01):
    """An input of which a part is too large."""
    changed = tensor.clone() if tensor.dtype == torch.float32 else tensor.double()
    changed[where] *= by
    return changed


def scaled(by, *names):
    return lambda case: case.changed(lambda whole: whole * by, *names)


PARAMETERS = {
    "gemm": {"a": ..., "b": (slice(None), 7)},
    "fp8": {"scale_a": 3, "scale_b": (0, 5)},
    "gelu": {"bias": ...},
    "gate": {"gate": ..., "residual": ...},
    "attention": {"q": ..., "k": ..., "v": ...},
    "causal": {"q": ..., "k": ..., "v": ...},
    "backward": {"q": ..., "k": ..., "v": ..., "dout": ...},
    "causal backward": {"q": ..., "k": ..., "v": ..., "dout": ...},
    "mla": {"q": ..., "kv_cache": ...},
    "paged": {"q": ..., "k_cache": ..., "v_cache": ...},
    "based": {"q": ..., "k": ..., "v": ...},
    "hedgehog": {"q_map": 1, "k_map": 1, "alpha": 1, "beta": 1, "q": ..., "v": ...},
    "mamba2": {"A": ..., "dt": ..., "B": ..., "C": ..., "x": ...},
    "prepared": {"log_decay": ..., "k": ..., "q": ..., "v": ...},
    "decay": {"log_decay": ..., "k": ..., "v": ...},
    "steps": {"log_decay": ..., "k": ..., "v": ...},
    "mamba2 backward": {"A": ..., "dt": ..., "B": ..., "C": ..., "x": ..., "dy": ...},
    "steps backward": {"log_decay": ..., "q": ..., "k": ..., "v": ..., "dout": ...},
    "based backward": {"q": ..., "k": ..., "v": ..., "dout": ...},
    "rotary": {"cos": (..., 9), "sin": (..., 9), "x": ...},
    "layernorm": {"weight": ..., "bias": ..., "x": ..., "residual": ...},
    "convolution": {"k": (0, 4095), "u": ...},
}
"""Inputs, or parts of them, that are 1 % too large. A scale is seen as q is."""


OURS_ALONE = {
    ("based backward", "the second order 1 % off"),
    ("mamba2 backward", "A"),
    ("mamba2 backward", "dA 3 % too large"),
    ("mamba2 backward", "the decay of one head 1 % off"),
    ("based", "q"),
    ("based", "k"),
    ("based", "the second order 1 % off"),
    ("gemm", "truncated"),
    ("hedgehog", "q_map"),
    ("hedgehog", "k_map"),
    ("hedgehog", "alpha"),
    ("hedgehog", "beta"),
    ("hedgehog", "both factors of a head 1 % apart"),
    ("mamba2", "A"),
    ("mamba2", "the decay of one head 1 % off"),
    ("prepared", "log_decay"),
    ("rotary", "cos"),
    ("rotary", "sin"),
    ("rotary", "one frequency 1 % off"),
}
"""What is refused of our own kernels, and within what a library may round."""


def refused(name, what, outputs):
    case = case_of(name)
    return case.refused(outputs) and bool(case.refused(outputs, ours=False)) is ((name, what) not in OURS_ALONE)


@pytest.mark.parametrize("name", CASES)
def test_the_rounded_reference_is_accepted(name):
    assert not case_of(name).refused(case_of(name).of())


@pytest.mark.parametrize(("name", "parameter"), [(name, key) for name, keys in PARAMETERS.items() for key in keys])
def test_a_parameter_that_is_one_percent_off_is_refused(name, parameter):
    case = case_of(name)
    changed = off(case.inputs[parameter], PARAMETERS[name][parameter])
    assert refused(name, parameter, case.of(**{parameter: changed}))


def product(rows=slice(None), keys=slice(None)):
    """Some rows of a GEMM from a part of K."""

    def outputs(case):
        a, b = (case.inputs[name].double() for name in "ab")
        return case.changed(lambda whole: whole.index_copy(0, torch.arange(256)[rows], a[rows, keys] @ b[keys]))

    return outputs


def partial_sums(case):
    a, b = (case.inputs[name].double() for name in "ab")
    total = torch.zeros(256, 256, dtype=torch.float64)
    for first in range(0, 4096, 512):
        total = (total + a[:, first : first + 512] @ b[first : first + 512]).bfloat16().double()
    return case.changed(lambda whole: total)


def truncated(whole):
    return (whole.float().view(torch.int32) & -65536).view(torch.float32)


def attended(rows, hides, scale=1.0):
    """Some rows of a head again, as if keys were hidden from them."""

    def outputs(case):
        p, (q, k, v) = case.problem, (case.inputs[name][0, 0].double() for name in "qkv")
        i, j = torch.arange(p.N)[rows, None], torch.arange(p.N)[None]
        scores = (scale * p.scale * q[rows] @ k.T).masked_fill(hides(i, j) | ((j > i) & p.causal), -torch.inf)
        return case.changed(lambda whole: whole.index_copy(2, i[:, 0], (scores.softmax(-1) @ v)[None, None]))

    return outputs


def nothing(i, j):
    return j < 0


def e4m3_tiles(case):
    """One tile of 64 keys of each 32 is kept in e4m3."""
    few = torch.arange(3072)[:, None] // 64 % 32 == 0
    k, v = (case.inputs[name] for name in "kv")
    return case.of(
        k=torch.where(few, k.to(torch.float8_e4m3fn).to(k), k), v=torch.where(few, v.to(torch.float8_e4m3fn).to(v), v)
    )


def delta(by):
    """dq and dk with what they subtract too large."""

    def outputs(case):
        q, k, v, dout = (case.inputs[name][0, 0].double() for name in ("q", "k", "v", "dout"))
        p = (case.problem.scale * q @ k.T).softmax(-1)
        more = case.problem.scale * (by - 1) * p * (p * (dout @ v.T)).sum(-1, keepdim=True)
        found = case.exact(case.expected)
        return case.rounded(found | {"dq": found["dq"] - more @ k, "dk": found["dk"] - more.T @ q})

    return outputs


def blind(keys, sequence=0):
    """The newest token of a sequence does not see some of its keys."""

    def outputs(case):
        inputs, p = case.inputs, case.problem
        seen = torch.ones(p.seqlens[sequence], dtype=torch.bool)
        seen[keys] = False
        names = ("kv_cache",) * 2 if "kv_cache" in inputs else ("k_cache", "v_cache")
        k, v = (_paged.keys_of(inputs[name], inputs, sequence, len(seen))[seen].flatten(1)[None] for name in names)
        found = case.exact(case.expected)
        width = found["out"].shape[-1]
        found["out"][sequence, -1:] = _paged.attend(inputs["q"][sequence, -1:], k, v[..., :width], p.scale)
        return case.rounded(found)

    return outputs


def needle(case):
    """The key that the heads look for most, of those before the last, is lost."""
    length = case.problem.seqlens[0]
    name = "kv_cache" if "kv_cache" in case.inputs else "k_cache"
    k = _paged.keys_of(case.inputs[name], case.inputs, 0, length).flatten(1)
    weights = (case.problem.scale * case.inputs["q"][0, -1].double() @ k.T).softmax(-1)
    return blind(int(weights[:, :-1].amax(0).argmax()))(case)


def lost(first, last, rows=64):
    """Linear attention whose last rows see nothing of some keys' values."""

    def outputs(case):
        without = case.inputs["v"].clone()
        without[:, :, first:last] = 0
        other = case.exact(case.workload.reference(case.problem, case.inputs | {"v": without}, 0))["out"]
        return case.changed(lambda whole: torch.cat([whole[:, :, :-rows], other[:, :, -rows:]], 2))

    return outputs


def second_order(case):
    features = based.features
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(based, "features", lambda x: features(x) * (1 + 0.005 * (torch.arange(273) > 16)))
        return case.of()


def no_delta(case):
    """dq and dk with nine tenths of what the normaliser's gradient takes off."""
    plain, p = case.exact(case.expected), case.problem
    q, k, v, dout = (case.inputs[name][0].double() for name in ("q", "k", "v", "dout"))
    s = q @ k.mT / 4
    w = (1 + s + s * s / 2).tril()
    total = w.sum(-1, keepdim=True) + based.EPSILON
    delta = (dout * (w @ v) / total).sum(-1, keepdim=True) / total
    more = 0.1 * (delta * (1 + s)).tril() / p.F**0.5
    return case.rounded(plain | {"dq": plain["dq"] + more @ k, "dk": plain["dk"] + more.mT @ q})


def without(name, last, length):
    """The last elements of an input along its first dimension are lost."""

    def outputs(case):
        given = case.inputs[name]
        kept = (torch.arange(length) < length - last).view(-1, *[1] * (given.dim() - 1))
        return case.of(**{name: given * kept})

    return outputs


def shifted(name, dimension):
    """Each has what its neighbour should have."""
    return lambda case: case.of(**{name: case.inputs[name].roll(1, dimension)})


def percent(name, where, by):
    return lambda case: case.of(**{name: off(case.inputs[name], where, 1 + by / 100)})


def factor_of_another_rate(case):
    """What is kept is 1 % too large."""
    return case.of(replace(case.problem, p=1 - (1 - case.problem.p) / 1.01))


def one_matrix(case):
    """One scale for the 64 columns of a tile."""
    tiles = case.inputs["scale_b"].view(1, -1, 64)
    return case.of(scale_b=tiles.mean(-1, keepdim=True).expand_as(tiles).reshape(1, -1))


FAULTS = {
    "gemm": {
        "bf16 sums of each 512 of K": partial_sums,
        "truncated": lambda case: case.changed(truncated),
        "one K lost": product(keys=slice(1, None)),
        "an element is zero": lambda case: case.changed(
            lambda whole: whole * (torch.arange(65536) != 777).view(256, 256)
        ),
        "0.3 % too large": scaled(1.003),
        "the last step of K lost in a tile of rows": product(slice(-64, None), slice(-64)),
        "two columns exchanged": lambda case: case.changed(lambda whole: whole[:, [1, 0, *range(2, 256)]]),
    },
    "fp8": {
        "0.2 % too large": scaled(1.002),
        "the scale of the row before": shifted("scale_a", 0),
        "one scale for the columns of a tile": one_matrix,
    },
    "gelu": {
        "the bias of the column before": shifted("bias", 0),
        "no bias in the last column": without("bias", 1, 256),
    },
    "gate": {
        "the largest gate 1 % off": lambda case: percent("gate", int(case.inputs["gate"].abs().argmax()), 1)(case),
        "no residual in the last row": without("residual", 1, 1024),
    },
    "attention": {
        "the last key lost": attended(slice(None), lambda i, j: j == 767),
        "scale 0.75 % off": attended(slice(None), nothing, 1.0075),
        "scale 0.5 % off": attended(slice(None), nothing, 1.005),
        "output 0.5 % off": scaled(1.005),
        "the last tile of keys lost in the last tile of rows": attended(slice(704, None), lambda i, j: j >= 704),
    },
    "long": {
        "the last key lost": attended(slice(None), lambda i, j: j == 3071),
        "keys and values of one tile in 32 in e4m3": e4m3_tiles,
        "a row is blind to a tile": attended(slice(1000, 1001), lambda i, j: (j >= 128) & (j < 256)),
    },
    "causal": {
        "no diagonal in the second half": attended(slice(1536, None), lambda i, j: j == i),
        "the last 32 rows skip the first tile": attended(slice(-32, None), lambda i, j: j < 128),
        "the last row is blind to 135 keys": attended(slice(-1, None), lambda i, j: j < 135),
        "the last tile of rows sees two keys too few": attended(slice(-64, None), lambda i, j: j >= i - 1),
    },
    "long causal": {
        "no diagonal in the second half": attended(slice(3072, None), lambda i, j: j == i),
        "the last 32 rows skip the first tile": attended(slice(-32, None), lambda i, j: j < 128),
        "the last 16 rows are blind to 512 keys": attended(slice(-16, None), lambda i, j: j < 512),
    },
    "backward": {
        "dq 0.75 % too large": scaled(1.0075, "dq"),
        "delta 5 % off": delta(1.05),
        "delta left out": delta(0.0),
        "dv 0.5 % too small": scaled(0.995, "dv"),
    },
    "causal backward": {
        "the last tile of queries lost": lambda case: case.of(
            dout=case.inputs["dout"] * (torch.arange(1024) < 960)[:, None]
        ),
        "dk 0.5 % too large": scaled(1.005, "dk"),
    },
    "mla": {
        "the last key lost": blind(-1),
        "two pages lost": blind(slice(640, 768)),
        "a needle lost": needle,
        "scale 0.5 % off": percent("q", ..., 0.5),
    },
    "short mla": {
        **{f"the last {count} keys lost": blind(slice(-count, None)) for count in (1, 16, 128, 512)},
    },
    "mixed mla": {
        "the longest loses 512 keys": blind(slice(-512, None), 1),
        "the longest loses a page": blind(slice(6400, 6464), 1),
    },
    "paged": {
        **{f"the last {count} keys lost": blind(slice(-count, None)) for count in (1, 6)},
        "a page lost": blind(slice(2560, 2816)),
        "a needle lost": needle,
    },
    "based": {
        "the second order 1 % off": second_order,
        "the last tile of rows loses a tile of keys": lost(512, 576),
    },
    "hedgehog": {
        "both factors of a head 1 % apart": percent("alpha", 0, 1),
        "the last tile of rows sees no window before its own": lost(896, 960),
    },
    "mamba2": {
        "the decay of one head 1 % off": percent("A", 0, 1),
        "steps of the row before": shifted("dt", 1),
    },
    "prepared": {
        "one step in 16 without decay": lambda case: case.of(
            log_decay=case.inputs["log_decay"] * (torch.arange(1024) % 16 > 0)
        ),
        "the last tile of rows loses what was before": lost(0, 960),
    },
    "decay": {
        "the decay of one head 1 % off": percent("log_decay", 0, 1),
        "the last tile of rows loses a tile of keys": lost(832, 896),
    },
    "steps": {"decays of the step before": shifted("log_decay", 2)},
    "mamba2 backward": {
        "the decay of one head 1 % off": percent("A", 0, 1),
        "steps of the row before": shifted("dt", 1),
        "dA 3 % too large": scaled(1.03, "dA"),
        "ddt of the step before": lambda case: case.changed(lambda whole: whole.roll(1, 1), "ddt"),
        "the last tile's dB lost": lambda case: case.changed(
            lambda whole: whole * (torch.arange(1024) < 960)[:, None, None], "dB"
        ),
    },
    "steps backward": {
        "decays' gradients without the last tile": lambda case: case.changed(
            lambda whole: whole * (torch.arange(1024) < 960), "dlog_decay"
        ),
        "a step's own share of a decay's gradient left out": lambda case: case.changed(
            lambda whole: whole.roll(-1, 2), "dlog_decay"
        ),
        "the last tile of rows lost": lambda case: case.of(
            dout=case.inputs["dout"] * (torch.arange(1024) < 960)[:, None]
        ),
        "dv 0.5 % too small": scaled(0.995, "dv"),
    },
    "based backward": {
        "the second order 1 % off": second_order,
        "the normaliser's gradient 10 % off": no_delta,
        "the last tile of rows lost": lambda case: case.of(
            dout=case.inputs["dout"] * (torch.arange(512) < 448)[:, None]
        ),
    },
    "rotary": {
        "angles of the position before": shifted("cos", 0),
        "one frequency 1 % off": percent("sin", (..., 3), 1),
    },
    "layernorm": {
        "one weight 1 % off": lambda case: percent("weight", int(case.inputs["weight"].abs().argmax()), 1)(case),
        "no residual in the last row": lambda case: case.of(
            residual=case.inputs["residual"] * (torch.arange(512) < 511)[:, None]
        ),
    },
    "dropout": {"what is kept 1 % too large": factor_of_another_rate},
    "convolution": {
        "the filter of the channel before": shifted("k", 0),
        "the last tap lost": lambda case: case.of(k=case.inputs["k"] * (torch.arange(4096) < 4095)),
    },
    "causal convolution": {
        "a little of it circular": lambda case: case.changed(
            lambda y: (
                0.99 * y
                + 0.01 * case.exact(case.workload.reference(replace(case.problem, causal=False), case.inputs, 0))["y"]
            )
        )
    },
}


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, faults in FAULTS.items() for words in faults])
def test_a_wrong_output_is_refused(name, words):
    assert refused(name, words, FAULTS[name][words](case_of(name)))
