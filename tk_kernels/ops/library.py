"""What the operators share: the namespace they are registered in, and their compiled libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad

NAMESPACE = "tk_kernels"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")

_functions: dict[tuple[str, str, int, str], Any] = {}
_copy_engines: dict[tuple[int, str], bool] = {}
_on_gpus: dict[tuple[str, str], Any] = {}
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_target = ""
"""The target that `built_for` asks for; none: the one for the GPU's capability."""


@contextlib.contextmanager
def built_for(target: str) -> Iterator[None]:
    """Within, calls on GPUs run the kernels as built for `target`; of the whole process, all its threads.

    For comparisons: sm_80's code runs on a Hopper GPU too. Raises RuntimeError at a call for a target whose code the
    GPU does not run, ToolchainError for one that does not exist or that the kernel is not built for.
    """
    global _target
    before, _target = _target, target
    try:
        yield
    finally:
        _target = before


def register(
    name: str,
    run: Callable[..., Any],
    *,
    changes: tuple[str, ...] = (),
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
) -> Any:
    """Define the operator `name` by one function, whose annotations are its schema; returns its overload.

    `run` checks its arguments, makes the outputs and launches the kernel where `has_elements`. It serves a CPU, a GPU
    and tracing, so that what is traced cannot differ from what is run. `changes` names the tensors that it writes;
    then it gets tensors with a pending minus sign as they are.

    `backward` and `setup_context` are those of `torch.library.register_autograd`; without them autograd takes the
    operator's results for constants.
    """
    schema = torch.library.infer_schema(run, mutates_args=changes).replace("SymInt[]", "int[]")
    LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        LIBRARY.impl(name, run, key)
    if changes:  # the dispatcher would carry out a pending minus sign on a copy, which nobody sees
        LIBRARY.impl(name, torch.library.fallthrough_kernel, "Negative")
    torch.library.register_fake(f"{NAMESPACE}::{name}", run, lib=LIBRARY)
    if backward is not None:
        torch.library.register_autograd(f"{NAMESPACE}::{name}", backward, setup_context=setup_context, lib=LIBRARY)
    overload = getattr(getattr(torch.ops, NAMESPACE), name).default
    written = [position for position, one in enumerate(overload._schema.arguments) if one.name in changes]
    torch.library.register_vmap(f"{NAMESPACE}::{name}", _call_by_call(overload, written), lib=LIBRARY)
    return overload


def no_second_derivative(name: str) -> Any:
    """The backward of a backward pass: it raises RuntimeError."""

    def refuse(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        raise RuntimeError(f"{name}: it has no second derivative")

    return refuse


def _call_by_call(overload: Any, written: list[int]) -> Callable[..., Any]:
    """What `torch.func.vmap` does with an operator: a launch for each element of the batch, the results stacked.

    written: the positions of the arguments that it writes; those have to be batched. A list of numbers is not: its
    place in `in_dims` is a list too.
    """

    def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        for position in written:
            if in_dims[position] is None:
                raise ValueError(f"{overload}: vmap over other tensors than the one that is written; batch that too")
        results = [
            overload(*(a.select(dim, i) if type(dim) is int else a for a, dim in zip(arguments, in_dims, strict=True)))
            for i in range(info.batch_size)
        ]
        if overload._schema.returns == []:
            return None, None
        if isinstance(results[0], torch.Tensor):
            return torch.stack(results), 0
        stacked = [torch.stack(parts) for parts in zip(*results, strict=True)]
        return type(results[0])(stacked), type(results[0])([0] * len(stacked))

    return rule


def has_elements(tensor: torch.Tensor) -> bool:
    """Whether there is something to compute with: fake and meta tensors, which tracing uses, have a shape alone."""
    return not (type(tensor) is FakeTensor or tensor.is_meta)


def likely(condition: bool | torch.SymBool) -> bool:
    """The condition; True where only data decide a size in it, which `torch.compile` does not know."""
    if isinstance(condition, bool) and not torch.compiler.is_compiling():
        return condition
    from torch.fx.experimental.symbolic_shapes import guard_or_true

    return guard_or_true(condition)


def no_backward(operator: str) -> Callable[..., Any]:
    """The backward of an operator that has none: it raises NotImplementedError, also past the public function."""

    def refuse(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(f"{operator}: has no backward; call it under torch.no_grad()")

    return refuse


def compiled(kernel: str, device: torch.device, export: str | None = None) -> Any:
    """An exported function of `kernel` for a CPU or CUDA device; builds and loads it at the first call.

    The function is called as the kernel is where `export` does not say otherwise.
    Raises ToolchainError when it cannot be built, RuntimeError when the GPU is too old.
    """
    key = (kernel, export or kernel, device.index if device.type == "cuda" else -1, _target)
    found = _functions.get(key)
    if found is None:
        found = _functions[key] = getattr(_load(kernel, device), key[1])
    return found


def loaded_on_gpus() -> dict[tuple[str, str], Any]:
    """The libraries that calls on GPUs have loaded, by kernel and target."""
    return dict(_on_gpus)


def has_copy_engine(device: torch.device) -> bool:
    """Whether calls on `device` run kernels for a target with a copy engine (see `toolchain.Target`)."""
    key = (device.index if device.type == "cuda" else -1, _target)
    if key not in _copy_engines:
        from tk_kernels import toolchain

        own = toolchain.TARGETS.get(target_on(device), toolchain.DEFAULT_OF_DEVICE["cuda"])
        _copy_engines[key] = own.copy_engine
    return _copy_engines[key]


def target_on(device: torch.device) -> str:
    """The target whose kernels calls on `device` run; empty where its GPU is too old for any."""
    from tk_kernels import toolchain

    if device.type != "cuda":
        return toolchain.CPU.name
    own = toolchain.target_of_capability(torch.cuda.get_device_capability(device))
    return _target or (own.name if own else "")


def _load(kernel: str, device: torch.device) -> Any:
    import tvm_ffi  # noqa: F401  it may bring an older PyTorch the exchange

    from tk_kernels import toolchain

    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        raise RuntimeError(
            f"PyTorch {torch.__version__} has no DLPack exchange API, by which kernels get its stream and memory; "
            "install torch >= 2.10, or torch-c-dlpack-ext for the one you have"
        )
    reason = unsupported_gpu(device, _target) if device.type == "cuda" else None
    if reason:
        raise RuntimeError(reason)
    target = target_on(device)
    library = toolchain.load(kernel, target)
    if device.type == "cuda":
        _on_gpus[kernel, target] = library
    return library


def is_plain_eager(*tensors: torch.Tensor) -> bool:
    """Whether calling a kernel directly is the same as calling its operator, because nothing listens in between.

    Listeners are the compiler and tracers, tensor subclasses, dispatch modes (fake tensors, FLOP counters, ...),
    functorch's transforms. So is what carries out a view's pending minus sign, unwraps a functional tensor, or gives
    memory to a tensor of zeros that has none.
    """
    if torch.compiler.is_compiling():
        return False
    for t in tensors:  # no generator: each call of an operator comes by
        if (
            type(t) not in _PLAIN
            or not (t.is_cuda or t.is_cpu)
            or t.is_neg()
            or t._is_zerotensor()
            or torch._is_functional_tensor(t)
        ):
            return False
    return (
        torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch._C._is_tracing()
    )


_LOW_ADDRESS = 1 << 40
"""What lies above has memory; the address of a tensor whose storage was freed is its offset from 0."""


def _is_freed(tensor: torch.Tensor) -> bool:
    """Whether elements are left of a tensor without memory, as FSDP leaves of a parameter that it takes back.

    A kernel would read from address 0, or take an optional tensor for one that was not given.
    """
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and tensor.data_ptr() < _LOW_ADDRESS
        and (tensor.is_cuda or tensor.is_cpu)
        and tensor.numel() > 0
        and not tensor._is_zerotensor()
        and not torch._is_functional_tensor(tensor)
        and tensor.untyped_storage().nbytes() == 0
    )


def refuse_unusable(**tensors: torch.Tensor | None) -> None:
    """Refuse tensors that dtype, shape and device do not show to be unusable.

    Raises ValueError for one whose storage was freed and for fake ones among real ones, and NotImplementedError where
    forward-mode differentiation would lose a tangent in silence.
    """
    if torch.compiler.is_compiling():
        return
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    for name, tensor in tensors.items():
        if type(tensor) is FakeTensor:
            _refuse_real_among_fake(tensors)
        elif not transformed and tensor is not None and _is_freed(tensor):
            raise ValueError(
                f"{name}: its memory was freed (shape {tuple(tensor.shape)}, a storage of 0 bytes); "
                "give the storage its memory back before the call"
            )
    if forward_ad._current_level < 0:
        return
    for name, tensor in tensors.items():
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError(f"{name}: has a tangent, and there is no forward-mode derivative")


def refuse_unwritable(name: str, tensor: torch.Tensor | None) -> None:
    """Raises ValueError for a tensor that is to be written and may not be, as PyTorch's operators do."""
    if tensor is None or torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
        return
    if tensor.is_inference():
        raise ValueError(f"{name}: is an inference tensor, which only torch.inference_mode() lets be written")


def _refuse_real_among_fake(tensors: Mapping[str, torch.Tensor | None]) -> None:
    """Raises ValueError where fake tensors, of a mode that allows no others, are mixed with others."""
    fake = {name: tensor for name, tensor in tensors.items() if type(tensor) is FakeTensor}
    real = next((name for name, tensor in tensors.items() if tensor is not None and name not in fake), None)
    if real is not None and not any(tensor.fake_mode.allow_non_fake_inputs for tensor in fake.values()):
        raise ValueError(f"{next(iter(fake))}: is a fake tensor and {real} is a real one; give either kind alone")


def unsupported_gpu(device: torch.device, wanted: str = "") -> str | None:
    """Why kernels cannot run on this GPU, as built for its capability or for the target `wanted`, or None."""
    from tk_kernels.toolchain import DEFAULT_OF_DEVICE, LEAST_CAPABILITY, target_of_capability

    capability = torch.cuda.get_device_capability(device)
    target, name = target_of_capability(capability), torch.cuda.get_device_name(device)
    has = f"{name} has compute capability {capability[0]}.{capability[1]}"
    if target is None:
        least = ".".join(map(str, LEAST_CAPABILITY))
        return f"{has}; the kernels are built for GPUs of {least} (Ampere) and newer, or run on CPU tensors"
    hopper = DEFAULT_OF_DEVICE["cuda"].name
    if wanted == hopper and target.name != hopper:
        return f"{has}, which does not run code for {hopper}; leave the target out, or name {target.name}"
    return None
