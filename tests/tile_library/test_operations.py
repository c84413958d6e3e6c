"""Every operation of the tile library x element type x shape x layout x scope, against its NumPy statement.

The same cases run on the cpu target and, marked `gpu`, on the GPU: one generated binary a group and target.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tile_cases import BINARIES, Instance, write_source
from tile_compile import CompileError, compile_library, load
from tile_expected import Array, Case
from tile_reference import FAMILIES

HERE = Path(__file__).resolve().parent
TORCH_TYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "e4m3": torch.float8_e4m3fn,
}
TARGETS = {"cpu": "cpu", "cuda": "sm_90a"}
INSTANCES = [(binary, instance) for binary, instances in BINARIES.items() for instance in instances]


class Arguments(ctypes.Structure):
    """operations.cuh's `arguments`."""

    _fields_ = [
        ("inputs", ctypes.c_void_p * 3),
        ("out", ctypes.c_void_p),
        ("rows", ctypes.c_int * 4),
        ("cols", ctypes.c_int * 4),
        ("pitch", ctypes.c_int),
        ("op", ctypes.c_int),
        ("numbers", ctypes.c_int * 4),
        ("value", ctypes.c_float),
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], ctypes.CDLL]:
    """library(binary, device): compiled at its first use."""
    loaded: dict[tuple[str, str], ctypes.CDLL | CompileError] = {}

    def compiled(binary: str, device: str) -> ctypes.CDLL | CompileError:
        source = write_source(binary, tmp_path_factory.mktemp(binary))
        (source.parent / "operations.cuh").write_bytes((HERE / "operations.cuh").read_bytes())
        try:
            # Unoptimised for the CPU: most of the time goes into compiling. It changes nothing for a GPU.
            return load(compile_library(source, TARGETS[device], optimise="-O0"))
        except CompileError as error:
            return error

    def find(binary: str, device: str) -> ctypes.CDLL:
        if (binary, device) not in loaded:
            loaded[binary, device] = compiled(binary, device)
        found = loaded[binary, device]
        if isinstance(found, CompileError):
            raise found
        return found

    return find


def tensor(values: Array, dtype: str, pitch: int, device: str) -> torch.Tensor:
    """A matrix whose rows are `pitch` elements aligned; the padding is NaN."""
    rows, cols = values.shape
    whole = torch.full((rows, -(-cols // pitch) * pitch), float("nan"), dtype=TORCH_TYPES[dtype])
    whole[:, :cols] = torch.from_numpy(np.ascontiguousarray(values)).to(TORCH_TYPES[dtype])
    return whole.to(device)


def run(library: ctypes.CDLL, instance: Instance, case: Case, device: str) -> Array:
    """The case's output matrix, without padding, after checks that nothing else was written."""
    before = np.full(case.expected.shape, np.nan) if case.before is None else case.before
    tensors = [tensor(x, t, case.pitch, device) for x, t in zip(case.inputs, case.dtypes[:3], strict=False)]
    out = tensor(before, case.dtypes[3], case.pitch, device)
    arguments = Arguments(op=case.op, value=case.value, pitch=case.pitch, out=out.data_ptr())
    arguments.numbers[:] = case.numbers
    for i in range(3):
        source = min(i, len(tensors) - 1)  # a family that needs fewer inputs reads the last one again
        arguments.inputs[i] = tensors[source].data_ptr()
        arguments.rows[i], arguments.cols[i] = case.inputs[source].shape
    arguments.rows[3], arguments.cols[3] = case.expected.shape
    if case.extents:
        arguments.rows[0], arguments.cols[0] = case.extents["matrix"]
        arguments.rows[1], arguments.cols[1] = case.extents["outer"]
    message = ctypes.create_string_buffer(1 << 14)
    code = library.run_case(instance.name.encode(), ctypes.byref(arguments), message, len(message))
    assert code == 0, f"{case.name}: {message.value.decode()}"
    if device == "cuda":
        torch.cuda.synchronize()
    result = out.cpu()
    cols = case.expected.shape[1]
    assert torch.isnan(result[:, cols:]).all(), f"{case.name}: wrote past the end of a row"
    return result[:, :cols].to(torch.float64).numpy()


@pytest.mark.parametrize(("binary", "instance"), INSTANCES, ids=[i.name for _, i in INSTANCES])
def test_operation(library: Callable[[str, str], ctypes.CDLL], device: str, binary: str, instance: Instance) -> None:
    rng = np.random.default_rng(zlib.crc32(instance.name.encode()))
    loaded = library(binary, device)
    for case in FAMILIES[instance.family](instance, rng):
        found = run(loaded, instance, case, device)
        with np.errstate(invalid="ignore"):
            wrong = ~((found == case.expected) | (np.abs(found - case.expected) <= case.tolerance))
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            pytest.fail(
                f"{instance.name}, {case.name}: {wrong.sum()} of {wrong.size} elements wrong, first at {at}: "
                f"{found[at]} instead of {case.expected[at]} within {case.tolerance[at]}"
            )


def test_thousands_of_cases() -> None:
    rng = np.random.default_rng(0)
    assert sum(1 for _, i in INSTANCES for _ in FAMILIES[i.family](i, rng)) > 4000


@pytest.mark.long
@pytest.mark.parametrize("binary", BINARIES)
def test_compiles_for_the_gpu(tmp_path: Path, binary: str) -> None:
    source = write_source(binary, tmp_path)
    (tmp_path / "operations.cuh").write_bytes((HERE / "operations.cuh").read_bytes())
    assert compile_library(source, "sm_90a").stat().st_size > 0
