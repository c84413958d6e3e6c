"""The scale in the hall: how many code lines each room has, and that it does not grow unnoticed.

A budget follows its room down: whoever makes a room lighter lowers it here. It rises only in a commit that says why.
"""

from __future__ import annotations

import pytest

from tests.scale import code_lines, scale, tracked

BUDGET = {
    "product": 53_556,
    "tk_kernels": 22_659,
    "harness": 10_448,
    "baselines": 3_496,
    "paper_figures": 13_226,
    "configs": 1_678,
    "tools": 1_923,
    "examples": 126,
    "tests": 39_444,
    "product files": 813,
    "words of prose": 19_200,
}
SLACK = 0.01
"""A room may be so much lighter than its budget before the budget has to follow."""


@pytest.fixture(scope="module")
def counted():
    return scale(tracked())


@pytest.mark.parametrize("what", BUDGET)
def test_no_room_grows(counted, what):
    now = counted[what]
    assert now <= BUDGET[what], f"{what} has {now}, {now - BUDGET[what]} over its budget: `python tests/scale.py`"
    assert now >= (1 - SLACK) * BUDGET[what] - 1, f"{what} has {now}: lower its budget of {BUDGET[what]} in {__file__}"


def test_every_room_has_a_budget(counted):
    assert counted.keys() == BUDGET.keys()


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", '"""Two\nlines."""\n\n# a comment\nx = 1  # one\ny = """a\nb"""\n', 3),
        ("a.py", 'def f():\n    """Doc."""\n    return (\n        1\n    )\n', 4),
        ("a.cuh", "/* a\n b */\nint x; // c\n\n// d\n", 1),
        ("a.yaml", "# a\nb: 1\n\n  # c\nd: 2\n", 2),
        ("Makefile", "a:\n\t# b\n\tc\n", 2),
        ("a.json", '{\n"a": 1\n}\n', 3),
        ("a.png", "x\n", 0),
    ],
)
def test_what_is_a_code_line(name, text, lines):
    assert code_lines(name, text) == lines
