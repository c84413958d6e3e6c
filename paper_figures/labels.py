"""Names for readers: of implementations, runs and statuses."""

from __future__ import annotations

from collections.abc import Mapping

from harness.records.naming import Contestant

OURS, RELEASED = "tk", "thunderkittens"
"""The implementations that are this project's kernels, and the kernels that the paper's authors released."""

IMPLEMENTATIONS: dict[str, str] = {
    "tk": "TK (ours)",
    "thunderkittens": "ThunderKittens, as released",
    "cublas": "cuBLAS",
    "cublaslt": "cuBLASLt",
    "cublas_tuned": "cuBLASLt, auto-tuned",
    "cublas_tuned_fast": "cuBLASLt, auto-tuned, fast accumulation",
    "cublas_fast": "cuBLAS, fast accumulation",
    "deep_gemm": "DeepGEMM",
    "torch_compile": "torch.compile",
    "torch_max_autotune": "torch.compile (max-autotune)",
    "torch_descent": "torch.compile (coordinate descent)",
    "torch_unfused": "unfused (torch.compile)",
    "triton": "Triton",
    "quack": "quack (CuTe DSL)",
    "cudnn": "cuDNN",
    "sdpa_flash": "FlashAttention-2 (SDPA)",
    "sdpa_cudnn": "cuDNN (SDPA)",
    "flash_attn": "FlashAttention-2",
    "flash_attn_3": "FlashAttention-3",
    "flash_attn_4": "FlashAttention-4",
    "flex_attention": "FlexAttention",
    "flash_mla": "FlashMLA",
    "flash_attn_triton": "flash-attn (Triton)",
    "liger": "Liger-Kernel (Triton), with a copy of q and k",
    "torch": "PyTorch",
    "pytorch_eager": "PyTorch eager",
    "fla": "flash-linear-attention",
    "composed": "composed here (fla states, FlexAttention)",
    "fla_parallel": "fla parallel_based",
    "fla_fused_chunk": "fla fused_chunk_based",
    "fla_chunk": "fla chunk (Taylor features, chunk_linear_attn)",
    "fla_linear_attn": "fla chunk_linear_attn",
    "simple_gla": "fla chunk_simple_gla",
    "mamba_ssm": "mamba_ssm (Triton)",
    "flash_fft_conv": "FlashFFTConv",
    "triton_monarch": "our Triton Monarch, for FlashFFTConv",
    "torch_real": "PyTorch, real FFT",
    "cutlass": "CUTLASS",
    "cutlass_dsl": "CuTe DSL",
    "mlx": "MLX",
    "sglang": "SGLang",
    "vllm": "vLLM",
    "nccl": "NCCL",
    "symm_mem": "Symmetric memory",
}
"""Names of implementations that differ from their key; a key that is not here is shown as it is."""

PUT_TOGETHER = ("composed", "triton_monarch")
"""Opponents that were put together or written here: nobody ships them, and no sentence calls them a library."""


def contestant_label(contestant: Contestant, names: Mapping[str, str] | None = None) -> str:
    """A contestant's name for a table or a legend; `names` holds those that an exhibit chooses itself."""
    if names and str(contestant) in names:
        return names[str(contestant)]
    name = IMPLEMENTATIONS.get(contestant.implementation, contestant.implementation)
    return f"{name} [{contestant.variant}]" if contestant.variant else name


def short_run(run_id: str) -> str:
    """The part of a run's id that tells runs of one campaign apart: `20261120T141500Z-a1b2c3` is `a1b2c3`."""
    return run_id.rsplit("-", 1)[-1]


def words(key: str) -> str:
    """A status in words: `failed_verification` is `failed verification`."""
    return key.replace("_", " ")
