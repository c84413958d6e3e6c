"""What pyproject.toml cannot say: a wheel carries the configurations, the recorded campaign and its commit as data.

They lie beside the packages in a checkout, and in `harness/data/` of a wheel: `harness/records/places.py` finds both.
"""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
PLACES = runpy.run_path(str(ROOT / "harness" / "records" / "places.py"))
DATA = ("configs", PLACES["FIRST"], "results/README.md")
BUILD_INFO = "build_info.json"


def git(*arguments: str) -> str | None:
    """What git says of this checkout; None where this is none."""
    if not (ROOT / ".git").exists():
        return None
    try:
        command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def write_build_info(folder: Path) -> None:
    """Stamps the commit into a folder; an unpacked source distribution hands on its own."""
    commit = git("rev-parse", "HEAD")
    if commit is not None:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
        stamp = json.dumps({"git_commit": commit, "git_dirty": changed != ""})
        (folder / BUILD_INFO).write_text(f"{stamp}\n")
    elif (ROOT / BUILD_INFO).exists():
        shutil.copyfile(ROOT / BUILD_INFO, folder / BUILD_INFO)


class BuildWithData(build_py):
    """The packages, and their data; an editable installation reads the checkout's own."""

    def run(self) -> None:
        """Builds, then adds the data."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "harness" / "data"
        shutil.rmtree(target, ignore_errors=True)
        for name in DATA:
            source, copy = ROOT / name, target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
            else:
                shutil.copyfile(source, copy)
        write_build_info(target)


class SdistWithCommit(sdist):
    """The source distribution, which has no git to ask and keeps the commit in a file."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Fills the folder that is packed."""
        super().make_release_tree(base_dir, files)
        write_build_info(Path(base_dir))


setup(cmdclass={"build_py": BuildWithData, "sdist": SdistWithCommit})
