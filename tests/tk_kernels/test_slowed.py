"""The build that is slower on purpose: told apart everywhere, and by its machine code."""

from __future__ import annotations

import statistics

import pytest
import torch

from tk_kernels import toolchain
from tk_kernels.implementations import Gemm
from tk_kernels.toolchain import loading, targets


def test_slowed_build_is_another_build_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: the share is part of flags, key and version; a slowed run can never pass for a normal one."""
    kernel = toolchain.find_unit("gemm")
    hashes, versions = [], []
    for text in ("", "3", "4"):
        monkeypatch.setenv(targets.SLOWED, text)
        hashes.append(toolchain.source_hash(kernel, toolchain.find_target("sm_90a")))
        versions.append(Gemm().version())
    assert len(set(hashes)) == 3
    assert [version.partition(", slowed ")[2] for version in versions] == ["", "by 3 % on purpose", "by 4 % on purpose"]


def test_cpu_target_knows_no_slowed_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(targets.SLOWED, "3")
    assert toolchain.find_target("cpu") == toolchain.CPU
    assert toolchain.find_target("sm_90a").flags[-1] == "-DKITTENS_SLOWED_PERCENT=3"


@pytest.mark.parametrize("text", ["three", "0", "-3", "101", "nan"])
def test_unusable_share_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(targets.SLOWED, text)
    with pytest.raises(toolchain.ToolchainError, match=rf"TK_SLOWED_PERCENT is '{text}', needs a number above 0"):
        toolchain.find_target("sm_90a")


@pytest.mark.long
def test_slowed_build_has_other_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_loaded", {})  # what this process has loaded is what its manifest is of
    codes = []
    for text in ("", "3"):
        monkeypatch.setenv(targets.SLOWED, text)
        codes.append(toolchain.manifest("gemm", "sm_90a")["binary_hash"])
    assert codes[0] != codes[1]


@pytest.mark.gpu
def test_slowed_build_takes_that_much_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 % at 4096, where the board is not at its power cap; needs a compiler, or both builds prebuilt."""
    import tk_kernels as tk
    from tk_kernels.ops import library

    a, b = (torch.randn(4096, 4096, device="cuda").bfloat16() for _ in range(2))
    medians = []
    for text in ("", "10"):
        monkeypatch.setenv(targets.SLOWED, text)
        reason = toolchain.obstacle("gemm", "sm_90a")
        if reason:
            pytest.skip(reason)
        monkeypatch.setattr(loading, "_loaded", {})
        monkeypatch.setattr(library, "_functions", {})
        tk.gemm(a, b)
        samples = []
        for _ in range(60):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(200_000)
            start.record()
            tk.gemm(a, b)
            stop.record()
            stop.synchronize()
            samples.append(start.elapsed_time(stop))
        medians.append(statistics.median(samples[10:]))
    assert 1.06 < medians[1] / medians[0] < 1.14
