"""`.ci/site`: the nights that GitHub keeps are put together, and the site is made with them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NIGHTS = {"101": ("20260101T000000Z-aaaaaa",), "102": ("20260102T000000Z-bbbbbb", "20260102T000100Z-cccccc"), "103": ()}


@pytest.fixture
def checkout(tmp_path):
    """A folder with the script, and stand-ins for what it calls."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "site", tmp_path / ".ci" / "site")
    for night, runs in NIGHTS.items():
        for number, run in enumerate(runs):
            campaign = "nightly-again" if number else "nightly"
            folder = tmp_path / "kept" / night / f"nightly-{night}-1" / "runs" / campaign / run
            folder.mkdir(parents=True)
            (folder / "manifest.json").write_text("{}")
    program = {
        "bin/make": 'echo make "$@" >> said',
        "bin/gh": 'if [ "$2" = list ]; then cat listed; else cp -r "kept/$3" "$5"; fi',
    }
    for name, text in program.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    return tmp_path


def site(checkout, nights):
    (checkout / "listed").write_text("\n".join(nights))
    environment = {**os.environ, "PATH": f"{checkout}/bin:{os.environ['PATH']}"}
    return subprocess.run([checkout / ".ci" / "site"], env=environment, capture_output=True, text=True, check=False)


def test_the_nights_are_put_together(checkout):
    done = site(checkout, NIGHTS)
    assert done.returncode == 0, done.stderr
    assert "night 103: no artifact is left of it" in done.stdout
    found = sorted(
        path.parent.relative_to(checkout).as_posix() for path in (checkout / "nights").rglob("manifest.json")
    )
    assert found == [
        "nights/nightly-again/20260102T000100Z-cccccc",
        "nights/nightly/20260101T000000Z-aaaaaa",
        "nights/nightly/20260102T000000Z-bbbbbb",
    ]
    assert (checkout / "said").read_text().strip() == "make site EXTRAS=docs,figures SITE_ARGS=nights/nightly"


def test_without_a_night_there_is_a_site(checkout):
    assert site(checkout, []).returncode == 0
    assert "nights/" not in (checkout / "said").read_text()
