"""What the implementations of all kernels share."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from .. import __version__, toolchain
from ..ops.library import unsupported_gpu

TARGET_OF_DEVICE = {device: target.name for device, target in toolchain.DEFAULT_OF_DEVICE.items()}


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
        sources = toolchain.source_hash(kernel, toolchain.find_target(TARGET_OF_DEVICE["cuda"]))[:8]
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
