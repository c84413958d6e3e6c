"""The attention baselines without a GPU: what they refuse, whose kernels they accept, and PyTorch's own on the CPU."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import replace

import pytest
import torch

from baselines.attention import flash_attn_3, flex_attention, sdpa_cudnn, sdpa_flash, torch_unfused
from baselines.common import layouts, sites
from tests.baselines.problems import small
from tests.baselines.test_contract import load

MODULES = ("sdpa_flash", "sdpa_cudnn", "flash_attn", "flash_attn_3", "flash_attn_4", "torch_unfused", "flex_attention")
INDUCTOR = ("torch_unfused", "flex_attention")

# Names as the profiler gives them, by who runs them and in which direction.
KERNELS = {
    ("sdpa_flash", "fwd"): (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false>>(Params)",
        "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4>>(Params)",
    ),
    ("sdpa_flash", "bwd"): (
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128>>(Params)",
    ),
    ("sdpa_cudnn", "fwd"): (
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0",
    ),
    ("sdpa_cudnn", "bwd"): (
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1x1_kernel0_0",
    ),
    ("flash_attn", "fwd"): (
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false>>(flash::Params)",
        "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traits",
    ),
    ("flash_attn", "bwd"): ("void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Traits>(flash::Params)",),
    ("flash_attn_3", "fwd"): (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop>>>(Params)",
    ),
    ("flash_attn_3", "bwd"): (
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90<flash::Mainloop>>>(Params)",
    ),
    ("flash_attn_4", "fwd"): (
        "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm90FlashAttentionForwardSm90_object_at__tensorptrbf16_0",
    ),
    ("flash_attn_4", "bwd"): (
        "kernel_cutlass_kernel_flash_attncuteflash_bwd_sm90FlashAttentionBackwardSm90_object_at__tensorptrbf16_0",
    ),
    ("torch_unfused", "fwd"): ("triton_per_fused__softmax__to_copy_mul_1", "triton_red_fused__softmax_0"),
    ("torch_unfused", "bwd"): ("triton_per_fused__softmax_backward_data_mul_2",),
    ("flex_attention", "fwd"): ("triton_tem_fused_flex_attention_0",),
    ("flex_attention", "bwd"): ("triton_tem_fused_flex_attention_backward_zeros_1",),
}
OURS = "void kittens::kernel_entry<tk::attention::forward<128>>(Globals)"


@pytest.mark.parametrize(("module", "direction"), sorted(KERNELS))
def test_a_baseline_knows_its_kernels_and_nobody_elses(module, direction):
    implementation = load(f"baselines.attention.{module}.Attention")()
    own = implementation.kernel_names(small("attention", direction=direction))
    foreign = implementation.foreign_kernel_names()
    for (other, other_direction), kernels in KERNELS.items():
        for kernel in kernels:
            mine = (other, other_direction) == (module, direction)
            if mine or other != module or module not in INDUCTOR:  # Inductor's names tell no direction
                assert all(re.search(pattern, kernel) for pattern in own) is mine, kernel
            disowned = any(re.search(pattern, kernel) for pattern in foreign)
            if other == module or not {other, module} <= set(INDUCTOR):
                assert disowned is (other != module), (kernel, foreign)
    assert any(re.search(pattern, OURS) for pattern in foreign)


@pytest.mark.parametrize("module", MODULES)
def test_a_head_dimension_that_is_none_of_theirs(module):
    implementation = load(f"baselines.attention.{module}.Attention")()
    reason = implementation.supports(small("attention", D=52), "cuda")
    if module == "torch_unfused":  # products of any size
        assert "D=52" not in (reason or "")
    else:
        assert "got D=52, it takes multiples of 8" in (reason or "")


def test_causal_masks_that_pytorch_aligns_otherwise_are_refused():
    longer, shorter = small("attention", N=96, Nkv=64, causal=True), small("attention", N=64, Nkv=96, causal=True)
    for implementation in (load("baselines.attention.sdpa_cudnn.Attention")(),):
        for problem in (longer, shorter):
            assert "aligns its causal mask to the top left" in implementation.supports(problem, "cuda")
    flash = load("baselines.attention.sdpa_flash.Attention")()
    assert "got N=96 queries on Nkv=64 keys" in flash.supports(longer, "cuda")
    assert "Nkv=64" not in (flash.supports(shorter, "cuda") or "")
    assert "CPU attention is causal for N = Nkv" in flash.supports(shorter, "cpu")
    assert "a softmax of no key is NaN" in load("baselines.attention.torch_unfused.Attention")().supports(
        longer, "cuda"
    )


def test_who_has_a_window(hopper):
    windowed = small("attention", causal=True, window=7)
    said = {one: load(f"baselines.attention.{one}.Attention")().supports(windowed, "cuda") for one in MODULES}
    refused = [one for one, reason in said.items() if "got window=7, it is called without" in str(reason)]
    assert refused == ["sdpa_flash", "sdpa_cudnn", "flash_attn_4", "torch_unfused"]


@pytest.mark.filterwarnings("ignore")  # of a call that is not compiled
@pytest.mark.parametrize("keys", [{}, {"causal": True, "Hkv": 2, "Nkv": 130}, {"causal": True, "window": 7, "N": 300}])
def test_flex_attentions_mask_is_the_problems(keys):
    problem = small("attention", **keys)
    inputs = draw(problem)
    function = flex_attention.attend(problem, torch.device("cpu"))
    check(function(*inputs.values(), problem.causal, problem.D**-0.5), problem, inputs)


def test_score_matrices_that_do_not_fit_are_refused_with_their_size(hopper):
    paper = small("attention", B=16, H=16, N=6144, Nkv=6144, D=128)
    unfused = torch_unfused.Attention()
    assert unfused.supports(paper, "cuda") is None
    reason = unfused.supports(replace(paper, direction="bwd"), "cuda")
    assert reason == "torch_unfused: score matrices of 116 GB, half of this GPU's memory is 70 GB"


def draw(problem, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query, key = (problem.B, problem.H, problem.N, problem.D), (problem.B, problem.Hkv, problem.Nkv, problem.D)
    names = {"q": query, "k": key, "v": key} | ({"dout": query} if problem.direction == "bwd" else {})
    return {name: torch.randn(shape, generator=generator).bfloat16() for name, shape in names.items()}


def exact(problem, inputs):
    """The outputs in float64, by autograd over the definition."""
    q, k, v = (inputs[name].double().requires_grad_() for name in "qkv")
    group = problem.H // problem.Hkv
    scores = q @ k.repeat_interleave(group, 1).transpose(-1, -2) * problem.D**-0.5
    if problem.causal:
        hidden = torch.ones(problem.N, problem.Nkv, dtype=torch.bool, device=q.device).triu(problem.Nkv - problem.N + 1)
        if problem.window:
            hidden |= torch.ones_like(hidden).tril(problem.Nkv - problem.N - problem.window)
        scores = scores.masked_fill(hidden, -torch.inf)
    p = scores.softmax(-1).nan_to_num()
    out = p @ v.repeat_interleave(group, 1)
    if problem.direction == "fwd":
        return (out.detach(),)
    return torch.autograd.grad(out, (q, k, v), inputs["dout"].double())


def check(outputs, problem, inputs):
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    wanted = exact(problem, inputs)
    assert len(outputs) == len(wanted)
    for output, reference in zip(outputs, wanted, strict=True):
        assert output.shape == reference.shape
        assert output.dtype == torch.bfloat16
        assert (output.double() - reference).norm() <= 8e-3 * reference.norm()


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize("layout", ["bnhd", "bhnd"])
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"causal": True},
        {"Hkv": 1},
        {"Hkv": 2, "causal": True, "D": 128},
        {"N": 65, "Nkv": 130},
        {"N": 130, "Nkv": 2},
    ],
)
def test_pytorch_attention_on_the_cpu_is_right(keys, layout, direction):
    problem = replace(small("attention", B=2, direction=direction), **keys)
    implementation = load("baselines.attention.sdpa_flash.Attention")(layout=layout)
    assert implementation.supports(problem, "cpu") is None
    inputs = draw(problem)
    pristine = {name: tensor.clone() for name, tensor in inputs.items()}
    call = implementation.prepare(problem, inputs)
    for _ in range(2):  # the graph of a backward pass is kept
        check(call(), problem, inputs)
    assert all(torch.equal(inputs[name], tensor) for name, tensor in pristine.items())
    assert not any(tensor.requires_grad for tensor in inputs.values())


@pytest.mark.long
@pytest.mark.parametrize("keys", [{"direction": "fwd"}, {"direction": "bwd", "causal": True, "Hkv": 1, "Nkv": 128}])
def test_compiled_attention_is_right(keys):
    problem = replace(small("attention"), **keys)
    inputs = draw(problem)
    function = torch_unfused.compile_attention(f"attention_{problem.direction}")
    tensors = [inputs[name] for name in "qkv"]
    if problem.direction == "fwd":
        call = torch_unfused.forward_call(function, problem, *tensors)
    else:
        call = torch_unfused.backward_call(function, problem, *tensors, inputs["dout"])
    for _ in range(2):
        check(call(), problem, inputs)


@pytest.mark.parametrize("module", [sdpa_flash, sdpa_cudnn], ids=lambda module: module.__name__)
def test_the_backward_operators_take_what_the_forward_operators_give(module):
    """On tensors without data: the operators' schemas, and the shapes they say they return."""
    problem = small("attention", causal=True, direction="bwd")
    q, k, v, dout = (torch.empty(1, 4, 96, 64, dtype=torch.bfloat16, device="meta") for _ in range(4))
    gradients = module.backward_call(problem, q, k, v, dout)()
    assert [tuple(gradient.shape) for gradient in gradients] == [(1, 4, 96, 64)] * 3


def test_a_copy_in_the_librarys_layout_is_made_once_and_dies_with_its_tensor():
    tensor = torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5)
    layouts.token_major(torch.zeros(1, 1, 1, 1))
    before = len(layouts._copies)
    copy = layouts.token_major(tensor)
    assert copy.shape == (2, 4, 3, 5)
    assert copy.is_contiguous()
    assert layouts.token_major(tensor) is copy
    (view,) = layouts.head_major(copy)
    assert torch.equal(view, tensor)
    assert view.data_ptr() == copy.data_ptr(), "an output's copy would be in the time of its call"
    assert len(layouts._copies) == before + 1
    del tensor
    assert len(layouts._copies) == before


class TestFlashAttention3:
    """Its interface changed: what is returned, and how one asks for more."""

    Q = torch.zeros(1)

    def test_versions_that_always_return_both(self):
        def function(q, k, v, softmax_scale=None, causal=False):
            return "out", "lse"

        assert flash_attn_3.forward_with_lse(function, self.Q, self.Q, self.Q, causal=True) == ("out", "lse")
        assert flash_attn_3._first(function(1, 2, 3)) == "out"

    def test_versions_that_return_it_when_asked(self):
        def function(q, k, v, causal=False, return_attn_probs=False):
            return ("out", "lse") if return_attn_probs else "out"

        assert flash_attn_3.forward_with_lse(function, self.Q, self.Q, self.Q, causal=True) == ("out", "lse")
        assert flash_attn_3._first(function(1, 2, 3)) == "out"

    @pytest.mark.parametrize(("options", "given"), [({}, {}), ({"num_splits": 1}, {}), ({"num_splits": 0},) * 2])
    def test_it_may_split_the_keys_where_it_is_asked_to(self, monkeypatch, options, given):
        seen = []

        def function(q, k, v, causal, **more):
            seen.append(more)
            return q

        module = types.ModuleType("flash_attn_interface")
        module.flash_attn_func = function
        monkeypatch.setitem(sys.modules, module.__name__, module)
        problem = small("attention", N=1, Nkv=130)
        flash_attn_3.Attention(**options).prepare(problem, draw(problem))()
        assert seen == [given]

    @pytest.mark.parametrize(
        ("options", "keys", "promised"),
        [
            ({"num_splits": 0}, {"N": 1, "Nkv": 4097, "H": 32, "Hkv": 8}, True),
            ({"num_splits": 0}, {"N": 17, "Nkv": 4097, "H": 32, "Hkv": 8, "causal": True}, True),
            ({"num_splits": 0}, {"N": 1, "Nkv": 4097, "H": 32, "Hkv": 8, "B": 16}, False),
            ({"num_splits": 0}, {"N": 1, "Nkv": 512}, False),
            ({"num_splits": 1}, {"N": 1, "Nkv": 4097}, False),
        ],
    )
    def test_where_it_splits_the_kernel_that_combines_is_promised(self, options, keys, promised):
        """Guard: a build without split kernels once was 3 times as slow as the wheel, and no row said so."""
        combine = "void cutlass::device_kernel<flash::enable_sm80<flash::FlashAttnFwdCombine<Shape, 128>>>(Params)"
        *_, last = flash_attn_3.Attention(**options).kernel_names(small("attention", **keys))
        assert bool(re.search(last, combine)) is promised
        foreign = load("baselines.attention.sdpa_cudnn.Attention")().foreign_kernel_names()
        assert any(re.search(pattern, combine) for pattern in foreign)
        assert not any(re.search(one, combine) for one in flash_attn_3.Attention().foreign_kernel_names())

    def test_splits_are_of_the_forward_pass(self):
        problem = small("attention", direction="bwd")
        assert "num_splits=0 and direction bwd" in flash_attn_3.Attention(num_splits=0).supports(problem, "cuda")


class Library:
    """The interfaces of the three flash-attn libraries, signatures as published; they compute in float64.

    Tensors are (B, N, H, D). A call whose arguments are not what the signature says gives wrong gradients or fails.
    """

    LSE = torch.zeros(1)

    def __init__(self, problem, inputs):
        self.problem, self.inputs = problem, inputs
        self.window = (problem.window - 1, 0) if problem.window else (-1, -1)

    def forward(self, q, k, v, causal, window=None):
        assert window is None or window == self.window
        assert causal is self.problem.causal
        for tensor, name in ((q, "q"), (k, "k"), (v, "v")):
            assert tensor.is_contiguous()
            assert torch.equal(tensor, self.inputs[name].transpose(1, 2))
        return exact(replace(self.problem, direction="fwd"), self.inputs)[0].bfloat16().transpose(1, 2)

    def backward(self, tensors, lse, scale, causal, deterministic):
        q, k, v, out, dout = tensors
        assert lse is self.LSE
        assert scale == self.problem.D**-0.5
        assert deterministic
        assert torch.equal(self.forward(q, k, v, causal), out)
        assert torch.equal(dout, self.inputs["dout"].transpose(1, 2))
        return tuple(gradient.bfloat16().transpose(1, 2) for gradient in exact(self.problem, self.inputs))

    def flash_attn(self):
        def flash_attn_func(
            q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), return_attn_probs=False
        ):
            out = self.forward(q, k, v, causal, window_size)
            return (out, self.LSE, None) if return_attn_probs else out

        def _flash_attn_backward(
            dout, q, k, v, out, lse, dq, dk, dv, dropout_p, scale, causal, left, right, softcap, slopes, deterministic
        ):
            assert (dropout_p, left, right, softcap, slopes) == (0.0, *self.window, 0.0, None)
            wanted = self.backward((q, k, v, out, dout), lse, scale, causal, deterministic)
            for gradient, value in zip((dq, dk, dv), wanted, strict=True):
                gradient.copy_(value)

        package, interface = types.ModuleType("flash_attn"), types.ModuleType("flash_attn.flash_attn_interface")
        interface.flash_attn_func, interface._flash_attn_backward = flash_attn_func, _flash_attn_backward
        package.flash_attn_interface = interface
        return {package.__name__: package, interface.__name__: interface}

    def flash_attn_3(self):
        def flash_attn_func(q, k, v, softmax_scale=None, causal=False, window_size=(-1, -1), return_attn_probs=False):
            out = self.forward(q, k, v, causal, window_size)
            return (out, self.LSE) if return_attn_probs else out

        def _flash_attn_backward(
            dout, q, k, v, out, lse, cu_q, cu_k, used_q, used_k, max_q, max_k, dq, dk, dv, scale, causal,
            window_size_left=-1, window_size_right=-1, **options,
        ):  # fmt: skip
            assert (window_size_left, window_size_right) == self.window
            assert (cu_q, cu_k, used_q, used_k, max_q, max_k) == (None,) * 6
            wanted = self.backward((q, k, v, out, dout), lse, scale, causal, **options)
            for gradient, value in zip((dq, dk, dv), wanted, strict=True):
                gradient.copy_(value)

        module = types.ModuleType("flash_attn_interface")
        module.flash_attn_func, module._flash_attn_backward = flash_attn_func, _flash_attn_backward
        return {module.__name__: module}

    def flash_attn_4(self):
        def flash_attn_func(q, k, v, softmax_scale=None, causal=False):
            return self.forward(q, k, v, causal), None

        def _flash_attn_fwd(q, k, v, softmax_scale=None, causal=False, return_lse=False):
            assert return_lse
            return self.forward(q, k, v, causal), self.LSE, None, None, None

        def _flash_attn_bwd(q, k, v, out, dout, lse, softmax_scale=None, causal=False, deterministic=False):
            scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
            return self.backward((q, k, v, out, dout), lse, scale, causal, deterministic)

        modules = {name: types.ModuleType(name) for name in ("flash_attn", "flash_attn.cute")}
        interface = types.ModuleType("flash_attn.cute.interface")
        for function in (flash_attn_func, _flash_attn_fwd, _flash_attn_bwd):
            setattr(interface, function.__name__, function)
        modules["flash_attn"].cute, modules["flash_attn.cute"].interface = modules["flash_attn.cute"], interface
        return modules | {interface.__name__: interface}


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize(
    ("name", "window"),
    [("flash_attn", None), ("flash_attn", 7), ("flash_attn_3", None), ("flash_attn_3", 7), ("flash_attn_4", None)],
)
def test_calls_are_bound_as_the_interfaces_want_them(monkeypatch, name, window, direction):
    problem = small("attention", B=2, causal=True, direction=direction, Hkv=2, Nkv=130, window=window)
    inputs = draw(problem)
    for module, fake in getattr(Library(problem, inputs), name)().items():
        monkeypatch.setitem(sys.modules, module, fake)
    call = load(f"baselines.attention.{name}.Attention")(deterministic=1).prepare(problem, inputs)
    check(call(), problem, inputs)


def test_flash_attn_2_and_4_are_told_apart_by_their_files(tmp_path, monkeypatch):
    """Both own the folder flash_attn; neither is imported to find out."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "flash_attn", raising=False)
    two, four = load("baselines.attention.flash_attn.Attention")(), load("baselines.attention.flash_attn_4.Attention")()
    for module in ("quack", "einops", "tvm_ffi", "cutlass", "nvidia_cutlass_dsl", "torch"):
        if sites.missing([module], "") is not None:
            (tmp_path / f"{module}.py").write_text("raise RuntimeError('imported')")

    def reasons():
        sites.importlib.invalidate_caches()
        return two.available(), four.available()

    folder = tmp_path / "flash_attn"
    (folder / "cute").mkdir(parents=True)
    (folder / "cute" / "interface.py").write_text("raise RuntimeError('imported')")
    first, second = reasons()
    assert "flash_attn_2_cuda is not installed" in first
    assert second is None
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    assert "without its CUDA build lies over flash-attn-4" in reasons()[1]
    (tmp_path / "flash_attn_2_cuda.py").write_text("raise RuntimeError('imported')")
    first, second = reasons()
    assert "another package's" in first
    assert second is None
    (folder / "flash_attn_interface.py").write_text("raise RuntimeError('imported')")
    assert reasons() == (None, None)
    (folder / "cute" / "interface.py").unlink()
    assert "without flash-attn-4's flash_attn.cute" in reasons()[1]
