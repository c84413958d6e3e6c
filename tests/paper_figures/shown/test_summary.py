"""The summary of the verdicts: every claim has its subject, and the sentences say what the verdicts say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from paper_figures.errors import PaperFiguresError
from paper_figures.judged.evaluation import ClaimResult
from paper_figures.judged.verdicts import Verdict
from paper_figures.published.claims import CLAIMS, Claim, load_claims
from paper_figures.shown.summary import headlines, load_subjects, subjects_table, summary_sentences, together

ALL: dict[str, Claim] = {
    claim.id: claim for path in sorted(CLAIMS.glob("*.yaml")) for claim in load_claims(path.stem).claims
}


def results(**verdicts: Verdict) -> list[ClaimResult]:
    """Claims by id, dashes as underscores, with the verdicts given."""
    return [ClaimResult(ALL[name.replace("_", "-")], verdict, "", (), "") for name, verdict in verdicts.items()]


def test_every_claim_belongs_to_one_subject() -> None:
    """Guard: a claim that is in no subject would be in no sentence."""
    named = Counter(one for subject in load_subjects() for one in (*subject.paper, *subject.today))
    assert set(named) == set(ALL)
    assert set(named.values()) == {1}
    names = [subject.name for subject in load_subjects()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((), Verdict.NOT_RUN),
        ((Verdict.REPRODUCED, Verdict.NOT_RUN), Verdict.REPRODUCED),
        ((Verdict.REPRODUCED, Verdict.NOT_REPRODUCED), Verdict.PARTLY),
        ((Verdict.NOT_REPRODUCED, Verdict.BLOCKED, Verdict.NOT_COMPARABLE), Verdict.NOT_REPRODUCED),
        ((Verdict.BLOCKED, Verdict.NOT_RUN), Verdict.BLOCKED),
    ],
)
def test_verdicts_with_numbers_decide_together(verdicts: tuple[Verdict, ...], expected: Verdict) -> None:
    assert together(verdicts) is expected


def sentences(**verdicts: Verdict) -> tuple[str, ...]:
    own = results(**verdicts)
    return summary_sentences(headlines(own), own)


def test_what_the_field_has_overtaken_is_said() -> None:
    said = sentences(
        fig8_backward_beats_published_fa3=Verdict.REPRODUCED,
        fig8_backward_beats_todays_best=Verdict.NOT_REPRODUCED,
    )
    assert said[0] == "Of 2 claims: 1 reproduced, 1 not reproduced."
    assert (
        "Reproduced against what the paper compared with, or against the numbers that it prints: attention backward."
        in said
    )
    assert (
        "Attention backward: what the paper claims still holds against what it compared with, or against the "
        "numbers that it prints (reproduced: 1 of 1 claim), but not against the fastest baseline of today that was "
        "installed (reproduced: 0 of 1 claim): a newer one is faster, or the margin that the paper claims is gone."
    ) in said
    assert not any("No verdict" in one for one in said)


def test_what_holds_today_too_is_not_overtaken() -> None:
    said = sentences(
        fig9_mamba2_over_mamba_ssm=Verdict.REPRODUCED,
        fig9_mamba2_rates=Verdict.NOT_REPRODUCED,
        fig9_mamba2_over_todays_best=Verdict.REPRODUCED,
        fig9_based_over_parallel=Verdict.NOT_RUN,
    )
    assert "Holds against the fastest baseline of today that was installed: Mamba-2." in said
    assert "No verdict yet: Based." in said
    assert not any("a newer one is faster" in one for one in said)


def test_a_verdict_of_today_alone_is_said_as_such() -> None:
    said = sentences(fig9_layernorm_over_triton=Verdict.NOT_RUN, fig9_layernorm_over_todays_best=Verdict.REPRODUCED)
    against = "reproduced against the fastest baseline of today, not run against the paper's own"
    assert f"The fused normalisation: {against}." in said


def test_what_rests_on_a_part_of_the_claims_is_said_as_such() -> None:
    """Guard: one claim of four stood as "reproduced" without a word of the three that were not run."""
    said = sentences(
        fig9_mamba2_over_mamba_ssm=Verdict.REPRODUCED,
        fig9_mamba2_rates=Verdict.NOT_RUN,
        fig9_mamba2_over_todays_best=Verdict.NOT_REPRODUCED,
        fig8_backward_beats_published_fa3=Verdict.PARTLY,
        fig8_backward_rates=Verdict.NOT_COMPARABLE,
        fig8_backward_beats_todays_best=Verdict.REPRODUCED,
    )
    assert any(one.startswith("Reproduced ") and one.endswith(" prints: Mamba-2 (as far as judged).") for one in said)
    assert "In part: attention backward (as far as judged)." in said
    assert (
        "Mamba-2: what the paper claims still holds against what it compared with, or against the numbers that it "
        "prints (reproduced: 1 of 2 claims; 1 not run), but not against the fastest baseline of today that was "
        "installed (reproduced: 0 of 1 claim): a newer one is faster, or the margin that the paper claims is gone."
    ) in said
    assert "Holds against the fastest baseline of today that was installed: attention backward." in said


def test_each_subject_has_its_verdicts_and_counts_in_a_table() -> None:
    table = subjects_table(
        headlines(
            results(
                fig9_mamba2_over_mamba_ssm=Verdict.REPRODUCED,
                fig9_mamba2_rates=Verdict.NOT_RUN,
                fig9_mamba2_over_todays_best=Verdict.NOT_REPRODUCED,
                fig6_occupancy_helps_a_synchronous_kernel=Verdict.PARTLY,
            )
        )
    )
    cells = [[(cell.text, cell.detail, cell.kind) for cell in row] for row in table.rows]
    assert [
        ("Mamba-2", "", "text"),
        ("reproduced", "as far as judged, 1 of 2 claims; 1 not run", "verdict"),
        ("not reproduced", "0 of 1 claim", "verdict"),
    ] in cells
    assert ("–", "", "text") in [row[2] for row in cells], "compares with no baseline"


def test_no_claims_are_no_summary() -> None:
    assert summary_sentences((), ()) == ()


def test_a_broken_list_of_subjects_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("subjects: [{name: x}]")
    with pytest.raises(PaperFiguresError, match="cannot be read"):
        load_subjects(tmp_path / "s.yaml")
