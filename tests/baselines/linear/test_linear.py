"""The linear attentions' baselines without a GPU: PyTorch's on the CPU, and how the libraries are called."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import replace

import pytest
import torch

from baselines.common import tuning
from baselines.common.compiled import compile_alone
from baselines.linear import (
    composed_based,
    composed_hedgehog,
    flash_linear_attention,
    hedgehog_steps,
    mamba_ssm,
    names,
    torch_linear,
)
from harness.measure.verification import check_outputs
from harness.workloads import based, hedgehog, linear_attention, mamba2
from tests.baselines.problems import small
from tests.baselines.test_contract import load
from tests.harness import linear_definitions as by_definition

WORKLOADS = {"Based": based, "Hedgehog": hedgehog, "LinearAttention": linear_attention, "Mamba2": mamba2}
STATE = {
    "Based": "return_state",
    "Hedgehog": "return_state",
    "LinearAttention": "return_final_state",
    "Mamba2": "return_final_state",
}


def problem(name, **keys):
    """A problem of the workload, as the harness makes it."""
    return small(WORKLOADS[name].__name__.rpartition(".")[2], **keys)


def draw(name, p, distribution="normal"):
    return WORKLOADS[name].make_inputs(p, torch.Generator().manual_seed(0), distribution)


def verify(name, p, inputs, outputs):
    check = check_outputs(WORKLOADS[name], p, outputs, WORKLOADS[name].reference(p, inputs, 0))
    assert check.passed, check.reason


FORMS = [
    ("Based", {}),
    ("Based", {"normalize": False}),
    ("Hedgehog", {}),
    ("LinearAttention", {}),
    ("LinearAttention", {"decay": "head"}),
    ("LinearAttention", {"decay": "step", "D": 128}),
    ("Mamba2", {}),
    ("Mamba2", {"boundary": "prepared", "S": 128}),
]


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("length", [1, 65, 128, 300])
@pytest.mark.parametrize(("name", "keys"), FORMS, ids=str)
def test_pytorch_on_the_cpu_is_right(name, keys, length, state):
    p = problem(name, N=length, **{**keys, STATE[name]: state})
    implementation = load(f"baselines.linear.torch_linear.{name}")()
    assert implementation.supports(p, "cpu") is None
    inputs = draw(name, p)
    pristine = {key: tensor.clone() for key, tensor in inputs.items()}
    call = implementation.prepare(p, inputs)
    expected = WORKLOADS[name].reference(p, inputs, 0)
    for _ in range(2):
        check = check_outputs(WORKLOADS[name], p, call(), expected)
        assert check.passed, check.reason
    assert all(torch.equal(inputs[key], tensor) for key, tensor in pristine.items())


@pytest.mark.parametrize("distribution", ["forgetting", "remembering", "zeros", "uniform"])
@pytest.mark.parametrize(("name", "keys"), [("LinearAttention", {"decay": "step"}), ("Mamba2", {})], ids=str)
def test_pytorch_is_right_for_decays_near_zero_and_one(name, keys, distribution):
    p = problem(name, N=400, **keys, return_final_state=True)
    inputs = draw(name, p, distribution)
    verify(name, p, inputs, load(f"baselines.linear.torch_linear.{name}")().prepare(p, inputs)())


@pytest.mark.long
@pytest.mark.parametrize(("name", "keys"), FORMS, ids=str)
def test_compiled_pytorch_is_right(name, keys):
    p = problem(name, N=150, **keys)
    inputs = draw(name, p)
    verify(name, p, inputs, load(f"baselines.linear.torch_linear.{name}")(compiled=1).prepare(p, inputs)())


def test_compiled_functions_have_code_of_their_own():
    def function(x, *, y=2):
        return x + y

    one, other = (compile_alone(function, name) for name in ("one", "other"))
    codes = [compiled._torchdynamo_orig_callable.__code__ for compiled in (one, other)]
    assert codes[0] is not codes[1]
    assert [code.co_name for code in codes] == ["one", "other"]
    assert one._torchdynamo_orig_callable(1) == 3


def test_tensors_that_do_not_fit_are_refused_with_their_size(hopper):
    paper = problem("Based", B=16, H=16, N=16384)
    assert 10e9 < torch_linear.Based().held_bytes(paper) < 60e9
    assert torch_linear.Based().supports(paper, "cuda") is None
    assert re.fullmatch(
        r"torch: \d+ GB of intermediate tensors, 85 GB of this GPU's may be used",
        torch_linear.Based().supports(replace(paper, N=2**18), "cuda") or "",
    )


# Names as the profiler gives them, by library.
KERNELS = {
    "fla": ("parallel_based_fwd_kernel", "fused_chunk_based_fwd_kernel", "chunk_fwd_kernel_h", "chunk_fwd_kernel_o"),
    "inductor": ("triton_per_fused__softmax_cat_clamp_min_0", "triton_tem_fused_flex_attention_0"),
    "mamba_ssm": (
        "_chunk_cumsum_fwd_kernel",
        "_chunk_state_fwd_kernel",
        "_state_passing_fwd_kernel",
        "_bmm_chunk_fwd_kernel",
        "_chunk_scan_fwd_kernel",
    ),
    "pytorch": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::exp_kernel_cuda>(int)",
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT",
    ),
    "tk": ("void kittens::kernel_entry<kittens::lcsf<tk::based::kernel<true>>>(Globals)",),
}
LIBRARIES = {
    "flash_linear_attention.LinearAttention": ("fla",),
    "flash_linear_attention.Mamba2": ("fla", "inductor"),
    "composed_hedgehog.Hedgehog": ("fla", "inductor"),
    "composed_based.Based": ("fla", "inductor"),
    "mamba_ssm.Mamba2": ("mamba_ssm",),
    "torch_linear.Based": ("pytorch",),
}


@pytest.mark.parametrize("target", sorted(LIBRARIES))
def test_a_baseline_knows_its_kernels_and_disowns_others(target):
    implementation = load(f"baselines.linear.{target}")()
    own = [kernel for library in LIBRARIES[target] for kernel in KERNELS[library]]
    for pattern in implementation.kernel_names(problem(target.rpartition(".")[2])):
        assert any(re.search(pattern, kernel) for kernel in own), pattern
    for library, kernels in KERNELS.items():
        for kernel in kernels:
            disowned = any(re.search(pattern, kernel) for pattern in implementation.foreign_kernel_names())
            assert disowned is (library not in (*LIBRARIES[target], "pytorch")), kernel


@pytest.mark.parametrize("kernel", ["parallel", "fused_chunk", "chunk"])
def test_the_kernels_of_flas_based_are_told_apart(kernel):
    names = {"parallel": KERNELS["fla"][:1], "fused_chunk": KERNELS["fla"][1:2], "chunk": KERNELS["fla"][2:]}
    implementation = flash_linear_attention.Based(kernel=kernel)
    for pattern in implementation.kernel_names(problem("Based")):
        assert any(re.search(pattern, own) for own in names[kernel])
    for mode, kernels in names.items():
        for one in kernels:
            disowned = any(re.search(pattern, one) for pattern in implementation.foreign_kernel_names())
            assert disowned is (mode != kernel), one


def test_compiled_and_eager_pytorch_are_told_apart():
    eager, compiled = torch_linear.Mamba2(), torch_linear.Mamba2(compiled=1)
    inductor = "triton_poi_fused_exp_mul_0"
    assert any(re.search(pattern, inductor) for pattern in eager.foreign_kernel_names())
    assert all(re.search(pattern, inductor) for pattern in compiled.kernel_names(problem("Mamba2")))
    assert not any(re.search(pattern, inductor) for pattern in compiled.foreign_kernel_names())
    assert names.TK in eager.foreign_kernel_names()


@pytest.mark.parametrize(
    ("target", "options", "keys", "words"),
    [
        ("flash_linear_attention.Based", {}, {"return_state": True}, "got return_state=1, it returns no state"),
        ("flash_linear_attention.Based", {"kernel": "fused_chunk"}, {"F": 32}, "got F=32, it takes up to 16"),
        ("flash_linear_attention.LinearAttention", {"kernel": "linear_attn"}, {"decay": "head"}, "got decay=head"),
        ("composed_hedgehog.Hedgehog", {}, {"return_state": True}, "got return_state=1"),
        ("mamba_ssm.Mamba2", {}, {"boundary": "prepared"}, "got boundary=prepared"),
        ("torch_linear.Based", {"compiled": 1}, {}, "torch_compile runs on cuda, not on cpu"),
    ],
)
def test_what_they_do_not_have_is_refused_in_words(target, options, keys, words):
    implementation = load(f"baselines.linear.{target}")(**options)
    device = "cpu" if "compiled" in options else "cuda"
    assert words in (implementation.supports(problem(target.rpartition(".")[2], **keys), device) or "")


def test_mamba_ssm_is_imported_without_its_own_init(tmp_path, monkeypatch):
    """The package's `__init__` wants a CUDA extension; nothing of it may run, and nothing of it is changed."""
    folder = tmp_path / "mamba_ssm" / "ops" / "triton"
    folder.mkdir(parents=True)
    (tmp_path / "mamba_ssm" / "__init__.py").write_text("raise RuntimeError('the CUDA extension is missing')")
    for part in (folder.parent, folder):
        (part / "__init__.py").write_text("")
    (folder / "ssd_combined.py").write_text("from mamba_ssm.ops.triton.ssd_bmm import here\nvalue = here\n")
    (folder / "ssd_bmm.py").write_text("here = 'found'\n")
    for name in [module for module in sys.modules if module.partition(".")[0] == "mamba_ssm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("TK_BASELINES_SITE_MAMBA_SSM", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    implementation = mamba_ssm.Mamba2()
    assert "the CUDA extension" not in str(implementation.available())
    for _ in range(2):
        assert mamba_ssm.import_kernels().value == "found"
    for name in [module for module in sys.modules if module.partition(".")[0] == "mamba_ssm"]:
        monkeypatch.delitem(sys.modules, name)


class TaylorFeatureMap:
    """As published: a product and its mirror image are one feature."""

    def __init__(self, head_dim):
        self.root = head_dim**0.5

    def __call__(self, x):
        first, second = torch.triu_indices(x.shape[-1], x.shape[-1], 1)
        orders = (torch.ones_like(x[..., :1]), x / self.root**0.5, x * x / (2**0.5 * self.root))
        return torch.cat([*orders, x[..., first] * x[..., second] / self.root], -1)


class Library:
    """The functions of both libraries, signatures as published; they compute in float64, from (B, N, H, .) tensors."""

    def __init__(self, monkeypatch):
        self.calls = []
        simple = types.SimpleNamespace(chunk_simple_gla=self.chunk_simple_gla)
        modules = {
            "fla.ops.based": types.SimpleNamespace(
                parallel_based=self.parallel_based, fused_chunk_based=self.fused_chunk_based
            ),
            "fla.ops.simple_gla": simple,
            "fla.ops.linear_attn": types.SimpleNamespace(chunk_linear_attn=self.chunk_linear_attn),
            "fla.modules.feature_map": types.SimpleNamespace(TaylorFeatureMap=TaylorFeatureMap),
            "fla.ops.common.chunk_h": types.SimpleNamespace(chunk_fwd_h=self.chunk_fwd_h),
        }
        for name in ("fla", "fla.ops", "fla.ops.common", "fla.modules", *modules):
            module = types.ModuleType(name)
            vars(module).update(vars(modules.get(name, types.SimpleNamespace())))
            monkeypatch.setitem(sys.modules, name, module)
            parent, _, own = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], own, module)
        for module in (flash_linear_attention, composed_hedgehog, composed_based):
            monkeypatch.setattr(module, "short_kernels", lambda: ())
        monkeypatch.setattr(mamba_ssm, "short_kernels", lambda: ())
        monkeypatch.setattr(tuning, "fastest", lambda candidates: 0)
        monkeypatch.setattr(mamba_ssm, "import_kernels", lambda: self)

    def parallel_based(self, q, k, v, scale=None, use_norm=True):
        self.calls.append("parallel")
        return self.based(q, k, v, scale, use_norm)

    def fused_chunk_based(self, q, k, v, scale=None, use_norm=True):
        self.calls.append("fused_chunk")
        return self.based(q, k, v, scale, use_norm)

    def based(self, q, k, v, scale, use_norm):
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
        assert all(tensor.is_contiguous() for tensor in (q, k, v))  # what its kernels read, without a copy
        assert scale is None
        p = types.SimpleNamespace(F=q.shape[-1], normalize=use_norm, return_state=False)
        return by_definition.based(p, {"q": q, "k": k, "v": v})[0].to(q.dtype).transpose(1, 2)

    def chunk_simple_gla(
        self, q, k, v, g=None, g_gamma=None, scale=None, initial_state=None, output_final_state=False, **kwargs
    ):
        assert set(kwargs) == {"chunk_size"}
        self.calls.append(kwargs["chunk_size"])
        assert all(tensor.is_contiguous() for tensor in (q, k, v))
        assert q.shape[2] == k.shape[2] == v.shape[2]  # it gives NaN for groups
        heads = [tensor.double().transpose(1, 2) for tensor in (q, k, v)]
        decay = torch.zeros(heads[0].shape[:3], dtype=torch.float64)
        if g is not None:
            assert g.shape == v.shape[:3]
            decay = g.double().transpose(1, 2)
        if g_gamma is not None:
            assert g is None
            decay = g_gamma.double()[None, :, None].expand(decay.shape)
        out, state = by_definition.recurrence(*heads, decay, q.shape[-1] ** -0.5 if scale is None else scale)
        return out.transpose(1, 2).to(v.dtype), state.float() if output_final_state else None

    def chunk_linear_attn(self, q, k, v, scale=None, initial_state=None, output_final_state=False, normalize=True):
        out, state = self.chunk_simple_gla(q, k, v, scale=scale, output_final_state=output_final_state, chunk_size=64)
        if normalize:
            sums = k.double().cumsum(1).to(k.dtype)
            out = out / ((q * scale * sums).sum(-1, keepdim=True) + 1e-10)
        return out, state

    def chunk_fwd_h(self, k, v, g=None, g_gamma=None, h0=None, output_final_state=False, chunk_size=64):
        assert chunk_size == 64
        assert k.is_contiguous()
        assert v.is_contiguous()
        keys, values = (torch.nn.functional.pad(t, (0, 0, 0, 0, 0, -t.shape[1] % 64)) for t in (k, v))
        keys, values = (t.double().unflatten(1, (-1, 64)) for t in (keys, values))
        sums = torch.einsum("bcthk,bcthv->bchkv", keys, values).cumsum(1)
        return torch.nn.functional.pad(sums, (0, 0, 0, 0, 0, 0, 1, 0))[:, :-1].to(v.dtype), None

    def mamba_chunk_scan_combined(
        self, x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, dt_softplus=False, return_final_states=False
    ):
        self.calls.append(chunk_size)
        p = types.SimpleNamespace(H=x.shape[2], boundary="raw", return_final_state=True)
        y, state = by_definition.mamba2(p, {"x": x, "dt": dt, "A": A, "B": B, "C": C})
        return (y.to(x.dtype), state.float()) if return_final_states else y.to(x.dtype)


@pytest.mark.parametrize("kernel_name", ["parallel", "fused_chunk"])
@pytest.mark.parametrize("normalize", [False, True])
def test_flas_based_is_called_as_it_wants_to_be(monkeypatch, kernel_name, normalize):
    library = Library(monkeypatch)
    p = problem("Based", B=2, normalize=normalize)
    inputs = draw("Based", p)
    verify("Based", p, inputs, flash_linear_attention.Based(kernel=kernel_name).prepare(p, inputs)())
    assert library.calls == [kernel_name]


@pytest.mark.parametrize("length", [1, 65, 300])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("composed", [False, True])
def test_based_by_chunks_is_the_same_function(monkeypatch, composed, normalize, length):
    """The library's own features and normaliser, and ours compiled: 153 of them for the definition's 273."""
    Library(monkeypatch)
    monkeypatch.setattr(composed_based, "compile_alone", lambda function, name: function)
    composed_based.steps.cache_clear()
    p = problem("Based", B=2, normalize=normalize, N=length)
    inputs = draw("Based", p)
    made = composed_based.Based() if composed else flash_linear_attention.Based(kernel="chunk")
    verify("Based", p, inputs, made.prepare(p, inputs)())
    composed_based.steps.cache_clear()


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize(
    ("kernel_name", "decay"),
    [("simple_gla", "none"), ("simple_gla", "head"), ("simple_gla", "step"), ("linear_attn", "none")],
)
def test_flas_linear_attention_is_called_as_it_wants_to_be(monkeypatch, kernel_name, decay, state):
    Library(monkeypatch)
    p = problem("LinearAttention", B=2, decay=decay, return_final_state=state)
    inputs = draw("LinearAttention", p)
    implementation = flash_linear_attention.LinearAttention(kernel=kernel_name, chunk=32)
    verify("LinearAttention", p, inputs, implementation.prepare(p, inputs)())


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("boundary", ["raw", "prepared"])
def test_flas_simple_gla_is_called_as_mamba2(monkeypatch, boundary, state):
    library = Library(monkeypatch)
    monkeypatch.setattr(flash_linear_attention, "compile_alone", lambda function, name: function)
    p = problem("Mamba2", B=2, boundary=boundary, return_final_state=state)
    inputs = draw("Mamba2", p)
    verify("Mamba2", p, inputs, flash_linear_attention.Mamba2(chunk=128).prepare(p, inputs)())
    assert set(library.calls) == {128}


@pytest.mark.parametrize("state", [False, True])
def test_mamba_ssm_is_called_as_it_wants_to_be(monkeypatch, state):
    library = Library(monkeypatch)
    p = problem("Mamba2", B=2, S=128, return_final_state=state)
    inputs = draw("Mamba2", p)
    verify("Mamba2", p, inputs, mamba_ssm.Mamba2(chunk=64).prepare(p, inputs)())
    assert set(library.calls) == {64}


CHUNKS, LARGER = (32, 64, 128), (64, 128, 256)


def test_the_fastest_chunk_is_chosen_once_a_shape(monkeypatch):
    library = Library(monkeypatch)
    asked = []
    monkeypatch.setattr(tuning, "fastest", lambda candidates: asked.append([one for one, _ in candidates]) or 4)
    monkeypatch.setattr(tuning, "_chosen", {})
    monkeypatch.setattr(flash_linear_attention, "compile_alone", lambda function, name: function)
    for make in (flash_linear_attention.Mamba2, mamba_ssm.Mamba2):
        for length in (96, 96, 130):
            p = problem("Mamba2", N=length)
            made = make()
            made.prepare(p, draw("Mamba2", p))
    tunings = [[f"chunk {size}, tuning {n}" for n in (1, 2, 3) for size in sizes] for sizes in (CHUNKS, LARGER)]
    assert asked == [tunings[0]] * 2 + [tunings[1]] * 2
    assert set(library.calls) == {64, 128}
    record = made.tuning()
    assert len(record) == 1
    assert record[0].items() >= {"chosen": "chunk 128, tuning 2", "space": tunings[1], "tunings": 3}.items()
    assert record[0]["seconds"] >= 0


def window(q, k, v):
    """The window's softmax, its log-sum-exp and its largest scaled score, row by row."""
    length = q.shape[2]
    query, key = torch.arange(length)[:, None], torch.arange(length)[None]
    scores = (q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(
        ~hedgehog_steps.seen(0, 0, query, key), -torch.inf
    )
    out = (scores.softmax(-1) @ v.float()).to(v.dtype)
    return out, scores.logsumexp(-1), scores.amax(-1)


@pytest.mark.parametrize("length", [1, 64, 65, 128, 129, 200, 384])
def test_hedgehogs_parts_are_joined_to_the_same_function(monkeypatch, length):
    Library(monkeypatch)
    steps = {"features": hedgehog_steps.features, "join": hedgehog_steps.join}
    monkeypatch.setattr(composed_hedgehog, "compile_steps", lambda problem: steps)
    monkeypatch.setattr(hedgehog_steps, "compiled_window", lambda *_: window)
    monkeypatch.setattr(composed_hedgehog, "_compiled", {})
    p = problem("Hedgehog", B=2, H=3, N=length)
    inputs = draw("Hedgehog", p)
    verify("Hedgehog", p, inputs, composed_hedgehog.Hedgehog().prepare(p, inputs)())


def test_flex_attention_is_given_the_window_in_blocks():
    from torch.nn.attention.flex_attention import create_block_mask

    mask = create_block_mask(hedgehog_steps.seen, None, None, 320, 320, device="cpu", BLOCK_SIZE=64)
    assert hedgehog_steps.TILES[0][:2] == (64, 64)
    assert len(set(hedgehog_steps.TILES)) == len(hedgehog_steps.TILES) > 4
    partial = mask.to_dense()[0, 0]
    assert torch.equal(partial.bool(), torch.ones(5, 5, dtype=torch.bool).tril() & torch.ones(5, 5).bool().triu(-1))


@pytest.mark.long
def test_compiled_steps_of_hedgehog_are_right(monkeypatch):
    Library(monkeypatch)
    steps = {
        "features": compile_alone(hedgehog_steps.features, "features_here"),
        "join": compile_alone(hedgehog_steps.join, "join_here"),
    }
    monkeypatch.setattr(composed_hedgehog, "compile_steps", lambda problem: steps)
    monkeypatch.setattr(hedgehog_steps, "compiled_window", lambda *_: window)
    monkeypatch.setattr(composed_hedgehog, "_compiled", {})
    p = problem("Hedgehog", N=200)
    inputs = draw("Hedgehog", p)
    verify("Hedgehog", p, inputs, composed_hedgehog.Hedgehog().prepare(p, inputs)())
