"""The interpreter of PTX itself: small kernels, by hand, whose results are known."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import translate

HERE = Path(__file__).resolve().parent
DRIVER = """
#include "machine.h"
extern "C" void run(int blocks, int threads, int shared_bytes, const void* parameters) {
    ptx::run_grid(*ptx::find("kernel"), blocks, threads, shared_bytes, parameters, false);
}
"""
START = """
ld.param.u64 %rd1, [kernel_param_0];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
"""
"""%rd3: this thread's word of the array."""
Run = Callable[..., list[int]]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every kernel is linked with."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "driver.cc").write_text(DRIVER)
    for source in (HERE / "machine.cc", folder / "driver.cc"):
        command = [
            "g++",
            "-std=c++20",
            "-O1",
            "-fPIC",
            f"-I{HERE}",
            "-c",
            str(source),
            "-o",
            f"{folder}/{source.stem}.o",
        ]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture
def run(machine: Path, tmp_path: Path) -> Run:
    """Run a body by a block of `threads`; what its array of words holds then."""

    def run(body: str, threads: int = 32, words: int = 64) -> list[int]:
        text = ".visible .entry kernel(\n.param .u64 kernel_param_0\n)\n{\n.reg .pred %p<9>;\n.reg .b16 %rs<9>;\n"
        text += f".reg .b32 %r<64>;\n.reg .b64 %rd<9>;\n{START}{body}\nret;\n}}\n"
        (kernel,) = translate.entries(text)
        name = f"kernel_{len(list(tmp_path.iterdir()))}"  # a library of the same name would not be loaded again
        (tmp_path / f"{name}.cc").write_text(kernel.code())
        objects = [str(machine / f"{name}.o") for name in ("machine", "driver")]
        command = ["g++", "-std=c++20", "-fPIC", "-shared", "-Wl,-Bsymbolic", f"-I{HERE}", str(tmp_path / f"{name}.cc")]
        subprocess.run([*command, *objects, "-o", str(tmp_path / f"{name}.so")], check=True)
        array = (ctypes.c_uint32 * words)(*range(words))
        parameters = ctypes.c_uint64(ctypes.addressof(array))
        ctypes.CDLL(str(tmp_path / f"{name}.so")).run(1, threads, 4096, ctypes.byref(parameters))
        return list(array)

    return run


def test_lanes_part_and_meet(run: Run) -> None:
    body = """
    and.b32 %r2, %r1, 1;
    setp.eq.s32 %p1, %r2, 0;
    mov.u32 %r3, 5;
    @%p1 bra $even;
    mov.u32 %r3, 7;
    $even:
    shfl.sync.bfly.b32 %r4|%p2, %r3, 1, 31, -1;
    st.global.u32 [%rd3], %r4;
    """
    assert run(body)[:4] == [7, 5, 7, 5]


def test_a_multiply_has_the_fragments_of_the_manual(run: Run) -> None:
    # A: row i is i everywhere; B: column j is j everywhere; so C[i][j] = 16 i j. A lane's first two sums: row lane / 4,
    # columns 2 (lane % 4) and the next.
    body = """
    shr.u32 %r2, %r1, 2;
    cvt.rn.f32.s32 %r3, %r2;
    cvt.rn.bf16x2.f32 %r4, %r3, %r3;
    add.s32 %r5, %r2, 8;
    cvt.rn.f32.s32 %r6, %r5;
    cvt.rn.bf16x2.f32 %r7, %r6, %r6;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r10, %r11, %r12, %r13}, {%r4, %r7, %r4, %r7},
        {%r4, %r4}, {0f00000000, 0f00000000, 0f00000000, 0f00000000};
    cvt.rn.f32.s32 %r14, 0;
    setp.eq.f32 %p1, %r10, %r14;
    st.global.u32 [%rd3], %r11;
    st.global.u32 [%rd3+128], %r13;
    """
    result = run(body)
    floats = [ctypes.c_float.from_buffer(ctypes.c_uint32(word)).value for word in result]
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4) + 1
        assert floats[lane] == 16 * row * column
        assert floats[32 + lane] == 16 * (row + 8) * column


COPY = """
shl.b32 %r2, %r1, 4;
and.b32 %r3, %r1, 3;
shl.b32 %r3, %r3, 4;
cvt.u64.u32 %rd4, %r3;
add.s64 %rd5, %rd1, %rd4;
cp.async.cg.shared.global [%r2], [%rd5], 16;
cp.async.commit_group;
{wait}
ld.shared.u32 %r4, [%r2+4];
st.global.u32 [%rd3], %r4;
"""


def test_a_copy_lands_when_it_is_waited_for_and_not_before(run: Run) -> None:
    assert run(COPY.replace("{wait}", "cp.async.wait_group 0;"))[:4] == [1, 5, 9, 13]
    assert run(COPY.replace("{wait}", ""))[:4] == [0x7F7F7F7F] * 4


def test_warps_meet_at_a_barrier_and_a_semaphore_counts(run: Run) -> None:
    # Warp 1 stores; warp 0 waits for its 32 arrivals and reads.
    body = """
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra $ready;
    mov.u32 %r2, 32;
    mbarrier.init.shared::cta.b64 [2048], %r2;
    $ready:
    bar.sync 0;
    shl.b32 %r3, %r1, 2;
    setp.lt.u32 %p2, %r1, 32;
    @%p2 bra $wait;
    st.shared.u32 [%r3], %r1;
    mbarrier.arrive.shared::cta.b64 _, [2048];
    ret;
    $wait:
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [2048], 0;
    @!%p3 bra $wait;
    ld.shared.u32 %r4, [%r3+128];
    st.global.u32 [%rd3], %r4;
    """
    assert run(body, threads=64)[:32] == list(range(32, 64))


@pytest.mark.parametrize("instruction", ["wgmma.fence.sync.aligned;", "mma.sync.aligned.m16n8k8.row.col.f32.f16 %r1;"])
def test_an_unknown_instruction_is_named(run: Run, instruction: str) -> None:
    with pytest.raises(Exception, match=instruction.split(" ")[0].rstrip(";").replace(".", r"\.")):
        run(instruction)
