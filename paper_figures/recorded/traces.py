"""Recorded calls, instruction by instruction: what `python -m harness trace` stored beside a campaign's runs."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.records.naming import same_problem
from paper_figures.errors import PaperFiguresError
from paper_figures.recorded.campaign import MANIFEST
from paper_figures.recorded.experiments import Experiment

FOLDER = "traces"
COMPUTES = 1
"""The thread of a block that attends and merges; the other one loads."""


@dataclass(frozen=True)
class Instruction:
    """What a block attended to or merged. Times are in microseconds from the call's first instruction.

    `waited` is when its first wait was over.
    """

    block: int
    opcode: str
    start: float
    waited: float
    end: float


@dataclass(frozen=True)
class RecordedTrace:
    """One call. `about`: where it is from, and `clock_residual_us`, the fit of its clocks to one time.

    `gpu`: the name of what it was made on; empty for the emulator, whose steps are no times.
    """

    path: Path
    about: dict[str, Any]
    gpu: str
    instructions: tuple[Instruction, ...]

    @property
    def blocks(self) -> int:
        return max(one.block for one in self.instructions) + 1

    @property
    def us(self) -> float:
        """When the last instruction ended."""
        return max(one.end for one in self.instructions)

    def is_of(self, experiment: Experiment) -> bool:
        """Whether it is a call of one of the experiment's cases."""
        stored = [experiment.stored_problem(one) for one in experiment.problems]
        about = self.about
        return (
            about["workload"] == experiment.workload
            and about["contestant"] in map(str, experiment.contestants)
            and any(
                (one.dtype, one.direction) == (about["dtype"], about["direction"])
                and same_problem(one.text, about["problem"])
                for one in stored
            )
        )


def load_traces(folder: Path) -> list[RecordedTrace]:
    """Those of a campaign that were made on a GPU, newest first; raises `PaperFiguresError` for what is no trace."""
    campaign = folder.parent if (folder / MANIFEST).exists() else folder
    traces = [_load(path) for path in (campaign / FOLDER).glob("*.json.gz")]
    timed = [one for one in traces if one.gpu]
    return sorted(timed, key=lambda one: (one.about["started_utc"], one.path.name), reverse=True)


def newest_of(traces: Sequence[RecordedTrace], experiment: Experiment) -> RecordedTrace | None:
    """The newest call of one of an experiment's cases."""
    return next((one for one in traces if one.is_of(experiment)), None)


def _load(path: Path) -> RecordedTrace:
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
        about = dict(document["otherData"])
        gpu = str(about["gpu"]["name"]) if about["gpu"] else ""
        spans = [row for row in document["traceEvents"] if row["ph"] == "X" and row["tid"] == COMPUTES]
        waits = {(row["pid"], row["ts"]): row["dur"] for row in spans if row["cat"] == "wait"}
        instructions = tuple(
            Instruction(
                int(row["pid"]), str(row["cat"]), float(row["ts"]),
                float(row["ts"] + waits.get((row["pid"], row["ts"]), 0)), float(row["ts"] + row["dur"]),
            )
            for row in spans
            if row["cat"] != "wait"
        )  # fmt: skip
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise PaperFiguresError(f"{path} is no trace ({type(error).__name__}: {error}): restore it") from None
    if not any(one.end > 0 for one in instructions):
        raise PaperFiguresError(
            f"{path} holds no instruction that takes time: record it again with python -m harness trace"
        )
    return RecordedTrace(path, about, gpu, instructions)
