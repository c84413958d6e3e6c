"""`python -m harness.overhead`: what stored runs cost, with an account of their own or without."""

import json

import pytest
from harness_support import MANIFEST, group

from harness.overhead import main
from harness.store import Store


@pytest.fixture
def campaign(tmp_path):
    """Two runs with an account, one without, and one without that did not end."""

    def make(name, **manifest):
        with Store.create(tmp_path / name, {**MANIFEST, "run_id": name, "experiment": name, **manifest}) as made:
            made.append(group(n=100_000))  # two cases of 10 us: 2 s

    make("a", started_utc="2026-11-20T12:00:00Z", seconds={"calls": 6.0, "prepare": 2.0, "start": 2.0})
    make("b", started_utc="2026-11-20T12:01:00Z", seconds={"calls": 1.0, "reference": 9.0})
    make("c", started_utc="2026-11-20T12:02:00Z", ended_utc="2026-11-20T12:02:08Z")
    make("d", started_utc="2026-11-20T12:03:00Z")
    return tmp_path


def test_a_campaign_adds_up(campaign, capsys):
    """Guard: what is estimated is called a bound, and is not in the sum."""
    assert main([str(campaign)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a a: 10.0 s, calls 6.0, prepare 2.0, overhead 20 %, 25 % of what is not compiling or tuning: start 2.0",
        "b b: 10.0 s, calls 1.0, overhead 90 %: reference 9.0",
        "c c: no account; 8 s from begin to end, 2.0 in timed calls, overhead at most 75 %",
        "d d: no account, and it did not end",
        "2 runs with an account: 20.0 s, calls 7.0, prepare 2.0, overhead 55 %, "
        "61 % of what is not compiling or tuning: reference 9.0, start 2.0",
    ]


def test_runs_can_be_left_out(campaign, capsys):
    """A repeated exhibit counts once, whatever the order of the folders; a name that no run has is said."""
    for name in ("later", "earlier"):
        with Store.create(
            campaign / name,
            {
                **MANIFEST,
                "run_id": name,
                "experiment": "a",
                "started_utc": f"2026-11-{21 if name == 'later' else 19}T12:00:00Z",
                "seconds": {"calls": 3.0, "start": 1.0},
            },
        ):
            pass
    folders = [str(campaign / name) for name in ("later", "a", "earlier", "b")]
    assert main([*folders, "--newest", "--without", "b,nothing"]) == 0
    said = capsys.readouterr()
    assert [line.partition(":")[0] for line in said.out.splitlines()] == ["a later", "1 run with an account"]
    assert said.err == "--without nothing: no run is of it\n"
    assert main([*folders, "--without", "a"]) == 0
    assert capsys.readouterr().out.startswith("b b: ")
    assert main([*folders, "--without", "a,b"]) == 0
    assert capsys.readouterr().out == ""


def test_one_run_and_none(campaign, capsys):
    assert main([str(campaign / "a")]) == 0
    assert capsys.readouterr().out.startswith("a a: 10.0 s")
    (campaign / "a" / "manifest.json").write_text(json.dumps([]))
    assert main([str(campaign / "a")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_folder_that_cannot_be_used_hides_no_other(campaign, capsys):
    """Guard: each folder is read on its own; what is wrong with one is said beside the others' lines."""
    good, bad = str(campaign / "a"), str(campaign / "nowhere")
    for folders in ([good, bad], [bad, good]):
        assert main(folders) == 2
        said = capsys.readouterr()
        assert said.out.startswith("a a: 10.0 s")
        assert said.err.startswith(f"{bad} ")
        assert len(said.err.strip().splitlines()) == 1
    assert main([bad]) == 2
    assert capsys.readouterr().out == ""
