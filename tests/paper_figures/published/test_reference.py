"""The published numbers: complete, cited, in the project's words, and consistent with one another."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.records.naming import Contestant, problem_keys
from paper_figures.errors import PaperFiguresError
from paper_figures.published.reference import find, load_gpus, load_reference, parse_value

ROWS = load_reference()
KEYS = {
    "gemm": "M N K",
    "attention": "B H Hkv N Nkv D causal",
    "based": "B H N F D",
    "mamba2": "B H N P S G",
    "fft_conv": "B D N causal",
    "dropout_add_layernorm": "B N D p",
    "mla_decode": "B lengths Q H page",
    "paged_attention_decode": "B lengths Q H Hkv D page",
}


def tflops(exhibit: str, problem: str, contestant: str, metric: str = "tflops") -> float:
    name, _, variant = contestant.partition("/")
    workload = "based" if "F=16" in problem else "gemm"
    row = find(
        ROWS,
        exhibit=exhibit,
        workload=workload,
        direction="fwd",
        metric=metric,
        problem=problem,
        contestant=Contestant(name, variant),
    )
    assert row is not None
    assert row.number is not None
    return row.number


def test_every_row_is_there() -> None:
    assert len(ROWS) == 242
    count = Counter(row.exhibit for row in ROWS)
    assert count["Table 1"] == 4
    assert count["Table 2"] == 15
    assert count["Table 3"] == 8
    assert count["Table 6"] == 32
    assert count["Fig 7"] == 10
    assert count["Fig 8"] == 40
    assert count["ScaleML 2025 slide table"] == 18
    assert (count["ThunderMLA"], count["ThunderGQA"], count["Llama megakernel"]) == (13, 5, 4)


def test_every_row_is_cited() -> None:
    sources = ("ICLR 2025", "ScaleML 2025", "hazyresearch.stanford.edu/blog", "ThunderKittens repository")
    assert all(any(source in row.citation for source in sources) for row in ROWS)


def test_no_case_is_published_twice_in_an_exhibit() -> None:
    keys = Counter(
        (row.exhibit, row.workload, row.direction, row.gpu, row.problem, row.contestant, row.metric)
        for row in ROWS
        if row.problem and not row.baseline
    )
    assert [key for key, times in keys.items() if times > 1] == []


def test_problems_are_canonical() -> None:
    for row in ROWS:
        if row.problem:
            order = KEYS[row.workload].split()
            positions = [order.index(key) for key in problem_keys(row.problem)]
            assert positions == sorted(positions), row
            assert not row.scope, row


def test_problems_are_written_as_the_harness_stores_them() -> None:
    """For the workloads that are here: options at their default are left out."""
    from harness import workloads

    rows = [row for row in ROWS if row.problem and row.workload not in ("fft_conv", "dropout_add_layernorm")]
    assert len(rows) > 85
    for row in rows:
        problem = workloads.parse_problem(
            row.workload, problem_keys(row.problem), dtype=row.dtype, direction=row.direction
        )
        assert problem.text == row.problem


def test_ablations_are_variants_and_not_problems() -> None:
    variants = {row.variant for row in ROWS if row.workload == "gemm"}
    assert {"stages=1", "stages=4", "persistent=0", "order=supergroup", "order=row_major", ""} <= variants
    attention = {row.variant for row in ROWS if row.workload == "attention"}
    assert attention == {"", "order=head_major", "order=row_major"}
    assert not any(word in row.problem for row in ROWS for word in ("stages", "persistent", "order", "grid"))


@pytest.mark.parametrize(
    ("k", "share"), [(64, 108 / 69), (128, 184 / 133), (256, 309 / 242), (512, 450 / 407), (1024, 600 / 633)]
)
def test_baselines_share_the_problem_of_the_ablation(k: int, share: float) -> None:
    problem = f"M=4096;N=4096;K={k}"
    assert tflops("Table 2", problem, "tk") / tflops("Table 2", problem, "cublas") == pytest.approx(share)
    assert tflops("Table 2", problem, "tk/persistent=0") < tflops("Table 2", problem, "tk")


def test_ratios_that_the_paper_prints_follow_from_its_rates() -> None:
    cube = "M=16384;N=16384;K=16384"
    fast, slow = "tk/order=supergroup", "tk/order=row_major"
    assert tflops("Table 3", cube, fast) / tflops("Table 3", cube, slow) == pytest.approx(2.05, abs=0.01)
    bandwidth = [tflops("Table 3", cube, one, "hbm_gbps") for one in (slow, fast)]
    assert bandwidth[0] / bandwidth[1] == pytest.approx(3.13, abs=0.01)
    based = [
        tflops("Fig 9", f"B=16;H=16;N={n};F=16;D=64", "tk")
        / tflops("Fig 9", f"B=16;H=16;N={n};F=16;D=64", "fla_parallel")
        for n in (1024, 16384)
    ]
    printed = {row.metric: row.number for row in ROWS if row.exhibit == "Table 6" and row.workload == "based"}
    assert based == pytest.approx([printed["speedup_min"], printed["speedup_max"]], rel=0.01)


def test_the_papers_claims_on_attention_follow_from_its_figure() -> None:
    ratios: dict[str, list[float]] = {"fwd": [], "bwd": []}
    for direction, own in ratios.items():
        rows = [row for row in ROWS if (row.exhibit, row.direction) == ("Fig 8", direction)]
        rates = {(row.problem, row.implementation): row.number or 0.0 for row in rows}
        assert len(rates) == 20
        own += [rates[one, "tk"] / rates[one, "flash_attn_3"] for one in dict.fromkeys(row.problem for row in rows)]
    printed = {row.metric: row.number for row in ROWS if row.exhibit == "Table 6" and row.workload == "attention"}
    assert [min(ratios["fwd"]), max(ratios["fwd"])] == pytest.approx(
        [printed["speedup_min"], printed["speedup_max"]], abs=0.005
    )
    assert [min(ratios["bwd"]), max(ratios["bwd"])] == pytest.approx([1.10, 1.44], abs=0.005)


def test_one_kernel_at_one_size_agrees_within_the_papers_own_spread() -> None:
    cube = "M=4096;N=4096;K=4096"
    rates = [
        tflops("Table 1", cube, "tk/stages=4"),
        tflops("App C.1 text", cube, "tk/order=supergroup"),
        tflops("Fig 7", cube, "tk"),
    ]
    assert max(rates) / min(rates) < 1.016


@pytest.mark.parametrize(
    ("text", "bounds"),
    [("760", (760, 760)), (">1.40", (1.4, float("inf"))), ("<1.0", (float("-inf"), 1)), ("1.10-1.40", (1.1, 1.4))],
)
def test_values_as_printed(text: str, bounds: tuple[float, float]) -> None:
    assert parse_value(text) == bounds


def test_no_number_is_no_value() -> None:
    assert parse_value("") is None
    assert all((row.bounds is None) == (row.exactness in ("missing", "out_of_memory")) for row in ROWS)


def test_roofs_of_the_papers_gpu() -> None:
    gpu = load_gpus()["H100 80GB SXM"]
    assert gpu.roofline_tflops("bf16", 1e9) == 989.4
    assert gpu.roofline_tflops("bf16", 100) == pytest.approx(335)
    with pytest.raises(PaperFiguresError, match="no matmul roof"):
        gpu.roofline_tflops("int4", 100)
