"""One source, several targets: CONTRACT.md beside them says what a target gives, and every target gives that."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tile_compile import CompileError, compile_library

from tk_kernels.toolchain import TARGETS
from tk_kernels.toolchain.units import INCLUDE_ROOT, KERNELS_ROOT, find_unit

FOLDERS = INCLUDE_ROOT / "kittens" / "target"
CONTRACT = FOLDERS / "CONTRACT.md"
UNIT = Path(__file__).with_name("contract.cu")  # calls what CONTRACT.md names
OTHERS = {"at", "bring", "copy_async", "uniform", "units"}  # names of methods, or of a kernel's own functions, too


def contract() -> list[str]:
    """The names of the contract's table, as it writes them: `wait`, `warpgroup::load`."""
    cells = [line.split("|")[2] for line in CONTRACT.read_text().splitlines() if line.startswith("| ")]
    return [name for cell in cells[1:] for quoted in re.findall(r"`([^`]+)`", cell) for name in quoted.split()]


def functions(target: str) -> set[str]:
    """Names of the functions that a target's headers define for kernels."""
    headers = [path for folder in TARGETS[target].folders for path in (FOLDERS / folder).glob("*.cuh")]
    text = "\n".join(path.read_text() for path in headers)
    device = re.findall(r"\bkittens_(?:host_)?device\b[^;{()]*?\b(\w+)\(", text)
    return {name for name in device if name not in ("static_assert", "operator")}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_gives_what_the_contract_says(target: str) -> None:
    assert compile_library(UNIT, target).stat().st_size > 0


def test_the_unit_names_what_the_contract_says() -> None:
    assert {"start_load", "loading", "warpgroup::issue", "limits", "math::exp2"} <= set(contract())
    text = UNIT.read_text()
    assert not [name for name in contract() if not re.search(rf"\b{name}\b", text)]


@pytest.mark.parametrize("target", TARGETS)
def test_the_contract_says_all_that_kernels_call_of_a_target(target: str) -> None:
    said = {name.rpartition("::")[2] for name in contract()}
    kernels = "\n".join(path.read_text() for kind in ("cu", "cuh") for path in KERNELS_ROOT.rglob(f"*.{kind}"))
    rest = functions(target) - said - OTHERS
    surplus = {name for name in rest if re.search(rf"(?<![.>\w]){name}(<[^;()]*>)?\(", kernels)}
    assert not surplus, f"{CONTRACT.name} does not list {sorted(surplus)} of the target {target}"


# Kilobytes of a block on the least and on the largest of a target's machines.
BLOCKS = {"cpu": (227, 227), "sm_90a": (227, 227), "sm_80": (99, 163)}
LIMITS = """
#include "kittens.cuh"
using namespace kittens;
struct small {};
struct declined { static constexpr bool large_blocks = false; };
struct large { static constexpr bool large_blocks = true; };
static_assert(limits::shared_bytes_for<small>() == %(least)d * 1024);
static_assert(limits::shared_bytes_for<declined>() == %(least)d * 1024);
static_assert(limits::shared_bytes_for<large>() == %(most)d * 1024);
static_assert(limits::shared_bytes_for<small>(2) == limits::shared_bytes_of(2));
static_assert(limits::stages(9, 32 * 1024, 24 * 1024) == (%(least)d - 24) / 32);
static_assert(limits::large_stages(9, 32 * 1024, 24 * 1024) == (%(most)d - 24) / 32);
static_assert(limits::large_stages(1, 32 * 1024, 24 * 1024) == 1);
"""


@pytest.mark.parametrize("target", TARGETS)
def test_large_blocks_have_what_the_largest_machine_has(tmp_path: Path, target: str) -> None:
    least, most = BLOCKS[target]
    source = tmp_path / "limits.cu"
    source.write_text(LIMITS % {"least": least, "most": most})
    assert compile_library(source, target).stat().st_size > 0


FFT_CONV = """
#include "fft_conv.cuh"
using namespace tk::fft_conv;
template <int Rows, bool Causal, bool Large>  // whole KB
constexpr int blocks = lcsf<kernel<Rows, Causal, Large>>::shared_bytes / 1024;
static_assert(kernel<64, true, false>::stages == 1 && kernel<64, true, true>::stages == 2);
static_assert(kernel<64, true, true>::consumers == 1 && kernel<64, true, true>::consumer_registers > 240);
static_assert(blocks<64, true, false> == 89 && blocks<64, true, true> == 121);
static_assert(blocks<16, false, false> == 89 && blocks<16, false, true> == 121);
"""


def test_the_convolution_has_one_stage_where_a_block_is_small(tmp_path: Path) -> None:
    source = tmp_path / "fft_conv.cu"
    source.write_text(FFT_CONV.replace('"fft_conv.cuh"', f'"{KERNELS_ROOT / "fft_conv" / "fft_conv.cuh"}"'))
    assert compile_library(source, "sm_80").stat().st_size > 0


PERSISTENT = """
#include "forward.cuh"
#include "backward.cuh"
using namespace kittens;
using namespace tk::attention;
constexpr config small{.dim = 64, .keys = 64, .consumers = 2, .stages = 3, .hold_queries = true};
using forward_flow = lcf_flow<forward_kernel<small>>;
struct one_stage : keys_kernel<64, false> { static constexpr int stages = 1; };  // a block of 99 KB has no more
using backward_queue = lcf_queue<one_stage>;
void start(task_queue queue, const forward_flow::globals& forward, const backward_queue::globals& backward) {
    queue.clear(nullptr);
    launch_queue<forward_flow>(queue, nullptr, forward);
    launch_queue<backward_queue>(queue, nullptr, backward);
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_pipelines_that_take_tasks_from_a_queue_compile(tmp_path: Path, target: str) -> None:
    """With task_feed, both kinds of turns and dependent launch; no kernel of sm_80 has them yet."""
    source = tmp_path / "persistent.cu"
    source.write_text(re.sub(r'#include "(.*)"', rf'#include "{KERNELS_ROOT / "attention"}/\1"', PERSISTENT))
    assert compile_library(source, target).stat().st_size > 0


NEEDED = {
    "hedgehog": """
using kernel = tk::hedgehog::kernel<true>;
constexpr int needed = int(sizeof(kernel::resident)) + 2 * int(sizeof(kernel::input)) + kernel::workspace_bytes;
""",
    "mla_decode": """
using kernel = tk::mla_decode::kernel<64>;
constexpr int needed = int(sizeof(kernel::query)) + int(sizeof(kernel::tile)) + int(sizeof(kernel::weights));
""",
}


@pytest.mark.parametrize(("kernel", "machines"), [("hedgehog", 1), ("mla_decode", 0)])
def test_what_a_refusal_says_of_shared_memory_is_so(tmp_path: Path, kernel: str, machines: int) -> None:
    """For sm_80: what the kernel needs, and what a block has on the target's larger machines, or on the others."""
    reason = find_unit(kernel).refusals["sm_80"]
    found = re.search(r"need (?P<needed>\d+) KB of shared memory, and a block has (?P<most>\d+) KB", reason)
    assert found
    assert int(found["most"]) == BLOCKS["sm_80"][machines] < int(found["needed"])
    source = tmp_path / "needed.cu"
    includes = f'#include "{find_unit(kernel).path / kernel}.cuh"\n'
    source.write_text(f"{includes}{NEEDED[kernel]}static_assert((needed + 1023) / 1024 == {found['needed']});\n")
    assert compile_library(source, "cpu").stat().st_size > 0


@pytest.mark.parametrize(
    ("header", "name"),
    [("async.cuh", "loading"), ("sync.cuh", "arrive_named"), ("mma.cuh", "warpgroup::issue")],
)
def test_an_operation_that_a_target_lacks_is_found(tmp_path: Path, header: str, name: str) -> None:
    changed = tmp_path / "changed"
    copy = changed / "kittens" / "target" / "cpu" / header
    copy.parent.mkdir(parents=True)
    shutil.copy(FOLDERS / "cpu" / header, copy)
    word = name.rpartition("::")[2]
    copy.write_text(re.sub(rf"\b{word}\b", f"un{word}", copy.read_text()))
    with pytest.raises(CompileError, match=word):
        compile_library(UNIT, "cpu", changed=changed)


def test_the_front_end_and_the_kernels_do_not_know_the_targets() -> None:
    front_end = [path for path in INCLUDE_ROOT.rglob("*.cuh") if FOLDERS not in path.parents]
    for path in [*front_end, *Path(KERNELS_ROOT).rglob("*.cu*")]:
        text = path.read_text()
        for word in ("threadIdx", "blockIdx", "__shared__", "__CUDA_ARCH__", "__CUDACC__", "asm volatile"):
            assert word not in text, f"{path.name} uses {word}: that belongs into a target"
