"""What an exhibit's title and the start page's first sentence say, from verdicts and numbers alone."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import pytest
from markupsafe import Markup

from paper_figures.intervals import Interval, Measured
from paper_figures.judged.comparisons import PointResult
from paper_figures.judged.evaluation import ClaimResult, evaluate
from paper_figures.judged.verdicts import HOLDING, WITHOUT_NUMBER, Verdict
from paper_figures.published.claims import EXHIBITS, Claim, ClaimFile, load_claims
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.page.finding import Ratios, alone, boxes, headline, outcome
from paper_figures.shown.page.overview import Mark, Row, speedups, standing
from paper_figures.shown.report.model import ExhibitReport, Report
from paper_figures.shown.report.page_values import _judged_elsewhere, page_values

ALL: dict[str, Claim] = {
    claim.id: claim for path in sorted(EXHIBITS.glob("*/claims.yaml")) for claim in load_claims(path.parent.name).claims
}


def result(name: str, verdict: Verdict, *measured: float) -> ClaimResult:
    """A claim with a verdict and measured ratios."""
    claim = ALL[name]
    accept = Interval(1.0, inf)
    points = tuple(
        PointResult(claim.points[0], "x", None, accept, Measured(one, one, one), verdict, "", "") for one in measured
    )
    return replace(evaluate(claim, ClaimFile("f", "", "", (claim,)), ()), verdict=verdict, points=points)


def test_a_smaller_margin_is_not_called_a_faster_library() -> None:
    """Guard: ours was 2.6 times as fast as every library, and the title said that a library is faster."""
    paper = [result("fig9-fft-conv-over-flash-fft-conv", Verdict.OVERTAKEN, 5.8)]
    ahead = [result("fig9-fft-conv-over-todays-best", Verdict.SHORT, 2.6, 2.7)]
    behind = [result("fig9-fft-conv-over-todays-best", Verdict.SHORT, 2.6, 0.97)]
    assert outcome(paper, ahead) == ", by a smaller margin over today's libraries"
    assert outcome(paper, behind) == ", but today's libraries have caught up"


@pytest.mark.parametrize(
    ("verdicts", "today", "said"),
    [
        ([Verdict.HOLDS, Verdict.LESS], None, ""),
        ([Verdict.HOLDS, Verdict.NOT_TESTED], Verdict.HOLDS, ""),
        ([Verdict.HOLDS, Verdict.SHORT], None, ", in part"),
        ([Verdict.HOLDS, Verdict.CLOSE], Verdict.SHORT, ", in part, and today's libraries have caught up"),
        ([Verdict.SHORT, Verdict.CLOSE], None, ": falls short"),
        ([Verdict.CLOSE], None, ": too close to call"),
        ([Verdict.NOT_TESTED], None, ": not tested"),
        ([Verdict.NOT_TESTED], Verdict.HOLDS, ", over today's fastest too"),
        ([Verdict.NOT_TESTED], Verdict.SHORT, ": not so over today's fastest"),
    ],
)
def test_what_became_of_a_subject(verdicts: list[Verdict], today: Verdict | None, said: str) -> None:
    paper = [result("fig8-backward-beats-fa3", one) for one in verdicts]
    over = [] if today is None else [result("fig8-backward-beats-todays-best", today, 0.99)]
    assert outcome(paper, over) == said


def exhibit(report: Report, name: str) -> ExhibitReport:
    return next(one for one in report.exhibits if one.exhibit.id == name)


def test_lines_of_code_are_in_no_title_that_has_speeds(report: Report) -> None:
    """Guard: the title of Figure 8 ended with the length of its kernels."""
    speeds = [
        result("fig8-backward-beats-fa3", Verdict.HOLDS, 1.2),
        result("fig8-forward-matches-fa3", Verdict.HOLDS, 1.0),
    ]
    lines = result("table6-attention-lines", Verdict.SHORT)
    fig8 = exhibit(report, "fig8_attention")
    assert headline(fig8, [*speeds, lines]) == (
        "Attention forward matches FlashAttention-3; attention backward beats FlashAttention-3"
    )
    assert headline(fig8, [lines]) == "Kernels are short: falls short"


@pytest.mark.parametrize(("today", "said"), [(2.6, "Overtaken, in its margin alone: "), (0.9, "Overtaken: ")])
def test_a_box_tells_a_lost_margin_from_a_lost_lead(report: Report, today: float, said: str) -> None:
    over = result("fig9-fft-conv-over-todays-best", Verdict.SHORT, today)
    claim = replace(result("fig9-fft-conv-over-flash-fft-conv", Verdict.OVERTAKEN, 5.8), today=over)
    assert boxes(exhibit(report, "fig9_fft_conv"), [claim])[0].lines[0].startswith(said)


@pytest.mark.parametrize(
    ("name", "claim", "over", "where"),
    [
        ("thundermla", "thundermla-over-flashmla", "Against what was published", ", published 1"),
        ("ampere_path", "ampere-backward-matches-fa2", "Its claims", "Here 1.000×."),
        ("fig7_gemm", "fig7-matches-cublas", "Against the paper", ", in the paper "),
    ],
)
def test_a_box_says_whose_numbers_its_claims_are_against(
    report: Report, name: str, claim: str, over: str, where: str
) -> None:
    """Guard: what is beyond the paper stood under `Against the paper`, and others' numbers were `in the paper`."""
    own = next(one for one in exhibit(report, name).results if one.claim.id == claim)
    measured = tuple(replace(one, measured=Measured(1.0, 1.0, 1.0)) for one in own.points)
    box, *_ = boxes(exhibit(report, name), [replace(own, points=measured, today=None)])
    assert box.over == over
    assert where in box.lines[0]


def test_the_boxes_of_an_exhibit_made_from_others_count_what_its_title_counts(report: Report) -> None:
    """Guard: the title counted claims over today's fastest, which no box did."""
    table6 = exhibit(report, "table6_lines_and_speedups")
    claims = [
        result("table6-gemm-over-cutlass", Verdict.HOLDS, 1.1),
        result("table6-attention-over-fa3", Verdict.HOLDS, 1.0),
        result("table6-based-speedup", Verdict.HOLDS, 7.0),
        result("table6-rotary-speedup", Verdict.SHORT, 1.0),
        result("fig7-matches-todays-best", Verdict.HOLDS, 1.0),
    ]
    assert headline(table6, claims) == "Lines of code and speedups: 4 of 5 tested claims hold"
    paper, today = boxes(table6, claims)
    assert (paper.over, paper.title, paper.tone) == ("Against the paper", "3 of 4 tested claims hold", "some")
    assert (today.over, today.title, today.tone) == ("Today's best library", "Its tested claim holds", "good")


def test_beyond_the_paper_a_title_says_what_was_measured(report: Report) -> None:
    """Guard: over measured rates it was `not tested here`, since two other exhibits had claims beyond the paper."""
    gqa = exhibit(report, "fig8_attention_gqa")
    problems = len(gqa.selections)
    assert not _judged_elsewhere(report, gqa)
    assert re.fullmatch(rf".*: ours is fastest on (\d+ of|all) {problems} problems", headline(gqa, []))
    in_use = exhibit(report, "gemm_in_use")
    for verdict, words in ((Verdict.SHORT, "does not hold"), (Verdict.CLOSE, "is undecided"), (Verdict.HOLDS, "holds")):
        claims = [result("gemm-in-use-few-rows-match-cublas", verdict, 0.9)]
        assert re.search(rf": its tested claim {words}; ours is fastest on (\d+ of|all) ", headline(in_use, claims))


def test_a_card_does_not_repeat_its_title() -> None:
    assert alone("Batch sizes", "Batch sizes: 3 of 4 tested claims hold") == "3 of 4 tested claims hold"
    assert alone("Attention", "Attention forward matches FlashAttention-3") == (
        "Attention forward matches FlashAttention-3"
    )
    assert alone("Every kernel against the roof", "Every kernel against the roof") == ""


def row(name: str, *ratios: float, best: tuple[str, ...] = (), own: bool = False, released: float = 0.0) -> Row:
    marks = {"ours": Mark("ours", "ours", Ratios(ratios))}
    return Row("fig9", name, marks, best, "", own, Ratios((released, 4 * released)) if released else None)


def test_the_first_sentence_says_where_ours_leads_and_trails() -> None:
    """With a range beside each mean, the released kernels, and no library where what is fastest is none."""
    level = [row("bf16 GEMM", 1.01, 1.03, best=("cuBLAS",), released=1.5), row("Rotary", 0.984)]
    lead = [
        row("Long convolution", 2.0, best=("our Triton Monarch",), own=True, released=1.0),
        row("Based", 8.0, 18.0, best=("fla", "mamba_ssm")),
    ]
    assert standing([*lead, *level]) == (
        "Our kernels are faster than the best library of today: 12.0× on Based (8.00 to 18×; fla, mamba_ssm). "
        "On 2 others ours is within 2 % of it (0.984 to 1.03×). "
        "Over what was put together here, where no library is as fast: 2.00× on long convolution (our Triton Monarch). "
        "Over the authors' released kernels: 2.00 to 3.00× on 2 kernels (1.00 to 6.00×). "
        "Means are geometric, ranges over problems."
    )
    assert standing([row("Rotary", 0.5), row("bf16 GEMM", 1.0)]) == (
        "On 1 other ours is within 1 % of the best library of today (1.00×). "
        "Ours trails the best library of today: 0.500× on rotary. "
        "Means are geometric, ranges over problems."
    )
    assert standing([row("bf16 GEMM", 0.97)]) == (
        "On every kernel ours is within 3 % of the best library of today (0.970×). "
        "Means are geometric, ranges over problems."
    )
    assert standing([]) == ""


def test_who_is_the_best_of_today_is_named_in_short(report: Report) -> None:
    """Guard: it was said without a name, also where that is our own kernel in Triton."""
    named = {one.name: one.best for one in speedups(report.exhibits)}
    assert named["Long convolution"] == ("our Triton Monarch",)
    assert named["Hedgehog"] == ("composed here",)
    assert named["Based"] == ("fla",)


def test_the_bar_of_the_start_page_counts_what_its_sentence_counts(report: Report) -> None:
    """Guard: the bar had the claims over the released kernels too, and no key."""
    values = page_values(report, {one.exhibit.id: Markup() for one in report.exhibits}, measured_here=False)
    counts = dict(values["counting"])
    hold = sum(counts.get(str(one), 0) for one in HOLDING)
    tested = sum(count for name, count in counts.items() if name not in map(str, WITHOUT_NUMBER))
    assert values["verdict"].startswith(f"Of {tested} tested claims, {hold} hold")
    assert sum(dict(values["counts"]).values()) == len(report.results)


@pytest.mark.parametrize("name", ["thundergqa", "thundermla", "fig10_fp8"])
def test_who_was_never_asked_stands_by_the_claims_on_todays_fastest(report: Report, name: str) -> None:
    """Guard: `matches the fastest library of today` was against FlashAttention-3 alone, and nothing said so."""
    part = exhibit(report, name)
    assert isinstance(part.exhibit, Exhibit)
    said = part.exhibit.not_among
    assert said.startswith("not among them: ")
    by = {one.claim.against: said in one.notes for one in part.results}
    assert by == {against: against == "today" for against in by}
    assert by["today"]
    assert f"N{said[1:]}." in next(box for box in boxes(part, part.results) if box.over == "Today's best library").lines
    fig8 = exhibit(report, "fig8_attention")
    assert not any("not among" in one.notes for one in fig8.results)
