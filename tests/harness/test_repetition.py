"""The command of a row: composed by Hydra, it is the case that was measured, with the settings it was measured with."""

import shlex

import pytest
from harness_support import CONFIG_DIR, config

from harness.plan.planning import make_plan
from harness.plan.repetition import repro_command

EXPERIMENTS = sorted(path.stem for path in (CONFIG_DIR / "experiment").glob("*.yaml"))


def repeated(*overrides):
    """(plan of a command, plan of the command that repeats the last case of its last problem)."""
    plan = make_plan(config(*overrides), overrides)
    group = plan.groups[-1]
    words = shlex.split(repro_command(plan, group, len(group.contestants) - 1))
    assert words[:3] == ["python", "-m", "harness"]
    return plan, make_plan(config(*words[3:]), words[3:])


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_case_of_every_experiment_is_repeated_as_it_was_measured(experiment):
    """Guard: what an experiment's file says of the timer and the profile is in no override of the command line."""
    plan, again = repeated(f"experiment={experiment}")
    assert again.timer == plan.timer
    assert again.limits == plan.limits
    assert again.profile_metrics == plan.profile_metrics
    (group,) = again.groups
    assert group.case_ids == (plan.groups[-1].case_ids[-1],)
    assert group.seed == plan.groups[-1].seed


@pytest.mark.parametrize(
    "overrides",
    [
        ("experiment=table1_stages", "timer=cuda_graph"),
        ("experiment=table1_stages", "timer=cuda_graph", "timer.flush_l2=false", "timer.min_rounds=7"),
        ("experiment=fig9_rotary", "timer.budget_seconds=1"),
        ("experiment=table4_attention", "profile=null", "limits.case_seconds=17.5"),
        ("timer.kind=cuda_graph", "profile=ncu"),
    ],
)
def test_what_the_command_line_says_wins(overrides):
    plan, again = repeated(*overrides)
    assert (again.timer, again.limits, again.profile_metrics) == (plan.timer, plan.limits, plan.profile_metrics)


def test_nothing_is_written_that_is_a_default():
    plan = make_plan(config("device=cpu"), ["device=cpu"])
    words = shlex.split(repro_command(plan, plan.groups[0], 0))
    assert words[-2:] == ["timer=cuda_events", "device=cpu"]
