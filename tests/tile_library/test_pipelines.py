"""Programs built from the library beside the GEMM: the lcsf pipeline, attention, the tile orders, launching."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import pytest
import torch
from tile_compile import Run, caller, compile_library, load

SOURCE = Path(__file__).with_name("pipelines.cu")


@pytest.fixture(scope="module")
def host() -> ctypes.CDLL:
    return load(compile_library(SOURCE))


@pytest.fixture
def run(device: str) -> Run:
    """The functions of the program on this device."""
    return caller(SOURCE, device)


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


def carried_sum_is_right(run: Run, device: str, rows: int, cols: int, blocks: int) -> None:
    torch.manual_seed(rows + cols)
    x = torch.randint(-4, 5, (rows, cols)).to(torch.bfloat16)
    begin = torch.randint(-4, 5, (64, cols)).to(torch.bfloat16)
    out = torch.full_like(x, float("nan")).to(device)
    run("run_carried_sum", x.to(device), begin.to(device), out, rows, cols, blocks)
    padded = torch.zeros(-(-rows // 64) * 64, cols)
    padded[:rows] = x.float()
    expected = (padded.view(-1, 64, cols).cumsum(0) + begin.float()).view(-1, cols)[:rows]
    assert torch.equal(out.cpu().float(), expected)  # small integers: exact in bf16


@pytest.mark.parametrize(("rows", "cols", "blocks"), [(64, 64, 1), (1024, 512, 3), (900, 200, 2), (1, 8, 1)])
def test_load_compute_finish_with_a_carried_state(run: Run, device: str, rows: int, cols: int, blocks: int) -> None:
    carried_sum_is_right(run, device, rows, cols, blocks)


def test_a_carried_state_has_no_report(run: Run, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(60):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        carried_sum_is_right(run, device, 500, 200, 2)


@pytest.mark.parametrize(("sequences", "count"), [(1, 1), (3, 8), (2, 19)])
def test_states_of_segments_are_summed(run: Run, device: str, sequences: int, count: int) -> None:
    torch.manual_seed(count)
    k = torch.randint(-9, 10, (sequences, count, 64)).float().to(device)
    kv = torch.randint(-9, 10, (sequences, count, 64, 128)).float().to(device)
    expected = k.cumsum(1), kv.cumsum(1)
    run("run_sum_states", k, kv, sequences, count)
    assert torch.equal(k, expected[0])
    assert torch.equal(kv, expected[1])


@pytest.mark.parametrize(("batch", "heads", "borders"), [(1, 1, 1), (2, 3, 8), (1, 2, 11)])
@pytest.mark.parametrize("initial", ["none", "values first", "keys first"])
def test_states_of_segments_are_carried(
    run: Run, device: str, batch: int, heads: int, borders: int, initial: str
) -> None:
    torch.manual_seed(borders)
    start = torch.randn(batch, heads, 128, 64)
    states = torch.randn(batch, heads, 2, borders, 64, 64)
    totals = torch.rand(batch, heads, 2, borders, 1).expand(batch, heads, 2, borders, 64).contiguous()
    now = start.double().view(batch, heads, 2, 64, 64) * (initial != "none")
    expected = torch.empty(states.shape, dtype=torch.double)
    for border in range(borders):
        now = now * totals[:, :, :, border, :, None] + states[:, :, :, border]
        expected[:, :, :, border] = now
    given = (start if initial == "values first" else start.mT).contiguous().to(device)
    found, left = states.to(device), totals.to(device)
    run(
        "run_carry_states", torch.empty(0) if initial == "none" else given, int(initial == "values first"), found, left,
        batch, heads, borders,
    )  # fmt: skip
    assert (found.cpu().double() - expected).abs().max() < 1e-5


def test_segments_have_one_length_and_none_is_empty(host: ctypes.CDLL) -> None:
    for steps in (1, 2, 7, 16, 63, 100):
        for wanted in range(1, 70):
            count, rest = divmod(host.segments_of(steps, wanted, 1, 1), 1000000)
            length = rest // 1000
            assert length == -(-steps // wanted)
            assert 1 <= count <= wanted
            assert (count - 1) * length < steps <= count * length


@pytest.mark.parametrize(("most", "cheapest", "chosen"), [(8, 5, 5), (8, 1, 1), (8, 20, 8), (0, 3, 1)])
def test_the_cheapest_segments_are_chosen(host: ctypes.CDLL, most: int, cheapest: int, chosen: int) -> None:
    assert host.segments_of(100, 1, most, cheapest) % 1000 == chosen


def test_counts_beyond_32_bits_are_refused(host: ctypes.CDLL) -> None:
    message = ctypes.create_string_buffer(1 << 10)
    most = 2**31 - 1
    for count, room, refused in ((most, 1, 0), (most + 1, 1, 1), (most // 4, 4, 0), (most // 4 + 1, 4, 1)):
        assert host.counts_fit(ctypes.c_longlong(count), room, message, len(message)) == refused
    assert message.value.decode() == "some_kernel: the problem is too large for 32-bit indices; split the batch"


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


def test_bands_of_longest_first_divide_the_rows_and_stay_in_l2(host: ctypes.CDLL) -> None:
    # Of the L2 of an H200 a band takes 50 MiB.
    def band(rows: int, row_mebibytes: int) -> int:
        return int(host.dividing_band_of(rows, ctypes.c_longlong(row_mebibytes << 20)))

    assert band(256, 1) == 16
    assert band(256, 6) == 8  # 50 MiB hold 8
    assert band(96, 4) == 12
    assert band(17, 1) == 1  # a prime
    assert band(256, 100) == 1
    assert band(8, 1) == 8  # there are no more


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
    assert "(1, 1, 128, 67): got a row stride of 134 bytes, needs a positive multiple of 16" in message.value.decode()
