"""Stored runs as one table: `harness.runs.frame`."""

import shutil
from dataclasses import replace

import pytest
from harness_support import MANIFEST, NO_TIME, ROOT, group, renamed
from test_results import damage_manifest

from harness.records.errors import HarnessError
from harness.records.rows import Status, Verdict
from harness.runs import ResultsError, frame, load_run
from harness.runs.samples import Samples
from harness.runs.store import Store

RECORDED = ROOT / "results" / "h100-sxm"


def contest(problem="M=1;N=2;K=3", command="", speeds=(("tk", "", 1.2), ("a", "", 1.0), ("b", "", 0.8)), settled=False):
    """A group of contestants, each so many times as fast as `a`; latencies 10 us over that."""
    names = [f"{name}{variant}{problem}" for name, variant, _ in speeds]
    made = group(problem=problem, cases=names)
    rates = {case: speed for case, (_, _, speed) in zip(names, speeds, strict=True)}
    rows = [
        replace(
            row,
            implementation=name,
            variant=variant,
            repro_command=command,
            **{key: getattr(row, key) / speed for key in ("latency_us_p10", "latency_us_p50", "latency_us_p90")},
        )
        for row, (name, variant, speed) in zip(made.measurements, speeds, strict=True)
    ]
    ratios = []
    for one in made.ratios:
        value = rates[one.case_id] / rates[one.baseline_case_id]
        own = {"ratio_p50": value, "ci_low": value * 0.99, "ci_high": value * 1.01, "verdict": Verdict.FASTER}
        if settled:
            own |= {"settled_ratio": 2 * value, "settled_ci_low": value, "settled_ci_high": 3 * value}
            own |= {"settled_verdict": Verdict.AMBIGUOUS}
        ratios.append(replace(one, **own))
    samples = {case: Samples(held.latency_us / rates[case], held.rounds) for case, held in made.samples.items()}
    return replace(made, measurements=tuple(rows), ratios=tuple(ratios), samples=samples)


def store(folder, *groups):
    with Store.create(folder, MANIFEST) as made:
        for one in groups:
            made.append(one)
    return folder


def test_the_keys_of_the_problem_are_numbers_with_their_defaults(folder):
    """The text of a problem leaves out a default; the command has it."""
    command = "python -m harness workload=x problem.M=1 problem.N=2 problem.causal=0 +problem.p=0.5 'problem.out=fp8'"
    store(folder, contest("M=1;N=2", command), contest("M=3;N=2;causal=1", command.replace("causal=0", "causal=1")))
    table = frame(folder)
    assert table["M"].tolist() == [1, 1, 1, 3, 3, 3]
    assert table["causal"].tolist() == [0, 0, 0, 1, 1, 1]
    assert [str(table[name].dtype) for name in ("M", "N", "causal")] == ["int64"] * 3
    assert table["out"].tolist() == ["fp8"] * 6
    assert "p" not in table  # an option of another kind


def test_a_key_of_one_workload_is_missing_in_the_rows_of_another(folder):
    table = frame(store(folder, contest("M=1;N=2"), contest("B=4;p=0.5;mode=soft")))
    assert str(table["M"].dtype) == "Int64"
    assert table["M"].isna().tolist() == [False] * 3 + [True] * 3
    assert table["p"].tolist()[3:] == [0.5] * 3
    assert table["mode"].tolist() == [None] * 3 + ["soft"] * 3


def test_each_case_has_its_ratio_over_the_fastest_of_the_others(folder):
    speeds = (("tk", "", 1.2), ("tk", "stages=2", 1.5), ("a", "", 1.0), ("b", "", 0.8))
    table = frame(store(folder, contest(speeds=speeds))).set_index("contestant")
    assert table["baseline"].to_dict() == {"tk": "a", "tk[stages=2]": "a", "a": "tk[stages=2]", "b": "tk[stages=2]"}
    assert table["ratio"].to_dict() == pytest.approx({"tk": 1.2, "tk[stages=2]": 1.5, "a": 1 / 1.5, "b": 0.8 / 1.5})
    assert table["ratio_ci_low"]["tk"] == pytest.approx(1.2 * 0.99)
    assert table["ratio_ci_high"]["tk"] == pytest.approx(1.2 * 1.01)
    assert set(table["ratio_verdict"]) == {"FASTER"}
    assert set(table["ratio_source"]) == {"rounds"}


def test_a_contestant_is_named_to_compare_with(folder):
    speeds = (("tk", "", 1.2), ("tk", "stages=2", 1.5), ("a", "", 1.0))
    store(folder, contest(speeds=speeds))
    table = frame(folder, against="tk[ stages=2 ]").set_index("contestant")
    assert table["ratio"].fillna(0).to_dict() == pytest.approx({"tk": 0.8, "tk[stages=2]": 0, "a": 1 / 1.5})
    assert table["baseline"].to_dict() == {"tk": "tk[stages=2]", "tk[stages=2]": "", "a": "tk[stages=2]"}
    with pytest.raises(ResultsError, match=r"no case of tk\[stages=3\]; it has a, tk, tk\[stages=2\]; did you"):
        frame(folder, against="tk[stages=3]")
    with pytest.raises(HarnessError, match="implementation 'tk\\[' is not a name with options"):
        frame(folder, against="tk[")


def test_settled_numbers_are_the_headline(folder):
    table = frame(store(folder, contest(settled=True))).set_index("contestant")
    assert table["ratio"]["tk"] == pytest.approx(2.4)
    assert set(table["ratio_source"]) == {"settled"}
    assert set(table["ratio_verdict"]) == {"AMBIGUOUS"}
    assert set(table["headline_source"]) == {"rounds"}  # no blocks: the rate is of the rounds


def test_a_case_without_a_time_keeps_its_row_and_its_reason(folder):
    whole = contest()
    lost = whole.measurements[2]
    absent = replace(lost, status=Status.UNAVAILABLE, reason="not installed", **NO_TIME)
    kept = tuple(one for one in whole.ratios if lost.case_id not in (one.case_id, one.baseline_case_id))
    held = {case: held for case, held in whole.samples.items() if case != lost.case_id}
    store(folder, replace(whole, measurements=(*whole.measurements[:2], absent), ratios=kept, samples=held))
    row = frame(folder).set_index("contestant").loc["b"]
    assert (row["status"], row["reason"], row["baseline"], row["headline_source"]) == (
        "unavailable",
        "not installed",
        "",
        "",
    )
    assert row[["ratio", "headline_tflops", "headline_latency_us"]].isna().all()


def test_of_two_runs_the_newest_row_with_a_time_is_kept(folder):
    """A pivot over both would average two sessions."""
    store(folder, contest())
    later = folder.with_name("20261121T120000Z-000000")
    shutil.copytree(folder, later)
    damage_manifest(later, run_id=later.name, started_utc="2026-11-21T12:00:00Z")
    renamed(later)
    assert set(frame(folder.parent)["run_id"]) == {later.name}
    every = frame(folder.parent, newest=False)
    assert every["run_id"].value_counts().to_dict() == {later.name: 3, MANIFEST["run_id"]: 3}
    assert every["ratio"].notna().all()


def test_a_row_is_kept_that_was_timed_beside_the_contestant_asked_for(folder):
    """Guard: a newer run without it left most of Figure 7 without a ratio over the released kernels."""
    store(folder, contest())
    later = folder.with_name("20261121T120000Z-000000")
    store(later, contest(speeds=(("tk", "", 1.5), ("a", "", 1.0))))
    damage_manifest(later, run_id=later.name, started_utc="2026-11-21T12:00:00Z")
    renamed(later)

    def of_tk(**options):
        row = frame(folder.parent, **options).set_index("contestant").loc["tk"]
        return row["run_id"], row["ratio"]

    assert of_tk() == (later.name, pytest.approx(1.5))
    assert of_tk(against="a") == (later.name, pytest.approx(1.5))
    assert of_tk(against="b") == (MANIFEST["run_id"], pytest.approx(1.2 / 0.8))


def wrong(made, name):
    """The group of contestants with one of them found wrong, and so without a time or a ratio."""
    rows = [
        replace(row, status=Status.FAILED_VERIFICATION, reason="out: too far", **NO_TIME)
        if row.implementation == name
        else row
        for row in made.measurements
    ]
    out = {row.case_id for row in rows if row.status == Status.FAILED_VERIFICATION}
    kept = tuple(one for one in made.ratios if not out & {one.case_id, one.baseline_case_id})
    held = {case: one for case, one in made.samples.items() if case not in out}
    return replace(made, measurements=tuple(rows), ratios=kept, samples=held)


@pytest.mark.parametrize("older_is_wrong", [False, True])
def test_a_case_that_was_found_wrong_since_has_no_older_time_or_ratio(folder, older_is_wrong):
    """Guard: released kernels that are wrong now and then had the time and the ratio of a day on which they were right.

    One that was wrong before and is right now has those of now.
    """
    right = contest(speeds=(("tk", "", 1.2), ("a", "", 1.0)))
    store(folder, wrong(right, "a") if older_is_wrong else right)
    later = folder.with_name("20261121T120000Z-000000")
    store(later, right if older_is_wrong else wrong(right, "a"))
    damage_manifest(later, run_id=later.name, started_utc="2026-11-21T12:00:00Z")
    renamed(later)
    for against in (None, "a"):
        table = frame(folder.parent, against=against)
        assert table["contestant"].tolist() == ["tk", "a"]
        assert set(table["run_id"]) == {later.name}
        assert table["status"].tolist() == ["passed", "passed" if older_is_wrong else "failed_verification"]
        assert table["ratio"].notna().tolist() == [older_is_wrong, older_is_wrong and against is None]


def test_a_key_named_as_a_column_is_refused(folder):
    store(folder, contest("M=1;timer=2"))
    with pytest.raises(ResultsError, match="the problem key timer has the name of a column: read it with load_run"):
        frame(folder)


def test_a_recorded_run_is_read_as_it_was_measured():
    """Each number of the table is the one of the files, and a session of two lines plots it."""
    path = RECORDED / "nightly" / "20261126T030908Z-bc5ab8"
    run, table = load_run(path), frame(path)
    assert table["case_id"].tolist() == run.measurements["case_id"].tolist()
    assert table["latency_us_p50"].equals(run.measurements["latency_us_p50"])
    assert set(table["gpu"]) == {"NVIDIA H100 80GB HBM3"}
    pairs = {(row["case_id"], row["ratio_p50"]) for row in run.ratios.to_dict("records")}
    rounds = table[table["ratio_source"] == "rounds"]
    assert len(rounds)
    assert set(zip(rounds["case_id"], rounds["ratio"], strict=True)) <= pairs
    assert table.pivot_table(index=["M", "N", "K"], columns="contestant", values="headline_tflops").shape[0] > 0


def test_no_run_is_a_sentence(tmp_path):
    with pytest.raises(ResultsError, match="holds no run"):
        frame(tmp_path)


def test_one_campaign_on_two_gpus_is_one_table(folder, tmp_path):
    """Rows of both stand side by side, the newest of each GPU; a run that is given twice is refused."""
    store(folder, contest())
    other = tmp_path / "results" / "h100-sxm" / folder.parent.name / "20261121T120000Z-000000"
    shutil.copytree(folder, other)
    renamed(other)
    damage_manifest(other, run_id=other.name, gpu={"name": "NVIDIA H100 80GB HBM3"})
    both = frame([folder.parent, other.parent])
    assert len(both) == 2 * len(frame(folder))
    assert both["gpu"].nunique() == 2
    assert set(both["run_id"]) == {MANIFEST["run_id"], other.name}
    assert len(frame([folder.parent, other.parent], against="b")) == len(both)
    with pytest.raises(ResultsError, match=f"run {other.name} is in two of them: give each run once"):
        frame([other, other.parent])
    with pytest.raises(ResultsError, match="frame got no folder"):
        frame([])
