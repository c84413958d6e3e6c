"""What is left out on a GPU that is no Hopper, with a GPU of each capability that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from reproduction_support import MEASURED, Processes, run

from paper_figures.command import reproduce, steps
from paper_figures.command.left_out import Refused, asked_here, refusals, sentences
from paper_figures.errors import PaperFiguresError

ASKED = tuple(one.id for one in MEASURED)
OPTIONS_OF_HOPPER = {"table1_stages", "table3_block_order", "table3_attention_order", "app_c1_block_order"}
WITHOUT_A_KERNEL = {"fig10_fp8", "gemm_fp8_in_use", "mla_128_heads", "thundermla", "llama_decode"}
"""FP8, MLA decode and Llama decode. All other experiments are measured on any GPU since Ampere."""


def with_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    """A GPU that is not there, as PyTorch would describe it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _=None: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _=None: "a GPU")


@pytest.mark.parametrize("capability", [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)])
def test_a_gpu_since_ampere_measures_what_its_target_has(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]
) -> None:
    with_gpu(monkeypatch, capability)
    found = {one.experiment: one for one in refusals(ASKED)}
    assert {name for name, one in found.items() if one.whole} == OPTIONS_OF_HOPPER | WITHOUT_A_KERNEL
    assert all("of the kernel for Hopper GPUs" in found[name].reason for name in OPTIONS_OF_HOPPER)
    assert all("is not built for sm_80: " in found[name].reason for name in WITHOUT_A_KERNEL)
    partly = {name: (one.count, one.of) for name, one in found.items() if not one.whole}
    assert partly == {"fig9_fft_conv": (1, 8)}, "the longest transform"


def test_hopper_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, (9, 0))
    assert refusals(ASKED) == ()


def test_a_gpu_that_is_too_old_leaves_all_out_for_one_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch, (7, 5))
    found = refusals(ASKED)
    assert [one.whole for one in found] == [True] * len(ASKED)
    [line] = sentences(found)
    assert line.endswith("a GPU has compute capability 7.5; the kernels are built for GPUs of 8.0 (Ampere) and newer, "
                         "or run on CPU tensors")  # fmt: skip


def test_what_is_left_out_is_a_line_a_reason() -> None:
    refused = (Refused("a", 2, 2, "no"), Refused("b", 1, 3, "no gradient"), Refused("c", 1, 1, "no"))
    assert sentences(refused) == (
        "left out on this GPU: a, c: no",
        "in part on this GPU: b lacks 1 of 3: no gradient",
    )


def test_a_process_that_does_not_answer_is_one_sentence() -> None:
    with pytest.raises(PaperFiguresError, match="cannot ask which kernels run on this GPU: "):
        asked_here(["no_such_experiment"])


@pytest.mark.parametrize("capability", [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)])
def test_another_gpu_is_measured_on_without_what_is_left_out(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: Processes,
    capsys: pytest.CaptureFixture[str],
    capability: tuple[int, int],
) -> None:
    monkeypatch.setattr(steps, "find_gpu", lambda: steps.Gpu("NVIDIA GeForce RTX 4090", capability))
    monkeypatch.setattr(reproduce, "asked_here", lambda names: (Refused("table1_stages", 1, 1, "gemm has no such"),))
    assert run(place, "--campaign", "mine", "--exhibit", "table1", "table2") == 1, "nothing was measured by a fake"
    assert processes.words[0] == "-m tk_kernels.toolchain build --target gpu"
    assert ["experiment=table2_persistent" in words for words in processes.words[1:]] == [True]
    said = capsys.readouterr()
    assert "it runs the kernels for Ampere GPUs, and its own roofs are measured" in said.out
    assert "left out on this GPU: table1_stages: gemm has no such" in said.out
    assert "holds no recorded run" in said.err

    assert run(place, "--campaign", "mine", "--exhibit", "table1") == 1
    assert "no kernel of these exhibits runs on NVIDIA GeForce RTX 4090" in capsys.readouterr().err


def test_a_gpu_that_is_too_old_is_told_in_a_sentence(
    place: Path,
    recorded: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: Processes,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(steps, "find_gpu", lambda: steps.Gpu("Tesla T4", (7, 5)))
    assert run(place, "--exhibit", "table1") == 0
    assert processes.words[0] == "-m tk_kernels.toolchain build gemm --target cpu"
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("Tesla T4 has compute capability 7.5, kernels are for 8.0 and newer: nothing is timed.")
