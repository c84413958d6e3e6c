"""The roof of mma.sync without a GPU: its PTX on an interpreter, its flops, its launch, and who refuses it."""

from __future__ import annotations

import ctypes
import importlib
import logging
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from harness_support import ROOT

from harness import mma_roof, roofs

PTX = ROOT / "tests" / "ptx"
DRIVER = """
#include "machine.h"
extern "C" void run(int blocks, int threads, const void* parameters) {
    ptx::run_grid(*ptx::find("multiply"), blocks, threads, 0, parameters, false);
}
"""
STEPS = 3


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernel, translated, and what runs it."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PTX))
        (entry,) = importlib.import_module("translate").entries(mma_roof.kernel())
    folder = tmp_path_factory.mktemp("mma_roof")
    (folder / "driver.cc").write_text(DRIVER)
    (folder / "kernel.cc").write_text(entry.code())
    command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-Wl,-Bsymbolic", f"-I{PTX}", str(PTX / "machine.cc")]
    command += [str(folder / "driver.cc"), str(folder / "kernel.cc"), "-o", str(folder / "kernel.so")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "kernel.so"))


class Driver:
    """CUDA's driver, as far as it is called: notes what it is given, and runs it where there is a machine."""

    def __init__(self, machine: ctypes.CDLL | None = None, refuses: str = "", code: int = 218) -> None:
        self._machine, self._refuses, self._code = machine, refuses, code
        self.text, self.name, self.launches = "", b"", list[tuple[Any, ...]]()

    def _answer(self, function: str) -> int:
        return self._code if function == self._refuses else 0

    def cuModuleLoadData(self, _module: Any, text: ctypes.c_char_p) -> int:
        assert text.value is not None
        self.text = text.value.decode()
        return self._answer("cuModuleLoadData")

    def cuModuleGetFunction(self, _function: Any, _module: Any, name: bytes) -> int:
        self.name = name
        return self._answer("cuModuleGetFunction")

    def cuLaunchKernel(self, _function: Any, *given: Any) -> int:
        *shape, stream, parameters, extra = given
        self.launches.append((tuple(shape), stream.value, extra))
        if self._machine:
            self._machine.run(shape[0], shape[3], ctypes.c_void_p(parameters[0]))
        return self._answer("cuLaunchKernel")


@pytest.fixture
def tensors(monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """What the launch makes on the device, made on the CPU; and a loop that ends soon."""
    made: dict[str, torch.Tensor] = {}

    def randn(*shape: int, device: str) -> torch.Tensor:
        made["operands"] = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).bfloat16()
        return made["operands"]

    def empty(count: int, device: str) -> torch.Tensor:
        made["sums"] = torch.full((count,), torch.nan)
        return made["sums"]

    cuda = SimpleNamespace(
        current_stream=lambda: SimpleNamespace(cuda_stream=77),
        current_device=lambda: 0,
        get_device_properties=lambda _: SimpleNamespace(multi_processor_count=132),
    )
    mock = SimpleNamespace(randn=randn, empty=empty, bfloat16=torch.bfloat16, cuda=cuda)
    monkeypatch.setattr(mma_roof, "torch", mock)
    monkeypatch.setattr(mma_roof, "STEPS", STEPS)
    return made


def fragments(warp: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """A warp's two A, 16 x 16, and two B, 16 x 8, as the PTX manual places their words. warp: (32, 24) bfloat16."""
    a, b = [torch.zeros(16, 16) for _ in range(2)], [torch.zeros(16, 8) for _ in range(2)]
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4)
        for i in range(2):
            words = warp[lane, 8 * i : 8 * i + 8].float().view(4, 2)
            for j, (down, right) in enumerate(((0, 0), (8, 0), (0, 8), (8, 8))):
                a[i][row + down, column + right : column + right + 2] = words[j]
            pairs = warp[lane, 16 + 4 * i : 20 + 4 * i].float().view(2, 2)
            for j, down in enumerate((0, 8)):
                b[i][column + down : column + down + 2, row] = pairs[j]
    return a, b


def totals(operands: torch.Tensor) -> torch.Tensor:
    """What each thread stores: its four sums of each product, each made twice, in every step. (THREADS,) float32."""
    found = torch.empty(mma_roof.THREADS)
    for first in range(0, mma_roof.THREADS, 32):
        a, b = fragments(operands[first : first + 32])
        whole = sum((2 * STEPS * (x @ y) for x in a for y in b), start=torch.zeros(16, 8))
        for lane in range(32):
            row, column = lane // 4, 2 * (lane % 4)
            found[first + lane] = whole[[row, row, row + 8, row + 8], [column, column + 1] * 2].sum()
    return found


def test_each_thread_stores_the_sum_of_products_that_were_made(
    machine: ctypes.CDLL, tensors: dict[str, torch.Tensor]
) -> None:
    """Guards: parameters at their offsets, operands, the loop's length, each chain's registers, where sums are stored.
    A product less or a step less is a roof that nothing reaches."""
    mma_roof.multiply_on(Driver(machine), blocks=2)()
    expected = totals(tensors["operands"])
    for block in tensors["sums"].view(2, -1):
        assert torch.allclose(block, expected, rtol=1e-4, atol=1e-2)


def test_flops_are_those_of_the_multiplies_in_the_loop() -> None:
    loop = re.search(r"\$step:(.*?)bra \$step;", mma_roof.kernel(), re.DOTALL)
    assert loop
    shapes = re.findall(r"mma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\S* \{([^}]*)\}, .*\{([^}]*)\};", loop[1])
    assert len(shapes) == mma_roof.CHAINS
    assert mma_roof.kernel().count("mma.sync") == mma_roof.CHAINS, "none outside of the loop"
    a_warp = sum(2 * int(m) * int(n) * int(k) for m, n, k, *_ in shapes)
    assert mma_roof.flops(7) == 7 * (mma_roof.THREADS // 32) * mma_roof.STEPS * a_warp
    assert all(to == added for *_, to, added in shapes), "it adds to the sums that it has"
    assert len({to for *_, to, _ in shapes}) == mma_roof.CHAINS, "no product waits for another one"


def test_the_kernel_is_ptx_that_the_first_ampere_driver_reads() -> None:
    text = mma_roof.kernel()
    assert text.startswith(".version 7.0\n.target sm_80\n.address_size 64\n")
    assert text.isascii()
    body = text[text.index("{\n") + 2 : text.rindex("}")]
    assert all(line.rstrip().endswith((";", ":")) for line in body.splitlines() if line.strip())
    declared = set()
    for names in re.findall(r"\.reg \.\w+ ([^;]+);", body):
        for name in names.split(", "):
            many = re.fullmatch(r"(%\w+)<(\d+)>", name)
            declared |= {f"{many[1]}{i}" for i in range(int(many[2]))} if many else {name}
    used = set(re.findall(r"%\w+", re.sub(r"\.reg [^;]+;", "", body))) - {"%tid", "%ctaid"}
    assert used == declared


def test_parameters_lie_where_the_kernel_reads_them() -> None:
    given = mma_roof.Given(2**40 + 1, 2**41 + 2, 3)
    assert bytes(given) == struct.pack("<QQI4x", 2**40 + 1, 2**41 + 2, 3)
    read = dict(re.findall(r"ld\.param\.u(?:64|32) (%\w+), \[multiply_given\+(\d+)\]", mma_roof.kernel()))
    assert read == {"%operands": "0", "%out": "8", "%left": "16"}
    assert "multiply_given[24]" in mma_roof.kernel()


def test_a_launch_has_a_block_of_512_threads_on_the_current_stream(tensors: dict[str, torch.Tensor]) -> None:
    driver = Driver()
    mma_roof.multiply_on(driver, blocks=5)()
    assert driver.text == mma_roof.kernel()
    assert driver.name == b"multiply"
    assert driver.launches == [((5, 1, 1, mma_roof.THREADS, 1, 1, 0), 77, None)]
    assert tensors["operands"].shape == (mma_roof.THREADS, 2 * mma_roof.WORDS)
    assert tensors["sums"].shape == (5 * mma_roof.THREADS,)


def test_the_rate_is_that_of_a_block_on_every_multiprocessor(
    tensors: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver()
    monkeypatch.setattr(mma_roof.ctypes, "CDLL", lambda name: driver if name == "libcuda.so.1" else None)

    def median_us(call: Callable[[], None]) -> float:
        call()
        return 250.0

    assert mma_roof.measure(median_us) == pytest.approx(132 * 16 * STEPS * 8 * 4096 / 250e-6 / 1e12)
    assert driver.launches[0][0][0] == 132


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("cuModuleLoadData", "compiling the kernel"),
        ("cuModuleGetFunction", "finding the kernel"),
        ("cuLaunchKernel", "launching the kernel"),
    ],
)
def test_what_the_driver_refuses_is_a_warning_and_no_roof(
    function: str,
    words: str,
    tensors: dict[str, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(mma_roof.ctypes, "CDLL", lambda _: Driver(refuses=function))
    with caplog.at_level(logging.WARNING):
        assert roofs._mma_tflops(Once()) == {}
    said = f"matmul_mma_tflops is not measured: {words} of the mma.sync roof: CUDA's driver returned 218"
    assert caplog.messages == [said]


@pytest.mark.parametrize("error", [OSError("libcuda.so.1: no such file"), AttributeError("cuLaunchKernel")])
def test_no_driver_is_a_warning_and_no_roof(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mma_roof, "measure", raising(error))
    assert roofs._mma_tflops(Once()) == {}
    assert caplog.messages == [f"matmul_mma_tflops is not measured: {error}"]


@pytest.mark.parametrize("error", [RuntimeError("CUDA error: an illegal memory access"), ValueError("a mistake")])
def test_an_error_of_cuda_or_of_ours_is_raised(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: what comes behind a broken context would be measured wrongly, or not at all."""
    monkeypatch.setattr(mma_roof, "measure", raising(error))
    with pytest.raises(type(error), match=str(error)):
        roofs._mma_tflops(Once())


@pytest.mark.parametrize(
    ("capability", "more"),
    [
        ((7, 5), set()),
        ((8, 0), {"matmul_mma_tflops"}),
        ((8, 9), {"matmul_mma_tflops", "matmul_e4m3_tflops"}),
        ((9, 0), {"matmul_mma_tflops", "matmul_e4m3_tflops"}),
    ],
)
def test_a_gpu_has_the_roofs_of_its_instructions(
    capability: tuple[int, int], more: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `LEAST_CAPABILITY`. Below 8.0 nothing is compiled, and nothing is said."""
    for name in ("_copy_gbps", "_read_gbps"):
        monkeypatch.setattr(roofs, name, lambda _: 4000.0)
    monkeypatch.setattr(roofs, "_best_tflops", lambda *_: 700.0)
    monkeypatch.setattr(mma_roof, "measure", lambda median_us: 600.0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: torch.tensor([0.0]))
    found = roofs.measure_roofs(Once())
    assert set(found) == {"copy_gbps", "read_gbps", "matmul_bf16_tflops", "launch_us"} | more
    assert found.get("matmul_mma_tflops", 600.0) == 600.0


class Once:
    """A stopwatch that runs a call, and says 5 us."""

    def wrap(self, call: Callable[[], Any]) -> Callable[[], Any]:
        return call

    def sample(self, call: Callable[[], Any], while_running: Callable[[], None], visit: Any = None) -> Any:
        call()
        while_running()
        return SimpleNamespace(latency_us=5.0)


def raising(error: Exception) -> Callable[..., float]:
    def measure(median_us: Any) -> float:
        raise error

    return measure
