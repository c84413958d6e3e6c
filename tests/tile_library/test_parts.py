"""What kernels are put together from, beside the operations on tiles (parts.cu)."""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from pathlib import Path

import pytest
import torch
from tile_compile import Run, caller, compile_library, load

SOURCE = Path(__file__).with_name("parts.cu")


@pytest.fixture(scope="module")
def host() -> ctypes.CDLL:
    return load(compile_library(SOURCE))


@pytest.fixture
def run(device: str) -> Run:
    """The functions of the program on this device."""
    return caller(SOURCE, device)


def empty(*shape: int, device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, float("nan"), dtype=dtype, device=device)


def seen(row: int, key: int, keys: int, offset: int, causal: bool) -> bool:
    return key < keys and (not causal or key <= row + offset)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("keys", "offset"), [(64, 0), (200, 0), (200, 40), (150, -30)])
@pytest.mark.parametrize("transposed", [False, True])
def test_keys_that_a_query_does_not_see_are_hidden(
    run: Run, device: str, keys: int, offset: int, causal: bool, transposed: bool
) -> None:
    for row, key in itertools.product((0, 16, 80, 160), (0, 64, 128, 192)):
        out = empty(64, 16, device=device) if transposed else empty(16, 64, device=device)
        run("run_hiding", out, keys, offset, int(causal), row, key, key // 128 * 128, int(transposed))
        expected = [
            [1.0 if seen(row + r, key + c, keys, offset, causal) else -1.0 for c in range(64)] for r in range(16)
        ]
        found = out.cpu().T if transposed else out.cpu()
        assert torch.equal(found, torch.tensor(expected)), (row, key)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("keys", "offset"), [(1, 0), (200, 0), (200, 57), (150, -30)])
def test_keys_before_a_row(host: ctypes.CDLL, keys: int, offset: int, causal: bool) -> None:
    for end in range(1, 300, 7):
        count = sum(any(seen(row, key, keys, offset, causal) for row in range(end)) for key in range(keys))
        assert divmod(host.keys_before(keys, offset, int(causal), end, 64), 100000) == (-(-count // 64), count)


@pytest.mark.parametrize("spread", [0.1, 3.0, 60.0])
def test_online_softmax(run: Run, device: str, spread: float) -> None:
    torch.manual_seed(0)
    scores = torch.randn(16, 64 * 7) * spread
    scores[3] = torch.sort(scores[3]).values  # its maximum moves with every tile
    scores[5, :64] = -float("inf")  # sees nothing yet
    scores[6] = -float("inf")  # sees nothing at all
    out, sums = empty(16, 64, device=device), empty(1, 16, device=device)
    run("run_softmaxes", scores.to(device), out, sums, scores.shape[1], 1.4426950408889634)
    expected = torch.nan_to_num(torch.softmax(scores.double(), 1)).view(16, -1, 64).sum(1)
    assert (out.cpu() - expected).abs().max() < 2e-6
    found, logarithms = sums.cpu()[0].double(), torch.logsumexp(scores.double(), 1)
    assert found[6] == -float("inf")
    kept = torch.arange(16) != 6
    assert ((found - logarithms)[kept].abs() <= 1e-6 * logarithms[kept].abs().clamp(min=1)).all()


@pytest.mark.parametrize("from_registers", [0, 1])
@pytest.mark.parametrize(
    ("batch", "heads", "rows", "times"), [(1, 1, 64, 1), (2, 3, 200, 3), (1, 2, 5, 2), (1, 1, 64, 512)]
)
def test_sums_that_many_blocks_add_to(
    run: Run, device: str, batch: int, heads: int, rows: int, times: int, from_registers: int
) -> None:
    torch.manual_seed(rows)
    x = torch.randint(-8, 9, (batch, heads, rows, 128)).float()
    sums = empty(batch * heads * -(-rows // 64) * 64 * 128, device=device)
    rounded = empty(batch, heads, rows, 128, device=device, dtype=torch.bfloat16)
    run("run_sums", x.to(device), sums, rounded, batch, heads, rows, times, 0.5, from_registers)
    assert torch.equal(rounded.cpu().float(), 0.5 * times * x)  # small integers: exact in bf16


@pytest.mark.parametrize(("rows", "cols"), [(64, 64), (200, 328), (16, 4)])
def test_stores_by_way_of_shared_memory(run: Run, device: str, rows: int, cols: int) -> None:
    torch.manual_seed(cols)
    x, out = torch.randn(rows, cols), empty(rows, cols, device=device)
    run("run_doubling", x.to(device), out, rows, cols, 0)
    assert torch.equal(out.cpu(), 2 * x)


def test_a_store_that_waits_for_too_few_is_reported(host: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = torch.randn(64, 328), torch.empty(64, 328)
    message = ctypes.create_string_buffer(1 << 14)
    addresses = [ctypes.c_void_p(t.data_ptr()) for t in (x, out)]
    for seed in range(20):
        monkeypatch.setenv("KITTENS_SEED", str(seed))
        assert host.run_doubling(*addresses, 64, 328, 1, message, len(message)) == 1
        assert "parts.cu" in message.value.decode()
        assert "store_read_wait" in message.value.decode()


@pytest.mark.parametrize(("steps", "blocks"), [(1, 1), (7, 7), (100, 7), (1000, 132), (2**24 - 1, 3)])
def test_shares_of_blocks_are_all_there_is_and_near_to_equal(run: Run, device: str, steps: int, blocks: int) -> None:
    out = empty(16 * blocks, 2, device=device)
    run("run_sharing", out, steps, blocks)
    size, first = (out.cpu()[::16, i].long() for i in range(2))
    assert first[0] == 0
    assert torch.equal(first[1:], (first + size)[:-1])
    assert int(size.sum()) == steps
    assert int(size.max() - size.min()) <= 1


@pytest.mark.parametrize(("first", "count"), [(0, 64), (8, 64), (100, 17), (136, 0)])
def test_columns_of_a_tensor(run: Run, device: str, first: int, count: int) -> None:
    x, out = torch.randn(16, 200), empty(16, 64, device=device)
    run("run_columns", x.to(device), out, first, count)
    kept = count or 64
    assert torch.equal(out.cpu()[:, :kept], x[:, first : first + kept])
    assert torch.equal(out.cpu()[:, kept:], torch.zeros(16, 64 - kept))  # beyond the last


def test_a_sub_tile_of_several_chunks(run: Run, device: str) -> None:
    """Guard: its chunks lie as far apart as the whole tile's rows make them, not as its own would."""
    x, out = torch.randn(32, 128), empty(16, 64, device=device)
    run("run_cutting", x.to(device), out)
    assert torch.equal(out.cpu(), x[16:, 64:])


@pytest.mark.parametrize(("heads", "row_blocks", "band"), [(1, 1, 1), (6, 5, 4), (16, 7, 16), (7, 3, 5), (12, 8, 99)])
def test_rows_in_bands_of_heads(host: ctypes.CDLL, heads: int, row_blocks: int, band: int) -> None:
    places = [host.place_in_bands(heads, row_blocks, band, index) for index in range(heads * row_blocks)]
    assert Counter(places) == Counter(range(heads * row_blocks))
    alike = max(n for n in range(1, min(band, heads) + 1) if heads % n == 0)  # heads of a band
    for index, place in enumerate(places):
        head, row = divmod(place, row_blocks)
        assert head // alike == index // (alike * row_blocks)  # one band after another
        assert row == row_blocks - 1 - index % (alike * row_blocks) // alike  # in each, the last rows first


@pytest.mark.parametrize(("heads", "rows"), [(1, 1), (3, 64), (5, 200)])
def test_rows_of_a_grid(host: ctypes.CDLL, heads: int, rows: int) -> None:
    row_blocks = -(-rows // 64)
    for index in range(2 * heads * row_blocks):
        head, block = divmod(index, row_blocks)
        assert host.place_of(heads, rows, index) == head * 1000 + block


@pytest.mark.parametrize(
    ("tile_rows", "tile_cols", "cluster"), [(128, 256, 1), (64, 512, 2), (64, 64, 1), (256, 64, 2)]
)
def test_a_wave_in_square_bands_is_about_square(
    host: ctypes.CDLL, tile_rows: int, tile_cols: int, cluster: int
) -> None:
    side = (4 * tile_rows * tile_cols) ** 0.5  # of what the cpu target's 4 multiprocessors compute at a time
    band = host.band_of(tile_rows, tile_cols, cluster)
    assert band & (band - 1) == 0
    assert band == 1 or band * cluster * tile_rows <= side
    assert 2 * band * cluster * tile_rows > side


def test_division_with_a_rest(host: ctypes.CDLL) -> None:
    for by in (1, 2, 3, 7, 64, 1000, 65537, 2**30 + 1):
        for x in (0, 1, 6, 63, 64, 999, 123456789, 2**31 - 1):
            assert host.divided(x, by), (x, by)
