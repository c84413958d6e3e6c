"""The records a run stores: one `Measurement` a case, one `Ratio` a pair of cases timed together.

The fields of the two dataclasses are, in order, the columns of `measurements.csv` and `ratios.csv`.  What may not be
stored cannot be constructed: a case that did not pass verification has no time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Self, get_type_hints

SCHEMA_VERSION = 1
"""Version of every file in a run folder.  A reader refuses any other."""


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


class RecordError(ValueError):
    """A record that contradicts itself, or a stored row that is not a valid record."""


def case_id(
    *, workload: str, direction: str, problem: str, dtype: str, distribution: str, implementation: str, variant: str
) -> str:
    """Twelve hex digits that name a case, the same in every run and on every machine.

    All arguments are the canonical texts that the columns of the same name hold.
    """
    key = f"{workload}|{direction}|{problem}|{dtype}|{distribution}|{implementation}|{variant}"
    return hashlib.sha256(key.encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A frozen dataclass that is one line of a CSV file: `None` is an empty cell."""

    LATER: ClassVar[tuple[str, ...]] = ()
    """Columns that files from before they were introduced lack, all together."""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))

    def to_row(self) -> dict[str, str]:
        """The cells as text.  Floats use the shortest text that reads back to the same number."""
        return {name: _to_text(getattr(self, name)) for name in self.columns()}

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Self:
        """The record of a row of text; raises `RecordError` on a missing, surplus or unreadable cell."""
        if set(row) != set(cls.columns()):
            odd = sorted(str(name) for name in set(row) ^ set(cls.columns()))
            raise RecordError(f"row has other columns than {cls.__name__}: {', '.join(odd)} missing or surplus")
        hints = get_type_hints(cls)
        return cls(**{name: _from_text(name, hints[name], row[name]) for name in cls.columns()})


@dataclass(frozen=True, kw_only=True)
class Measurement(_Row):
    """One case as it ended: one row of `measurements.csv`."""

    run_id: str
    """Folder name of the run: UTC time and six hex digits."""
    case_id: str
    """`case_id()` of the next columns."""
    workload: str
    """Operation, e.g. `gemm`."""
    direction: str
    """`fwd` or `bwd`."""
    implementation: str
    """Provider, e.g. `tk` or `cublas`."""
    variant: str
    """Canonical options of the implementation, `stages=2;persistent=0`; empty for none."""
    version: str
    """What the implementation says of itself and of its library."""
    problem: str
    """Canonical text of the problem, `M=4096;N=4096;K=64`."""
    dtype: str
    """`bf16`, `fp16`, `fp32` or `e4m3`."""
    distribution: str
    """How inputs were drawn: `normal`, `uniform`, `zeros`."""
    seed: int
    """What the seeds of its inputs, audits and orders are derived from; `seed=` with it replays them."""
    status: Status
    reason: str
    """Why it did not pass, in words; for a pass a remark (such as a check on slices) or nothing."""
    rel_l2_error: float | None
    """||out - reference|| / ||reference|| against float64, of the worst output."""
    max_abs_error: float | None
    """Largest absolute error of the worst output."""
    worst_output: str
    """Name of the output with the largest error relative to its tolerance."""
    tolerance: float | None
    """Bound on `rel_l2_error`."""
    n_samples: int
    """Timed calls; 0 where nothing was timed."""
    timer: str
    """`cuda_events`, `cuda_graph` or `cuda_events_clean`; empty where nothing was timed."""
    cache: str
    """State of the L2 before each call: `flushed`, `flushed, clean` or `warm`; empty where nothing was timed."""
    latency_us_p10: float | None
    latency_us_p50: float | None
    latency_us_p90: float | None
    tflops: float | None
    """Workload's FLOPs over the median latency."""
    gbps: float | None
    """Workload's bytes (each input and output once) over the median latency."""
    roof_pct_measured: float | None
    """Share of the roofline built from the roofs that this run measured."""
    roof_pct_datasheet: float | None
    """Share of the roofline built from the datasheet's numbers; empty for a GPU that we have no datasheet of."""
    bound: str
    """`compute` or `memory`: which roof is the lower one for this problem; `launch`: an empty kernel takes longer."""
    aa_noise_pct: float | None
    """Distance between the medians of halves of the case's own samples; at least one tick of the clock."""
    sm_clock_mhz: float | None
    """Median SM clock over the rounds; empty for long calls, at whose beginning it is their predecessor's."""
    power_w: float | None
    """Median board power over the rounds, all contestants and flushes in it; empty where the clock is."""
    energy_mj: float | None
    """Board energy a call, in millijoules; empty for what was not measured settled."""
    tflops_per_w: float | None
    """Settled rate over settled power; empty for what was not measured settled."""
    throttled: str
    """Throttle reasons seen in the rounds, joined by `;`; `none` if there were none; empty if not sampled."""
    LATER: ClassVar = ("settled_tflops", "settled_blocks")
    settled_latency_us: float | None = None
    """Time a call in blocks of calls back to back, the geometric mean over the blocks; this and the next five are
    empty for what was not measured settled."""
    settled_clock_mhz: float | None = None
    """Median SM clock over the blocks."""
    settled_power_w: float | None = None
    """Board power, mean over the blocks: counted energy over time; the readings on a board that does not count."""
    settled_energy_mj: float | None = None
    """Energy a call, in millijoules, by the board's own counter, mean over the blocks."""
    settled_tflops: float | None = None
    """Workload's FLOPs over the settled latency."""
    settled_blocks: int | None = None
    """Blocks that count."""
    peak_memory_mib: float | None
    """What one call takes from the caching allocator at its peak: outputs and workspace, inputs not counted."""
    kernel_names: str
    """CUDA kernels that the profiler saw in one call, joined by ` | `."""
    repro_command: str
    """Command that runs this one case again."""

    def __post_init__(self) -> None:
        _check_measurement(self)


@dataclass(frozen=True, kw_only=True)
class Ratio(_Row):
    """Speed of one case over another's, both timed in the same interleaved rounds: one row of `ratios.csv`."""

    run_id: str
    case_id: str
    baseline_case_id: str
    ratio_p50: float
    """Median latency of the baseline over that of the case: above 1, the case is faster."""
    ci_low: float
    ci_high: float
    """95 % interval over rounds."""
    verdict: Verdict
    LATER: ClassVar = ("settled_ratio", "settled_ci_low", "settled_ci_high", "settled_verdict")
    settled_ratio: float | None = None
    """The same from settled blocks; this and the next three are empty unless both cases were measured settled."""
    settled_ci_low: float | None = None
    settled_ci_high: float | None = None
    """95 % interval over rounds of blocks."""
    settled_verdict: Verdict | None = None

    def __post_init__(self) -> None:
        if self.case_id == self.baseline_case_id:
            raise RecordError(f"ratio of case {self.case_id} with itself")
        _check_interval("ratio_p50", self.ratio_p50, self.ci_low, self.ci_high)
        settled = (self.settled_ratio, self.settled_ci_low, self.settled_ci_high, self.settled_verdict)
        if any(value is None for value in settled) != all(value is None for value in settled):
            raise RecordError(f"ratio of case {self.case_id}: some of its settled columns are empty and others are not")
        if self.settled_ratio is not None and self.settled_ci_low is not None and self.settled_ci_high is not None:
            _check_interval("settled_ratio", self.settled_ratio, self.settled_ci_low, self.settled_ci_high)


@dataclass(frozen=True, kw_only=True)
class SettledBlock(_Row):
    """One block of calls back to back: one row of `settled.parquet`."""

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


@dataclass(frozen=True, kw_only=True)
class ProfileMetric(_Row):
    """One Nsight Compute metric of one kernel of a case: one row of `profile.csv`."""

    run_id: str
    case_id: str
    kernel_name: str
    metric: str
    value: float
    unit: str


_TIMED = (
    "latency_us_p10",
    "latency_us_p50",
    "latency_us_p90",
    "tflops",
    "gbps",
    "roof_pct_measured",
    "roof_pct_datasheet",
    "aa_noise_pct",
    "sm_clock_mhz",
    "power_w",
    "energy_mj",
    "tflops_per_w",
    "settled_latency_us",
    "settled_clock_mhz",
    "settled_power_w",
    "settled_energy_mj",
    "settled_tflops",
    "settled_blocks",
)


def _check_interval(name: str, value: float, low: float, high: float) -> None:
    if not 0 < low <= high:
        raise RecordError(f"ratio interval [{low}, {high}] is empty or not positive")
    if not value > 0:
        raise RecordError(f"{name} is {value}, must be positive")


def _check_measurement(m: Measurement) -> None:
    """The invariants of a measurement; raises `RecordError` with the case and the broken rule."""

    def require(holds: bool, rule: str) -> None:
        if not holds:
            raise RecordError(f"{m.workload} {m.problem} {m.implementation}[{m.variant}] ({m.status}): {rule}")

    for name in m.columns():
        value = getattr(m, name)
        require(not isinstance(value, float) or math.isfinite(value) or name.endswith("_error"), f"{name} is {value}")
    if m.status is not Status.PASSED:
        require(bool(m.reason), "a case that did not pass needs a reason")
        require(m.n_samples == 0, "only a case that passed verification may have samples")
    else:
        require(m.rel_l2_error is not None and m.tolerance is not None, "a pass needs its error and tolerance")
        assert m.rel_l2_error is not None
        assert m.tolerance is not None
        require(m.rel_l2_error <= m.tolerance, f"error {m.rel_l2_error} is above the tolerance {m.tolerance}")
    if m.n_samples == 0:
        present = [name for name in _TIMED if getattr(m, name) is not None]
        require(not present, f"no samples, but {', '.join(present)} set")
        require(not m.timer and not m.cache, "no samples, but timer or cache set")
        return
    p10, p50, p90 = m.latency_us_p10, m.latency_us_p50, m.latency_us_p90
    require(m.n_samples > 0, f"n_samples is {m.n_samples}")
    require(p10 is not None and p50 is not None and p90 is not None, "samples without latencies")
    assert p10 is not None
    assert p50 is not None
    assert p90 is not None
    require(0 < p10 <= p50 <= p90, f"latencies {p10}, {p50}, {p90} us are not positive and ascending")
    require(bool(m.timer) and bool(m.cache), "samples without timer or cache state")


_OPTIONAL: Mapping[Any, Any] = {float | None: float, int | None: int, Verdict | None: Verdict}
"""Types of cells that may be empty."""


def _to_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    return " ".join(str(value).split())  # one line a row: a reason may arrive with line breaks in it


def _from_text(name: str, hint: Any, text: str) -> Any:
    try:
        if hint is str:
            return text
        if hint in _OPTIONAL:
            return _OPTIONAL[hint](text) if text != "" else None
        return hint(text)  # int, float, Status, Verdict
    except ValueError:
        raise RecordError(f"column {name}: {text!r} is not a {getattr(hint, '__name__', hint)}") from None
