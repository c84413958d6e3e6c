"""One source, two targets: what a kernel can call on the GPU it can call on the cpu target, and the reverse."""

from __future__ import annotations

import re
from pathlib import Path

from tk_kernels.toolchain.kernel_folder import INCLUDE_ROOT, KERNELS_ROOT

TARGETS = INCLUDE_ROOT / "kittens" / "target"
HEADERS = ("registers.cuh", "memory.cuh", "sync.cuh", "async.cuh", "mma.cuh", "launch.cuh")
# How a GPU's lanes, instructions and addresses are reached: no kernel calls these.
GPU_ONLY = {
    "at",
    "col",
    "col_slot",
    "descriptor",
    "element_pair",
    "fence_registers",
    "holds",
    "index",
    "issue_load",
    "issue_plain_store",
    "issue_store",
    "issue_stores",
    "k_major",
    "load_units",
    "map_address",
    "mma_m16n8k16",
    "mn_major",
    "multiply_pair",
    "owner",
    "packed",
    "packed_unit",
    "piece_of_halves",
    "pin",
    "position",
    "rank",
    "row",
    "row_slot",
    "run_slowed",
    "shared_address",
    "shared_offset",
    "shuffle",
    "shuffle_xor",
    "store_units",
    "turn_rows",
    "units",
    "unpack",
    "wide",
    "kernel_entry",
}


def functions(target: str) -> set[str]:
    """Names of the functions that a target's headers define for kernels."""
    text = "\n".join((TARGETS / target / header).read_text() for header in HEADERS)
    device = re.findall(r"\bkittens_device\b[^;{()]*?\b(\w+)\(", text)
    return {name for name in device if name not in ("static_assert", "operator")}


def test_the_cpu_target_has_every_operation_of_the_gpu() -> None:
    assert {"load_async", "mma_AtBt", "wait", "store", "part", "increase_registers"} <= functions("sm_90a")
    missing = functions("sm_90a") - functions("cpu") - GPU_ONLY
    assert not missing, f"target/cpu lacks {sorted(missing)}"


def test_the_gpu_has_every_operation_of_the_cpu_target() -> None:
    surplus = functions("cpu") - functions("sm_90a")
    assert not surplus, f"target/sm_90a lacks {sorted(surplus)}"


def test_the_front_end_and_the_kernels_do_not_know_the_targets() -> None:
    front_end = [path for path in INCLUDE_ROOT.rglob("*.cuh") if TARGETS not in path.parents]
    for path in [*front_end, *Path(KERNELS_ROOT).rglob("*.cu*")]:
        text = path.read_text()
        for word in ("threadIdx", "blockIdx", "__shared__", "__CUDA_ARCH__", "__CUDACC__", "asm volatile"):
            assert word not in text, f"{path.name} uses {word}: that belongs into a target"
