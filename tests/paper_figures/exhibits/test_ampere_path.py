"""The Ampere path: ten parts in one table, and what it says on a GPU that is not Hopper."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from paper_figures.exhibits import choose_exhibits
from paper_figures.judged.verdicts import Verdict
from paper_figures.published.claims import load_claims
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.model import ExhibitReport

(EXHIBIT,) = choose_exhibits(["ampere_path"])
PARTS = EXHIBIT.parts
ATTENTION = PARTS[0]


def ampere_path(folder: Path, synthetic: ModuleType, *parts: str, **options: object) -> ExhibitReport:
    for number, name in enumerate(parts):
        synthetic.write_run(folder, name, f"20260102T0304{number:02}Z-abc1{number:02}", **options)
    [report] = make_report(folder, choose_exhibits(["ampere_path"])).exhibits
    return report


def rows(report: ExhibitReport) -> list[dict[str, str]]:
    titles = [column.title for column in report.table.columns]
    return [dict(zip(titles, (cell.text for cell in row), strict=True)) for row in report.table.rows]


def test_every_part_has_its_rows(tmp_path: Path, synthetic: ModuleType) -> None:
    report = ampere_path(tmp_path / "c", synthetic, *(part.id for part in PARTS))
    assert {row["Kernel"] for row in rows(report)} == {part.title for part in PARTS}
    own = [part.load_experiment() for part in PARTS]
    assert len(rows(report)) == sum(len(one.problems) * len(one.contestants) for one in own)
    assert not any("Not measured yet" in remark for remark in report.table.remarks)
    judged = {one.claim.id: one.verdict for one in report.results}
    assert judged["ampere-backward-matches-fa2"] is Verdict.HOLDS
    assert judged["ampere-based-over-fla"] is Verdict.HOLDS


def test_on_another_gpu_it_says_nothing_of_hopper(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: a reproduction on an A100 had a title of the H200, rows of a build that did not run, and claims of Hopper
    GPUs that held; one compared a kernel with itself.
    """
    gpu = {"name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0"}
    builds = {key: {"name": "a kernel", "target": "sm_80", "binary_hash": "c0de"} for key in ("tk[target=sm_80]", "tk")}
    manifest = {"gpu": gpu, "kernel_builds": builds}
    report = ampere_path(tmp_path / "a100", synthetic, *(part.id for part in PARTS), manifest=manifest)
    said = " ".join((report.exhibit.title, report.table.caption, *report.table.remarks))
    assert not any(word in said for word in ("H200", "Hopper", "wgmma", "no evidence"))
    assert {row["Implementation"] for row in rows(report) if row["Kernel"] == "Rotary"} == {"TK (ours), sm_80"}
    judged = {one.claim.id: one for one in report.results if "on a Hopper GPU" in one.claim.sentence}
    assert len(judged) == 7
    for one in judged.values():
        assert one.verdict is Verdict.NOT_COMPARABLE
        assert one.reason.endswith("the claim is of a Hopper GPU, and the run of another: NVIDIA A100-SXM4-80GB")
    hopper = ampere_path(tmp_path / "h100", synthetic, *(part.id for part in PARTS))
    assert "the same source built for Hopper" in " ".join(hopper.table.remarks)
    assert "no evidence for an RTX 4090" in " ".join(hopper.table.remarks)
    labels = {row["Implementation"] for row in rows(hopper) if row["Kernel"] == "Rotary"}
    assert labels == {"TK (ours), sm_80", "TK (ours), sm_90a"}


def test_its_title_names_no_gpu_and_is_quoted_as_it_is() -> None:
    """It is recorded on more GPUs than one; the rows that need an RTX 4090 send readers there."""
    quoting = [one for one in load_claims("scaleml_extended").claims if one.not_run and "Ampere" in one.not_run]
    assert {one.id for one in quoting} == {"scaleml-attention-rtx-4090", "fig11-rtx-4090"}
    assert all(f'under "{EXHIBIT.title}", ' in one.not_run for one in quoting)
    assert EXHIBIT.title == "The Ampere path"


def test_what_is_not_run_is_not_tested(tmp_path: Path, synthetic: ModuleType) -> None:
    report = ampere_path(tmp_path / "c", synthetic, ATTENTION.id)
    judged = {one.claim.id: one for one in report.results}
    new = [
        one for name, one in judged.items() if name.startswith(("ampere-backward", "ampere-products", "ampere-based"))
    ]
    assert len(new) == 6
    assert {one.verdict for one in new} == {Verdict.NOT_TESTED}
    assert all("was not run" in one.reason or "no run" in one.reason for one in new)
    [remark] = [one for one in report.table.remarks if one.startswith("Not measured yet")]
    assert all(f"({part.title})" in remark for part in PARTS if part != ATTENTION)
    assert f"({ATTENTION.title})" not in remark
