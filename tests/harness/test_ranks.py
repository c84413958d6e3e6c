"""Cases of several ranks: a process each, which verify, time and judge alike, and end together."""

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from harness_support import FAST, contestant, main, only_run

from harness import workloads
from harness.devices.agreement import Failed, OutOfStepError, RankFailedError, agreed, answers
from harness.devices.cpu import CpuDevice
from harness.measure import ranks as ranks_of_harness
from harness.measure.messages import Phase
from harness.measure.ranks import MULTICAST_OFF, Ranks, begin_process
from harness.records.rows import Status
from harness.runs import load_run
from harness.runs.group import read_group

ALL_REDUCE = "{op: all_reduce, W: 2, M: 64, N: 48}"
FAKES = {name.lower(): name for name in ("Sum", "Wrong", "Keeps", "Refuses", "Raises", "Dies", "Hangs")}


def fakes(*names):
    entries = [
        word.replace("harness_fakes", "harness_ranks") for name in names for word in contestant(name, FAKES[name])
    ]
    return ["workload=collective", *FAST, *entries, f"implementations=[{','.join(names)}]"]


def ran(tmp_path, words, device):
    code = main([*words, *device, f"results_dir={tmp_path}", "wandb=disabled"])
    rows = load_run(only_run(tmp_path)).measurements
    return code, {(row["implementation"], row["problem"]): row for _, row in rows.iterrows()}


FAKE = ["device._target_=harness_ranks.FakeRanks"]


def test_what_is_wrong_on_one_rank_is_found_and_named(tmp_path):
    names = ("sum", "wrong", "keeps", "refuses", "raises")
    code, rows = ran(tmp_path, [*fakes(*names), f"problems=[{ALL_REDUCE}]"], FAKE)
    assert code == 1
    found = {name: rows[name, "op=all_reduce;W=2;M=64;N=48"] for name in names}
    assert {name: row["status"] for name, row in found.items()} == {
        "sum": "passed",
        "wrong": "failed_verification",
        "keeps": "failed_verification",
        "refuses": "unsupported",
        "raises": "out_of_memory",
    }
    assert found["sum"]["latency_us_p50"] == pytest.approx(200, rel=0.05)  # of the slower rank
    (entry,) = load_run(only_run(tmp_path)).manifest["groups"]
    ranks = read_group(only_run(tmp_path) / entry["file"], entry["case_ids"]).ranks
    medians = [np.median(ranks[rank][found["sum"]["case_id"]].latency_us) for rank in (0, 1)]
    assert medians == pytest.approx([100, 200], rel=0.05)
    assert found["wrong"]["reason"].startswith("rank 1: out: relative L2 error")
    assert ": rank 1: out: relative L2 error" in found["keeps"]["reason"]  # in an audit, or of the last output
    assert found["refuses"]["reason"] == "rank 1: not on this rank"
    assert found["raises"]["reason"] == "rank 1: OutOfMemoryError: this rank has no memory left"


def test_a_rank_that_dies_or_hangs_is_named(tmp_path):
    words = [*fakes("dies", "hangs"), f"problems=[{ALL_REDUCE}]", "limits.case_seconds=4"]
    code, rows = ran(tmp_path, words, FAKE)
    found = {name: (row["status"], row["reason"]) for (name, _), row in rows.items()}
    assert code == 1
    assert found["dies"] == ("error", "rank 1 was ended by SIGKILL during 'verify'")
    status, reason = found["hangs"]
    assert status == "timeout"
    assert reason.startswith("no rank answered for 4 s during 'verify'; rank 0 at distributed_c10d.py, line ")
    assert re.search(r"; rank 1 at harness_ranks.py, line \d+ in result; killed$", reason)


@pytest.mark.parametrize(
    ("workload", "problems", "contestants"),
    [
        (
            "collective",
            "{op: all_reduce, W: 2, M: 8, N: 20}, {op: all_gather, W: 2, M: 6, N: 7},"
            "{op: reduce_scatter, W: 2, M: 6, N: 520}, {op: all_to_all, W: 2, M: 4, N: 33}",
            ["tk", "nccl"],
        ),
        (
            "gemm_collective",
            "{op: ag_gemm, W: 2, M: 32, N: 24, K: 40}, {op: gemm_rs, W: 2, M: 32, N: 24, K: 40},"
            "{op: gemm_ar, W: 2, M: 32, N: 24, K: 40}",
            ["nccl"],
        ),
    ],
)
def test_every_collective_is_right_on_the_cpu(tmp_path, workload, problems, contestants):
    words = [f"workload={workload}", f"problems=[{problems}]", f"implementations=[{','.join(contestants)}]"]
    code, rows = ran(tmp_path, words, ["device=cpu"])
    assert code == 0
    assert len(rows) == len(contestants) * problems.count("op:")
    assert {row["status"] for row in rows.values()} == {"passed"}


def test_ranks_that_are_at_different_steps_are_told_so():
    with pytest.raises(OutOfStepError, match="rank 0 at 'clock', rank 1 at 'check'"):
        answers([("clock", 1.0), ("check", None)])
    failed = Failed("no memory", Status.OUT_OF_MEMORY)
    assert answers([("clock", 1.0), ("outcome", failed)]) == [1.0, failed]
    with pytest.raises(RankFailedError, match="^rank 1: no memory$"):
        agreed([1.0, failed])
    with pytest.raises(RankFailedError, match="^no memory$"):
        agreed([failed, failed])


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            {"_steps": [7, 8], "_failed": (0.0, 8, "rank 1: no memory", Status.ERROR)},
            "rank 1: no memory; the other ranks hang in a call",
        ),
        ({"_steps": [8, 8], "_failed": (0.0, 8, "rank 1: no memory", Status.ERROR)}, "no rank answered for"),
        ({"_steps": [7, 8, 7]}, "rank 0 and 2 did not answer for"),
        ({"_steps": [7, 7]}, "no rank answered for"),
    ],
)
def test_a_hang_has_words_within_the_time_of_its_phase(state, said, monkeypatch):
    ranks = Ranks(None, {}, lambda message: None, None)
    vars(ranks).update({"_phase": Phase("time", 0, 0.1), "_last": time.monotonic() - 1, "_steps": [0], **state})

    class EndedError(Exception):
        pass

    def end(self, reason, status):
        raise EndedError(reason)

    monkeypatch.setattr(Ranks, "_end", end)
    monkeypatch.setattr(Ranks, "_places", lambda self: [])
    with pytest.raises(EndedError, match=said):
        ranks._watch()


def test_more_ranks_than_there_are_are_refused_in_words():
    keys = {"op": "all_gather", "W": 5, "M": 10, "N": 8}
    problem = workloads.parse_problem("collective", keys, dtype="bf16", direction="fwd")
    assert CpuDevice().refuse(problem) == "the problem is of 5 ranks, of which 4 can be here"
    assert CpuDevice().refuse(replace(problem, W=2)) is None


def test_multicast_is_off_in_every_process_or_nothing_starts(monkeypatch):
    monkeypatch.setattr(ranks_of_harness.os, "environ", {})
    monkeypatch.setattr(ranks_of_harness, "signal", type("", (), {"__getattr__": lambda *_: lambda *_: None})())
    monkeypatch.setattr(ranks_of_harness.sys, "platform", "other")
    assert begin_process() is None
    assert {name: ranks_of_harness.os.environ[name] for name in MULTICAST_OFF} == MULTICAST_OFF
    ranks_of_harness.os.environ["NCCL_NVLS_ENABLE"] = "1"
    assert begin_process() == "NCCL_NVLS_ENABLE=1: NVLink multicast has to be off, leave the variable out"
