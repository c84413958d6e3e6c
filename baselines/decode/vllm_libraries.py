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

from baselines.common.sites import distribution_version, find, holds, package_folders, use_site

SITE = "vllm"
INSTALL = "pip install --no-deps --target FOLDER vllm==0.33.0, then TK_BASELINES_SITE_VLLM=FOLDER"
FLASH_MLA = "_flashmla_C.abi3.so"
FLASH_ATTN_3 = "vllm_flash_attn/_vllm_fa3_C.abi3.so"


def absent(library: str) -> str | None:
    """None if the library can be found, else how to get it."""
    reason = find(SITE, ["torch", "vllm"], INSTALL)
    if reason is None and not holds("vllm", library):
        reason = f"vllm here has no {library}: {INSTALL}"
    return reason


def version(library: str) -> str:
    """The library, the vLLM that it was built for, and PyTorch's version."""
    import torch

    use_site(SITE)
    return f"{library} of vllm {distribution_version('vllm')}, torch {torch.__version__}"


@cache
def operators(library: str) -> Any:
    """The operators of a library, loaded once a process; its file is named as its namespace is."""
    import torch

    use_site(SITE)
    file = next(folder / library for folder in package_folders("vllm") if (folder / library).is_file())
    torch.ops.load_library(str(file))
    return getattr(torch.ops, file.name.removesuffix(".abi3.so"))
