"""Training of a GPT in whole steps, with this repository's attention and rotary embedding inside."""

from paper_figures.exhibits._models import BASELINE, gpt, trained_tokens_per_second
from paper_figures.recorded.headline import headline_latency
from paper_figures.shown.exhibit import Exhibit, RowColumn

EXHIBIT = Exhibit(
    id="gpt_training",
    where="Beyond the paper",
    title="Training of a GPT",
    summary=(
        "Three steps of training, forward, backward and AdamW, on 16384 tokens each. All contestants have one model "
        "and torch.compile; they differ in attention and rotary embedding. Losses and gradients agree with float64 "
        "before a time is taken."
    ),
    order=996,
    problem_label="{panel}, T = {T}",
    axis="Tokens of a sequence, 16384 a step",
    tick="{T}",
    baseline=BASELINE,
    panel=gpt,
    columns=(RowColumn("Tokens a second", headline_latency, shown=trained_tokens_per_second),),
    by_name_only=True,
    small_problems=({"L": 2, "H": 2, "D": 64, "V": 256, "B": 2, "T": 40, "steps": 2},),
)
