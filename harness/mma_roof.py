"""What `mma.sync` reaches, the multiply of every GPU since Ampere: operands in registers, nothing else in the way.

On a Hopper GPU it is slower than that GPU's own instruction, wgmma, by which the vendor's library multiplies there.
Code built for Ampere is held against this roof. The kernel is PTX, which the driver compiles, without a CUDA compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

LEAST_CAPABILITY = (8, 0)
"""Compute capability from which on there is `mma.sync` for bf16, 16 x 8 x 16."""
THREADS = 512
STEPS = 4096
"""Of the loop: a millisecond on an H200."""
CHAINS = 8
"""Products of a warp that do not wait for one another."""
WORDS = 12
"""Registers of operands: two of A, each 4, and two of B, each 2."""
FLOPS_OF_MULTIPLY = 2 * 16 * 8 * 16


class Given(ctypes.Structure):
    """The kernel's parameters: addresses of the operands and of the sums, and how often its loop runs."""

    _fields_ = (("operands", ctypes.c_uint64), ("sums", ctypes.c_uint64), ("steps", ctypes.c_uint32))


def kernel() -> str:
    """The PTX of `multiply(Given)`: each thread reads 12 words, and writes the total of its sums."""
    words, sums = [f"%w{i}" for i in range(WORDS)], [f"%f{i}" for i in range(4 * CHAINS)]
    lines = [
        f"ld.global.v4.b32 {{{', '.join(words[4 * i : 4 * i + 4])}}}, [%operands+{16 * i}];" for i in range(WORDS // 4)
    ]
    lines += [f"mov.f32 {name}, 0f00000000;" for name in sums]
    lines += ["$step:"]
    for chain in range(CHAINS):
        a = words[4 * (chain % 2) : 4 * (chain % 2) + 4]
        b = words[8 + 2 * (chain // 2 % 2) : 10 + 2 * (chain // 2 % 2)]
        d = f"{{{', '.join(sums[4 * chain : 4 * chain + 4])}}}"
        lines.append(
            f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d}, {{{', '.join(a)}}}, {{{', '.join(b)}}}, {d};"
        )
    lines += ["sub.s32 %left, %left, 1;", "setp.ne.s32 %more, %left, 0;", "@%more bra $step;"]
    lines += [f"add.f32 {sums[0]}, {sums[0]}, {name};" for name in sums[1:]]
    body = "\n    ".join(lines)
    return f""".version 7.0
.target sm_80
.address_size 64

.visible .entry multiply(
    .param .align 8 .b8 multiply_given[{ctypes.sizeof(Given)}]
)
{{
    .reg .pred %more;
    .reg .b32 %left, %thread, %block, %index;
    .reg .b32 %w<{WORDS}>;
    .reg .f32 %f<{4 * CHAINS}>;
    .reg .b64 %operands, %out, %offset;
    ld.param.u64 %operands, [multiply_given+{Given.operands.offset}];
    ld.param.u64 %out, [multiply_given+{Given.sums.offset}];
    ld.param.u32 %left, [multiply_given+{Given.steps.offset}];
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mul.wide.u32 %offset, %thread, {4 * WORDS};
    add.s64 %operands, %operands, %offset;
    mad.lo.s32 %index, %block, {THREADS}, %thread;
    mul.wide.u32 %offset, %index, 4;
    add.s64 %out, %out, %offset;
    {body}
    st.global.f32 [%out], {sums[0]};
    ret;
}}
"""


def flops(blocks: int) -> float:
    """Of a launch of so many blocks."""
    return float(blocks) * (THREADS // 32) * STEPS * CHAINS * FLOPS_OF_MULTIPLY


def multiply_on(driver: Any, blocks: int) -> Callable[[], None]:
    """A launch of the kernel on the current device and stream, over random normal operands.

    driver: CUDA's (libcuda.so.1). Raises RuntimeError where it refuses.
    """
    operands = torch.randn(THREADS, 2 * WORDS, device="cuda").to(torch.bfloat16)
    sums = torch.empty(blocks * THREADS, device="cuda")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(kernel().encode())), "compiling the kernel")
    _check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"multiply"), "finding the kernel")
    given = Given(operands.data_ptr(), sums.data_ptr(), STEPS)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(given))
    kept = (operands, sums, given)  # as long as the launch

    def launch() -> None:
        assert kept
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = driver.cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, None)
        _check(code, "launching the kernel")

    return launch


def measure(median_us: Callable[[Callable[[], Any]], float]) -> float:
    """TFLOPS of a block on every multiprocessor. Raises OSError without a driver, RuntimeError where it refuses."""
    blocks = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return flops(blocks) / (median_us(multiply_on(ctypes.CDLL("libcuda.so.1"), blocks)) * 1e6)


def _check(code: int, what: str) -> None:
    if code != 0:
        raise RuntimeError(f"{what} of the mma.sync roof: CUDA's driver returned {code}")
