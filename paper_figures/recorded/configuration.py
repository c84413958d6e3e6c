"""The configuration of an experiment, put together from the files that Hydra reads and in its order, without Hydra.

Starting Hydra for every experiment takes seconds; a test holds both to the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.records.places import CONFIGS
from paper_figures.errors import PaperFiguresError

GLOBAL = "# @package _global_"
"""First line of a file whose keys are the configuration's own, and not its group's."""


def composed(experiment: str = "", configs: Path = CONFIGS) -> dict[str, Any]:
    """What `python -m harness experiment=<name>` is configured with, or the harness alone; Hydra's own keys aside.

    Groups that `config.yaml` and the experiment choose come first, then the values of `config.yaml`, then those of the
    experiment.  Raises `PaperFiguresError` if a file is missing or no YAML.
    """
    base = _document(configs / "config.yaml")
    own = _document(configs / "experiment" / f"{experiment}.yaml") if experiment else {}
    config: dict[str, Any] = {}
    for group, choice in {**_choices(base), **_choices(own)}.items():
        config = _merged(config, _group(configs, group, choice))
    config = _merged(_merged(config, base), own)
    return {key: value for key, value in config.items() if key not in ("defaults", "hydra")}


def _choices(document: Mapping[str, Any]) -> dict[str, str]:
    """Group -> file that a document's defaults choose: `override /timer: cuda_graph` is `{"timer": "cuda_graph"}`."""
    entries = [one for one in document.get("defaults", []) if isinstance(one, Mapping)]
    named = {str(key).split()[-1].lstrip("/"): value for one in entries for key, value in one.items()}
    return {group: str(choice) for group, choice in named.items() if choice and not group.startswith("hydra/")}


def _group(configs: Path, group: str, choice: str) -> dict[str, Any]:
    """A file of a group at its place in the configuration, on top of those that its defaults name."""
    path = configs / group / f"{choice}.yaml"
    own = _document(path)
    below = [one for one in own.pop("defaults", []) if one != "_self_"]
    if not path.read_text().startswith(GLOBAL):
        own = {group: own}
    config: dict[str, Any] = {}
    for one in below:
        config = _merged(config, _group(configs, group, one))
    return _merged(config, own)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings key by key, anything else as it is above."""
    both = {key: _merged(below[key], above[key]) for key in above if _is_mapping(below.get(key), above[key])}
    return {**below, **above, **both}


def _is_mapping(*values: object) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise PaperFiguresError(f"there is no {path.parent.name} {path.stem}: {path} does not exist") from None
    except yaml.YAMLError as error:
        raise PaperFiguresError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise PaperFiguresError(f"{path} holds {document!r}, needs keys and values")
    return document
