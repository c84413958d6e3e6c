"""Lists of configurations of Triton kernels: cut, timed by our clock, and chosen once a shape."""

from __future__ import annotations

import pytest

from baselines.common import tuning
from baselines.common.baseline import Baseline, Library
from baselines.linear import flash_linear_attention, mamba_ssm, triton_autotune


class Config:
    """As Triton's, what is looked at."""

    def __init__(self, num_warps=4, num_stages=3, **kwargs):
        self.num_warps, self.num_stages, self.kwargs = num_warps, num_stages, kwargs


class Tuner:
    """As `triton.autotune` leaves a kernel: a function below it, its choices by key."""

    def __init__(self, configs, function):
        self.configs, self.cache, self.cache_results, self.fn = list(configs), {}, True, function


class Decorated:
    """A decorator above the tuner, as `triton.heuristics`."""

    def __init__(self, fn):
        self.fn = fn


def kernel(*configs):
    def function():
        pass

    return Decorated(Tuner(configs, function))


def test_lists_of_configurations_are_cut_and_never_emptied():
    one = kernel(Config(num_warps=2), Config(num_warps=4, num_stages=4), Config(num_warps=8))
    triton_autotune.shorten(one, flash_linear_attention.is_short)
    assert [config.num_warps for config in triton_autotune.autotuner_of(one).configs] == [2]
    triton_autotune.shorten(one, lambda config: False)
    assert len(triton_autotune.autotuner_of(one).configs) == 1
    with pytest.raises(TypeError, match="has no autotuner"):
        triton_autotune.autotuner_of(Decorated(lambda: None))


class Contestant(Baseline):
    library = Library("somebody", "", (), ())


class Kernel:
    """A kernel whose tuner chooses at its first call for a key, each time something else."""

    def __init__(self):
        self.decorated, self.chosen, self.ran = kernel(Config()), 0, []

    def make(self, key):
        tuner = triton_autotune.autotuner_of(self.decorated)

        def call():
            if key not in tuner.cache:
                self.chosen += 1
                tuner.cache[key] = f"{key}, choice {self.chosen}"
            tuner.best_config = tuner.cache[key]
            self.ran.append(tuner.best_config)

        return call


@pytest.fixture
def second(monkeypatch):
    """Tuning takes the second of the candidates, and no shape is known yet."""
    monkeypatch.setattr(tuning, "_chosen", {})
    monkeypatch.setattr(triton_autotune, "_choices", {})
    monkeypatch.setattr(tuning, "fastest", lambda candidates: [call() for _, call in candidates] and 1)


@pytest.mark.usefixtures("second")
def test_tuners_choose_three_times_a_shape_and_the_best_is_kept():
    one, contestant = Kernel(), Contestant()
    for _ in range(2):
        triton_autotune.tuned_call(contestant, "short", [one.decorated], one.make, (32,))
        assert one.ran[-1] == "32, choice 2"
    (record,) = contestant.tuning()
    assert record["chosen"] == "chunk 32, tuning 2"
    assert list(record["kernels"].values()) == ["32, choice 2"]
    assert not triton_autotune.autotuner_of(one.decorated).cache_results
    triton_autotune.tuned_call(contestant, "long", [one.decorated], one.make, (32,))
    assert (one.chosen, one.ran[-1]) == (6, "32, choice 5")


@pytest.mark.usefixtures("second")
def test_contestants_that_share_a_kernel_leave_each_other_what_was_chosen():
    """Guard: else one's call in the rounds would find another's choices, and tune inside the clock."""
    one, first, later = Kernel(), Contestant(), Contestant()
    later.library = Library("another", "", (), ())
    call = triton_autotune.tuned_call(first, "short", [one.decorated], one.make, (32,))
    triton_autotune.tuned_call(later, "short", [one.decorated], one.make, (64,))
    before = one.chosen
    call()
    assert (one.chosen, one.ran[-1]) == (before, "32, choice 2")


def test_only_tuners_that_have_a_timer_get_ours():
    """Guard: the attribute is another version's; one that nothing reads would look as if the tuning were short."""
    without, with_timer = (triton_autotune.autotuner_of(kernel(Config())) for _ in range(2))
    with_timer.do_bench = None
    for tuner in (without, with_timer):
        triton_autotune._prepare(tuner)
    assert not hasattr(without, "do_bench")
    timer = with_timer.do_bench
    assert isinstance(timer, triton_autotune._Bench)
    triton_autotune._prepare(with_timer)
    assert with_timer.do_bench is timer


@pytest.mark.parametrize("told", [True, False])
def test_what_is_hopeless_is_not_timed_in_full(monkeypatch, told):
    """Guards: the best is chosen whatever the order; each choice begins anew; without its beginning all are timed."""
    one = kernel(*(Config(number=number) for number in range(5)))
    tuner = triton_autotune.autotuner_of(one)
    tuner.do_bench = None
    if told:
        tuner.prune_configs = lambda arguments: tuner.configs
    triton_autotune._prepare(tuner)
    full = []
    monkeypatch.setattr(triton_autotune, "glance_ms", lambda call: 0.95 * call())
    monkeypatch.setattr(
        triton_autotune, "_timed", lambda call, quantiles: full.append(call()) or [call()] * len(quantiles)
    )
    for times in ([4.0, 2.0, 2.9, 2.1, 1.9], [40.0, 50.0, 60.0, 39.0, 70.0]):  # two keys, one after the other
        full.clear()
        if told:
            tuner.prune_configs({})
        found = [tuner.do_bench(lambda time=time: time, quantiles=(0.5, 0.2, 0.8)) for time in times]
        assert all(len(one) == 3 for one in found)
        assert found.index(min(found)) == times.index(min(times))
        assert [one[0] >= 0.95 * time for one, time in zip(found, times, strict=True)] == [True] * 5
        kept = [time for time in times if time not in (2.9, 60.0, 70.0)]
        assert full == (kept if told else times)


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (Config(BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=32), True),
        (Config(BLOCK_SIZE_M=128, BLOCK_SIZE_N=256, BLOCK_SIZE_K=64), False),
        (Config(BLOCK_SIZE_H=8), True),
        (Config(BLOCK_SIZE_H=64), False),
        (Config(BLOCK_SIZE=512), True),
        (Config(BLOCK_SIZE=64), False),
    ],
)
def test_mamba_ssms_lists_are_cut(config, kept):
    assert mamba_ssm._is_short(config) is kept
