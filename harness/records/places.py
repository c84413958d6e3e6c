"""Where the program's data are and where its results go: in a checkout its root, else the package and the folder of
whoever calls.

A wheel carries the configurations and the recorded campaign in `harness/data/`; `setup.py` puts them there.
"""

from __future__ import annotations

from pathlib import Path

CODE = Path(__file__).resolve().parents[2]
"""The folder that holds the packages: a checkout, a bundle that stands for one, or where pip installs."""

CHECKOUT = (CODE / "configs" / "config.yaml").is_file()
"""Whether that is a checkout, or a bundle."""

DATA = CODE if CHECKOUT else Path(__file__).resolve().parents[1] / "data"
"""What holds `configs/` and the recorded `results/`, which are only read."""

CONFIGS = DATA / "configs"
"""What Hydra composes a run from."""

RECORDED = DATA / "results"
"""Recorded runs, `<gpu>/<campaign>/<run>/`."""

FIRST = "results/h100-sxm/2026-11-paper"
"""The recorded campaign that the report, README and a wheel are of: of the paper's own GPU."""

WORK = CODE if CHECKOUT else Path.cwd()
"""Where reports and new results go."""
