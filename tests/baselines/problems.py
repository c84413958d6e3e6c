"""Problems to ask baselines about: the harness's own, of sizes that a CPU computes in no time."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness import workloads

ROOT = Path(__file__).resolve().parents[2]

# With tails, groups or unlike lengths.
SMALL: dict[str, dict[str, Any]] = {
    "collective": {"M": 6, "N": 20},
    "gemm_collective": {"M": 32, "N": 24, "K": 40},
    "gemm": {"M": 96, "N": 80, "K": 64},
    "gemm_fp8": {"M": 48, "N": 128, "K": 128},
    "gemm_epilogue": {"M": 48, "N": 96, "K": 64},
    "attention": {"B": 1, "H": 4, "N": 96, "D": 64},
    "based": {"B": 1, "H": 2, "N": 96},
    "hedgehog": {"B": 1, "H": 2, "N": 200},
    "linear_attention": {"B": 1, "H": 2, "N": 96, "D": 64},
    "mamba2": {"B": 1, "H": 4, "N": 96, "G": 2},
    "rotary": {"B": 1, "H": 3, "N": 20, "D": 64},
    "dropout_add_layernorm": {"B": 2, "N": 5, "D": 128},
    "fft_conv": {"B": 2, "D": 3, "N": 1024},
    "mla_decode": {"B": 3, "lengths": "5+130+64", "Q": 2, "H": 4},
    "gpt_training": {"L": 2, "H": 2, "D": 64, "V": 256, "B": 2, "T": 40, "steps": 2},
    "prefill": {"L": 2, "H": 4, "Hkv": 2, "D": 64, "F": 128, "V": 128, "N": 40},
    "mamba2_prefill": {"L": 2, "W": 64, "V": 128, "B": 1, "N": 70},
    "recall": {"mixer": "based", "W": 64, "V": 64, "B": 4, "N": 32, "pairs": 4, "steps": 2},
    "llama_decode": {"L": 1, "W": 64, "H": 4, "Hkv": 2, "D": 64, "F": 64, "V": 64, "B": 2, "position": 9},
    "paged_attention_decode": {"B": 3, "lengths": "5+130+64", "Q": 2, "H": 4, "Hkv": 2, "D": 64},
}


def installs(module: str) -> str:
    """What the contestants of a module say to install; "" where that is PyTorch and Triton, which all have."""
    made = [one for one in vars(importlib.import_module(module)).values() if hasattr(one, "prepare")]
    said = {one.library.install for one in made if hasattr(one, "library")}
    return " ".join(sorted(said - {"pip install torch", "pip install triton", "pip install torch triton"}))


@cache
def configured(workload: str) -> dict[str, Any]:
    """What configs/workload/ says of it: its contestants, and the problem where none is named."""
    return yaml.safe_load((ROOT / "configs" / "workload" / f"{workload}.yaml").read_text())


def small(workload: str, *, dtype: str | None = None, direction: str = "fwd", **keys: Any) -> Any:
    """A small problem of a workload, with these keys; dtype and direction are not checked, so that none may take it."""
    module = workloads.load(workload)
    values = configured(workload)["problem"] | SMALL[workload] | keys
    return module.Problem.from_mapping(workload, values, dtype=dtype or module.DTYPES[0], direction=direction)
