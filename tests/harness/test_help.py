"""`python -m harness --help`: what it says is what configs/ holds."""

import re
import subprocess
import sys

import pytest
import yaml
from harness_support import ROOT

from harness.command.cli import main
from harness.plan import help as harness_help
from harness.plan.help import WIDTH, help_text
from harness.records.errors import HarnessError
from harness.records.places import CONFIGS

GROUPS = ("workload", "device", "timer", "wandb", "experiment")


def flat(text):
    """A text without its line breaks and indentation."""
    return " ".join(text.split())


def leaves(settings, before=""):
    for key, value in settings.items():
        yield from leaves(value, f"{before}{key}.") if isinstance(value, dict) else [f"{before}{key}"]


def test_every_key_and_every_choice_is_in_it():
    """Guard: a key without a comment would be left out; a test of the configurations asks for comments."""
    text = help_text(["--help"])
    settings = yaml.safe_load((CONFIGS / "config.yaml").read_text())
    for name in leaves({key: value for key, value in settings.items() if key not in ("defaults", "hydra")}):
        assert re.search(rf"^  {re.escape(name)}=", text, flags=re.MULTILINE), name
    for group in GROUPS:
        assert re.search(rf"^  {group} ", text, flags=re.MULTILINE)
        assert all(path.stem in flat(text) for path in (CONFIGS / group).glob("*.yaml"))
    assert "named set of runs, from which a report is made" in text
    assert max(map(len, text.splitlines())) <= WIDTH + 6


def test_its_examples_are_commands_that_the_harness_takes():
    from tests.test_documented_commands import check_harness, words_of

    examples = [line.split("  ")[1] for line in help_text([]).split("Examples\n")[1].splitlines()[:6]]
    assert len(examples) == 6
    for line in examples:
        assert line.startswith("python -m harness ")
        check_harness(words_of(line)[3:])


@pytest.mark.parametrize("path", sorted((CONFIGS / "workload").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_workload_names_its_problem_and_its_contestants(path):
    text = help_text([f"workload={path.stem}", "--help"])
    held = yaml.safe_load(path.read_text())
    for key, value in held["problem"].items():
        assert re.search(
            rf"[ ]{key}={'null' if value is None else re.escape(str(value))}( |$)", text, flags=re.MULTILINE
        ), key
    for name in held["workload"]["implementations"]:
        assert re.search(rf"^  {name}\b", text, flags=re.MULTILINE), name


def test_a_timer_that_builds_on_another_has_its_keys_too():
    text = help_text(["timer=cuda_graph", "-h"])
    assert "timer.kind=cuda_graph" in text
    assert "timer.budget_seconds=" in text
    assert "timer.kind=cuda_events" not in text


def test_what_there_is_not_is_said(monkeypatch, capsys):
    with pytest.raises(HarnessError, match="workload=gem is no choice: there is attention, .*; did you mean gemm?"):
        help_text(["workload=gem", "--help"])
    assert main(["--help", "timer=nope"]) == 2
    assert "timer=nope is no choice: there is cuda_events, cuda_events_clean, cuda_graph" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["tk-bench", "--help", "device=nope"])
    assert harness_help.main() == 2
    assert "device=nope is no choice" in capsys.readouterr().err


def test_it_comes_at_once():
    """Guard: it took two seconds, of importing torch and Hydra."""
    code = (
        "import sys; sys.argv = ['tk-bench', '--help']; from harness.__main__ import main; code = main(); "
        "sys.exit(code or any(name in sys.modules for name in ('torch', 'hydra', 'pandas')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{help_text([])}\n"
