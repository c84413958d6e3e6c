import pytest

from harness.records.errors import HarnessError
from harness.records.naming import (
    Contestant,
    builds_under,
    closest,
    parse_contestant,
    problem_keys,
    problem_text,
    same_problem,
    with_builds,
)


@pytest.mark.parametrize(
    ("label", "implementation", "variant"),
    [
        ("tk", "tk", ""),
        ("tk[]", "tk", ""),
        ("tk[stages=2]", "tk", "stages=2"),
        ("tk[stages=02]", "tk", "stages=2"),
        ("tk[stages=2;persistent=0]", "tk", "persistent=0;stages=2"),
        ("tk[persistent=0,stages=2]", "tk", "persistent=0;stages=2"),
        ("tk[a1=1;a=2]", "tk", "a=2;a1=1"),
        (" tk [ order = row_major ] ", "tk", "order=row_major"),
        ("mine_2[p=0.1;tile=128x256]", "mine_2", "p=0.1;tile=128x256"),
    ],
)
def test_a_label_has_one_meaning_however_it_is_written(label, implementation, variant):
    contestant = parse_contestant(label)
    assert contestant == Contestant(implementation, variant)
    assert parse_contestant(str(contestant)) == contestant


def test_two_kernels_of_a_contestant_are_both_kept():
    """Guard: the build of a run's last problem took the place of those before, though another kernel had run there."""
    whole, decode = ({"name": name, "binary_hash": "c0de"} for name in ("attention", "paged_attention_decode"))
    backward = {"name": "attention_warps_backward"}
    builds = {}
    for found in ({"tk": decode}, {"tk": whole, "tk bwd": backward}, {"tk": decode}, {"tk": {**whole, "registers": 9}}):
        builds = with_builds(builds, found)
    assert builds == {"tk": decode, "tk attention": {**whole, "registers": 9}, "tk bwd": backward}
    assert builds_under(builds, Contestant("tk"), "fwd") == [decode, builds["tk attention"]]
    assert builds_under(builds, Contestant("tk"), "bwd") == [backward]
    assert builds_under(builds, Contestant("tk", "path=decode"), "fwd") == []


def test_values_have_their_types():
    options = parse_contestant("tk[a=1;b=0.5;c=1x2;d=-3;e=1e-3]").options
    assert options == {"a": 1, "b": 0.5, "c": "1x2", "d": -3, "e": 0.001}
    assert isinstance(options["a"], int)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("", "not a name with options"),
        ("tk[", "not a name with options"),
        ("tk[stages=2", "not a name with options"),
        ("tk[a=1][b=2]", "not a name with options"),
        ("2tk", "not a name with options"),
        ("flash-attn", "not a name with options"),
        ("[stages=2]", "not a name with options"),
        ("tk[stages]", "not of the form key=value"),
        ("tk[=2]", "not of the form key=value"),
        ("tk[stages=]", "not of the form key=value"),
        ("tk[stages=1;stages=2]", "given twice"),
    ],
)
def test_bad_labels(label, words):
    with pytest.raises(HarnessError, match=words):
        parse_contestant(label)


def test_near_misses():
    assert closest("stagse", ["stages", "order"]) == "; did you mean stages?"
    assert closest("k", ["M", "N", "K"]) == "; did you mean K?", "upper and lower case are the least of mistakes"
    assert closest("budget", ["budget_s", "kind"], "timer.") == "; did you mean timer.budget_s?"
    assert closest("partion", ["_target_"], "hydra.launcher.") == "", "what stands before both says nothing"


def test_problems_are_compared_by_their_keys():
    assert problem_text({"M": 1, "causal": True}) == "M=1;causal=1"
    assert problem_keys("M=1;causal=1") == {"M": "1", "causal": "1"}
    assert problem_keys("") == {}
    assert same_problem("M=1;N=2", "N=2;M=1")
    assert not same_problem("M=1;N=2", "M=1")
    assert not same_problem("M=1;N=2", "M=1;N=2;causal=1")


@pytest.mark.parametrize("text", ["M", "M=1;N", "M=1;M=2"])
def test_what_is_no_problem_is_refused(text):
    with pytest.raises(HarnessError, match="is not one key=value"):
        problem_keys(text)
