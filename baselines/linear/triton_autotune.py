"""Other libraries' `triton.autotune`: shorter lists, and the best of three choices for each shape.

A library's autotuner tries dozens of configurations at its first call. It keeps the choice by a key that leaves out the
length of the sequence and the number of heads. So what is best for the first problem of a process would be timed for
all. And it times each kernel alone with a warm L2, once: so it chooses three times here, and whole calls decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from baselines.common.baseline import Baseline, Call
from baselines.common.tuning import TUNINGS, glance_ms

WARMUP_MS, TIMED_MS = 5, 25
"""Time spent on each configuration.

Triton's own 25 and 100 ms, for each shape and chunk size, take minutes in a sweep.
"""

HOPELESS = 1.25
"""A configuration whose shortest of three calls, with a warm L2, takes so many times the best median so far is not
timed further: it would not be chosen."""

_choices: dict[tuple[str, Hashable], dict[Any, Any]] = {}


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
    """Keep the configurations that `keep` accepts, all if it accepts none."""
    tuner = autotuner_of(kernel)
    kept = [config for config in tuner.configs if keep(config)]
    tuner.configs = kept or tuner.configs


def sizes(chunk: int | str, tried: tuple[int, ...]) -> tuple[int, ...]:
    """The chunk sizes to choose from: that of the option, or those that are tried for "auto"."""
    return tried if chunk == "auto" else (int(chunk),)


@dataclass(frozen=True)
class Trial:
    """A choice beside what the kernels' tuners chose in one tuning."""

    choice: Any
    number: int

    def __str__(self) -> str:
        return ", ".join([*([] if self.choice is None else [f"chunk {self.choice}"]), f"tuning {self.number + 1}"])


def tuned_call(
    baseline: Baseline,
    shape: Hashable,
    kernels: Sequence[Any],
    make: Callable[[Any], Call],
    choices: Sequence[Any] = (None,),
) -> Call:
    """The call made with the fastest of the choices, such as chunk sizes, and of three tunings of the kernels.

    shape: of a problem; contestants that share kernels share what these chose for it first.
    """
    tuners = [autotuner_of(kernel) for kernel in kernels]
    known = [_choices.setdefault((_name(tuner), shape), {}) for tuner in tuners]
    tried = [[dict(choices) for choices in known] for _ in range(TUNINGS)]
    for tuner in tuners:
        _prepare(tuner)

    def bind(trial: Trial) -> Call:
        call = make(trial.choice)

        def run() -> Any:
            _use(tuners, tried[trial.number])
            return call()

        return run

    key = (baseline.name, shape, tuple(choices))
    trials = [Trial(choice, number) for number in range(TUNINGS) for choice in choices]
    best = baseline.tuned(key, trials, bind)
    for own, others in zip(known, tried[best.number], strict=True):
        own.update(others)
    _use(tuners, known)
    call = make(best.choice)
    call()
    baseline.tunings[key]["kernels"] = {_name(tuner): str(tuner.best_config) for tuner in tuners if tuner.best_config}
    return call


def _use(tuners: Iterable[Any], choices: Iterable[dict[Any, Any]]) -> None:
    """Let the tuners use these choices, and choose at their next call where there is none."""
    for tuner, own in zip(tuners, choices, strict=True):
        tuner.cache, tuner.best_config = own, None


def _prepare(tuner: Any) -> None:
    if hasattr(tuner, "cache_results"):
        tuner.cache_results = False  # the file on disk knows the library's own key only
    if hasattr(tuner, "do_bench") and not isinstance(tuner.do_bench, _Bench):
        tuner.do_bench = _Bench.of(tuner)


@dataclass
class _Bench:
    """Times the configurations of one kernel, which come one after the other; `best_ms` is of those of this choice."""

    best_ms: float = math.inf
    knows_choices: bool = False
    """Whether it is told where a choice begins; if not, each configuration is timed in full."""

    @classmethod
    def of(cls, tuner: Any) -> _Bench:
        """That of a tuner, whose choice begins with cutting its list of configurations."""
        bench = cls(knows_choices=callable(getattr(tuner, "prune_configs", None)))
        if bench.knows_choices:
            prune = tuner.prune_configs

            def begin(*arguments: Any, **keywords: Any) -> Any:
                bench.best_ms = math.inf
                return prune(*arguments, **keywords)

            tuner.prune_configs = begin
        return bench

    def __call__(self, call: Callable[[], Any], quantiles: Any = None) -> Any:
        """The call's times in ms at these quantiles, of which the first decides; or one number."""
        if self.knows_choices and self.best_ms < math.inf:
            at_least_ms = glance_ms(call)
            if at_least_ms > HOPELESS * self.best_ms:
                return [at_least_ms] * len(quantiles) if quantiles else at_least_ms
        times = _timed(call, quantiles)
        self.best_ms = min(self.best_ms, times[0] if quantiles else times)
        return times


def _timed(call: Callable[[], Any], quantiles: Any) -> Any:
    from triton.testing import do_bench

    return do_bench(call, warmup=WARMUP_MS, rep=TIMED_MS, quantiles=quantiles)


def _name(tuner: Any) -> str:
    function = tuner
    while hasattr(function, "fn"):
        function = function.fn
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', id(tuner))}"
