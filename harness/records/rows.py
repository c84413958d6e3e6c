"""The records a run stores: one `Measurement` a case, one `Ratio` a pair of cases timed together.

The fields are, in order, the columns of the tables that readers get.  What may not be stored cannot be constructed: a
case that did not pass verification has no time.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, get_type_hints

from pydantic import AfterValidator, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveFloat, model_validator
from pydantic.dataclasses import dataclass

OWN_BOUND = "a bound of its own"
"""Marks, in the `reason` of a pass, that the library is less precise by design and was held to a wider bound."""


class Status(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED_VERIFICATION = "failed_verification"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    ERROR = "error"


FAILURES = (Status.FAILED_VERIFICATION, Status.OUT_OF_MEMORY, Status.TIMEOUT, Status.ERROR)
"""Statuses that end the command with exit code 1."""
IDLE = (Status.UNAVAILABLE, Status.UNSUPPORTED)
"""Statuses of cases that cannot run here."""


class Verdict(StrEnum):
    """A ratio judged against the noise of its two cases."""

    SAME = "SAME"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    AMBIGUOUS = "AMBIGUOUS"


def case_id(
    *, workload: str, direction: str, problem: str, dtype: str, distribution: str, implementation: str, variant: str
) -> str:
    """Twelve hex digits that name a case, the same in every run and on every machine.

    All arguments are the canonical texts that the columns of the same name hold.
    """
    key = f"{workload}|{direction}|{problem}|{dtype}|{distribution}|{implementation}|{variant}"
    return hashlib.sha256(key.encode()).hexdigest()[:12]


NAMED = ("case_id", "workload", "direction", "problem", "dtype", "distribution", "implementation", "variant")
"""The column of a case's id, and those that the id is computed from."""
Text = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]
"""On one line: a reason may arrive with line breaks in it."""
_STORED = ConfigDict(extra="forbid", ser_json_inf_nan="constants", defer_build=True)
_CASE_ID = re.compile(r"[0-9a-f]{12}")
_QUOTED_PLAINLY = re.compile(r"""(?:[^"'\\]|'[^']*'|"[^"\\]*")*+""")
"""A command that every shell parses alike: quotes closed, no backslashes."""


@dataclass(frozen=True, kw_only=True, config=_STORED)
class Row:
    """One line of a table: `None` is an empty cell."""

    LATER: ClassVar[tuple[str, ...]] = ()
    """Columns that runs from before they were introduced lack, all together."""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))

    @classmethod
    @cache
    def kinds(cls) -> dict[str, Any]:
        """The type of each column; `str` for those whose cells are text and never `None`."""
        return {name: kind for name, kind in get_type_hints(cls).items() if name in cls.columns()}


@dataclass(frozen=True, kw_only=True, config=_STORED)
class Measurement(Row):
    """One case as it ended."""

    run_id: Text
    """Folder name of the run: UTC time and six hex digits."""
    case_id: Text
    """`case_id()` of the next columns."""
    workload: Text
    """Operation, e.g. `gemm`."""
    direction: Text
    """`fwd` or `bwd`."""
    implementation: Text
    """Provider, e.g. `tk` or `cublas`."""
    variant: Text
    """Canonical options of the implementation, `stages=2;persistent=0`; empty for none."""
    version: Text
    """What the implementation says of itself and of its library."""
    problem: str = Field(pattern=r"^[^=;\s]+=[^=;]+(;[^=;]+=[^=;]+)*$")
    """Canonical text of the problem, `M=4096;N=4096;K=64`."""
    dtype: Text
    """`bf16`, `fp16`, `fp32` or `e4m3`."""
    distribution: Text
    """How inputs were drawn: `normal`, `uniform`, `zeros`."""
    seed: int = Field(ge=0, lt=2**63)
    """What the seeds of its inputs, audits and orders are derived from; `seed=` with it replays them."""
    status: Status
    reason: Text
    """Why it did not pass, in words; for a pass a remark (such as a check on slices) or nothing."""
    rel_l2_error: float | None
    """||out - reference|| / ||reference|| against float64, of the worst output."""
    max_abs_error: float | None
    """Largest absolute error of the worst output."""
    worst_output: Text
    """Name of the output with the largest error relative to its tolerance."""
    tolerance: FiniteFloat | None
    """Bound on `rel_l2_error`."""
    n_samples: NonNegativeInt
    """Timed calls; 0 where nothing was timed."""
    timer: Text
    """`cuda_events`, `cuda_graph` or `cuda_events_clean`; empty where nothing was timed."""
    cache: Text
    """State of the L2 before each call: `flushed`, `flushed, clean` or `warm`; empty where nothing was timed."""
    latency_us_p10: FiniteFloat | None = None
    latency_us_p50: FiniteFloat | None = None
    latency_us_p90: FiniteFloat | None = None
    tflops: FiniteFloat | None = None
    """Workload's FLOPs over the median latency."""
    gbps: FiniteFloat | None = None
    """Workload's bytes (each input and output once) over the median latency."""
    roof_pct_measured: FiniteFloat | None = None
    """Share of the roofline built from the roofs that this run measured."""
    roof_pct_datasheet: FiniteFloat | None = None
    """Share of the roofline built from the datasheet's numbers; empty for a GPU that we have no datasheet of."""
    bound: Text
    """`compute` or `memory`: which roof is the lower one for this problem; `launch`: an empty kernel takes longer."""
    aa_noise_pct: FiniteFloat | None = None
    """Distance between the medians of halves of the case's own samples; at least one tick of the clock."""
    sm_clock_mhz: FiniteFloat | None = None
    """Median SM clock over the rounds; empty for long calls, at whose beginning it is their predecessor's."""
    power_w: FiniteFloat | None = None
    """Median board power over the rounds, all contestants and flushes in it; empty where the clock is."""
    energy_mj: FiniteFloat | None = None
    """Board energy a call, in millijoules; empty for what was not measured settled."""
    tflops_per_w: FiniteFloat | None = None
    """Settled rate over settled power; empty for what was not measured settled."""
    throttled: Text
    """Throttle reasons seen in the rounds, joined by `;`; `none` if there were none; empty if not sampled."""
    LATER: ClassVar = ("settled_tflops", "settled_blocks")
    settled_latency_us: FiniteFloat | None = None
    """Time a call in blocks of calls back to back, the geometric mean over the blocks; this and the next five are
    empty for what was not measured settled."""
    settled_clock_mhz: FiniteFloat | None = None
    """Median SM clock over the blocks."""
    settled_power_w: FiniteFloat | None = None
    """Board power, mean over the blocks: counted energy over time; the readings on a board that does not count."""
    settled_energy_mj: FiniteFloat | None = None
    """Energy a call, in millijoules, by the board's own counter, mean over the blocks."""
    settled_tflops: FiniteFloat | None = None
    """Workload's FLOPs over the settled latency."""
    settled_blocks: int | None = None
    """Blocks that count."""
    peak_memory_mib: FiniteFloat | None
    """What one call takes from the caching allocator at its peak: outputs and workspace, inputs not counted."""
    kernel_names: Text
    """CUDA kernels that the profiler saw in one call, joined by ` | `."""
    repro_command: Text
    """Command that runs this one case again."""

    @classmethod
    def timed(cls) -> tuple[str, ...]:
        """The columns that are empty where nothing was timed."""
        return tuple(field.name for field in fields(cls) if field.default is None)

    @model_validator(mode="after")
    def _consistent(self) -> Measurement:
        for holds, rule in self._rules():
            if not holds:
                raise ValueError(f"{self.workload} {self.problem} {self.implementation}[{self.variant}]: {rule}")
        return self

    def _rules(self) -> Iterator[tuple[bool, str]]:
        """What holds of the columns together, each with what to say where it does not."""
        named = {name: getattr(self, name) for name in NAMED[1:]}
        if _CASE_ID.fullmatch(self.case_id):  # else the name is no digest
            yield case_id(**named) == self.case_id, f"case {self.case_id} is {case_id(**named)} by its columns"
        yield _readable(self.repro_command), f"no shell reads the repro_command {self.repro_command}"
        if self.status is Status.PASSED:
            error, tolerance = self.rel_l2_error, self.tolerance
            within = error is not None and tolerance is not None and error <= tolerance
            yield within, f"a pass needs an error within its tolerance, has {error} and {tolerance}"
        else:
            yield bool(self.reason), f"status {self.status} needs a reason"
            yield self.n_samples == 0, f"{self.n_samples} samples of a case with status {self.status}"
        latencies = [self.latency_us_p10, self.latency_us_p50, self.latency_us_p90]
        settled = (self.settled_tflops, self.settled_blocks)
        whole = settled == (None, None) or None not in (*settled, self.settled_latency_us)
        yield whole, "some of its settled columns are empty and others are not"
        if self.n_samples:
            absent = [name for name in ("tflops", "gbps", "aa_noise_pct") if getattr(self, name) is None]
            yield not absent, f"{self.n_samples} samples, but no {', '.join(absent)}"
            known = [one for one in latencies if one is not None]
            ascending = len(known) == 3 and known == sorted(known) and known[0] > 0
            yield (
                ascending,
                f"{self.n_samples} samples beside the latencies {latencies}, needs ascending ones",
            )
            yield bool(self.timer and self.cache), "samples without timer or cache state"
        else:
            present = [name for name in (*self.timed(), "timer", "cache") if getattr(self, name) not in (None, "")]
            yield not present, f"no samples, but {', '.join(present)} set"


@dataclass(frozen=True, kw_only=True, config=_STORED)
class Ratio(Row):
    """Speed of one case over another's, both timed in the same interleaved rounds."""

    run_id: str
    case_id: str
    baseline_case_id: str
    ratio_p50: PositiveFloat
    """Median latency of the baseline over that of the case: above 1, the case is faster."""
    ci_low: PositiveFloat
    ci_high: PositiveFloat
    """95 % interval over rounds."""
    verdict: Verdict
    LATER: ClassVar = ("settled_ratio", "settled_ci_low", "settled_ci_high", "settled_verdict")
    settled_ratio: PositiveFloat | None = None
    """The same from settled blocks; this and the next three are empty unless both cases were measured settled."""
    settled_ci_low: PositiveFloat | None = None
    settled_ci_high: PositiveFloat | None = None
    """95 % interval over rounds of blocks."""
    settled_verdict: Verdict | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Ratio:
        if self.case_id == self.baseline_case_id:
            raise ValueError(f"ratio of case {self.case_id} with itself")
        settled = (self.settled_ratio, self.settled_ci_low, self.settled_ci_high, self.settled_verdict)
        if settled.count(None) not in (0, 4):
            raise ValueError(f"ratio of case {self.case_id}: some of its settled columns are empty and others are not")
        for low, high in ((self.ci_low, self.ci_high), settled[1:3]):
            if low is not None and high is not None and low > high:
                raise ValueError(f"ratio of case {self.case_id}: the interval [{low}, {high}] is empty")
        return self


@dataclass(frozen=True, kw_only=True, config=_STORED)
class SettledBlock(Row):
    """One block of calls back to back."""

    case_id: str
    block: int
    """Round of blocks: each settled case of the group has one in it."""
    position: int
    """Place in that round."""
    predecessor: str
    """Case whose block was before it; empty for none."""
    calls: int
    """That count, behind what is dropped at the block's beginning."""
    seconds: float
    """They took."""
    latency_us: float
    sm_clock_mhz: float | None
    power_w: float | None
    energy_mj: float | None
    """A call; empty where the board does not count."""


@dataclass(frozen=True, kw_only=True, config=_STORED)
class ProfileMetric(Row):
    """One Nsight Compute metric of one kernel of a case."""

    run_id: str
    case_id: str
    kernel_name: Text
    metric: Text
    value: float
    unit: Text


def _readable(command: str) -> bool:
    """Whether a shell reads the command."""
    try:
        return bool(_QUOTED_PLAINLY.fullmatch(command) or shlex.split(command))  # shlex reads a letter at a time
    except ValueError:
        return False
