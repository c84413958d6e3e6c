"""What a GPU's kernels do not take: exhibits that cannot be measured on it, in whole or in part, each with the reason.

Not every kernel is built for every GPU. The implementations are asked, in a process of their own: asking needs the GPU,
and a process that has asked keeps some of its memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from paper_figures.errors import PaperFiguresError
from paper_figures.labels import OURS
from paper_figures.recorded.campaign import ROOT
from paper_figures.recorded.configuration import composed


@dataclass(frozen=True)
class Refused:
    """An experiment of which no kernel of ours takes some problems here."""

    experiment: str
    count: int
    """How many problems."""
    of: int
    """How many the experiment has."""
    reason: str
    """Why, of the first of them."""

    @property
    def whole(self) -> bool:
        """Whether nothing of ours is left to measure."""
        return self.count == self.of


def refusals(experiments: Sequence[str]) -> tuple[Refused, ...]:
    """Those of the experiments of which our kernels refuse problems on the GPU that this process uses."""
    from harness.plan.planning import make_plan
    from harness.plan.said import refusals as reasons_of

    found = []
    for experiment in experiments:
        reasons = reasons_of(make_plan(composed(experiment)), OURS, "cuda")
        if given := [reason for reason in reasons if reason]:
            found.append(Refused(experiment, len(given), len(reasons), given[0]))
    return tuple(found)


def asked_here(experiments: Sequence[str]) -> tuple[Refused, ...]:
    """The same, from a process of its own; raises `PaperFiguresError` where that does not answer."""
    command = (sys.executable, "-m", "paper_figures.command.left_out", *experiments)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        return tuple(Refused(**one) for one in json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        said = " ".join(done.stderr.split()[-40:])
        raise PaperFiguresError(f"cannot ask which kernels run on this GPU: {said or 'no answer'}") from None


def sentences(refused: Sequence[Refused]) -> tuple[str, ...]:
    """What is left out on this GPU, a line a reason; then what is measured in part."""
    whole: dict[str, list[str]] = {}
    for one in refused:
        if one.whole:
            whole.setdefault(one.reason, []).append(one.experiment)
    lines = [f"left out on this GPU: {', '.join(names)}: {reason}" for reason, names in whole.items()]
    parts = [one for one in refused if not one.whole]
    return (
        *lines,
        *(f"in part on this GPU: {one.experiment} lacks {one.count} of {one.of}: {one.reason}" for one in parts),
    )


if __name__ == "__main__":
    import torch

    torch.cuda.init()
    print(json.dumps([asdict(one) for one in refusals(sys.argv[1:])]))
