"""`torch.compile` as the baselines use it: for exactly one shape, without CUDA graphs, each function by itself."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

import torch

INDUCTOR = "triton_(poi|per|red|tem)"
"""Kernels of Inductor, its code generator: pointwise, persistent and looped reductions, templates."""

MAX_AUTOTUNE = "max-autotune-no-cudagraphs"
"""The mode that tunes matrix products; CUDA graphs are left to the harness, which times them beside, not inside."""


def compile_alone(function: Callable[..., Any], name: str, **settings: Any) -> Callable[..., Any]:
    """The function compiled with a code object of its own, called `name`; it may be a closure.

    Dynamo keeps compiled versions by code object and gives up after eight, so that shapes which shared one function
    would end in plain eager calls. `settings` are those of `torch.compile`: mode, or options.
    """
    assert isinstance(function, types.FunctionType)
    code = function.__code__.replace(co_name=name)
    own = types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    own.__kwdefaults__ = function.__kwdefaults__
    compiled: Callable[..., Any] = torch.compile(own, fullgraph=True, dynamic=False, **settings)
    return compiled


def leave_room(needed_bytes: int) -> None:
    """Has Inductor try configurations on copies in the GPU's memory; call it before a function runs first.

    A kernel that overwrites what it reads is tried on a copy. Inductor makes it on the host, and copies it back in
    every trial, unless the GPU's memory stays below its peak so far (`copy_args_to_cpu_if_needed`). Then the time
    that decides is that of the copies. Compiling a softmax over 19 GB took 22 s on an H200 and 36 s on an H100, over
    5 GB 6 and 9 s, over 1 GB 1 s. Here the peak is raised by memory that is given back.
    """
    if not torch.cuda.is_available():
        return
    with contextlib.suppress(torch.OutOfMemoryError):
        torch.empty(needed_bytes, dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()
