"""Prefill of a prompt by whole models, with this repository's attention and rotary embedding inside."""

from paper_figures.exhibits._models import BASELINE, model, prompt_tokens_per_second
from paper_figures.recorded.headline import headline_latency
from paper_figures.shown.exhibit import Exhibit, RowColumn

EXHIBIT = Exhibit(
    id="prefill",
    where="Beyond the paper",
    title="Prefill of a prompt",
    summary=(
        "One prompt of 2k to 64k tokens through a whole model with random weights. All contestants have one model and "
        "torch.compile; they differ in attention and rotary embedding. Hidden states and logits agree with float64, at "
        "the length that is timed, before a time is taken."
    ),
    order=997,
    problem_label="{panel}, N = {N}",
    axis="Tokens of the prompt",
    tick="{N}",
    baseline=BASELINE,
    panel=model,
    columns=(RowColumn("Tokens a second", headline_latency, shown=prompt_tokens_per_second),),
    by_name_only=True,
    small_problems=(
        {"L": 2, "H": 4, "Hkv": 2, "D": 64, "F": 128, "V": 128, "B": 1, "N": 40},
        {"L": 1, "H": 2, "Hkv": 1, "D": 128, "F": 128, "V": 128, "B": 2, "N": 33, "bias": 1},
    ),
)
