"""Seeds come from the operating system, are stored, and give the same again where they are given."""

import json
from dataclasses import replace

import pytest
import torch
from harness_fake_gpu import FakeGpu
from harness_support import FAST, contestant, line, main, only_run

from harness import workloads
from harness.devices.cpu import CpuDevice
from harness.measure import measure
from harness.measure.data import Data
from harness.measure.messages import CaseOutcome
from harness.plan import seeds
from harness.plan.planning import Candidate, Group, Limits, TimerSettings
from harness.runs import load_run

TIMER = TimerSettings("cuda_events", True, 0.005, 0.2, 0.002, 12, 12, 20)


def test_uses_of_one_seed_have_nothing_in_common():
    """Guard: with seed + number, whoever knew one set of inputs knew the seeds of all others."""
    found = [seeds.derived(seed, purpose, n) for seed in (0, 1) for purpose in ("inputs", "order") for n in range(100)]
    assert len(set(found)) == len(found)
    assert all(0 <= one < 2**62 for one in found)
    assert seeds.derived(5, "inputs", 3) == seeds.derived(5, "inputs", 3)


@pytest.mark.parametrize("given", [None, 12])
def test_the_seed_is_drawn_stored_and_replayed(tmp_path, given):
    """Guard: cheat 1 of the audit brought a table of results for the inputs of seed 0."""
    words = [] if given is None else [f"seed={given}"]
    used = set()
    for name in ("first", "second"):
        folder = tmp_path / name
        problems = "problems=[{M:32,N:64,K:64},{M:64,N:64,K:64}]"
        assert (
            main(
                [
                    *FAST,
                    *contestant("good", "Good"),
                    "implementations=[good]",
                    problems,
                    *words,
                    f"results_dir={folder}",
                ]
            )
            == 0
        )
        run = only_run(folder)
        rows = load_run(run).measurements
        groups = json.loads((run / "manifest.json").read_text())["groups"]
        assert [group["seed"] for group in groups] == rows["seed"].tolist()
        for row in rows.itertuples():
            assert f"seed={row.seed} " in f"{row.repro_command} "
        used |= set(rows["seed"])
    assert used == {given} if given is not None else len(used) == 4


def test_the_seed_decides_the_inputs():
    def inputs(seed, number=1):
        problem = workloads.parse_problem("gemm", {"M": 8, "N": 8, "K": 8}, dtype="bf16", direction="fwd")
        group = Group("gemm", problem, "normal", seed, ())
        return Data(group, CpuDevice(), line([], seed)).inputs(number)["a"]

    assert torch.equal(inputs(3), inputs(3))
    assert not torch.equal(inputs(3), inputs(4))
    assert not torch.equal(inputs(3, 1), inputs(3, 2))


def test_the_seed_decides_who_runs_after_whom_and_what_is_looked_at(monkeypatch):
    """Guards: the seeds of the orders of rounds and of settled blocks, and of the parts of a reference.

    One order for all groups favoured somebody; whoever knows what is looked at is honest there.
    """
    settled = {"settled": "always", "settled_fastest": 4, "settled_block_seconds": 0.02, "settled_drop_seconds": 0.005}
    timer = replace(TIMER, **settled)
    problem = workloads.parse_problem("gemm", {"M": 8, "N": 8, "K": 8}, dtype="bf16", direction="fwd")
    contestants = tuple(Candidate.of(name, {"_target_": "harness_fakes.Good"}) for name in "abcd")

    gemm, looked_at = workloads.load("gemm"), []
    reference = gemm.reference
    monkeypatch.setattr(gemm, "reference", lambda p, i, seed: looked_at.append(seed) or reference(p, i, seed))

    def seats(seed):
        sent = []
        looked_at.clear()
        group = Group("gemm", problem, "normal", seed, contestants)
        measure.measure_group(group, FakeGpu(), timer, Limits(60, 60, 10, 0.3), line(sent, seed))
        done = [one for one in sent if isinstance(one, CaseOutcome)]
        rounds = [one.positions[: 2 * len(contestants)].tolist() for one in done]
        return rounds, [[block.position for block in one.settled] for one in done], set(looked_at)

    first, again, other = seats(3), seats(3), seats(4)
    assert all(first[1]), "all are settled"
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]
    assert len(first[2]) >= 2, "two references at least"
    assert not first[2] & other[2]
