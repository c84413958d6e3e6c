"""The claims of an exhibit, `exhibits/<name>/claims.yaml`: what the paper says, and how close counts as the same.

A file is fixed before a run starts: the run's manifest holds its digest, with the rules that it names. A verdict whose
file has changed since says so.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.records.errors import HarnessError
from harness.records.naming import Contestant, parse_contestant, problem_text
from harness.records.provenance import claims_digest
from paper_figures.errors import PaperFiguresError
from paper_figures.intervals import Interval
from paper_figures.labels import OURS, RELEASED
from paper_figures.published.paper import EARLIER, EXHIBITS, GPU, RULES

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, where PyYAML was built with it: ten times as fast."""
BEYOND = "Beyond the paper"
"""Where exhibits and claims stand that the paper has not."""
TEXT = "Text"
"""Where claims stand that no figure or table of the paper has."""


class Better(StrEnum):
    """Which side of the accepted values is no worse than they are."""

    MORE = "more"
    LESS = "less"
    NEITHER = "neither"


class Kind(StrEnum):
    """What sort of number a claim is about; verdicts are counted apart by it."""

    SPEEDUP = "speed-ups over the paper's opponent"
    TODAY = "speed-ups over today's fastest"
    RELEASED = "speed-ups over the authors' released kernels"
    BEYOND = "speed-ups beyond the paper, by this project's own bars"
    ABLATION = "speed-ups of one design choice over another"
    RATE = "rates, as shares of each GPU's peak"
    COUNTER = "profiler counters"
    LINES = "lines of code"
    CODE = "machine code"
    SIZE = "sizes of libraries"
    OTHER = "other"


@dataclass(frozen=True)
class Comparison:
    """What a claim says of numbers that are compared in one way; `paper_figures.judged.comparisons` measures them."""

    kind: Kind = Kind.OTHER
    """The kind that follows from it alone."""
    metric: str = ""
    unit: str = ""
    """What is compared and in which unit, unless the claim says so; empty where the claim has to."""
    better: Better | None = None
    """The better side; None where it is the side without a bound."""
    timed: bool = True
    """Whether its numbers are times."""


SPEEDUPS = {"speedup": "largest", "least_speedup": "least", "mean_speedup": "mean"}
"""What is judged of several problems' speedups, by the comparison."""
COMPARISONS: Mapping[str, Comparison] = {
    "rate": Comparison(Kind.RATE, "share of the datasheet roof", "TFLOPS"),
    **dict.fromkeys(SPEEDUPS, Comparison(Kind.SPEEDUP, "ratio of median latencies", "x", Better.MORE)),
    "over_published": Comparison(Kind.RATE, "measured share of the roof over a published one", "x", Better.MORE),
    "across": Comparison(Kind.OTHER, "share of the roof over that on another problem", "x", Better.MORE),
    "roof": Comparison(Kind.RATE, "roof_pct_datasheet", "%"),
    "latency": Comparison(Kind.OTHER, "time of a call", "ms", Better.LESS),
    "profile": Comparison(Kind.COUNTER, timed=False),
    "build": Comparison(Kind.LINES, better=Better.LESS, timed=False),
    "size": Comparison(Kind.SIZE, timed=False),
}
_OPPONENTS = {"today": Kind.TODAY, "released": Kind.RELEASED}


@dataclass(frozen=True)
class Point:
    """One number of a claim: what is measured, what was published and what counts as agreement."""

    problem: str
    """Canonical text; empty where the number belongs to no single problem."""
    of: Contestant
    over: tuple[Contestant, ...]
    """The contestant it is divided by, of several the fastest; empty for a number of one contestant."""
    published: Interval | None
    """As printed: one value has equal ends.  None where the paper publishes only the direction."""
    accept: Interval
    """Measured values that count as agreement, in the unit of `published`."""
    among: tuple[str, ...] = ()
    """Problems of which one number is judged, in place of `problem`: "up to 14 times"; see `SPEEDUPS`."""
    beside: str = ""
    """The problem that `problem` is compared with, where the comparison is `across` problems."""
    experiment: str = ""
    """Whose problem it is, where the claim's exhibit has several experiments; empty for any."""


@dataclass(frozen=True)
class Claim:
    """One statement of the paper."""

    id: str
    exhibit: str
    """Folder of `paper_figures/exhibits` that shows it."""
    where: str
    """Where in the paper it stands."""
    sentence: str
    """The statement, in our words."""
    comparison: str
    """How it compares, a key of `COMPARISONS`; `paper_figures.judged.comparisons` says what each measures."""
    metric: str
    """The profiler's metric or the key of the build manifest; for the other comparisons what is compared."""
    unit: str
    gpu: str
    """The GPU of the paper."""
    tolerance: str
    """Why this much deviation counts as agreement."""
    points: tuple[Point, ...]
    not_comparable: str
    """Why no verdict on the number is possible; empty where it is."""
    not_run: str = ""
    """What it needs that this project does not have; empty where it can be run."""
    differs: str = ""
    """What else than the machine and the versions is not as in the paper; empty where nothing is."""
    against: str = "paper"
    """What it is over: `paper`, what the paper compared with; `today`, the fastest of today; `released`, the kernels
    that the paper's authors released."""
    today: str = ""
    """The id of the same claim over the fastest of today; empty where there is none."""
    hopper_only: bool = False
    """Whether a run of a GPU that is not of the Hopper generation does not decide it."""

    @property
    def kind(self) -> Kind:
        """What sort of number it is about."""
        kind = COMPARISONS[self.comparison].kind
        if kind is Kind.LINES and self.unit != "lines":
            return Kind.CODE
        if kind is not Kind.SPEEDUP:
            return kind
        if self.against in _OPPONENTS:
            return _OPPONENTS[self.against]
        if all(one.implementation == OURS for point in self.points for one in point.over):
            return Kind.ABLATION
        return Kind.BEYOND if self.where == BEYOND else Kind.SPEEDUP  # beyond the paper there is no opponent of its

    @property
    def printed(self) -> bool:
        """Whether the paper, or another publication of its authors, prints a number; else the bar is this project's."""
        return any(point.published is not None for point in self.points)

    @property
    def is_ratio(self) -> bool:
        """Whether 1 means no effect: a quotient of two contestants."""
        return self.unit == "x" and self.comparison != "across"

    @property
    def direction_only(self) -> bool:
        """Whether nothing but the side of 1 is judged, though the paper may print by how much."""
        return self.is_ratio and all(_of_direction(point) for point in self.points)

    def better(self, point: Point) -> Better:
        """More of a speed or of a rate is better, fewer lines are; of a counter or a size, the side without a bound.

        With two bounds a counter, a size or a rate, which is then an ablation's level, is better to neither side.
        """
        if (side := COMPARISONS[self.comparison].better) is not None:
            return side
        if math.isinf(point.accept.high):
            return Better.MORE
        return Better.LESS if math.isinf(point.accept.low) else Better.NEITHER


def _of_direction(point: Point) -> bool:
    """Whether a point accepts all of one side of 1, which is not the bound that the paper prints."""
    printed = point.published
    above = point.accept.low == 1 and math.isinf(point.accept.high) and (printed is None or printed.low != 1)
    below = point.accept.high == 1 and math.isinf(point.accept.low) and (printed is None or printed.high != 1)
    return above or below


@dataclass(frozen=True)
class ClaimFile:
    """The claims of an exhibit, and the digest of their file with the rules that it names."""

    name: str
    """From the folder of exhibits, as manifests have it: `fig7_gemm/claims.yaml`."""
    sha256: str
    says: str
    """The digest of what the claims say, in whatever form it is written."""
    claims: tuple[Claim, ...]

    def is_of(self, recorded: Mapping[str, str]) -> bool | None:
        """Whether it is the edition that a manifest's `claim_files` name; None where they name none of it.

        Earlier manifests have the digests of files of another form, which `earlier_claims.yaml` keeps.
        """
        if self.name in recorded:
            return recorded[self.name] == self.sha256
        earlier = earlier_claims().get(self.name.partition("/")[0])
        if earlier is None or any(name not in recorded for name in earlier["files"]):
            return None
        same = all(recorded[name] == digest for name, digest in earlier["files"].items())
        return same and earlier["says"] == self.says


@cache
def earlier_claims() -> Mapping[str, Any]:
    """{exhibit: {says: digest of what its claims said, files: {name: digest}}}, of claims before they had this form."""
    return yaml.load(EARLIER.read_bytes(), Loader=LOADER)


def in_exhibit(file: ClaimFile, where: str) -> ClaimFile:
    """A file's claims as they stand in an exhibit at `where`.

    In one that the paper has not, a claim on its text without a printed number is beyond the paper, too.
    """
    if where != BEYOND:
        return file
    claims = (replace(one, where=BEYOND) if one.where == TEXT and not one.printed else one for one in file.claims)
    return replace(file, claims=tuple(claims))


def has_claims(name: str) -> bool:
    """Whether an exhibit has a file of claims."""
    return (EXHIBITS / name / "claims.yaml").exists()


def load_claims(name: str, folder: Path = EXHIBITS) -> ClaimFile:
    """The claims of an exhibit; raises `PaperFiguresError` that names the claim and the key."""
    path = folder / name / "claims.yaml"
    document = _read(path)
    if not isinstance(document, Mapping) or set(document) != {"claims"}:
        raise PaperFiguresError(f"{path} needs exactly the key claims")
    entries = _mappings(str(path), "claims", document["claims"])
    claims = tuple(_claim(path, name, entry) for entry in entries)
    said = [{key: value for key, value in asdict(one).items() if value} for one in claims]
    says = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    return ClaimFile(f"{name}/{path.name}", claims_digest(path), says, claims)


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_bytes(), Loader=LOADER)
    except FileNotFoundError:
        raise PaperFiguresError(f"there is no claim file {path}") from None
    except yaml.YAMLError as error:
        raise PaperFiguresError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


_rules = cache(_read)
_POINT_KEYS = {"problem", "among", "beside", "experiment", "of", "over", "published", "accept"}
"""Of a claim they hold for all its points, and of an entry of `points` for those of the entry."""
DEVIATIONS = ("relative", "below", "above")
"""What a claim may tolerate, as a part of the published value: to both sides, or to one, the other being free."""
_CLAIM_KEYS = {"id", "where", "sentence"}
_TEXTS = ("not_comparable", "not_run", "differs")
_CLAIM_OPTIONS = {
    *("comparison", "gpu", "metric", "unit", "today", "against", "hopper_only", "rule", "reason", "points"),
    *(*_TEXTS, *DEVIATIONS, *_POINT_KEYS),
}


def _claim(path: Path, exhibit: str, said: Mapping[str, Any]) -> Claim:
    where = f"{path}, claim {said.get('id', '?')}"
    _check_keys(where, said, _CLAIM_KEYS, _CLAIM_OPTIONS)
    entry = _with_rule(where, said)
    comparison = str(entry.get("comparison", "speedup"))
    if comparison not in COMPARISONS:
        raise PaperFiguresError(f"{where}: comparison is {comparison!r}, needs to be one of {', '.join(COMPARISONS)}")
    usual = COMPARISONS[comparison]
    if not (entry.get("metric") or usual.metric):
        raise PaperFiguresError(f"{where}: a {comparison} comparison needs the name of a metric")
    points = tuple(point for table in _tables(where, entry) for point in _points(where, comparison, entry, table))
    if not points:
        raise PaperFiguresError(f"{where}: no points, needs at least one number")
    return Claim(
        id=str(entry["id"]),
        exhibit=exhibit,
        where=str(entry["where"]),
        sentence=_one_line(entry["sentence"]),
        comparison=comparison,
        metric=str(entry.get("metric", usual.metric)),
        unit=str(entry.get("unit", usual.unit)),
        gpu=str(entry.get("gpu", GPU)),
        tolerance=_one_line(entry["reason"]),
        points=points,
        against=_against(where, entry, points),
        today=str(entry.get("today", "")),
        hopper_only=entry.get("hopper_only") is True,
        **{key: _one_line(entry.get(key, "")) for key in _TEXTS},
    )


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _with_rule(where: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """A claim with what its rule says, where it names one, as far as it does not say so itself."""
    rules = _rules(RULES)
    if ("rule" in entry) == ("reason" in entry):
        raise PaperFiguresError(f"{where}: needs a rule or a reason for what it tolerates, and not both")
    if "rule" in entry and entry["rule"] not in rules:
        raise PaperFiguresError(f"{where}: rule is {entry['rule']!r}, needs to be one of {', '.join(rules)}")
    both = {**rules.get(entry.get("rule"), {}), **entry}
    if sum(key in both for key in DEVIATIONS) > 1:
        raise PaperFiguresError(f"{where}: has several of {', '.join(DEVIATIONS)}, needs one at most")
    return both


def _tables(where: str, entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The points of a claim as tables: the entries of `points`, each with what the claim says for all; else itself."""
    shared = {key: entry[key] for key in _POINT_KEYS if key in entry}
    if "points" not in entry:
        return [shared]
    rows = _mappings(where, "points", entry["points"])
    for row in rows:
        _check_keys(f"{where}, point {row}", row, set(), _POINT_KEYS)
    return [{**shared, **row} for row in rows]


def _points(where: str, comparison: str, claim: Mapping[str, Any], table: Mapping[str, Any]) -> Iterator[Point]:
    """The points of a table: one a problem, with the number at its place where numbers are a list."""
    problems = _problems(where, "problem", table)
    columns: dict[str, list[Any]] = {
        "problem": list(problems) or [""],
        "beside": list(_problems(where, "beside", table)) or [""],
        "published": _column(table.get("published")),
        "accept": _column(_each_bound(where, table.get("accept"))),
    }
    count = len(columns["problem"])
    for key, column in columns.items():
        if len(column) not in (1, count):
            raise PaperFiguresError(f"{where}: {key} has {len(column)} entries, needs one, or one for each of {count}")
    for row in zip(*(column * count if len(column) == 1 else column for column in columns.values()), strict=True):
        yield _point(where, comparison, claim, {**table, **dict(zip(columns, row, strict=True))})


def _column(value: Any) -> list[Any]:
    """One value for all points, or a list with one for each."""
    return value if isinstance(value, list) else [value]


def _each_bound(where: str, accept: Any) -> Any:
    """What is accepted as a list of bounds, where the bounds are lists: `{low: [1, 2]}`."""
    if not isinstance(accept, Mapping) or not any(isinstance(one, list) for one in accept.values()):
        return accept
    ends = [_column(one) for one in accept.values()]
    if len({len(one) for one in ends}) > 1:
        raise PaperFiguresError(f"{where}: the bounds of accept are not equally many: {dict(accept)}")
    return [dict(zip(accept, pair, strict=True)) for pair in zip(*ends, strict=True)]


def _problems(where: str, key: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts of a grid or of several: each is the product of its lists, its last key fastest; none without the key.

    A key `M=N=K` gives its value to each.
    """
    if key not in table:
        return ()
    grids = table[key] if isinstance(table[key], list) else [table[key]]
    if any(not isinstance(grid, Mapping) for grid in grids):
        raise PaperFiguresError(f"{where}: {key} is {table[key]!r}, needs to be a mapping such as {{N: 1024}}")
    found = []
    for grid in grids:
        for values in itertools.product(*(one if isinstance(one, list) else [one] for one in grid.values())):
            keys = zip(grid, values, strict=True)
            found.append(problem_text({key: value for joined, value in keys for key in str(joined).split("=")}))
    return tuple(found)


def _against(where: str, entry: Mapping[str, Any], points: Sequence[Point]) -> str:
    """What a claim is over.  The released kernels are no opponent: a claim is over them alone, or not at all."""
    against = str(entry.get("against", "paper"))
    if against not in ("paper", *_OPPONENTS):
        raise PaperFiguresError(f"{where}: against is {against!r}, needs to be paper, {' or '.join(_OPPONENTS)}")
    if against != "paper" and entry.get("today"):
        raise PaperFiguresError(
            f"{where}: is against {against} itself, and names {entry['today']} as the same of today"
        )
    for one in {one for point in points for one in point.over}:
        if (one.implementation == RELEASED) != (against == "released"):
            wanted = f"{RELEASED} alone" if against == "released" else f"others than {RELEASED}"
            raise PaperFiguresError(f"{where}: is against {against} and over {one}, needs to be over {wanted}")
    return against


def _point(where: str, comparison: str, claim: Mapping[str, Any], entry: Mapping[str, Any]) -> Point:
    of = _contestant(where, entry.get("of", OURS))
    over = _contestants(where, entry.get("over", []))
    if comparison in (*SPEEDUPS, "over_published") and not over:
        raise PaperFiguresError(f"{where}: the point of {of} needs `over`, what it is faster than")
    if comparison not in SPEEDUPS and len(over) > 1:
        raise PaperFiguresError(f"{where}: the point of {of} is over several, which only a speedup can be")
    among = _problems(where, "among", entry)
    if (among and (entry["problem"] or comparison not in SPEEDUPS)) or (not among and comparison.endswith("_speedup")):
        has = f"the point of {of} has {'' if among else 'no '}`among`"
        raise PaperFiguresError(f"{where}: {has}, which a speedup may have in place of problem")
    if (comparison == "across") != bool(entry["beside"]):
        raise PaperFiguresError(f"{where}: the point of {of} needs `beside` where the comparison is across, else none")
    published = None if entry["published"] is None else _interval(where, "published", entry["published"])
    deviation = {key: _number(where, key, claim[key]) for key in DEVIATIONS if key in claim}
    if entry["accept"] is not None:
        accepted = _interval(where, "accept", entry["accept"])
    elif published is not None and deviation:
        accepted = around(published, **deviation)
    else:
        raise PaperFiguresError(f"{where}: the point of {of} needs published and a deviation to tolerate, or accept")
    return Point(
        problem=entry["problem"],
        of=of,
        over=over,
        published=published,
        accept=accepted,
        among=among,
        beside=entry["beside"],
        experiment=str(entry.get("experiment", "")),
    )


def _contestants(where: str, value: Any) -> tuple[Contestant, ...]:
    """One name or a list of them."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list):
        raise PaperFiguresError(f"{where}: over is {value!r}, needs to be a name or a list of names")
    return tuple(_contestant(where, one) for one in names)


def _contestant(where: str, label: Any) -> Contestant:
    try:
        return parse_contestant(str(label))
    except HarnessError as error:
        raise PaperFiguresError(f"{where}: {error}") from None


def _mappings(where: str, key: str, value: Any) -> list[Mapping[str, Any]]:
    """A list of mappings, as it was read."""
    if not isinstance(value, list):
        raise PaperFiguresError(f"{where}: {key} is {value!r}, needs to be a list of mappings")
    for number, one in enumerate(value, start=1):
        if not isinstance(one, Mapping):
            raise PaperFiguresError(f"{where}: entry {number} of {key} is {one!r}, needs to be a mapping")
    return value


def _number(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PaperFiguresError(f"{where}: {key} is {value!r}, needs to be a number")
    return float(value)


def around(
    published: Interval, *, relative: float | None = None, below: float | None = None, above: float | None = None
) -> Interval:
    """`published` widened by one relative deviation: to both sides, or to one, where any more to the other agrees.

    The ends are rounded to twelve figures: half as much again as 0.6 is 0.9, and not a little less.
    """
    down, up = relative if relative is not None else below, relative if relative is not None else above
    low = published.low * (1 - down) if down is not None else -math.inf
    high = published.high * (1 + up) if up is not None else math.inf
    return Interval(float(f"{low:.12g}"), float(f"{high:.12g}"))


def _interval(where: str, key: str, value: Any) -> Interval:
    """A number, or `{low:, high:}` of which one may be left out."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Interval(float(value), float(value))
    if isinstance(value, Mapping) and value and set(value) <= {"low", "high"}:
        ends = {"low": -math.inf, "high": math.inf, **value}
        interval = Interval(*(_number(f"{where}, {key}", end, one) for end, one in ends.items()))
        if interval.low <= interval.high:
            return interval
    raise PaperFiguresError(f"{where}: {key} is {value!r}, needs to be a number or low and high in ascending order")


def _check_keys(where: str, entry: Mapping[str, Any], needed: set[str], allowed: set[str]) -> None:
    missing, odd = needed - set(entry), set(entry) - needed - allowed
    if missing or odd:
        problems = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        problems += [f"has the unknown key {', '.join(sorted(odd))}"] if odd else []
        raise PaperFiguresError(f"{where} {' and '.join(problems)}")
