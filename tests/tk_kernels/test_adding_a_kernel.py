"""The kernel of docs/adding_a_kernel.md, made as the page prints it, in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adding_a_kernel.md"
PLACES = (
    "tk_kernels/kernels/scale",
    "harness/workloads/scale.py",
    "configs/workload/scale.yaml",
    "tests/tk_kernels/test_scale.py",
)
OF_EVERY_OPERATOR = ("test_contract.py", "test_dense_rows.py", "test_freed_memory.py", "test_unusual_tensors.py")


def files() -> dict[str, str]:
    """The files that the page shows: each code block begins with a comment of the file's path and what it is."""
    pattern = r"^```(?:cpp|python|yaml)\n((?:# @package \S+\n)?(?://|#) (\S+): .*?^)```$"
    blocks = re.findall(pattern, PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return {path: text for text, path in blocks}


def test_the_page_shows_every_file_of_the_places_that_it_names() -> None:
    named = re.findall(r"^\| [^|]+ \| `([^`]+?)/?` \|$", PAGE.read_text(), re.MULTILINE)
    assert tuple(named) == PLACES
    assert {next(place for place in PLACES if path.startswith(place)) for path in files()} == set(PLACES)
    assert not any((ROOT / path).exists() for path in files())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the page's files."""
    copy = tmp_path_factory.mktemp("project")
    for folder in ("tk_kernels", "harness", "configs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "tests" / "tk_kernels").mkdir(parents=True)
    for path in ("pyproject.toml", "tests/conftest.py", "tests/which_gpu.py", "tests/tk_kernels/conftest.py"):
        shutil.copy(ROOT / path, copy / path)
    for name in ("operator_examples.py", *OF_EVERY_OPERATOR):
        shutil.copy(ROOT / "tests" / "tk_kernels" / name, copy / "tests" / "tk_kernels" / name)
    for path, text in files().items():
        (copy / path).parent.mkdir(exist_ok=True)
        (copy / path).write_text(text)
    return copy


def said(project: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_of_the_page_pass_and_those_of_every_operator_find_it(project: Path) -> None:
    out = said(project, "pytest", "-q", "-p", "no:cacheprovider", "-k", "scale", "-rA", "tests")
    passed = re.findall(r"^PASSED \S+::(\w+)", out, re.MULTILINE)
    assert {"test_every_size", "test_wrong_arguments_are_named", "test_the_operator_is_one_of_pytorchs"} <= set(passed)
    assert {"test_the_others_copy_it", "test_vmap_is_a_launch_for_each", "test_a_freed_operand_is_refused"} <= set(
        passed
    )


def test_the_harness_runs_the_workload_of_the_page(project: Path) -> None:
    problems = "problems=[{rows:37,columns:264},{rows:37,columns:12}]"
    contestants = "implementations=[tk,'tk[factor=0.75]']"
    out = said(project, "harness", "workload=scale", "device=cpu", problems, contestants, "wandb=disabled")
    assert re.search(r"tk\b.*passed", out), out
    assert re.search(r"tk\[factor=0.75\].*passed", out), out
    assert "tk scale takes columns of multiples of 8 up to 512, not 12" in out
