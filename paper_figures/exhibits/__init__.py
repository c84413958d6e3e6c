"""One folder an exhibit, with its declaration in `exhibit.yaml`, found by its place, and the choice among them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.records.naming import closest
from paper_figures.errors import WRONG_ARGUMENTS, PaperFiguresError
from paper_figures.published.claims import LOADER
from paper_figures.published.paper import EXHIBITS
from paper_figures.shown.derived import AnyExhibit, Derived
from paper_figures.shown.exhibit import Axis, Exhibit, ProfileColumn, RowColumn

TUPLES = ("others", "quick_contestants", "aliases")


@cache
def load_exhibits(folder: Path = EXHIBITS) -> tuple[AnyExhibit, ...]:
    """Every exhibit, in the paper's order; raises `PaperFiguresError` that names the file.

    One with a `table.py` is put together from others: by its `make_table`, its `draw`, and the claims of `also`.
    """
    declared = {path.parent.name: (path, _read(path)) for path in sorted(folder.glob("*/exhibit.yaml"))}
    own = {name: one for name, one in declared.items() if not (folder / name / "table.py").exists()}
    exhibits = {name: _exhibit(name, *one) for name, one in own.items()}
    derived = [_derived(name, *one, exhibits) for name, one in declared.items() if name not in own]
    return tuple(sorted((*exhibits.values(), *derived), key=lambda exhibit: (exhibit.order, exhibit.id)))


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(yaml.load(path.read_bytes(), Loader=LOADER))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise PaperFiguresError(f"{path} is no exhibit: {' '.join(str(error).split())}") from None


@cache
def _small_problems() -> Mapping[str, Any]:
    return _read(EXHIBITS / "small_problems.yaml")


def _exhibit(name: str, path: Path, said: Mapping[str, Any]) -> Exhibit:
    fields = {**said, **{key: tuple(said[key]) for key in TUPLES if key in said}}
    try:
        if isinstance(said["baseline"], list):
            fields["baseline"] = tuple(said["baseline"])
        fields["profile"] = tuple(ProfileColumn(*one) for one in said.get("profile", ()))
        fields["columns"] = tuple(RowColumn(**one) for one in said.get("columns", ()))
        fields["other_axes"] = {panel: Axis(**one) for panel, one in said.get("other_axes", {}).items()}
        for key in ("small_problems", "quick_problems"):
            lists = ([one] if isinstance(one, Mapping) else _small_problems()[one] for one in said.get(key, ()))
            fields[key] = tuple(problem for several in lists for problem in several)
        return Exhibit(id=name, **fields)
    except (TypeError, KeyError) as error:
        raise PaperFiguresError(f"{path} is no exhibit: {error}") from None


def _derived(name: str, path: Path, said: dict[str, Any], exhibits: Mapping[str, Exhibit]) -> Derived:
    fields = {**said, **{key: tuple(said[key]) for key in TUPLES if key in said}}
    code = importlib.import_module(f"{__name__}.{name}.table")
    try:
        common = {"where": said["where"], "order": said["order"], "part_only": True, **fields.pop("each_part", {})}
        parts = [exhibits[one] for one in fields.pop("parts", ())]
        parts += [_exhibit(one, path, {**common, **own}) for one, own in fields.pop("own_parts", {}).items()]
        given = {key: getattr(code, key) for key in ("make_table", "draw", "also") if hasattr(code, key)}
        return Derived(id=name, parts=tuple(parts), **given, **fields)
    except (TypeError, KeyError) as error:
        raise PaperFiguresError(f"{path} is no exhibit: {error}") from None


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
