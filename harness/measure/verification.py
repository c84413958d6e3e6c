"""Verifies outputs: shapes, dtypes, NaN, and the error against the float64 reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.devices.outputs import parts, unusable
from harness.records.rows import OWN_BOUND
from harness.workloads import Workload
from harness.workloads.spec import Expected, Magnitude, OwnBound, Reference, Tolerance

TORCH_DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
}

WIDEST = 2.0
"""A library's own bound may be at most this many times the workload's."""

LEAST = 0.99
"""An error may be so much of that of the reference, rounded: no output of its dtype is nearer to it."""

TILE_ROWS, LINE_ELEMENTS = 64, 1024
"""Rows of a band of tiles; elements of a band of lines, rows or columns, at least."""

SHARED, SHARED_OF_OURS = 2.0**-9, 2.0**-10
"""How much too large or small a matrix may be as a whole, beyond what is chance. Rounding to nearest favours neither. A
library may keep a number that all share, such as a scale or a decay, in bf16; our kernels keep it in fp32."""

DEVIATIONS = 6
"""Standard deviations of chance that are allowed a band."""

_BLOCK_ELEMENTS = 2**25
"""Elements compared at once, so that no float64 copy of a whole output is made."""


@dataclass(frozen=True)
class Check:
    """Result of a verification.  reason: why it failed; for a pass, a remark such as a check on slices."""

    passed: bool
    reason: str
    rel_l2_error: float | None = None
    max_abs_error: float | None = None
    worst_output: str = ""
    tolerance: float | None = None


def check_outputs(
    workload: Workload,
    problem: Any,
    outputs: object,
    expected: Reference,
    inputs: Mapping[str, torch.Tensor] | None = None,
    own: OwnBound | None = None,
    ours: bool = False,
) -> Check:
    """Compares what a call returned with the reference; every output is looked at in full for shape, dtype and NaN.

    The errors reported are those of the output that comes nearest to its tolerance or exceeds it most.  inputs: of the
    call, whose memory no output may share.  own: the bound of a library that is less precise by design; a pass under it
    says so.  ours: whether it is a kernel of ours, whose bound is narrower.  Raises `ValueError` for a reference of an
    output that the workload does not have.
    """
    tensors = parts(outputs)
    complaint = complain_of_form(workload, problem, tensors, inputs or {})
    if complaint:
        return Check(False, complaint)
    by_name = {
        name: tensor
        for name, tensor in zip(workload.outputs(problem), tensors, strict=True)
        if isinstance(tensor, torch.Tensor)
    }
    if callable(expected):
        expected = expected(by_name)
    strange = [part.output for part in expected if part.output not in by_name]
    if strange:
        raise ValueError(f"reference: got the output {strange[0]!r}, the workload's are {', '.join(by_name)}")
    for name, tensor in by_name.items():
        bad = 0 if _all_finite(tensor) else int(_not_finite(tensor).sum())
        if bad and all(bool(torch.isfinite(part.values).all()) for part in expected if part.output == name):
            return Check(False, f"{name} has {bad} of {tensor.numel()} elements NaN or infinite: unwritten, or wrong")
    checks = [_compare(workload, problem, by_name[part.output], part, own, ours) for part in expected]
    worst = max(checks, key=lambda check: (not check.passed, _excess(check)))
    remarks = [_wider(workload.tolerance(problem, part), part, own)[1] for part in expected] if own else []
    notes = "; ".join(dict.fromkeys(filter(None, (*remarks, *(part.note for part in expected)))))
    reason = worst.reason if not worst.passed else notes
    return Check(worst.passed, reason, worst.rel_l2_error, worst.max_abs_error, worst.worst_output, worst.tolerance)


def worst(checks: Sequence[Check]) -> Check:
    """The first check of a rank that failed, which its reason then names, or the one nearest to its tolerance."""
    for rank, check in enumerate(checks):
        if not check.passed:
            return check if len(set(checks)) == 1 else replace(check, reason=f"rank {rank}: {check.reason}")
    return max(checks, key=_excess)


def complain_of_form(
    workload: Workload, problem: Any, tensors: Sequence[object], inputs: Mapping[str, torch.Tensor]
) -> str | None:
    """What is wrong with the form of the outputs: count, kind, memory, shape, dtype; empty if nothing is."""
    outputs = workload.outputs(problem)
    if len(tensors) != len(outputs):
        return f"returned {len(tensors)} outputs, needs {len(outputs)}: {', '.join(outputs)}"
    for (name, output), tensor in zip(outputs.items(), tensors, strict=True):
        if not isinstance(tensor, torch.Tensor):
            return f"{name} is a {type(tensor).__name__}, needs a tensor"
        complaint = unusable(name, tensor, inputs)
        if complaint:
            return complaint
        if tuple(tensor.shape) != output.shape:
            return f"{name} has shape {tuple(tensor.shape)}, needs {output.shape}"
        if tensor.dtype != TORCH_DTYPES[output.dtype]:
            return f"{name} has dtype {tensor.dtype}, needs {TORCH_DTYPES[output.dtype]}"
    return None


def _wider(tolerance: Tolerance, expected: Expected, own: OwnBound | None) -> tuple[Tolerance, str]:
    """The bound that holds, and what to say of it where it is the library's own.

    Largest errors may grow as the L2 norm does.  Raises `ValueError` for a bound that is wider than `WIDEST` allows.
    """
    if own is None or expected.statistic or own.rel_l2 <= tolerance.rel_l2 or tolerance.rel_l2 == 0.0:
        return tolerance, ""
    factor = own.rel_l2 / tolerance.rel_l2
    if factor > WIDEST:
        raise ValueError(
            f"tolerance: got {own.rel_l2:.3g}, the workload allows {tolerance.rel_l2:.3g} and a library at most "
            f"{WIDEST:g} times that"
        )
    words = f"held to {own.rel_l2:.3g}, {OWN_BOUND} (others to {tolerance.rel_l2:.3g}): {own.reason}"
    return Tolerance(own.rel_l2, factor * tolerance.max_abs, f"its own bound: {own.reason}"), words


def _compare(
    workload: Workload, problem: Any, output: torch.Tensor, expected: Expected, own: OwnBound | None, ours: bool
) -> Check:
    tolerance, _ = _wider(workload.tolerance(problem, expected), expected, own)
    share = tolerance.ours if ours else 1.0
    allowed, largest = share * tolerance.rel_l2, share * tolerance.max_abs
    chosen, name = expected.select(output), expected.output
    rel_l2, max_abs = errors(chosen, expected.values, expected.cancelled)
    reason = ""
    if not rel_l2 <= allowed:
        narrower = f", of which a kernel of ours may use {share:.2g}" if share < 1 else ""
        reason = f"relative L2 error {rel_l2:.3g} is above {allowed:.3g} ({tolerance.reason}{narrower})"
    elif not max_abs <= largest:
        reason = f"largest error {max_abs:.3g} is above {largest:.3g}: single elements are wrong"
    elif not expected.statistic and rel_l2 < LEAST * (least := _rounding(output.dtype, expected)):
        reason = f"relative L2 error {rel_l2:.3g} is below {least:.3g}, which rounding alone costs: impossible"
    elif expected.bands:
        shared = tolerance.shared + (SHARED_OF_OURS if ours else SHARED)
        reason = _complain_of_bands(chosen, expected, allowed, shared)
    return Check(not reason, reason and f"{name}: {reason}", rel_l2, max_abs, name, allowed)


def _complain_of_bands(output: torch.Tensor, expected: Expected, allowed: float, shared: float) -> str:
    """Which band of rows or columns is further off than chance explains, and which columns are too large or small.

    The squared errors of n elements vary by about twice their mean, so that their norm varies by 1 / sqrt(n) of itself.
    Errors of a row may be one: an attention weight's is. So how much of them lies along the values is by chance
    1 / sqrt(rows).
    """
    rows, columns = _along_rows_and_columns(output, expected)
    length, width = rows.shape[-1], columns.shape[-1]
    sizes = (
        (TILE_ROWS, width) if expected.bands == "tiles" else (-(-LINE_ELEMENTS // width), -(-LINE_ELEMENTS // length))
    )
    for kind, sums, most, across in (("rows", rows, sizes[0], width), ("columns", columns, sizes[1], length)):
        size = min(most, sums.shape[-1])
        error, norm, along = _banded(sums, size)
        judged = [(error.div(norm).sqrt(), allowed * (1 + DEVIATIONS / (size * across) ** 0.5), "relative L2 error")]
        if kind == "columns":
            judged.append((along.div(norm).abs(), shared + allowed * DEVIATIONS / length**0.5, "gain or loss"))
        for found, limit, words in judged:
            worst = torch.where(error > 0, found, 0.0).amax(0)
            if not float(worst.max()) <= limit:
                band = int(worst.argmax())
                last = sums.shape[-1] if band == len(worst) - 1 else (band + 1) * size
                return f"{words} {float(worst.max()):.3g} of {kind} {band * size} to {last - 1} is above {limit:.3g}"
    return ""


def _along_rows_and_columns(output: torch.Tensor, expected: Expected) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of squared errors, of squared values and of their products, along each row and each column.

    (3, matrices, rows) and (3, matrices, columns), float64, of the matrices that the last two dimensions are.
    """
    matrices, wanted = (one[None, None] if one.dim() < 2 else one[None] for one in (output, expected.values))
    matrices, wanted = matrices.flatten(0, -3), wanted.flatten(0, -3)
    rows_at_once = max(1, _BLOCK_ELEMENTS // wanted.shape[2])
    together = max(1, rows_at_once // wanted.shape[1])
    of_rows, of_columns = [], []
    for some, values in zip(matrices.split(together), wanted.split(together), strict=True):
        parts = [_sums(*two) for two in zip(some.split(rows_at_once, 1), values.split(rows_at_once, 1), strict=True)]
        of_rows.append(torch.cat([rows for rows, _ in parts], -1))
        of_columns.append(torch.stack([columns for _, columns in parts]).sum(0))
    rows, columns = torch.cat(of_rows, 1), torch.cat(of_columns, 1)
    if expected.cancelled is not None:
        terms = expected.cancelled.rows.reshape(rows[1].shape).square()
        rows[1] = rows[1].maximum(terms)
        columns[1] = columns[1].maximum(terms.sum(-1, keepdim=True) / wanted.shape[2])
    return rows, columns


def _sums(output: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    off = output.double() - wanted
    products = [off * off, wanted * wanted, off * wanted]
    return torch.stack([one.sum(-1) for one in products]), torch.stack([one.sum(-2) for one in products])


def _banded(sums: torch.Tensor, size: int) -> torch.Tensor:
    """Sums of `size` neighbours along the last dimension; what is left over is the last band's."""
    count = sums.shape[-1] // size
    bands = sums[..., : count * size].unflatten(-1, (count, size)).sum(-1)
    bands[..., -1] += sums[..., count * size :].sum(-1)
    return bands


def _rounding(dtype: torch.dtype, expected: Expected) -> float:
    """The relative L2 error of the reference itself, rounded to a dtype."""
    return errors(expected.values.to(dtype), expected.values, expected.cancelled)[0]


def _all_finite(tensor: torch.Tensor) -> bool:
    """Whether the least and the largest element show that all are finite: one pass where `_not_finite` takes ten.

    A NaN anywhere makes both NaN.  PyTorch has no `aminmax` of e4m3, nor of nothing.
    """
    if tensor.dtype == torch.float8_e4m3fn or not 0 < tensor.numel() < 2**31:
        return False
    return bool(torch.isfinite(torch.stack(torch.aminmax(tensor))).all())


def _not_finite(tensor: torch.Tensor) -> torch.Tensor:
    """Where elements are NaN or infinite. e4m3 has no infinity, and PyTorch no `isfinite` of it."""
    return torch.isnan(tensor) if tensor.dtype == torch.float8_e4m3fn else ~torch.isfinite(tensor)


def errors(output: torch.Tensor, reference: torch.Tensor, cancelled: Magnitude | None = None) -> tuple[float, float]:
    """(||output - reference|| / ||reference||, largest |output - reference|), computed in float64 by blocks.

    The relative error is to the larger of the reference's norm and that of `cancelled`: what is left where terms cancel
    has no relative accuracy. Where both are zero, it is 0 for an exact output and infinite for any other.
    """
    squares, largest = 0.0, 0.0
    rows = max(1, _BLOCK_ELEMENTS * len(output) // max(1, output.numel()))
    for block, wanted in zip(output.split(rows), reference.split(rows), strict=True):
        difference = block.double().sub_(wanted)
        largest = max(largest, float(torch.linalg.vector_norm(difference, math.inf)))
        squares += float(torch.linalg.vector_norm(difference)) ** 2
    norm = float(torch.linalg.vector_norm(reference))
    if cancelled is not None:
        norm = max(norm, float(torch.linalg.vector_norm(cancelled.rows)))
    if norm == 0.0:
        return (0.0 if squares == 0.0 else math.inf), largest
    return math.sqrt(squares) / norm, largest


def _excess(check: Check) -> float:
    if not check.tolerance or check.rel_l2_error is None:
        return 0.0
    return check.rel_l2_error / check.tolerance
