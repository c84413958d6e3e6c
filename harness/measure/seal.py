"""Notices that a contestant has changed what everybody is judged, timed and run with.

It shares its process with the harness. So what the harness calls is remembered before the first contestant's code runs,
and looked at behind each: its own functions, those of PyTorch and Python that judge and time, hooks that see every
call, and PyTorch's settings.  What somebody registers in C++ is not seen here: for that, results are judged that are
known (`harness.measure.judging`), and the clock times a wait that is known.
"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack

_KINDS = (type, types.FunctionType, property, classmethod, staticmethod, int, float, str, tuple)
"""What a module or a class of the harness is watched for."""

_USED = {
    "torch": "equal isfinite isnan aminmax stack empty full ones Generator",
    "torch.linalg": "vector_norm",
    "torch.Tensor": "clone contiguous copy_ data data_ptr double expand flatten split sub_ sum to view",
    "torch.cuda": "CUDAGraph Event _sleep current_stream graph memory_snapshot synchronize",
    "torch.cuda.Event": "elapsed_time query record synchronize",
    "torch.cuda.CUDAGraph": "replay",
    "time": "monotonic perf_counter sleep",
    "random": "Random SystemRandom",
    "statistics": "median",
    "os": "urandom",
    "numpy": "median quantile",
}
"""What the harness judges and times with, of others."""


class Seal:
    """What there was before contestants' code ran."""

    def __init__(self, *devices: object) -> None:
        """devices: whose modules are watched as the harness's own are."""
        self._rooms = {"harness", *(type(one).__module__ for one in devices)}
        self._known: dict[str, tuple[object, ...]] = {}
        self._settings = _settings()
        self.learn()

    def learn(self) -> None:
        """Remembers what was loaded since, before anybody's code runs."""
        for name, parts in self._parts():
            self._known.setdefault(name, parts)

    def complain(self) -> str:
        """What was replaced, or is set otherwise; empty if nothing is."""
        now = dict(self._parts())
        for name, parts in self._known.items():
            found = now.get(name, ())
            if len(found) != len(parts) or any(left is not right for left, right in zip(found, parts, strict=True)):
                return f"replaced {name}, with which all are judged and timed"
        settings = _settings()
        changed = [name for name, was in self._settings.items() if settings[name] != was]
        return f"left {changed[0]}={settings[changed[0]]}, which the others share" if changed else ""

    def _parts(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Names with what they stand for, a function's code among it."""
        for name, module in list(sys.modules.items()):
            if not {name, name.partition(".")[0]} & self._rooms:
                continue
            for attribute, value in list(vars(module).items()):
                if isinstance(value, _KINDS):
                    yield f"{name}.{attribute}", _anatomy(value)
                if isinstance(value, type) and value.__module__ == name:
                    for part, its in list(vars(value).items()):
                        if isinstance(its, _KINDS) and not part.startswith("__pydantic"):
                            yield f"{name}.{attribute}.{part}", _anatomy(its)
        for owner, names in _USED.items():
            place: Any = sys.modules[owner.partition(".")[0]]
            for step in owner.split(".")[1:]:
                place = getattr(place, step)
            for attribute in names.split():
                yield f"{owner}.{attribute}", _anatomy(getattr(place, attribute, None))
        yield "a hook that sees every call", (sys.getprofile(), sys.gettrace(), *_get_current_function_mode_stack())


def _anatomy(value: object) -> tuple[object, ...]:
    """The object itself and, of a function, what it can be changed by."""
    inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    return value, *(getattr(inner, part, None) for part in ("__code__", "__defaults__", "__kwdefaults__"))


def _settings() -> dict[str, object]:
    """PyTorch's and Python's settings that decide how fast or how exact everybody is."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    return {
        "torch.get_num_threads()": torch.get_num_threads(),
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
        "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
        "torch.backends.cudnn.enabled": cudnn.enabled,
        "torch.backends.cudnn.benchmark": cudnn.benchmark,
        "torch.backends.cudnn.deterministic": cudnn.deterministic,
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": (
            matmul.allow_bf16_reduced_precision_reduction
        ),
        "torch.backends.cuda.flash_sdp_enabled()": torch.backends.cuda.flash_sdp_enabled(),
        "torch.backends.cuda.cudnn_sdp_enabled()": torch.backends.cuda.cudnn_sdp_enabled(),
        "gc.isenabled()": gc.isenabled(),
    }
