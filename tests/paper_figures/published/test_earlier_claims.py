"""Claims whose files had another form when they were recorded: what they say is the same."""

from __future__ import annotations

from dataclasses import replace

from paper_figures.published.claims import earlier_claims, load_claims


def test_claims_say_what_they_said_in_their_earlier_form() -> None:
    """Until a claim changes: then its exhibit leaves `earlier_claims.yaml`, whose runs are of another edition."""
    assert len(earlier_claims()) > 30
    assert [name for name, then in earlier_claims().items() if load_claims(name).says != then["says"]] == []


def test_claims_that_were_two_files_of_another_form_are_the_same() -> None:
    """By their digests of then, as long as the claims say what those files said."""
    file, then = load_claims("fig7_gemm"), earlier_claims()["fig7_gemm"]["files"]
    assert len(then) == 2
    assert file.is_of(then) is True
    assert file.is_of({**then, "table6_gemm.yaml": "0" * 64}) is False
    assert file.is_of({"fig7_gemm.yaml": then["fig7_gemm.yaml"]}) is None
    assert file.is_of({**then, "fig7_gemm/claims.yaml": "0" * 64}) is False, "the edition of now is asked first"
    assert replace(file, says="").is_of(then) is False
