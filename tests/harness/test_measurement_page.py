"""docs/measurement.md and running.md send a sceptical reader to tests and modules: all of them exist."""

import re

from harness_support import ROOT

from harness.between.predecessors import effects
from harness.runs import load_campaign

PAGE = "".join((ROOT / "docs" / name).read_text() for name in ("measurement.md", "running.md"))


def test_every_test_that_the_page_names_exists():
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    defined = {name for text in sources.values() for name in re.findall(r"^def (test_\w+)\(", text, flags=re.MULTILINE)}
    named = set(re.findall(r"`(?:tests/\w+/)?(test_\w+(?:\.py)?)`", PAGE))
    assert len(named) > 30
    assert not named - defined - {path.name for path in sources}


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`((?:harness|tests|docs|configs|tools)/[\w/.]+)`", PAGE))
    assert {"harness/devices/roofs.py", "harness/devices/settled.py", "harness/command/trace.py"} <= named
    assert not [name for name in named if not (ROOT / name).exists()]


def test_every_roof_of_a_manifest_is_explained():
    measured = set(re.findall(r'"(\w+_(?:gbps|tflops|us))"', (ROOT / "harness" / "devices" / "roofs.py").read_text()))
    assert {"copy_gbps", "matmul_e4m3_tflops", "launch_us"} <= measured
    assert not [name for name in measured if f"| `{name}`" not in PAGE and f", `{name}` |" not in PAGE]


def test_what_the_page_says_of_predecessors_is_of_the_recorded_runs():
    """Guard: a recording is added, and the page's numbers are of fewer runs. Two deals count, and test nothing.

    That ratios of the rounds pass by construction is seen on all of them.
    """
    runs = load_campaign(ROOT / "results" / "h100-sxm" / "2026-11-paper")
    seen = [found for run in runs if (found := effects(run, deals=2))]
    ratios = [one for found in seen for one in found]
    settled = [one for one in ratios if one.source == "settled"]
    text = " ".join(PAGE.split())
    assert f"Of the {len(settled)} in the {len(seen)} recorded runs that keep predecessors" in text
    assert f"of all {len(ratios)} have p below" in text
    assert f"one by {max(abs(one.effect_pct) for one in settled):.1f} %" in text
    assert not [one for one in ratios if one.beyond and one not in settled]
