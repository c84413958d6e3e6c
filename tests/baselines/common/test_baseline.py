"""What baselines declare: options, limits, and the library that is looked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from baselines.common import gpu
from baselines.common.baseline import Baseline, Library, Limit, among, multiples, options
from tests.baselines.problems import small

LIBRARY = Library("it", "pip install it", modules=("it",), packages=("it",), gpus=gpu.FROM_AMPERE)


class It(Baseline):
    library = LIBRARY
    choices = options(tuned=(1, 0), layout=("n", "k"))
    devices = ("cuda", "cpu")
    memory = (0.5, "{held:.0f} of {share:.0f} GB")

    def limits(self, problem: Any) -> Iterator[Limit]:
        yield from among(problem, "it takes {}", N=(64, 80))
        yield from multiples(problem, "it needs a multiple of {}", M=8, K=16)

    def held_bytes(self, problem: Any) -> int:
        return problem.M * 10**8


def test_given_options_lie_over_the_defaults() -> None:
    assert It().options == {"tuned": 1, "layout": "n"}
    assert It(tuned=0).options == {"tuned": 0, "layout": "n"}


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"stages": 2}, TypeError, "it: got the option stages=2, it takes layout, tuned"),
        ({"layout": "m"}, ValueError, "it: got layout=m, it takes n, k"),
    ],
)
def test_an_option_that_there_is_not_is_named_with_those_that_there_are(given, error, words) -> None:
    with pytest.raises(error, match=words):
        It(**given)


def test_a_baseline_without_options_says_none() -> None:
    class Plain(Baseline):
        library = LIBRARY

    with pytest.raises(TypeError, match="it takes none"):
        Plain(a=1)


@pytest.mark.parametrize(
    ("keys", "device", "words"),
    [
        ({}, "tpu", "it runs on cuda and cpu, not on tpu"),
        ({"dtype": "e4m3"}, "cpu", "it: got dtype e4m3, it takes bf16"),
        ({"direction": "bwd"}, "cpu", "it: got direction bwd, it is compared in fwd alone"),
        ({"N": 96}, "cuda", "it: got N=96, it takes 64 and 80"),
        ({"K": 24}, "cuda", "it: got K=24, it needs a multiple of 16"),
        ({"M": 800}, "cuda", "it: 80 of 70 GB"),
        ({"M": 800}, "cpu", None),
        ({}, "cuda", None),
    ],
)
def test_a_refusal_says_what_it_got_and_what_is_taken(hopper: None, keys, device: str, words: str | None) -> None:
    assert It().supports(small("gemm", **keys), device) == words


@pytest.mark.parametrize(
    ("gpus", "capability", "words"),
    [
        (gpu.ANY, None, "there is no CUDA device here"),
        (gpu.FROM_AMPERE, (7, 5), "this GPU is sm_75, needs sm_80 or newer"),
        (gpu.HOPPER, (10, 0), "this GPU is sm_100, needs sm_90"),
        (gpu.FROM_AMPERE, (10, 0), None),
    ],
)
def test_other_gpus_are_refused(monkeypatch: pytest.MonkeyPatch, gpus: range, capability: Any, words: Any) -> None:
    monkeypatch.setattr(gpu, "cuda_capability", lambda: capability)
    assert gpu.refuse(gpus) == words
