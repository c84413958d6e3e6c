"""Other libraries' ``triton.autotune``: shorter lists, and a choice for each shape.

A library's autotuner tries dozens of configurations at its first call. It keeps the choice by a key that leaves out the
length of the sequence and the number of heads. So what is best for the first problem of a process would be timed for
all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from baselines.common.tuning import fastest

WARMUP_MS, TIMED_MS = 5, 25
"""Time spent on each configuration.

Triton's own 25 and 100 ms, for each shape and chunk size, take minutes in a sweep.
"""

_choices: dict[tuple[str, Hashable], dict[Any, Any]] = {}
_chunks: dict[tuple[Hashable, tuple[int, ...]], int] = {}


def autotuner_of(kernel: Any) -> Any:
    """The autotuner of a decorated kernel, below whatever decorators are above it.

    Raises:
        TypeError: There is none.
    """
    inner = kernel
    while inner is not None:
        if hasattr(inner, "configs") and hasattr(inner, "cache"):
            return inner
        inner = getattr(inner, "fn", None)
    raise TypeError(f"{getattr(kernel, '__name__', kernel)} has no autotuner: another version of its library?")


def shorten(kernel: Any, keep: Callable[[Any], bool]) -> None:
    """Keep the configurations that ``keep`` accepts, all if it accepts none."""
    tuner = autotuner_of(kernel)
    kept = [config for config in tuner.configs if keep(config)]
    tuner.configs = kept or tuner.configs


def tune_for(shape: Hashable, kernels: Iterable[Any]) -> None:
    """Let the kernels use what they chose for this shape, and choose at their next call if they have not."""
    for kernel in kernels:
        tuner = autotuner_of(kernel)
        tuner.cache = _choices.setdefault((_name(tuner), shape), {})
        if hasattr(tuner, "cache_results"):
            tuner.cache_results = False  # the file on disk knows the library's own key only
        if hasattr(tuner, "do_bench"):
            tuner.do_bench = _bench


def with_chunk(
    shape: Hashable,
    chunk: int | str,
    chunks: tuple[int, ...],
    kernels: Iterable[Any],
    make: Callable[[int], Callable[[], Any]],
) -> Callable[[], Any]:
    """The call with this chunk size, or with the fastest of ``chunks`` for "auto"; its kernels have been tuned."""
    tune_for(shape, kernels)
    if chunk == "auto":
        key = (shape, chunks)
        if key not in _chunks:
            _chunks[key] = chunks[fastest([(f"chunk={one}", make(one)) for one in chunks])]
        chunk = _chunks[key]
    call = make(int(chunk))
    call()
    return call


def _bench(call: Callable[[], Any], quantiles: Any = None) -> Any:
    from triton.testing import do_bench

    return do_bench(call, warmup=WARMUP_MS, rep=TIMED_MS, quantiles=quantiles)


def _name(tuner: Any) -> str:
    function = tuner
    while hasattr(function, "fn"):
        function = function.fn
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', id(tuner))}"
