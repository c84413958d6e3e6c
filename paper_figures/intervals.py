"""Numbers with bounds: what counts as agreement, and what was measured with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Interval:
    """A closed interval of values; either end may be infinite."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def scaled(self, factor: float) -> Interval:
        """The interval in another unit; `factor` is positive."""
        return Interval(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Measured:
    """A measured number with its 95 % interval; equal ends where it has no uncertainty."""

    value: float
    low: float
    high: float
    settled: bool = False
    """Whether it is of calls back to back in blocks, and not of the interleaved rounds."""
    verdict: str = field(default="", repr=False, compare=False)
    """Of a stored ratio what the run says of the pair: `FASTER`, `SAME`, ...; empty for other numbers."""

    def scaled(self, factor: float) -> Measured:
        """The number in another unit; `factor` is positive."""
        return Measured(self.value * factor, self.low * factor, self.high * factor, self.settled)

    def inverse(self) -> Measured:
        """The reciprocal of a positive number, a ratio the other way round."""
        flipped = {"FASTER": "SLOWER", "SLOWER": "FASTER"}
        turned = Measured(1 / self.value, 1 / self.high, 1 / self.low, self.settled)
        return replace(turned, verdict=flipped.get(self.verdict, self.verdict))
