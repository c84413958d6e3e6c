"""Which run speaks for a problem: the newest in which each contestant was timed or found wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from report_support import key_of

from harness.records.naming import Contestant
from harness.runs import load_campaign
from paper_figures.exhibits import choose_exhibits
from paper_figures.recorded.experiments import Experiment, load_experiment
from paper_figures.recorded.machine_code import MACHINE_CODE
from paper_figures.recorded.selection import Selected, runs_used, select
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.render.html import case_file, case_page_file
from paper_figures.shown.report.making import selection_notes

EXPERIMENT = "table2_persistent"
OLD, NEW = "20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"
DECODE = "paged_attention_decode"
FORWARD_AND_BACKWARD = ("attention_warps", "attention_warps_backward")
TK, CUBLAS = Contestant("tk"), Contestant("cublas")


def failing(status: str, *contestants: str) -> Callable[[str, Contestant], float | str]:
    return lambda problem, contestant: f"{status}: why" if str(contestant) in contestants else 100.0


@pytest.fixture
def choose(tmp_path: Path, synthetic: ModuleType) -> Callable[..., tuple[Selected, ...]]:
    """Writes runs, given as (id, options), and selects from them."""

    def write_and_select(*runs: tuple[str, dict[str, object]]) -> tuple[Selected, ...]:
        for run_id, options in runs:
            synthetic.write_run(tmp_path / "c", options.pop("experiment", EXPERIMENT), run_id, **options)
        return select(load_campaign(tmp_path / "c"), load_experiment(EXPERIMENT))

    return write_and_select


def test_the_newest_complete_run_is_taken(choose: Callable[..., tuple[Selected, ...]]) -> None:
    selected = choose((OLD, {}), (NEW, {}))
    assert {one.run.run_id for one in selected if one.run} == {NEW}
    assert all(cell.timed and not cell.stale for one in selected for cell in one.cells)
    assert not any(one.note for one in selected)


def test_a_run_of_its_own_experiment_comes_before_a_newer_ones(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: an exhibit of unaligned lengths took its aligned neighbour from a newer run of another experiment."""
    own = load_experiment("unaligned_gemm")
    synthetic.write_run(tmp_path / "c", "unaligned_gemm", OLD)
    synthetic.write_run(tmp_path / "c", "fig7_gemm", NEW)
    selected = select(load_campaign(tmp_path / "c"), own)
    assert {one.run.run_id for one in selected if one.run} == {OLD}
    assert not any(one.note for one in selected), "the newer run has everything: nothing is to be said of it"


@pytest.mark.parametrize("status", ["timeout", "error", "out_of_memory"])
def test_a_failure_in_a_newer_run_is_said_and_not_mixed(
    choose: Callable[..., tuple[Selected, ...]], status: str
) -> None:
    selected = choose((OLD, {}), (NEW, {"rate": failing(status, "cublas")}))
    for one in selected:
        assert {cell.run.run_id for cell in one.cells if cell.run} == {OLD}
        assert one.note == f"run {NEW} is newer, with cublas {status}"


@pytest.mark.parametrize("status", ["unavailable", "unsupported", "failed_verification"])
def test_what_cannot_run_or_is_wrong_is_no_obstacle(choose: Callable[..., tuple[Selected, ...]], status: str) -> None:
    """Guard: a released kernel that is wrong now and then was shown by the older run in which it had passed."""
    selected = choose((OLD, {}), (NEW, {"rate": failing(status, "cublas")}))
    for one in selected:
        assert one.run is not None
        assert one.run.run_id == NEW
        cell = one.cell(CUBLAS)
        assert cell is not None
        assert (cell.status, cell.reason, cell.timed) == (status, "why", False)
        assert not one.note


@pytest.mark.parametrize(("status", "chosen"), [("failed_verification", NEW), ("unavailable", OLD)])
def test_a_run_in_which_all_are_wrong_speaks_and_one_that_could_run_none_does_not(
    choose: Callable[..., tuple[Selected, ...]], status: str, chosen: str
) -> None:
    selected = choose((OLD, {}), (NEW, {"rate": lambda problem, contestant: f"{status}: why"}))
    assert {one.run.run_id for one in selected if one.run} == {chosen}


def test_without_a_complete_run_the_newest_speaks_and_says_so(choose: Callable[..., tuple[Selected, ...]]) -> None:
    selected = choose((OLD, {"rate": failing("error", "tk")}), (NEW, {"rate": failing("timeout", "tk")}))
    assert {one.run.run_id for one in selected if one.run} == {NEW}
    assert all("all contestants timed or found wrong together" in one.note for one in selected)


def test_a_note_on_several_problems_stands_once(choose: Callable[..., tuple[Selected, ...]]) -> None:
    """Guard: the same sentence stood under a table sixteen times, once a problem."""
    exhibit = choose_exhibits([EXPERIMENT])[0]
    assert isinstance(exhibit, Exhibit)
    selected = choose((OLD, {"rate": failing("error", "tk")}))
    note = "In no run of this campaign were all contestants timed or found wrong together, and the newest is shown"
    assert selection_notes(exhibit, selected) == [f"{note}: all problems."]
    some = [one if number in (1, 3) else replace(one, note="") for number, one in enumerate(selected)]
    assert selection_notes(exhibit, some) == [f"{note}: K = 128; K = 512."]


def test_problems_may_come_from_different_runs(choose: Callable[..., tuple[Selected, ...]]) -> None:
    problems = load_experiment(EXPERIMENT).problems
    selected = choose((OLD, {}), (NEW, {"problems": problems[:2]}))
    assert [one.run.run_id if one.run else "" for one in selected] == [NEW, NEW, OLD, OLD, OLD]
    assert [run.run_id for run in runs_used(selected)] == [NEW, OLD]


def test_another_experiment_with_some_of_the_cases_is_passed_over(
    choose: Callable[..., tuple[Selected, ...]],
) -> None:
    plan = load_experiment(EXPERIMENT)
    other = Experiment("other", plan.workload, "fwd", "bf16", "normal", plan.problems, (TK, CUBLAS), False)
    selected = choose((OLD, {}), (NEW, {"experiment": other}))
    assert {one.run.run_id for one in selected if one.run} == {OLD}
    assert not any(one.note for one in selected)


def test_no_run_gives_cells_that_say_so(choose: Callable[..., tuple[Selected, ...]]) -> None:
    selected = choose((OLD, {"experiment": "fig7_gemm"}))
    assert all(one.run is None and cell.status == "not_run" for one in selected for cell in one.cells)
    assert {cell.reason for one in selected for cell in one.cells} == {"no run of this campaign has this case"}


def test_a_run_on_the_cpu_holds_no_times(choose: Callable[..., tuple[Selected, ...]]) -> None:
    selected = choose((OLD, {}), (NEW, {"manifest": {"device": "cpu"}}))
    assert {one.run.run_id for one in selected if one.run} == {OLD}


def test_changed_machine_code_makes_the_older_number_stale(choose: Callable[..., tuple[Selected, ...]]) -> None:
    selected = choose((OLD, {}), (NEW, {"experiment": "table1_stages", "machine_code": "beef"}))
    for one in selected:
        stale = {str(cell.contestant): cell.stale for cell in one.cells}
        assert NEW in stale["tk"]
        assert NEW in stale["tk[persistent=0]"]
        assert stale["cublas"] == ""


def test_the_same_machine_code_is_not_stale(choose: Callable[..., tuple[Selected, ...]]) -> None:
    selected = choose((OLD, {}), (NEW, {"experiment": "table1_stages"}))
    assert not any(cell.stale for one in selected for cell in one.cells)


@pytest.mark.parametrize(("mine", "theirs"), [("sm_90a", "sm_80"), ("sm_80", "sm_90a")])
def test_another_targets_machine_code_makes_nothing_stale(
    choose: Callable[..., tuple[Selected, ...]], mine: str, theirs: str
) -> None:
    """Guard: builds were told apart by the kernel's name alone, and those for Ampere made the Hopper runs stale."""
    labels = [str(one) for one in load_experiment(EXPERIMENT).contestants if one.implementation == "tk"]
    old = {"name": "gemm", "target": mine, "binary_hash": "c0de"}
    other = {"name": "gemm", "target": theirs, "binary_hash": "beef"}
    older = {"manifest": {"kernel_builds": dict.fromkeys(labels, old)}}
    newer = {"experiment": "table1_stages", "manifest": {"kernel_builds": {"tk": other}}}
    assert not any(cell.stale for one in choose((OLD, older), (NEW, newer)) for cell in one.cells)
    both = {"tk": other, "tk[stages=2]": {**old, "binary_hash": "f00d"}}  # the second is of the same target
    last = "20260103T000000Z-cccccc"
    selected = choose((last, {"experiment": "table1_stages", "manifest": {"kernel_builds": both}}))
    stale = {str(cell.contestant): cell.stale for one in selected for cell in one.cells}
    assert all((last in stale[label]) == (label in labels) for label in stale)


@pytest.mark.parametrize(("dirty", "changed"), [(False, True), (True, True), (False, False), (True, False)])
def test_a_kernel_that_has_changed_since_is_stale(
    choose: Callable[..., tuple[Selected, ...]], dirty: bool, changed: bool
) -> None:
    """Guard: times of a kernel that nobody measured again stood for today's. The code decides, local changes or not."""
    labels = {str(one) for one in load_experiment(EXPERIMENT).contestants if one.implementation == "tk"}
    build = {"name": "gemm", "target": "sm_90a", **json.loads(MACHINE_CODE.read_text())["gemm"]["sm_90a"]}
    if changed:
        build["binary_hash"] = "c0de"
    manifest = {"kernel_builds": dict.fromkeys(labels, build), "git_dirty": dirty}
    cells = [cell for one in choose((OLD, {"manifest": manifest})) for cell in one.cells]
    assert {str(cell.contestant) for cell in cells if cell.stale} == (labels if changed else set())


def test_a_direction_with_a_kernel_of_its_own_is_held_against_that(tmp_path: Path, synthetic: ModuleType) -> None:
    """The forward pass has changed here, the backward has not."""
    codes = {name: json.loads(MACHINE_CODE.read_text())[name]["sm_80"] for name in FORWARD_AND_BACKWARD}
    forward, backward = ({"name": name, "target": "sm_80", **code} for name, code in codes.items())
    builds = {"tk[target=sm_80]": {**forward, "binary_hash": "c0de"}, "tk[target=sm_80] bwd": backward}
    synthetic.write_run(tmp_path / "c", "ampere_instructions", manifest={"kernel_builds": builds})
    selected = select(load_campaign(tmp_path / "c"), load_experiment("ampere_instructions"))
    rows = [(cell.row, bool(cell.stale)) for one in selected for cell in one.cells if cell.contestant.variant]
    stale = [(str(row["direction"]), changed) for row, changed in rows if row is not None]
    assert stale == [("fwd", True), ("fwd", True), ("bwd", False), ("bwd", False)]


@pytest.mark.parametrize("stored", ["both", "one", "of another contestant"])
def test_of_two_kernels_the_one_that_ran_is_held_against_the_trees(
    tmp_path: Path, synthetic: ModuleType, stored: str
) -> None:
    """Guard: `tk` of few queries was judged by attention's own kernel alone, where the decode kernel had run.

    Runs of before have one build a contestant; that of the decode kernel stands at one that is made to take it.
    """
    codes = {name: json.loads(MACHINE_CODE.read_text())[name]["sm_90a"] for name in ("attention", DECODE)}
    whole, decode = ({"name": name, "target": "sm_90a", **code} for name, code in codes.items())
    older = {**decode, "binary_hash": "c0de"}
    also = {"both": {f"tk {DECODE}": older}, "one": {}, "of another contestant": {"tk[path=decode]": older}}[stored]
    folder = synthetic.write_run(tmp_path / "c", "few_queries", manifest={"kernel_builds": {"tk": whole, **also}})
    plan = load_experiment("few_queries")
    few = plan.stored_problem(plan.problems[0]).text

    def named(held: dict[str, Any]) -> None:
        for row in held["measurements"]:
            if row["implementation"] + row["variant"] == "tk":
                kernel = f"{DECODE}::paged_kernel" if row["problem"] == few else "attention::forward_kernel"
                row["kernel_names"] = f"void kittens::kernel_entry<tk::{kernel}<64> >"

    for number in range(1, len(plan.problems) + 1):
        synthetic.edit_group(folder, named, number)
    stale = [bool(one.cell(TK).stale) for one in select(load_campaign(tmp_path / "c"), plan)]
    assert stale == [stored != "one", *[False] * (len(stale) - 1)]


def test_cases_of_a_problem_have_a_page_in_common(choose: Callable[..., tuple[Selected, ...]]) -> None:
    """Their keys: the end of the run's id, the problem's place in the run, the case's place in the problem."""
    keys = [[cell.key for cell in one.cells] for one in choose((OLD, {}))]
    assert keys == [[f"aaaaaa-{p}-{c}" for c in range(1, len(own) + 1)] for p, own in enumerate(keys, start=1)]
    assert case_file(keys[1][2]) == "cases/aaaaaa-2.html#3"
    assert {case_page_file(key) for key in keys[1]} == {"cases/aaaaaa-2.html"}
    assert all(key_of(case_file(key)) == key for own in keys for key in own)


def test_a_problem_that_was_timed_again_is_at_its_last_place(choose: Callable[..., tuple[Selected, ...]]) -> None:
    """A resumed run lists such a problem twice, and the later rounds are those that are stored."""
    [one, *_] = choose((OLD, {}))
    run = one.run
    assert run is not None
    again = run.manifest["groups"][0]
    run.manifest["groups"].append({**again, "case_ids": again["case_ids"][::-1]})
    place, count = len(run.manifest["groups"]), len(one.cells)
    fresh = [replace(cell) for cell in one.cells]  # a key is worked out once a cell
    assert [cell.key for cell in fresh] == [f"aaaaaa-{place}-{count - number}" for number in range(count)]


def test_an_entry_may_have_its_own_direction(tmp_path: Path, configs: Path, synthetic: ModuleType) -> None:
    """Forward and backward in one list: rows are told apart by their columns, not by their text."""
    (configs / "experiment" / "both.yaml").write_text(
        "defaults: [{override /workload: gemm}]\nimplementations: [tk]\n"
        "problems: [{M: 64, N: 64, K: 64}, {M: 64, N: 64, K: 64, direction: bwd}]\n"
    )
    both = load_experiment("both", configs)
    assert [both.stored_problem(one).direction for one in both.problems] == ["fwd", "bwd"]
    assert {both.stored_problem(one).text for one in both.problems} == {"M=64;N=64;K=64"}
    plan = Experiment("both", "gemm", "bwd", "bf16", "normal", ("M=64;N=64;K=64",), (TK,), False)
    synthetic.write_run(tmp_path / "c", plan, NEW)
    forward, backward = select(load_campaign(tmp_path / "c"), both)
    assert forward.run is None
    assert backward.run is not None
    assert backward.cells[0].row is not None
    assert backward.cells[0].row["direction"] == "bwd"


def test_a_profiled_experiment_is_not_answered_by_a_run_without_a_profile(
    tmp_path: Path, synthetic: ModuleType
) -> None:
    """Figure 8 times what Table 4 asks for too, and is newer, but has no metrics."""
    synthetic.write_run(tmp_path / "c", "table4_attention", OLD)
    synthetic.write_run(tmp_path / "c", "fig8_attention", NEW)
    runs = load_campaign(tmp_path / "c")
    assert {one.run.run_id for one in select(runs, load_experiment("table4_attention")) if one.run} == {OLD}
    assert {one.run.run_id for one in select(runs, load_experiment("fig8_attention")) if one.run} == {NEW}


def test_a_contestant_that_joined_later_is_no_obstacle(choose: Callable[..., tuple[Selected, ...]]) -> None:
    """Guard: `_asked`. A run knows what its experiment had; it lacks a row of what has joined since."""
    before = [str(one) for one in load_experiment(EXPERIMENT).contestants if one != CUBLAS]
    asked = {"config": {"implementations": before}}
    selected = choose((OLD, {"without": (CUBLAS,), "manifest": asked}))
    assert all(one.run is not None and not one.note for one in selected)
    assert {str(cell.contestant) for one in selected for cell in one.cells} == set(before)
    assert all(cell.timed for one in selected for cell in one.cells)


def test_a_contestant_that_the_command_line_left_out_was_not_run(choose: Callable[..., tuple[Selected, ...]]) -> None:
    """Guard: `chosen` in `_asked`, without which a run of some contestants would hide that the others have no time."""
    asked = {"config": {"implementations": ["tk"]}, "arguments": [f"experiment={EXPERIMENT}", "implementations=[tk]"]}
    selected = choose((OLD, {}), (NEW, {"without": (CUBLAS,), "manifest": asked}))
    assert {one.run.run_id for one in selected if one.run} == {OLD}
    assert all(one.cell(CUBLAS) is not None for one in selected)


def test_an_experiment_takes_only_what_was_timed_in_its_way(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: the filter by `experiment.timer`: both experiments have N = 1024 and 2048 with the same contestants."""
    plain, graphs = load_experiment("fig9_rotary"), load_experiment("rotary_cuda_graph")
    assert (plain.timer, graphs.timer) == ("cuda_events", "cuda_graph")
    assert set(plain.problems) & set(graphs.problems)
    synthetic.write_run(tmp_path / "c", plain, OLD)
    assert not runs_used(select(load_campaign(tmp_path / "c"), graphs))
    synthetic.write_run(tmp_path / "c", graphs, NEW)
    runs = load_campaign(tmp_path / "c")
    assert {run.run_id for run in runs_used(select(runs, graphs))} == {NEW}
    assert {run.run_id for run in runs_used(select(runs, plain))} == {OLD}
