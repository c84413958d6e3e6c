"""`python -m harness --help`: what it says is what configs/ holds."""

import subprocess
import sys

import pytest
import yaml
from harness_support import ROOT

from harness.__main__ import main
from harness.plan.help import GROUPS, help_text
from harness.records.places import CONFIGS


def test_every_key_and_every_choice_is_in_it():
    """Guard: a key without a comment would be left unexplained; a test of the configurations asks for comments."""
    text = help_text(["--help"])
    settings = yaml.safe_load((CONFIGS / "config.yaml").read_text())
    assert all(f"\n{key}:" in text for key in settings if key != "hydra")
    for group in GROUPS:
        assert all(path.stem in text for path in (CONFIGS / group).glob("*.yaml"))


def test_its_examples_are_commands_that_the_harness_takes():
    from tests.test_documented_commands import check_harness, words_of

    examples = [line.split("  ")[1] for line in help_text([]).split("Examples\n")[1].splitlines()[:6]]
    assert len(examples) == 6
    for line in examples:
        assert line.startswith("python -m harness ")
        check_harness(words_of(line)[3:])


def test_a_choice_is_its_file_behind_those_that_it_builds_on():
    text = help_text(["timer=cuda_graph", "-h"])
    assert text.index("kind: cuda_events") < text.index("budget_seconds:") < text.index("kind: cuda_graph")


def test_what_there_is_not_is_said(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tk-bench", "--help", "workload=gem"])
    assert main() == 2
    said = capsys.readouterr().err
    assert said.startswith("workload=gem is no choice: there is attention, ")
    assert said.endswith("; did you mean gemm?\n")


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("timer=nope", 2)])
def test_it_comes_at_once(word, code):
    """Guard: it took two seconds, of importing torch and Hydra."""
    program = (
        f"import sys; sys.argv = ['tk-bench', {word!r}, '--help']; from harness.__main__ import main; code = main(); "
        "sys.exit(9 if any(name in sys.modules for name in ('torch', 'hydra', 'pandas')) else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert code or done.stdout == f"{help_text([])}\n"
