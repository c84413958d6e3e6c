"""GEMM with an epilogue, which the released kernels have and the paper does not measure."""

from __future__ import annotations

from collections.abc import Mapping

from paper_figures.shown.exhibit import Exhibit

_PANELS = {
    "bias_gelu": "Bias and GELU",
    "bias_gelu_tanh": "Bias and GELU (tanh)",
    "gate_residual": "Gate and residual",
}


def _panel(keys: Mapping[str, str]) -> str:
    """By the epilogue."""
    return _PANELS[keys.get("epilogue", "bias_gelu")]


EXHIBIT = Exhibit(
    id="gemm_epilogues",
    where="Beyond the paper",
    title="GEMM with an epilogue",
    summary=(
        "The bf16 GEMM with what follows it in a transformer's feed-forward layer, in one kernel, against PyTorch's "
        "own kernels and torch.compile with max-autotune. Rates count the product's operations alone."
    ),
    order=985,
    problem_label="{panel}, {M} × {N} × {K}",
    axis="M × N × K",
    tick="{M} × {N} × {K}",
    baseline=("torch", "torch_compile"),
    panel=_panel,
    small_problems=(
        {"M": 131, "N": 250, "K": 67},
        {"M": 256, "N": 264, "K": 128, "epilogue": "bias_gelu_tanh"},
        {"M": 300, "N": 129, "K": 72, "epilogue": "gate_residual"},
    ),
)
