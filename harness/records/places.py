"""Paths of the program's data and results: a checkout's root, or the installed package and the caller's current folder.

A wheel carries the configurations and the recorded campaign in `harness/data/`; `setup.py` puts them there.
"""

from __future__ import annotations

from pathlib import Path

CODE = Path(__file__).resolve().parents[2]
"""The folder that holds the packages: a checkout, a bundle that stands for one, or where pip installs."""

CHECKOUT = (CODE / "configs" / "config.yaml").is_file()
"""Whether that is a checkout, or a bundle."""

DATA = CODE if CHECKOUT else Path(__file__).resolve().parents[1] / "data"
"""The folder with `configs/` and the recorded `results/`, both read-only."""

CONFIGS = DATA / "configs"
"""Hydra's configuration folder."""

RECORDED = DATA / "results"
"""Recorded runs, `<gpu>/<campaign>/<run>/`."""

FIRST = "results/h100-sxm/2026-11-paper"
"""The recorded campaign that the report, README and a wheel are of: of the paper's own GPU."""

WORK = CODE if CHECKOUT else Path.cwd()
"""Where reports and new results go."""
