"""The planted faults still fit the tree: that tests catch them is for `python tests/planted/run.py` to show."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.planted.run import HERE, ROOT, all_faults, read_fault

ROOMS = 12
A_ROOM = 5


def test_there_are_five_a_room():
    rooms = Counter(fault.name.split("/")[0] for fault in all_faults())
    assert len(rooms) >= ROOMS
    assert {room: count for room, count in rooms.items() if count < A_ROOM} == {}


def test_each_can_be_planted_and_names_tests_that_there_are():
    wrong = []
    for fault in all_faults():
        tried = subprocess.run(["git", "apply", "--check", fault.path], cwd=ROOT, capture_output=True, text=True)
        if tried.returncode:
            wrong.append(f"{fault.name}: {tried.stderr.strip()}")
        named = [word for word in fault.seen_by if word.startswith("tests/")]
        for word in named:
            file, _, test = word.partition("::")
            function = test.split("::")[-1].split("[")[0]
            if not (ROOT / file).exists() or (function and f"def {function}(" not in (ROOT / file).read_text()):
                wrong.append(f"{fault.name}: there is no {word}")
        if not named:
            wrong.append(f"{fault.name} names no test")
    assert wrong == []


@pytest.mark.parametrize("missing", ["What", "Seen by"])
def test_a_fault_says_what_it_does_and_who_sees_it(tmp_path: Path, missing):
    lines = {"What": "a number is wrong", "Seen by": "tests/test_scale.py"}
    head = "".join(f"{key}: {text}\n" for key, text in lines.items() if key != missing)
    path = tmp_path / "one.patch"
    path.write_text(f"{head}\n--- a/x\n+++ b/x\n")
    with pytest.raises(ValueError, match=missing):
        read_fault(path)


def test_the_folder_holds_faults_alone():
    assert [
        path.name
        for path in HERE.iterdir()
        if path.is_dir() and path.name != "__pycache__" and not list(path.glob("*.patch"))
    ] == []
