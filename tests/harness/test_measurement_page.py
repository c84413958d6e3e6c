"""docs/measurement.md sends a sceptical reader to tests and modules: all of them exist."""

import re

from harness_support import ROOT

PAGE = (ROOT / "docs" / "measurement.md").read_text()


def test_every_test_that_the_page_names_exists():
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    defined = {name for text in sources.values() for name in re.findall(r"^def (test_\w+)\(", text, flags=re.MULTILINE)}
    named = set(re.findall(r"`(?:tests/\w+/)?(test_\w+(?:\.py)?)`", PAGE))
    assert len(named) > 30
    assert not named - defined - {path.name for path in sources}


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`((?:harness|tests|docs|configs|tools)/[\w/.]+)`", PAGE))
    assert {"harness/roofs.py", "harness/timing/settled.py"} <= named
    assert not [name for name in named if not (ROOT / name).exists()]
