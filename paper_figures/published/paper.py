"""Which paper a report is about: where its claims, published numbers and experiments are, and what it is called.

Everything else is general.  Another paper is a folder; docs/another_paper.md says what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.places import CONFIGS
from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError

HERE = Path(__file__).resolve().parent
FILE = "paper.yaml"


@dataclass(frozen=True)
class Paper:
    """A paper, by what a report needs of it."""

    name: str
    """As it stands in a sentence."""
    title: str
    """Of the report."""
    lede: str
    """What the paper says and whose numbers these are, in a sentence or two of at most thirty words."""
    command: str
    """What a reader runs to have a report of his own."""
    claims: Path
    reference: Path
    experiments: Path
    subjects: Path
    figures: tuple[str, ...]
    """The places in the paper whose exhibits stand in the chart of speed-ups."""
    exhibits: tuple[Mapping[str, Any], ...] = ()
    """The declarations of its exhibits; those of this package are modules."""


THUNDERKITTENS = Paper(
    name="ThunderKittens",
    title="ThunderKittens, reproduced",
    lede=(
        "The ThunderKittens paper (ICLR 2025) says that a few tile primitives are enough for kernels as fast as the "
        "best. Here its figures and tables are measured again with this project's own kernels, beside those that its "
        "authors released."
    ),
    command="make reproduce",
    claims=HERE / "claims",
    reference=HERE / "reference",
    experiments=CONFIGS / "experiment",
    subjects=HERE.parent / "shown" / "subjects.yaml",
    figures=("Fig 7", "Fig 8", "Fig 9", "Fig 10"),
)

_current: ContextVar[Paper] = ContextVar("paper", default=THUNDERKITTENS)


def current() -> Paper:
    """The paper that is reported on."""
    return _current.get()


@contextmanager
def reporting_on(paper: Paper) -> Iterator[None]:
    """Reports made within are about this paper."""
    token = _current.set(paper)
    try:
        yield
    finally:
        _current.reset(token)


def load_paper(folder: Path) -> Paper:
    """The paper in a folder; raises `PaperFiguresError` that names what is missing."""
    path = folder / FILE
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        wrong = 1 if folder.is_dir() else WRONG_ARGUMENTS
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise PaperFiguresError(f"{path} cannot be read: {why}", wrong) from None
    needed, allowed = {"name", "title", "lede", "exhibits"}, {"name", "title", "lede", "exhibits", "figures"}
    if not isinstance(document, dict) or not needed <= set(document) <= allowed:
        raise PaperFiguresError(f"{path} needs the keys {', '.join(sorted(needed))}, and may have figures")
    for name in ("claims", "reference", "experiment"):
        if not (folder / name).is_dir():
            raise PaperFiguresError(f"{folder} has no folder {name}: docs/another_paper.md says what it holds")
    if not isinstance(document["exhibits"], list) or not all(isinstance(one, dict) for one in document["exhibits"]):
        raise PaperFiguresError(f"{path}: exhibits needs a list of keys and values, one entry an exhibit")
    return Paper(
        name=str(document["name"]),
        title=str(document["title"]),
        lede=" ".join(str(document["lede"]).split()),
        command=f"reproduce-paper --paper {folder.name} --from results/<gpu>/<campaign>",
        claims=folder / "claims",
        reference=folder / "reference",
        experiments=folder / "experiment",
        subjects=folder / "subjects.yaml",
        figures=tuple(str(one) for one in document.get("figures", ())),
        exhibits=tuple(document["exhibits"]),
    )
