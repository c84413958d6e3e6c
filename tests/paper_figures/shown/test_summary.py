"""The summary of the verdicts: every claim has its subject, and the sentences say what the verdicts say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from paper_figures.errors import PaperFiguresError
from paper_figures.judged.evaluation import ClaimResult, evaluate
from paper_figures.judged.verdicts import Verdict
from paper_figures.published.claims import EXHIBITS, Claim, ClaimFile, load_claims
from paper_figures.shown.summary import (
    headlines,
    kinds_table,
    load_subjects,
    lost_subjects,
    subjects_table,
    summary_sentences,
    uncounted_sentence,
    verdict_sentence,
)

ALL: dict[str, Claim] = {
    claim.id: claim for path in sorted(EXHIBITS.glob("*/claims.yaml")) for claim in load_claims(path.parent.name).claims
}


def results(**verdicts: Verdict) -> list[ClaimResult]:
    """Claims by id, dashes as underscores, with the verdicts given and without numbers."""
    claims = {ALL[name.replace("_", "-")]: verdict for name, verdict in verdicts.items()}
    return [
        replace(evaluate(claim, ClaimFile("f", "", "", (claim,)), ()), verdict=verdict)
        for claim, verdict in claims.items()
    ]


def test_every_claim_belongs_to_one_subject() -> None:
    """Guard: a claim that is in no subject would be in no sentence."""
    named = Counter(
        one
        for subject in load_subjects()
        for one in (*subject.paper, *subject.today, *subject.released, *subject.beside)
    )
    assert set(named) == set(ALL)
    assert set(named.values()) == {1}
    names = [subject.name for subject in load_subjects()]
    assert len(names) == len(set(names))


def sentences(**verdicts: Verdict) -> tuple[str, ...]:
    own = results(**verdicts)
    return summary_sentences(headlines(own), own)


def test_claims_over_todays_fastest_are_those_that_subjects_list_as_such() -> None:
    """Guard: a claim over the fastest of today would count as one against the paper's opponent."""
    of_today = {one for subject in load_subjects() for one in subject.today}
    assert of_today == {claim.id for claim in ALL.values() if claim.against == "today"}
    released = {one for subject in load_subjects() for one in subject.released}
    assert released == {claim.id for claim in ALL.values() if claim.against == "released"}


def test_what_the_field_has_overtaken_is_said() -> None:
    said = sentences(
        fig8_backward_beats_fa3=Verdict.OVERTAKEN,
        fig8_backward_rates=Verdict.HOLDS,
        fig8_backward_beats_todays_best=Verdict.SHORT,
    )
    assert said[0] == "Of 3 claims: 1 holds, 1 overtaken, 1 falls short."
    assert any(one.startswith("No longer true: Attention backward is 10 to 40 % faster") for one in said)


def test_what_falls_short_today_without_having_held_is_not_called_overtaken() -> None:
    said = sentences(fig9_mamba2_rates=Verdict.SHORT, fig9_mamba2_over_todays_best=Verdict.SHORT)
    assert any(one.startswith("Not true: Mamba-2 is") for one in said)
    assert "Falls short of the paper itself, in part or in all: Mamba-2." in said


def test_claims_over_the_released_kernels_are_left_out_and_said_to_be() -> None:
    """Guard: two pages counted 80 and 88 that hold, without a word on what differs."""
    every = results(
        fig9_mamba2_over_mamba_ssm=Verdict.OVERTAKEN,
        fig9_based_over_parallel=Verdict.HOLDS,
        fig9_based_over_released=Verdict.HOLDS,
        fig9_mamba2_over_released=Verdict.SHORT,
    )
    assert verdict_sentence(every) == (
        "Of 2 tested claims, 1 holds and 1 holds over the paper's opponent but not over today's libraries."
    )
    assert uncounted_sentence(every).endswith("2 claims over the authors' released kernels (1 holds, 1 falls short).")
    assert uncounted_sentence(every[:2]) == ""


def test_what_differs_is_decided_and_bars_of_the_projects_own_are_counted() -> None:
    """Guard: what lies outside of the accepted values was called undecided, and own bars the paper's claims."""
    own = results(
        table1_rates=Verdict.DIFFERS,
        fig7_matches_todays_best=Verdict.CLOSE,
        few_queries_as_fast_as_todays_best=Verdict.SHORT,
        prefill_over_sdpa=Verdict.HOLDS,
    )
    assert verdict_sentence(own) == (
        "Of 4 tested claims, 1 holds, 1 falls short, 1 differs and 1 is undecided. For 2 of these 4 the paper prints "
        "no number: the threshold is ours."
    )


def test_a_bar_of_the_projects_own_that_is_missed_is_not_called_untrue() -> None:
    """Guard: "not true" stood before sentences that the paper does not have."""
    said = sentences(few_queries_as_fast_as_todays_best=Verdict.SHORT)
    assert any(one.startswith("A bar of this project's own, not reached: Attention of few queries") for one in said)
    assert not any(one.startswith("Not true") for one in said)


def test_a_bar_of_the_projects_own_is_no_margin_of_the_paper() -> None:
    """Guard: README had a claim without a published number among the margins of the paper that do not stand."""
    own = results(
        fig9_mamba2_over_todays_best=Verdict.SHORT,
        few_queries_as_fast_as_todays_best=Verdict.SHORT,
        unaligned_attention_matches_todays_best=Verdict.SHORT,
    )
    assert lost_subjects(headlines(own)).endswith("today's fastest library in: Mamba-2.")
    assert lost_subjects(headlines(own[1:])) == ""


def test_what_holds_today_is_in_no_sentence_but_the_counts() -> None:
    said = sentences(
        fig9_mamba2_over_mamba_ssm=Verdict.HOLDS,
        fig9_mamba2_over_todays_best=Verdict.LESS,
        fig9_based_over_parallel=Verdict.NOT_TESTED,
    )
    assert said == ("Of 3 claims: 1 holds, 1 holds by less, 1 not tested.", "Not tested, or not comparable: Based.")


def test_each_subject_has_its_verdicts_in_a_table() -> None:
    table = subjects_table(
        headlines(
            results(
                fig9_mamba2_over_mamba_ssm=Verdict.HOLDS,
                fig9_mamba2_rates=Verdict.NOT_COMPARABLE,
                fig9_mamba2_over_todays_best=Verdict.SHORT,
                fig6_occupancy_helps_a_synchronous_kernel=Verdict.CLOSE,
                fig9_mamba2_over_released=Verdict.HOLDS,
            )
        )
    )
    cells = [[(cell.text, cell.detail, cell.kind) for cell in row[:3]] for row in table.rows]
    assert [
        ("Mamba-2", "", "text"),
        ("1 holds, 1 not comparable", "", "text"),
        ("falls short", "1 claim", "verdict"),
    ] in cells
    assert ("–", "", "text") in [row[2] for row in cells], "compares with no baseline"
    assert [row[-1].text for row in table.rows] == ["–", "holds"], "the released kernel stands by itself"


def test_kinds_of_claims_are_counted_apart() -> None:
    """Guard: lines of code and megabytes were added to speed-ups."""
    table = kinds_table(
        results(
            fig9_mamba2_over_mamba_ssm=Verdict.HOLDS,
            fig9_mamba2_over_todays_best=Verdict.SHORT,
            fig9_mamba2_over_released=Verdict.HOLDS,
            table2_persistent_is_faster=Verdict.HOLDS,
            table6_gemm_lines=Verdict.SHORT,
            text_cublas_above_600_mb=Verdict.SHORT,
            fig7_rates=Verdict.HOLDS,
            table4_tensor_pipe=Verdict.HOLDS,
            unaligned_gemm_keeps_its_rate=Verdict.SHORT,
        )
    )
    assert [column.title for column in table.columns] == ["Kind of claim", "Claims", "holds", "falls short"]
    assert {row[0].text: tuple(cell.text for cell in row[1:]) for row in table.rows} == {
        "Speed-ups over the paper's opponent": ("1", "1", "–"),
        "Speed-ups over today's fastest": ("1", "–", "1"),
        "Speed-ups over the authors' released kernels": ("1", "1", "–"),
        "Speed-ups of one design choice over another": ("1", "1", "–"),
        "Rates, as shares of each GPU's peak": ("1", "1", "–"),
        "Profiler counters": ("1", "1", "–"),
        "Lines of code": ("1", "–", "1"),
        "Sizes of libraries": ("1", "–", "1"),
        "Other": ("1", "–", "1"),
    }


def test_no_claims_are_no_summary() -> None:
    assert summary_sentences((), ()) == ()


def test_a_broken_list_of_subjects_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("subjects: [{name: x}]")
    with pytest.raises(PaperFiguresError, match="cannot be read"):
        load_subjects(tmp_path / "s.yaml")
