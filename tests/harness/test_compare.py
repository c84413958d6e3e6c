"""`python -m harness.compare` on synthetic nights that went through the real planner, statistics and store."""

import gzip
import json
import re
import shutil
import subprocess
import sys

import pytest
from harness_replay import record
from harness_support import ROOT, config, edit, ending

from harness.between.comparison import Comparison, compare, history
from harness.command import compare as command
from harness.plan.planning import make_plan
from harness.records.errors import HarnessError
from harness.records.rows import Measurement, Verdict
from harness.runs import load_run as load

NIGHTS = {
    "first": {"seed": 1},
    "second": {"seed": 2},
    "slowed": {"seed": 3, "speed": 1 / 1.03},
    "slowed_again": {"seed": 4, "speed": 1 / 1.03},
    "clock": {"seed": 5, "clock": 0.95},
}
"""What each night is: the kernel under test 3 % slower, or the board's clock 5 % lower."""


main = ending(command.main)
OURS = '"tk","variant":"","version":"good 1.0'


@pytest.fixture(scope="session")
def nights(tmp_path_factory):
    """One run each of `NIGHTS`, in that order: two problems, a kernel and two controls; name -> folder."""
    results = tmp_path_factory.mktemp("nights")
    return {
        name: record(results, f"2026112{number}T030000Z-{number:06x}", **night)
        for number, (name, night) in enumerate(NIGHTS.items())
    }


def altered(source, target, *, table=None, **manifest):
    """A copy of a run with other entries in its manifest, and (old, new) texts exchanged in its measurements."""
    shutil.copytree(source, target)
    path = target / "manifest.json"
    content = json.loads(path.read_text())
    for key, value in manifest.items():
        content[key] = {**content[key], **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(content))
    for file in target.glob("group-*") if table else ():
        text = gzip.decompress(file.read_bytes()).decode()
        assert table[0] in text
        file.write_bytes(gzip.compress(text.replace(*table).encode()))
    return target


def subjects(comparison):
    return [row for row in comparison.rows if row.subject]


def test_equal_code_on_two_nights_is_the_same(nights, capsys):
    assert main([str(nights["first"]), str(nights["second"])]) == 0
    said = capsys.readouterr().out
    assert "Board, driver, libraries, settings and code are the same." in said
    assert "No case is slower" in said
    found = compare(load(nights["second"]), [load(nights["first"])], ["tk"])
    assert [row.verdict for row in found.rows] == [Verdict.SAME] * 6
    assert [row.label for row in found.rows if row.subject] == ["tk", "tk"]


def test_three_percent_slower_is_suspected_once_and_a_regression_twice(nights, capsys):
    """Guard: the second measurement.  One alone never ends with 1."""
    pair = [str(nights["first"]), str(nights["slowed"])]
    assert main(pair) == 3
    said = capsys.readouterr().out
    assert re.search(r"suspected: gemm M=64 N=48 K=64 tk is [23]\.\d % slower; measure it again", said)
    assert main([*pair, "--again", str(nights["slowed_again"])]) == 1
    assert re.search(r"REGRESSION: gemm M=64 N=48 K=64 tk is [23]\.\d % slower, seen twice", capsys.readouterr().out)


def test_what_is_not_seen_again_is_no_regression(nights, capsys):
    assert main([str(nights["first"]), str(nights["slowed"]), "--again", str(nights["second"])]) == 0
    assert "SLOWER, SAME the second time" in capsys.readouterr().out


def test_clock_change_alone_is_no_alarm(nights):
    """Guard: confirmation in cycles and against the controls."""
    found = compare(load(nights["clock"]), [load(nights["first"])], ["tk"])
    assert found.exit_code == 0
    for row in subjects(found):
        assert (row.time.verdict, row.cycles.verdict, row.control.verdict) == (
            Verdict.SLOWER,
            Verdict.SAME,
            Verdict.SAME,
        )
        assert row.verdict is Verdict.SAME
    assert found.controls_speed == pytest.approx(0.95, rel=0.02)


def test_slower_controls_are_no_alarm_and_no_cover(nights):
    """The control group changes nothing about itself: a slower baseline is shown and never a regression."""
    found = compare(load(nights["first"]), [load(nights["slowed"])], ["cublas"])
    assert found.exit_code == 0
    assert all(row.verdict is Verdict.FASTER for row in found.rows if row.label == "tk")


def test_a_control_that_strays_is_no_cover(nights, tmp_path):
    """Guard: controls have to agree.  One that got slower by itself would hide the slower kernel."""
    run = load(record(tmp_path, "20261130T030000Z-00000e", seed=6, speed=1 / 1.03, quack=1 / 1.2))
    found = compare(run, [load(nights["first"])], ["tk"])
    assert found.exit_code == 3
    for row in subjects(found):
        assert row.control.verdict is row.verdict is Verdict.SLOWER
        assert row.remark == "no control: quack (moved by itself)"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"gpu": {"driver": "590.1"}}, "driver: 580.0 -> 590.1"),
        ({"gpu": {"uuid_hash": "fedcba9876543210"}}, "board: 0123456789abcdef -> fedcba9876543210"),
        ({"gpu": {"power_limit_w": 600.0}}, "power limit, W: 700.0 -> 600.0"),
        ({"libraries": {"torch": "9.9"}}, "library torch: "),
        ({"table": ("good 1.0", "good 1.1")}, "version of cublas: good 1.0 -> good 1.1"),
    ],
)
def test_other_circumstances_come_first_and_suppress_the_alarm(nights, tmp_path, capsys, monkeypatch, other, words):
    """Guard: suppression, where the controls moved too; under the same circumstances it ends with 3."""
    monkeypatch.setattr(Comparison, "controls_held", False)
    run, again = (altered(nights[name], tmp_path / name, **other) for name in ("slowed", "slowed_again"))
    assert main([str(nights["first"]), str(run), "--again", str(again)]) == 0
    said = capsys.readouterr().out
    assert words in said
    assert "no alarm" in said
    assert said.index(words) < said.index("## Outcome") < said.index("| problem")
    assert "2 cases are slower, and no alarm is raised" in said


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"git_commit": "a" * 40}, "commit: "),
        ({"kernel_builds": {"tk": {"binary_hash": "feedbeef00"}}}, "machine code of tk: "),
    ],
)
def test_changed_code_is_shown_and_suppresses_nothing(nights, tmp_path, capsys, other, words):
    before = altered(nights["first"], tmp_path / "before", kernel_builds={"tk": {"binary_hash": "0123"}})
    run = altered(nights["slowed"], tmp_path / "run", **other)
    assert main([str(before), str(run)]) == 3
    assert words in capsys.readouterr().out


def test_a_case_that_fails_now_is_a_failure_whatever_changed(nights, tmp_path, capsys):
    """Guard: failing cases.  No driver excuses a wrong result, and a case without a time is not SAME."""
    run = altered(nights["second"], tmp_path / "run", gpu={"driver": "590.1"})
    for file in run.glob("group-*"):
        edit(file, broken)
    assert main([str(nights["first"]), str(run)]) == 1
    said = capsys.readouterr().out
    assert "FAILED: gemm M=64 N=48 K=64 tk: failed_verification: c is wrong" in said


def broken(held):
    """Makes the case of `tk` in a group one that failed verification."""
    (row,) = (row for row in held["measurements"] if row["implementation"] == "tk")
    row.update(dict.fromkeys(Measurement.timed()), timer="", cache="", throttled="")
    row.update(status="failed_verification", reason="c is wrong", n_samples=0)
    del held["samples"][row["case_id"]]


def without_a_problem(source, target, **manifest):
    """A copy of a run that has not measured K = 128."""
    run = altered(source, target, **manifest)
    content = json.loads((run / "manifest.json").read_text())
    kept = [one for one in content["groups"] if one["problem"] != "M=64;N=48;K=128"]
    assert 0 < len(kept) < len(content["groups"])
    (run / "manifest.json").write_text(json.dumps({**content, "groups": kept}))
    return run


def test_a_case_that_is_gone_is_a_failure(nights, tmp_path, capsys):
    """Guard: a kernel that is measured no more does not pass for one that is as fast as before."""
    run = without_a_problem(nights["second"], tmp_path / "gone")
    assert main([str(nights["first"]), str(run)]) == 1
    said = capsys.readouterr().out
    assert "- FAILED: gemm M=64 N=48 K=128 tk: not in the new run" in said
    assert said.count("- FAILED") == 1, "a control that is gone is only a remark"
    assert main([str(run), str(nights["first"])]) == 0, "a case more is none less"


def test_a_case_of_another_experiment_was_not_asked_for(nights, tmp_path):
    run = without_a_problem(nights["second"], tmp_path / "other", experiment="a_smaller_one")
    assert main([str(nights["first"]), str(run)]) == 0


def test_one_case_is_said_as_one(nights, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Comparison, "controls_held", False)
    run = without_a_problem(nights["slowed"], tmp_path / "one", experiment="a_smaller_one", gpu={"driver": "590.1"})
    main([str(nights["first"]), str(run)])
    assert "- 1 case is slower, and no alarm is raised" in capsys.readouterr().out


def test_an_unfinished_run_is_a_failure(nights, tmp_path):
    """Guard: a night that was cut short does not pass for a quiet one."""
    run = altered(nights["second"], tmp_path / "run", status="interrupted")
    assert main([str(nights["first"]), str(run)]) == 1


def test_other_timer_is_not_compared(nights, tmp_path):
    run = altered(nights["slowed"], tmp_path / "run", table=('"cuda_events","cache"', '"cuda_graph","cache"'))
    rows = subjects(compare(load(run), [load(nights["first"])], ["tk"]))
    assert [row.verdict for row in rows] == [None, None]
    assert rows[0].remark == "was timed otherwise before (cuda_events, flushed)"


def test_a_control_with_other_kernels_is_none(nights, tmp_path):
    """Guard: a control's fingerprint."""
    run = altered(nights["second"], tmp_path / "run", table=("fake_gemm_kernel", "another_kernel"))
    rows = subjects(compare(load(run), [load(nights["first"])], ["tk"]))
    assert rows[0].control is None
    assert rows[0].remark == "no control: cublas, quack (not in every run with the same kernels)"
    assert rows[0].verdict is Verdict.SAME


def test_moving_baseline(nights, tmp_path, capsys):
    campaign = nights["first"].parent
    new = load(nights["slowed"])
    assert [run.path for run in history(campaign, new, 7)] == [nights["first"], nights["second"]]
    assert [run.path for run in history(campaign, new, 1)] == [nights["second"]]
    assert main(["--against", str(campaign), str(nights["slowed"])]) == 3
    said = capsys.readouterr().out
    assert f"against the last 2 runs ({nights['first'].name} and later)" in said
    assert main(["--against", str(campaign), str(nights["second"])]) == 0


def test_moving_baseline_leaves_out_other_circumstances(nights, tmp_path, capsys):
    """Guard: after a driver update the nights before it are no baseline, and the first night since is no alarm."""
    campaign = tmp_path / "nightly"
    altered(nights["first"], campaign / nights["first"].name, gpu={"driver": "570.0"})
    altered(nights["second"], campaign / nights["second"].name)
    assert main(["--against", str(campaign), str(nights["slowed"])]) == 3
    said = capsys.readouterr().out
    assert f"{nights['first'].name} left out: driver: 570.0 -> 580.0" in said
    shutil.rmtree(campaign / nights["second"].name)
    assert main(["--against", str(campaign), str(nights["second"])]) == 0


def test_a_regression_on_the_night_of_a_driver_update_is_not_lost(nights, tmp_path, capsys):
    """Guard: that night's times are what later nights are compared with; the controls say that it is the code."""
    for again in ([], ["--again", str(altered(nights["slowed_again"], tmp_path / "again", gpu={"driver": "590.1"}))]):
        run = altered(nights["slowed"], tmp_path / f"run{len(again)}", gpu={"driver": "590.1"})
        assert main([str(nights["first"]), str(run), *again]) == 3
        assert "the controls are as fast as before: look at it" in capsys.readouterr().out
    moved = record(tmp_path, "20261126T030000Z-00000c", seed=3, speed=1 / 1.03, clock=0.95, driver="590.1")
    assert main([str(nights["first"]), str(moved)]) == 0, "controls that are slower too"


def test_what_moved_is_said(nights, tmp_path, capsys):
    """Guard: roofs that are lower are said; a campaign is no run."""
    roofs = {name: 0.85 * value for name, value in load(nights["second"]).manifest["roofs"].items()}
    assert main([str(nights["first"]), str(altered(nights["second"], tmp_path / "run", roofs=roofs))]) == 0
    assert re.search(r"The machine: .*copy_gbps \d+ -> \d+ \(-15 %\)", capsys.readouterr().out)
    assert main([str(nights["first"].parent), str(nights["second"])]) == 2
    assert "is a campaign, needs a run" in capsys.readouterr().err


def test_a_time_that_is_slower_and_a_verdict_that_is_not(nights, tmp_path, capsys):
    """Guard: "no case is slower" was said of two that are AMBIGUOUS with a slower time."""
    slow = record(tmp_path, "20261125T030000Z-00000b", seed=11, speed=1 / 1.015)
    found = compare(load(slow), [load(nights["first"])], ["tk"])
    assert found.undecided, [(row.verdict, row.time.verdict) for row in subjects(found)]
    main([str(nights["first"]), str(slow)])
    said = capsys.readouterr().out
    assert "undecided: " in said
    assert "No case is slower" not in said


def test_moving_baseline_leaves_out_unfinished_runs_and_other_experiments(nights, tmp_path):
    campaign = tmp_path / "nightly"
    altered(nights["first"], campaign / "a", status="interrupted")
    altered(nights["second"], campaign / "b", experiment="another")
    assert history(campaign, load(nights["slowed"]), 7) == []


def test_quiet_nights_raise_no_alarm_and_the_slowed_one_does(tmp_path):
    """Guard: the margin.  Twelve nights of equal code against the seven before each, then one that is 3 % slower."""
    folders = [record(tmp_path, f"202611{day:02}T030000Z-{day:06x}", seed=100 + day) for day in range(1, 13)]
    campaign = folders[0].parent
    codes = [compare(new, history(campaign, new, 7), ["tk"]).exit_code for new in map(load, folders[1:])]
    assert codes == [0] * 11
    slowed = load(record(tmp_path, "20261113T030000Z-00000d", seed=200, speed=1 / 1.03))
    found = compare(slowed, history(campaign, slowed, 7), ["tk"])
    assert found.exit_code == 3
    assert [row.runs for row in subjects(found)] == [7, 7]


def test_a_night_that_was_cut_short_does_not_spoil_the_next(nights, tmp_path, capsys):
    """Guard: unfinished runs are not even read; a torn file in one is no reason to stop."""
    campaign = tmp_path / "nightly"
    altered(nights["first"], campaign / "a")
    torn = altered(nights["second"], campaign / "b", status="running")
    (torn / "group-0002.json.gz").write_bytes(b"half a gro")
    assert main(["--against", str(campaign), str(nights["clock"])]) == 0
    assert f"against {nights['first'].name}" in capsys.readouterr().out


def test_a_damaged_manifest_is_said_and_left_out(nights, tmp_path, capsys):
    """Guard: one night that cannot be read does not end the comparison of every later one."""
    campaign = tmp_path / "nightly"
    altered(nights["first"], campaign / "a")
    damaged = altered(nights["second"], campaign / "b") / "manifest.json"
    damaged.write_text(damaged.read_text()[:100])
    assert main(["--against", str(campaign), str(nights["slowed"])]) == 3
    said = capsys.readouterr()
    assert f"against {nights['first'].name}" in said.out
    (line,) = said.err.splitlines()
    assert line.startswith(f"left out of the comparison: {damaged} is truncated or damaged")


def test_hidden_folders_are_no_nights(nights, tmp_path):
    """Guard: a run that is being copied or made has a hidden folder; `load_campaign` skips it as well."""
    campaign = tmp_path / "nightly"
    altered(nights["first"], campaign / "a")
    altered(nights["second"], campaign / ".b")
    assert [run.path.name for run in history(campaign, load(nights["slowed"]), 7)] == ["a"]


def test_a_damaged_night_is_said(nights, tmp_path, capsys):
    campaign = tmp_path / "nightly"
    (altered(nights["first"], campaign / "a") / "group-0001.json.gz").write_bytes(b"damaged")
    assert main(["--against", str(campaign), str(nights["slowed"])]) == 2
    assert "is truncated or was changed" in capsys.readouterr().err


def test_a_run_is_not_its_own_second_measurement(nights, capsys):
    """Guard: a regression needs two measurements, and one that is given twice is one."""
    for again in ("slowed", "first"):
        assert main([str(nights["first"]), str(nights["slowed"]), "--again", str(nights[again])]) == 2
        assert "is no second measurement: it is being compared already" in capsys.readouterr().err


def test_runs_without_a_case_in_common_are_not_quiet(nights, tmp_path, capsys):
    """Guard: 0 needs a case that was compared; other problems, or an older timer, are none."""
    run = altered(nights["slowed"], tmp_path / "run", table=('"cuda_events","cache"', '"cuda_graph","cache"'))
    assert main([str(nights["first"]), str(run)]) == 2
    said = capsys.readouterr().out
    assert "Nothing is compared: no case under test was timed alike in both runs." in said
    assert "No case is slower" not in said
    assert main([str(nights["first"]), str(nights["slowed"]), "--subject", "nobody"]) == 2


def test_second_measurement_elsewhere_is_refused(nights, tmp_path):
    elsewhere = altered(nights["slowed_again"], tmp_path / "run", gpu={"uuid_hash": "fedcba9876543210"})
    with pytest.raises(HarnessError, match=r"no second measurement of .*: board: "):
        compare(load(nights["slowed"]), [load(nights["first"])], ["tk"], [load(elsewhere)])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"git_commit": "a" * 40}, "commit: "),
        ({"kernel_builds": {"tk": {"binary_hash": "feedbeef00"}}}, "machine code of tk: 01234567 -> feedbeef"),
        (
            {"table": ('"tk","variant":"","version":"good 1.0', '"tk","variant":"","version":"good 1.1')},
            "version of tk: good 1.0 -> good 1.1",
        ),
    ],
)
def test_a_run_of_other_code_is_no_second_measurement(nights, tmp_path, capsys, other, words):
    """Guard: the whole of `differences`, and not what suppresses alone; a rebuilt kernel confirms nothing."""
    again = altered(nights["slowed_again"], tmp_path / "again", **other)
    assert main([str(nights["first"]), str(nights["slowed"]), "--again", str(again)]) == 2
    said = capsys.readouterr().err
    assert f"is no second measurement of {nights['slowed']}: {words}" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{first}"], "got 1 runs, needs two runs, the earlier one first"),
        (["{first}", "/nowhere"], "/nowhere is not a run folder"),
        (["--against", "/nowhere", "{first}"], "--against /nowhere is no folder: give results/<gpu>/<campaign>"),
        (["--against", "{first}", "{first}"], "{first} holds no completed run of experiment"),
        (["{first}", "{second}", "--subject", "tkk"], "--subject tkk is in none of the runs: there is "),
        (["--against", "{first}", "{first}", "{second}"], "got 2 runs, needs --against CAMPAIGN and the one new run"),
    ],
)
def test_mistakes_are_one_sentence(nights, capsys, arguments, words):
    assert main([text.format(**nights) for text in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert words.format(**nights) in said.err


def test_the_module_is_a_command(nights):
    command = [sys.executable, "-m", "harness.compare", str(nights["first"]), str(nights["slowed"])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert "suspected: " in done.stdout


def test_a_recorded_run_compares_with_a_copy_of_it(tmp_path, capsys):
    """Guard: a run with itself is refused; as another run, its times are those of equal code."""
    folder = next((ROOT / "results" / "h100-sxm" / "2026-11-paper").glob("*/manifest.json")).parent
    assert main([str(folder), str(folder)]) == 2
    said = capsys.readouterr()
    assert said.err == f"{folder} is compared with itself: give another run, the earlier one first\n"
    copy = altered(folder, tmp_path / "copy", run_id="20261201T030000Z-abcdef")
    assert main([str(folder), str(copy)]) == 0


def test_runs_of_two_gpus_are_said(nights, tmp_path, capsys):
    """Guard: a campaign of one name on two GPUs; the table looked like a night's, with a slower or faster kernel."""
    gpu = {**load(nights["first"]).manifest["gpu"], "name": "NVIDIA H100 80GB HBM3"}
    other = altered(nights["first"], tmp_path / "other", run_id="20261201T030000Z-abcdef", gpu=gpu)
    assert main([str(nights["first"]), str(other)]) == 0
    said = capsys.readouterr().out
    assert "- **GPU: NVIDIA H200 -> NVIDIA H100 80GB HBM3** (no alarm while this differs)" in said


def test_runs_in_the_wrong_order_are_said(nights, capsys):
    """Guard: a run that is given the wrong way is judged, and the page says which is older."""
    assert main([str(nights["second"]), str(nights["first"])]) == 0
    said = capsys.readouterr().out
    assert "**The run judged here is the older one**" in said
    assert f"{nights['first'].name} began before {nights['second'].name}." in said
    assert main([str(nights["first"]), str(nights["second"])]) == 0
    assert "older" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["nightly_gemm", "nightly_attention"])
def test_nightly_experiments_have_rounds_enough(name):
    """Guard: the plan.  Fewer rounds would be quicker and miss a slowdown of 3 %."""
    made = make_plan(config(f"experiment={name}"), [])
    assert made.timer.min_rounds >= 250, "test_change.py finds 3 % with so many"
    assert str(made.contestants[0]) == "tk"
    assert len(made.contestants) > 1


def recorded(campaign):
    """Recorded runs of a campaign, on whatever GPU, in time order."""
    found = [path.parent for path in sorted((ROOT / "results").glob(f"*/{campaign}/*/manifest.json"))]
    assert found, campaign
    return found


@pytest.mark.parametrize("folder", recorded("nightly"), ids=lambda folder: folder.name)
def test_recorded_nights_raise_no_alarm(folder):
    """The recorded nights are of equal code: each against those before it, which the first does not have."""
    new = load(folder)
    earlier = history(folder.parent, new, 7)
    assert not earlier or compare(new, earlier, ["tk"]).exit_code == 0


@pytest.mark.parametrize("folder", recorded("nightly-slowed"), ids=lambda folder: folder.name)
def test_recorded_slowed_nights_are_regressions(folder):
    new = load(folder)
    again = [
        run
        for run in map(load, recorded("nightly-slowed-again"))
        if run.manifest["experiment"] == new.manifest["experiment"]
    ]
    found = compare(new, history(folder.parent.parent / "nightly", new, 7), ["tk"], again)
    assert found.exit_code == 1
    assert len(found.regressions) >= 1
    assert not found.suppressed
