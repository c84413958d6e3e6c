"""One module an exhibit, found by its place, and the choice among them."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from harness.naming import closest
from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError
from paper_figures.published.paper import THUNDERKITTENS, current
from paper_figures.shown.derived import AnyExhibit
from paper_figures.shown.exhibit import Exhibit


def load_exhibits() -> tuple[AnyExhibit, ...]:
    """Every exhibit of the current paper, in its order: this package's modules, or what another paper's file declares.

    Raises `PaperFiguresError`.
    """
    if current() is not THUNDERKITTENS:
        return tuple(_declared(place, one) for place, one in enumerate(current().exhibits, start=1))
    exhibits = []
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        found = getattr(importlib.import_module(f"{__name__}.{module.name}"), "EXHIBIT", None)
        if not isinstance(found, AnyExhibit) or found.id != module.name:
            raise PaperFiguresError(
                f"exhibits/{module.name}.py needs EXHIBIT, an Exhibit or a Derived with id {module.name!r}"
            )
        exhibits.append(found)
    return tuple(sorted(exhibits, key=lambda exhibit: (exhibit.order, exhibit.id)))


NEEDED = {"id", "where", "title", "summary", "problem_label", "axis", "tick", "baseline"}
OPTIONS = {"panel", "names", "claims", "published_scope", "experiment"}


def _declared(place: int, entry: Mapping[str, Any]) -> Exhibit:
    """An exhibit of another paper, from its file; `panel` is a template of the problem's keys, as labels are."""
    name = str(entry.get("id", f"number {place}"))
    if not NEEDED <= set(entry) <= NEEDED | OPTIONS:
        needs, may = ", ".join(sorted(NEEDED)), ", ".join(sorted(OPTIONS))
        raise PaperFiguresError(
            f"exhibit {name} of {current().name} has {', '.join(sorted(entry))}: it needs {needs}, and may have {may}"
        )
    text = {key: " ".join(str(entry[key]).split()) for key in NEEDED}
    panel, baseline = str(entry.get("panel", "")), entry["baseline"]
    return Exhibit(
        id=text["id"],
        where=text["where"],
        title=text["title"],
        summary=text["summary"],
        problem_label=text["problem_label"],
        axis=text["axis"],
        tick=text["tick"],
        order=place,
        claims=tuple(str(one) for one in entry.get("claims", ())),
        baseline=str(baseline) if isinstance(baseline, str) else tuple(str(one) for one in baseline),
        panel=lambda keys: panel.format_map(defaultdict(str, keys)),
        names={str(key): str(value) for key, value in entry.get("names", {}).items()},
        published_scope=str(entry.get("published_scope", "")),
        experiment=str(entry.get("experiment", "")),
    )


def choose_exhibits(names: list[str] | None) -> tuple[AnyExhibit, ...]:
    """The exhibits of the given names, or all; `table2` is enough for `table2_persistent`, and so is an alias.

    Raises `PaperFiguresError` on unknown ones.
    """
    exhibits = load_exhibits()
    if not names:
        return exhibits
    chosen = []
    for name in names:
        matching = [exhibit for exhibit in exhibits if exhibit.id == name]
        matching = matching or [exhibit for exhibit in exhibits if exhibit.id.startswith(f"{name}_")]
        matching = matching or [exhibit for exhibit in exhibits if name in exhibit.aliases]
        if not matching:
            known = [exhibit.id for exhibit in exhibits]
            near = closest(name, [*dict.fromkeys(one.partition("_")[0] for one in known), *known])
            raise PaperFiguresError(
                f"there is no exhibit {name!r}: choose of {', '.join(known)}{near}", WRONG_ARGUMENTS
            )
        chosen += matching
    return tuple(exhibit for exhibit in exhibits if exhibit in chosen)
