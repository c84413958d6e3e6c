"""Recorded calls: read as `python -m harness trace` writes them, refused in a sentence where they are damaged."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.experiments import load_experiment
from paper_figures.recorded.traces import load_traces, newest_of

EXPERIMENT = "thundergqa"


def test_what_a_block_does_and_waits_for_is_read(tmp_path: Path, synthetic: ModuleType) -> None:
    synthetic.write_trace(tmp_path, EXPERIMENT, blocks=3, us=80.0)
    [trace] = load_traces(tmp_path)
    assert (trace.blocks, trace.us) == (3, 80.0)
    assert [(one.block, one.opcode) for one in trace.instructions] == [(b, "attend") for b in (0, 0, 1, 1, 2, 2)] + [
        (0, "reduce")
    ], "of the two threads of a block, the one that multiplies"
    first, merge = trace.instructions[0], trace.instructions[-1]
    assert (first.start, first.waited, first.end) == pytest.approx((0.0, 5.6, 28.0))
    assert (merge.start, merge.waited, merge.end) == pytest.approx((56.0, 72.0, 80.0))


def test_the_newest_of_an_experiments_calls_is_taken(tmp_path: Path, synthetic: ModuleType) -> None:
    experiment = load_experiment(EXPERIMENT)
    synthetic.write_trace(tmp_path, EXPERIMENT, "b", started_utc="2026-01-03T00:00:00Z")
    synthetic.write_trace(tmp_path, EXPERIMENT, "a", which=3, started_utc="2026-01-04T00:00:00Z")
    synthetic.write_trace(tmp_path, "thundermla", "c", started_utc="2026-01-05T00:00:00Z")
    traces = load_traces(tmp_path)
    assert [one.about["trace_id"] for one in traces] == ["c", "a", "b"]
    found = newest_of(traces, experiment)
    assert found is not None
    assert found.about["trace_id"] == "a"
    assert newest_of(traces, load_experiment("fig7_gemm")) is None


@pytest.mark.parametrize(
    "other",
    [
        {"workload": "mla_decode"},
        {"problem": "B=4;lengths=64;Q=4;H=8;Hkv=1;D=128;page=256"},
        {"dtype": "fp16"},
        {"direction": "bwd"},
        {"contestant": "tk[schedule=other]"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_call_of_another_case_is_not_of_the_experiment(
    tmp_path: Path, synthetic: ModuleType, other: dict[str, str]
) -> None:
    experiment = load_experiment(EXPERIMENT)
    synthetic.write_trace(tmp_path, EXPERIMENT)
    assert newest_of(load_traces(tmp_path), experiment) is not None
    synthetic.write_trace(tmp_path, EXPERIMENT, **other)  # in its place
    assert newest_of(load_traces(tmp_path), experiment) is None


def test_the_order_of_a_problems_keys_is_no_matter(tmp_path: Path, synthetic: ModuleType) -> None:
    experiment = load_experiment(EXPERIMENT)
    turned = ";".join(reversed(experiment.problems[0].split(";")))
    assert turned != experiment.problems[0]
    synthetic.write_trace(tmp_path, EXPERIMENT, which=1)
    synthetic.write_trace(tmp_path, EXPERIMENT, "later", started_utc="2026-02-01T00:00:00Z")
    [later] = [one for one in load_traces(tmp_path) if one.about["trace_id"] == "later"]
    later.about["problem"] = turned
    assert later.is_of(experiment)


def test_the_emulators_steps_are_no_times(tmp_path: Path, synthetic: ModuleType) -> None:
    """A trace of the CPU is read, so that a damaged one is told, and is not shown."""
    synthetic.write_trace(tmp_path, EXPERIMENT, gpu=None)
    assert load_traces(tmp_path) == []


def test_a_single_run_has_its_campaigns_traces(tmp_path: Path, synthetic: ModuleType) -> None:
    run = synthetic.write_run(tmp_path / "c", EXPERIMENT)
    assert load_traces(tmp_path / "c") == []
    synthetic.write_trace(tmp_path / "c", EXPERIMENT)
    assert [one.path for one in load_traces(run)] == [one.path for one in load_traces(tmp_path / "c")] != []


def rewritten(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """The same file with something of its document changed."""

    def rewrite(data: bytes) -> bytes:
        document = json.loads(gzip.decompress(data))
        change(document)
        return gzip.compress(json.dumps(document).encode())

    return rewrite


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: b"", "is no trace"),
        (lambda data: data[:-20], "is no trace (EOFError: "),
        (lambda data: b"{}", "is no trace (BadGzipFile: "),
        (lambda data: data[:20] + bytes(40) + data[60:], "is no trace"),
        (lambda data: gzip.compress(b"{"), "is no trace (JSONDecodeError: "),
        (lambda data: gzip.compress(b"[1]"), "is no trace (TypeError: "),
        (lambda data: gzip.compress(b"{}"), "is no trace (KeyError: 'otherData')"),
        (rewritten(lambda one: one.pop("traceEvents")), "is no trace (KeyError: 'traceEvents')"),
        (rewritten(lambda one: one["traceEvents"][-1].pop("ph")), "is no trace (KeyError: 'ph')"),
        (rewritten(lambda one: one.update(traceEvents=[])), "holds no instruction"),
        (rewritten(lambda one: one["otherData"].update(gpu={"uuid": "1"})), "is no trace (KeyError: 'name')"),
    ],
)
def test_a_damaged_trace_is_refused_in_a_sentence(
    tmp_path: Path, synthetic: ModuleType, damage: Callable[[bytes], bytes], said: str
) -> None:
    path = synthetic.write_trace(tmp_path, EXPERIMENT)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(PaperFiguresError) as refused:
        load_traces(tmp_path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert "restore it" in str(refused.value) or "record it again" in str(refused.value)


def test_a_call_without_time_is_refused(tmp_path: Path, synthetic: ModuleType) -> None:
    """Guard: the drawing divides by how long the call took."""
    synthetic.write_trace(tmp_path, EXPERIMENT, us=0.0)
    with pytest.raises(PaperFiguresError, match="holds no instruction that takes time"):
        load_traces(tmp_path)
