"""The operators as a harness wants them: who they are, what they take, how to call them.

Each class is duck-typed; nothing of a harness is imported here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import __version__, attention, gemm, toolchain
from .ops import attention_options, gemm_options
from .ops.attention import HEAD_DIMS
from .ops.library import unsupported_gpu

TARGET_OF_DEVICE = {"cuda": "sm_90a", "cpu": "cpu"}


class Kernel:
    """What the implementations of all kernels share; `name` is the kernel's folder."""

    name: str

    def __init__(self) -> None:
        self._target = ""

    def available(self) -> str | None:
        """None when the kernel can be loaded or built for some device, else the reason with the command to run."""
        if importlib.util.find_spec("tvm_ffi") is None:
            return "apache-tvm-ffi is not installed: pip install apache-tvm-ffi==0.1.12"
        reasons = [toolchain.obstacle(self.name, target) for target in TARGET_OF_DEVICE.values()]
        return None if None in reasons else reasons[0]

    def version(self) -> str:
        """The project's version and the hash of the sources; and whether the build is slow on purpose."""
        kernel, slowed = toolchain.find_kernel(self.name), toolchain.slowed_percent()
        sources = toolchain.source_hash(kernel, toolchain.find_target("sm_90a"))[:8]
        remark = f", slowed by {slowed:g} % on purpose" if slowed else ""
        return f"tk_kernels {__version__}, {self.name} sources {sources}{remark}"

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device` ("cuda" or "cpu")."""
        if device not in TARGET_OF_DEVICE:
            return f"device {device!r} has no target; there are {', '.join(TARGET_OF_DEVICE)}"
        if device == "cuda" and torch.cuda.is_initialized():
            reason = unsupported_gpu(torch.device("cuda", torch.cuda.current_device()))
            if reason:
                return reason
        return toolchain.obstacle(self.name, TARGET_OF_DEVICE[device])

    def kernel_names(self, problem: Any) -> tuple[str, ...]:
        """A regular expression that the profiled name of our kernel matches, mangled or not."""
        return (rf"kittens.*kernel_entry.*tk.*{self.name}",)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Other people's kernels, none of which may run in our place."""
        return ("nvjet", "cutlass", "cublas", "xmma", "triton")

    def _chosen(self, options: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
        """A variant's options, "auto" as None. Raises TypeError that names one which does not exist."""
        for option in options:
            if option not in known:
                raise TypeError(f"tk {self.name}: got the option {option!r}, it takes {', '.join(known)}")
        return {option: None if value == "auto" else value for option, value in options.items()}

    def build_manifest(self) -> dict[str, Any] | None:
        """The build manifest of the kernel: of the device it was prepared for, else of the GPU where there is one."""
        target = self._target or TARGET_OF_DEVICE["cuda" if torch.cuda.is_available() else "cpu"]
        return toolchain.manifest(self.name, target)


class Gemm(Kernel):
    """`tk.gemm` with a variant's options: stages, persistent, order, tile, cluster, schedule.

    Raises TypeError for an option that does not exist, ValueError for a value that is none.
    """

    name = "gemm"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        known = ("stages", "persistent", "order", "tile", "cluster", "schedule")
        self._options = self._chosen(options, known)
        gemm_options.encode_options(**self._options)

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "bf16":
            return f"tk gemm takes bf16, not {problem.dtype}"
        if problem.direction != "fwd":
            return f"tk gemm has no kernel of its own for direction {problem.direction}"
        return super().supports(problem, device)

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Tensor]:
        """The call `tk.gemm(a, b, **options)`, with the kernel loaded (and built, if need be)."""
        a, b = inputs["a"], inputs["b"]
        self._target = TARGET_OF_DEVICE[a.device.type]
        toolchain.load(self.name, self._target)
        options = self._options
        return lambda: gemm(a, b, **options)


class Attention(Kernel):
    """`tk.attention` with a variant's options: order, synchronous, blocks_per_sm, deterministic.

    Forward: the call, on (B, H, N, D) tensors. Backward: the operator behind the gradient alone, which computes dq, dk
    and dv; the forward pass that gives it out and lse is outside the clock. `deterministic` says something about the
    backward only, the other options about the forward only. Raises TypeError for an option that does not exist,
    ValueError for a value that is none.
    """

    name = "attention"

    def __init__(self, **options: Any) -> None:
        super().__init__()
        chosen = self._chosen(options, ("order", "synchronous", "blocks_per_sm", "deterministic"))
        deterministic = chosen.pop("deterministic", None)
        if deterministic not in (None, 0, 1):
            raise ValueError(f"deterministic: got {deterministic!r}, needs 0 or 1")
        self._deterministic = bool(deterministic)
        self._options = chosen
        attention_options.encode_options(**chosen)

    def supports(self, problem: Any, device: str) -> str | None:
        """None, or why this problem cannot run on `device`."""
        if problem.dtype != "bf16":
            return f"tk attention takes bf16, not {problem.dtype}"
        if problem.D not in HEAD_DIMS:
            return f"tk attention takes head dims {' and '.join(map(str, HEAD_DIMS))}, not {problem.D}"
        if problem.direction not in ("fwd", "bwd"):
            return f"tk attention has no kernel of its own for direction {problem.direction}"
        forward_only = [name for name, value in self._options.items() if value is not None]
        if problem.direction == "bwd" and forward_only:
            return f"the option {forward_only[0]} concerns the forward pass, and this is the backward"
        if self._options.get("synchronous") and problem.D != 64:
            return f"the synchronous kernel is built for head dim 64 alone, not {problem.D}"
        return super().supports(problem, device)

    def foreign_kernel_names(self) -> tuple[str, ...]:
        """Other people's kernels, none of which may run in our place."""
        return (*super().foreign_kernel_names(), "flash", "fmha", "cudnn")

    def prepare(self, problem: Any, inputs: dict[str, Tensor]) -> Callable[[], Tensor | tuple[Tensor, ...]]:
        """The call that is timed, with the kernel loaded (and built, if need be).

        Forward: q, k, v -> out. Backward: q, k, v, dout -> (dq, dk, dv).
        """
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        self._target = TARGET_OF_DEVICE[q.device.type]
        toolchain.load(self.name, self._target)
        causal, options = bool(problem.causal), self._options
        if problem.direction == "fwd":
            return lambda: attention(q, k, v, causal=causal, **options)
        dout, deterministic = inputs["dout"], self._deterministic
        with torch.no_grad():
            out, lse = attention(q, k, v, causal=causal, return_lse=True)
        backward = torch.ops.tk_kernels.attention_backward.default
        return lambda: backward(dout, q, k, v, out, lse, causal, None, deterministic)
