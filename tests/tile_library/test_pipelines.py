"""Programs built from the library beside the GEMM: the lcsf pipeline, attention, the tile orders, launching."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tile_compile import compile_library, load

SOURCE = Path(__file__).with_name("pipelines.cu")
TARGETS = {"cpu": "cpu", "cuda": "sm_90a"}
Run = Callable[..., None]


@pytest.fixture(scope="module")
def host() -> ctypes.CDLL:
    return load(compile_library(SOURCE))


@pytest.fixture
def run(device: str) -> Run:
    """run(function, arguments...): calls it and raises RuntimeError with its message."""
    library = load(compile_library(SOURCE, TARGETS[device]))

    def call(name: str, *arguments: torch.Tensor | int) -> None:
        message = ctypes.create_string_buffer(1 << 14)
        given = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in arguments]
        if library[name](*given, message, len(message)) != 0:
            raise RuntimeError(message.value.decode())
        if device == "cuda":
            torch.cuda.synchronize()

    return call


def running_sum_is_right(run: Run, device: str, rows: int, cols: int, blocks: int) -> None:
    torch.manual_seed(rows + cols)
    x = torch.randint(-4, 5, (rows, cols)).to(torch.bfloat16)
    out = torch.full_like(x, float("nan")).to(device)
    run("run_running_sum", x.to(device), out, rows, cols, blocks)
    padded = torch.zeros(-(-rows // 128) * 128, cols)
    padded[:rows] = x.float()
    expected = padded.view(-1, 128, cols).cumsum(0).view(-1, cols)[:rows]
    assert torch.equal(out.cpu().float(), expected)  # small integers: exact in bf16


@pytest.mark.parametrize(("rows", "cols", "blocks"), [(128, 64, 1), (1024, 512, 3), (900, 200, 2), (1, 8, 1)])
def test_load_compute_store_finish(run: Run, device: str, rows: int, cols: int, blocks: int) -> None:
    running_sum_is_right(run, device, rows, cols, blocks)


def test_load_compute_store_finish_has_no_report(run: Run, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(100):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        running_sum_is_right(run, device, 700, 136, 2)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("batch", "depth", "queries", "keys"), [(1, 1, 64, 64), (2, 3, 192, 192), (1, 2, 200, 200)])
def test_attention(run: Run, device: str, batch: int, depth: int, queries: int, keys: int, causal: int) -> None:
    torch.manual_seed(queries)
    q, k, v = (torch.randn(batch, depth, n, 64).to(torch.bfloat16) for n in (queries, keys, keys))
    out = torch.full_like(q, float("nan")).to(device)
    run("run_attention", q.to(device), k.to(device), v.to(device), out, batch, depth, queries, keys, causal)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=bool(causal)
    )
    error = (out.cpu().double() - expected).norm() / expected.norm()
    assert error < 6e-3  # two roundings to bf16: of the weights and of the result


def test_attention_reports_nothing_in_any_seed(run: Run, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (torch.randn(1, 1, 256, 64).to(torch.bfloat16).to(device) for _ in range(3))
    first = torch.empty_like(q)
    run("run_attention", q, k, v, first, 1, 1, 256, 256, 0)
    for seed in range(30):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        out = torch.full_like(q, float("nan"))
        run("run_attention", q, k, v, out, 1, 1, 256, 256, 0)
        assert torch.equal(out, first)


def test_the_number_of_threads_changes_nothing(host: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(700, 328).to(torch.bfloat16)
    message = ctypes.create_string_buffer(1 << 10)
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("KITTENS_SEED", "3")
        monkeypatch.setenv("KITTENS_THREADS", threads)
        out = torch.empty_like(x)
        addresses = [ctypes.c_void_p(t.data_ptr()) for t in (x, out)]
        assert host.run_running_sum(*addresses, 700, 328, 4, message, len(message)) == 0
        results.append(out)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("band", [0, 1, 2, 3, 8, 100])
def test_tile_orders_visit_every_tile_once(host: ctypes.CDLL, band: int) -> None:
    for rows in (1, 2, 3, 7, 8, 13, 32):
        for cols in (1, 2, 5, 8, 31, 64):
            visited = {host.tile_of(i, rows, cols, band) for i in range(rows * cols)}
            assert visited == set(range(rows * cols)), f"{rows} x {cols}"


def test_bands_are_compact(host: ctypes.CDLL) -> None:
    # A wave of 32 tiles in bands of 4 touches 4 tile rows and 8 tile columns; row by row it would be 1 and 32.
    wave = [divmod(host.tile_of(i, 16, 64, 4), 64) for i in range(32)]
    assert {row for row, _ in wave} == set(range(4))
    assert {col for _, col in wave} == set(range(8))


def test_hilbert_goes_to_neighbours_in_a_square(host: ctypes.CDLL) -> None:
    tiles = [divmod(host.tile_of(i, 16, 16, 0), 16) for i in range(256)]
    steps = [abs(a - c) + abs(b - d) for (a, b), (c, d) in itertools.pairwise(tiles)]
    assert set(steps) == {1}


@pytest.mark.parametrize("blocks", [0, -1])
def test_launch_refuses_an_empty_grid(host: ctypes.CDLL, blocks: int) -> None:
    x = torch.zeros(128, 64, dtype=torch.bfloat16)
    message = ctypes.create_string_buffer(1 << 10)
    address = ctypes.c_void_p(x.data_ptr())
    assert host.run_running_sum(address, address, 128, 64, blocks, message, len(message)) == 1
    assert f"got {blocks} blocks" in message.value.decode()


def test_a_tensor_that_the_copy_engine_cannot_take_is_refused(host: ctypes.CDLL) -> None:
    x = torch.zeros(128, 68, dtype=torch.bfloat16)
    message = ctypes.create_string_buffer(1 << 10)
    address = ctypes.c_void_p(x.data_ptr())
    assert host.run_running_sum(address, address, 128, 67, 1, message, len(message)) == 1
    assert "16-byte aligned" in message.value.decode()
