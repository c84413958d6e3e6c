"""The two compiled libraries of vLLM's wheel that hold FlashMLA and FlashAttention-3, without vLLM.

They are built on PyTorch's stable ABI and register operators when they are loaded; neither imports anything of vLLM,
nor needs the PyTorch that vLLM asks for.  The wheel is 336 MB, and these are what of it is wanted:

    pip download --no-deps vllm==0.33.0
    unzip vllm-0.33.0-*.whl 'vllm/_flashmla_C.abi3.so' 'vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so' 'vllm-*/*' -d FOLDER

with TK_BASELINES_SITE_VLLM=FOLDER.  A bundle has them as its part `vllm_decode`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from baselines.common.baseline import Library
from baselines.common.gpu import HOPPER
from baselines.common.sites import package_folders
from baselines.decode import names


def library(name: str, title: str, file: str, kernel: str) -> Library:
    """One of the two, with the kernel that it runs; sequences that are split have another that combines."""
    return Library(
        name,
        "pip install --no-deps --target FOLDER vllm==0.33.0, then TK_BASELINES_SITE_VLLM=FOLDER",
        modules=("torch", "vllm"),
        packages=(f"{title} of vllm", "torch"),
        site="vllm",
        file=f"vllm/{file}",
        gpus=HOPPER,
        kernels=(kernel,),
        foreign=names.others(kernel),
    )


FLASH_MLA = library("flash_mla", "FlashMLA", "_flashmla_C.abi3.so", names.FLASH_MLA)
FLASH_ATTN_3 = library("flash_attn_3", "FlashAttention-3", "vllm_flash_attn/_vllm_fa3_C.abi3.so", names.FLASH_ATTN_3)


@cache
def operators(library: Library) -> Any:
    """The operators of a library, loaded once a process; its file is named as its namespace is."""
    library.use()
    inside = library.file.partition("/")[2]
    file = next(folder / inside for folder in package_folders("vllm") if (folder / inside).is_file())
    torch.ops.load_library(str(file))
    return getattr(torch.ops, file.name.removesuffix(".abi3.so"))
