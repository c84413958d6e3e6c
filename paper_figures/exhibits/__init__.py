"""One folder an exhibit, found by its place, and the choice among them."""

from __future__ import annotations

import importlib
import pkgutil

from harness.records.naming import closest
from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError
from paper_figures.shown.derived import AnyExhibit


def load_exhibits() -> tuple[AnyExhibit, ...]:
    """Every exhibit, in the paper's order, from this package's modules; raises `PaperFiguresError`."""
    exhibits = []
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        found = getattr(importlib.import_module(f"{__name__}.{module.name}"), "EXHIBIT", None)
        if not isinstance(found, AnyExhibit) or found.id != module.name:
            raise PaperFiguresError(
                f"exhibits/{module.name}/__init__.py needs EXHIBIT, an Exhibit or a Derived with id {module.name!r}"
            )
        exhibits.append(found)
    return tuple(sorted(exhibits, key=lambda exhibit: (exhibit.order, exhibit.id)))


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
