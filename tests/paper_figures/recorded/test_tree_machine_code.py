"""The machine code by which the report knows that a recorded time is of an older kernel."""

from __future__ import annotations

import json

import pytest

from harness.runs import load_campaign
from paper_figures.command import digest
from paper_figures.recorded.campaign import ROOT
from paper_figures.recorded.machine_code import MACHINE_CODE, has_changed
from tk_kernels import toolchain
from tk_kernels.toolchain.__main__ import main

CODES: dict[str, dict[str, dict[str, str]]] = json.loads(MACHINE_CODE.read_text())
RENEW = f"python -m tk_kernels.toolchain hashes > paper_figures/recorded/{MACHINE_CODE.name}"
LISTED = [(name, target) for name, targets in CODES.items() for target in targets]
BUILDS = [  # `make test` builds sm_90a
    pytest.param(*one, marks=[pytest.mark.long] if one[1] != toolchain.SM_90A.name else []) for one in LISTED
]


def test_every_kernel_that_was_recorded_is_listed() -> None:
    """Guard: a kernel that nobody listed would never be stale."""
    runs = load_campaign(ROOT / digest.recorded_campaign(digest.DIGESTS))
    builds = [build for run in runs for build in run.manifest["kernel_builds"].values()]
    assert builds
    assert {(build["name"], build["target"]) for build in builds} <= set(LISTED), f"run: {RENEW}"


@pytest.mark.parametrize(("name", "target"), BUILDS)
def test_the_list_has_this_trees_machine_code(name: str, target: str) -> None:
    """Guard: a kernel that was changed, and not measured again, would keep its times."""
    build = toolchain.manifest(name, target)
    if build["compiler"] != CODES[name][target]["compiler"]:
        pytest.skip(f"compiled by {build['compiler']}, not by {CODES[name][target]['compiler']}")
    assert build["binary_hash"] == CODES[name][target]["binary_hash"], f"the machine code has changed; run: {RENEW}"
    assert not has_changed(build)
    assert has_changed({**build, "binary_hash": "another"})


def test_the_command_that_renews_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards: a target that a kernel refuses ended it, and a folder without device code had the hash of nothing."""
    assert main(["hashes", "gemm_fp8"]) == 0
    assert main(["hashes", "decode_plan", "--target", "sm_90a"]) == 0
    build = toolchain.manifest("gemm_fp8", "sm_90a")
    expected = {"gemm_fp8": {"sm_90a": {key: build[key] for key in ("compiler", "binary_hash")}}}
    said = capsys.readouterr()
    assert said.out == f"{json.dumps(expected, indent=1)}\n{{}}\n"
    assert "gemm_fp8 is not built for sm_80" in said.err


@pytest.mark.parametrize("other", [{"name": "unknown"}, {"target": "sm_100"}, {"compiler": "nvcc 99"}])
def test_of_what_the_tree_does_not_know_nothing_is_said(other: dict[str, str]) -> None:
    known = {"name": "gemm", "target": "sm_90a", "compiler": CODES["gemm"]["sm_90a"]["compiler"], "binary_hash": "c0de"}
    assert has_changed(known)
    assert not has_changed({**known, **other})
