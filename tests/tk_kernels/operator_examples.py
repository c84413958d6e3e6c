"""Every operator, with small operands that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import tk_kernels as tk


def bf16(*shape: int) -> Tensor:
    return torch.randn(shape).bfloat16()


def e4m3(*shape: int) -> Tensor:
    return torch.randn(shape).to(torch.float8_e4m3fn)


def sequences(dim: int = 64, count: int = 3) -> list[Tensor]:
    return [bf16(1, 1, 64, dim) for _ in range(count)]


def based() -> list[Tensor]:
    return [bf16(1, 1, 64, 16), bf16(1, 1, 64, 16), bf16(1, 1, 64, 64)]


def hedgehog() -> list[Tensor]:
    return [*sequences(128), bf16(1, 128, 64), bf16(1, 128, 64), torch.rand(1), torch.rand(1)]


def mamba2() -> list[Tensor]:
    x, dt, A, B, C = bf16(1, 64, 1, 64), torch.rand(1, 64, 1), -torch.rand(1), bf16(1, 64, 1, 64), bf16(1, 64, 1, 64)
    return [x, dt, A, B, C, torch.rand(1), torch.rand(1), torch.rand(1, 1, 64, 64)]


OPERATORS: dict[str, tuple[Callable[..., Any], Callable[[], list[Tensor]]]] = {
    "gemm": (tk.gemm, lambda: [bf16(64, 64), bf16(64, 64)]),
    "gemm with an epilogue": (
        lambda a, b, bias, residual: tk.gemm(a, b, bias=bias, residual=residual),
        lambda: [bf16(64, 64), bf16(64, 64), bf16(64), bf16(64, 64)],
    ),
    "gemm_fp8": (
        lambda a, b, x, y: tk.gemm_fp8(a, b, scale_a=x, scale_b=y),
        lambda: [e4m3(64, 64), e4m3(64, 64).t(), torch.ones(()), torch.ones(())],
    ),
    "attention": (tk.attention, sequences),
    "scaled_dot_product_attention": (tk.scaled_dot_product_attention, sequences),
    "based": (tk.based, based),
    "hedgehog": (tk.hedgehog, hedgehog),
    "linear_attention": (
        lambda q, k, v, decay, state: tk.linear_attention(q, k, v, decay, initial_state=state),
        lambda: [*sequences(), -torch.rand(1), torch.rand(1, 1, 64, 64)],
    ),
    "mamba2": (
        lambda x, dt, A, B, C, D, bias, state: tk.mamba2(x, dt, A, B, C, D=D, dt_bias=bias, initial_state=state),
        mamba2,
    ),
    "rotary": (tk.rotary, lambda: [bf16(1, 1, 64, 64), torch.rand(64, 32), torch.rand(64, 32)]),
    "dropout_add_layernorm": (
        tk.dropout_add_layernorm,
        lambda: [bf16(1, 8, 128), bf16(1, 8, 128), bf16(128), bf16(128)],
    ),
    "fft_conv": (tk.fft_conv, lambda: [bf16(1, 1, 1024), tk.fft_conv_filter(torch.randn(1, 1024))]),
}
