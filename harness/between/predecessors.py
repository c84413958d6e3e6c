"""`python -m harness predecessors RUN...`: a permutation test of whether the preceding contestant changes a headline
ratio.

The effect on a ratio of the rounds is how far it is from the ratio after the same predecessors; on a settled one, what
predecessors leave behind, fitted beside cases and rounds of blocks, makes of those that its two cases happened to have.
Its significance comes from permuting predecessors within each case and block of rounds, or each settled case.
p is from a normal distribution as wide as the permutations. A ratio is flagged if without the effect it would lie
outside its own interval, and if the effect is significant at 5 % over all ratios of all runs together (Holm, 1979). The
number with p below 5 % is reported beside the number expected by chance. Exit code 1 if there is one, 2 for a folder
that cannot be used.

Only a settled ratio can fail in a run of today.  `harness.runs.assemble` makes a ratio of the rounds the one after the
same predecessors, or widens its interval to hold that one.  A ratio of the rounds fails where a run did neither.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd

from harness.between.table import Table
from harness.devices.seats import block_rounds
from harness.records import headline, stats
from harness.records.naming import Contestant
from harness.records.stats import Seated
from harness.runs import Run, load_run

DEALS = 200
"""Permutations of the predecessors."""

RARE = 0.05
"""Chance of flagging any ratio if predecessors have no effect."""


@dataclass(frozen=True)
class Effect:
    """What predecessors do to one headline ratio.  effect_pct: its shift; room_pct: how far its interval reaches in the
    direction of that shift; p: the chance of such a shift if predecessors have no effect.
    """

    case_id: str
    baseline_case_id: str
    source: str
    effect_pct: float
    room_pct: float
    p: float

    @property
    def beyond(self) -> bool:
        """Whether the ratio would lie beyond its interval; an effect that a float cannot tell from none is none."""
        return abs(self.effect_pct) > self.room_pct + 1e-9


def effects(run: Run, deals: int = DEALS) -> list[Effect]:
    """The effect on each headline ratio of a run, each pair once; none for samples whose predecessors are not known."""
    generator = np.random.default_rng(0)
    found: list[Effect] = []
    pairs = Table([run], itemgetter("case_id")).pairs
    for group in run.manifest["groups"]:
        heads = {pair: headline.of_ratio(told[run]) for pair, told in pairs.items() if pair[0] in group["case_ids"]}
        cases = sorted({case for pair in heads for case in pair})
        for source, ask in ((headline.ROUNDS, _of_rounds), (headline.SETTLED, _of_blocks)):
            if own := {pair: head for pair, head in heads.items() if head.source == source}:
                found += ask(run, cases, own, generator, deals)
    return found


_Heads = Mapping[tuple[str, str], headline.RatioHeadline]


def _of_rounds(
    run: Run, cases: Sequence[str], heads: _Heads, generator: np.random.Generator, deals: int
) -> Iterator[Effect]:
    stored = {case: run.seats(case) for case in cases}
    if not all(one.seated for one in stored.values()):
        return
    block = block_rounds(len(cases))
    names = np.unique(np.concatenate([one.predecessors.astype(str) for one in stored.values()]))
    samples = {  # with the predecessors' places among the names: a deal compares them many times
        case: Seated(one.latency_us, one.rounds // block, np.searchsorted(names, one.predecessors.astype(str)))
        for case, one in stored.items()
    }
    seen = stats.same_predecessor_logs(samples)
    drawn = [
        stats.same_predecessor_logs({case: _dealt(one, generator) for case, one in samples.items()})
        for _ in range(deals)
    ]
    for pair, head in heads.items():
        middle = float(np.mean([one[pair] for one in drawn]))
        spread = [one[pair] - middle for one in drawn]
        yield _effect(pair, head, math.log(head.value) - seen[pair], seen[pair] - middle, spread)


def _dealt(one: Seated, generator: np.random.Generator) -> Seated:
    """The same samples with their predecessors permuted within blocks."""
    order = np.lexsort((generator.random(len(one.blocks)), one.blocks))  # blocks stay in order, shuffled inside
    dealt = one.predecessors.copy()
    dealt[np.argsort(one.blocks, kind="stable")] = one.predecessors[order]
    return replace(one, predecessors=dealt)


def _of_blocks(
    run: Run, cases: Sequence[str], heads: _Heads, generator: np.random.Generator, deals: int
) -> Iterator[Effect]:
    table = run.settled[run.settled["case_id"].isin(list(cases))].sort_values(["block", "position"])
    logs = np.log(table["latency_us"].astype(float))
    rest = logs - logs.groupby(table["case_id"]).transform("mean") - logs.groupby(table["block"]).transform("mean")
    values = (rest + logs.mean()).to_numpy()
    names = [table[name].to_numpy() for name in ("case_id", "block", "predecessor")]
    solve = np.linalg.pinv(np.hstack([(name[:, None] == np.unique(name)).astype(float) for name in names]))
    after = solve[-len(np.unique(names[2])) :]
    seen = _block_effects(table, after @ values, list(heads))
    drawn = []
    places = [np.flatnonzero(table["case_id"].to_numpy() == case) for case in table["case_id"].unique()]
    for _ in range(deals):
        dealt = values.copy()
        for place in places:
            dealt[place] = generator.permutation(values[place])
        drawn.append(_block_effects(table, after @ dealt, list(heads)))
    for pair, head in heads.items():
        yield _effect(pair, head, seen[pair], seen[pair], [one[pair] for one in drawn])


def _block_effects(
    table: pd.DataFrame, after: np.ndarray, pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], float]:
    """What predecessors make of each pair's ratio.  after: what each leaves behind, in the order of their names."""
    level = dict(zip(np.unique(table["predecessor"].to_numpy()), after, strict=True))
    left = pd.Series(table["predecessor"].map(level).to_numpy()).groupby(table["case_id"].to_numpy()).mean()
    return {(case, baseline): float(left[baseline] - left[case]) for case, baseline in pairs}


def _effect(
    pair: tuple[str, str], head: headline.RatioHeadline, shift: float, seen: float, drawn: Sequence[float]
) -> Effect:
    """shift: of the headline, as a logarithm; seen, drawn: what is tested, as it is and in the deals."""
    spread = float(np.std(drawn))
    p = math.erfc(abs(seen) / spread / math.sqrt(2)) if spread else 1.0
    room = math.log(head.value / head.low if shift > 0 else head.high / head.value)
    return Effect(*pair, head.source, 100 * shift, 100 * room, p)


def faults(found: Sequence[Effect]) -> list[Effect]:
    """The flagged ones among all: the smallest p times their number, the next times one less, until one
    is above `RARE` (Holm, Scandinavian Journal of Statistics 6, 1979).
    """
    ascending = sorted(found, key=lambda one: one.p)
    real = itertools.takewhile(lambda one: one[1].p * (len(found) - one[0]) <= RARE, enumerate(ascending))
    return [one for _, one in real if one.beyond]


def report(name: str, found: Sequence[Effect], bad: Sequence[Effect]) -> str:
    """What was found in a run, or in all of them, in a line."""
    if not found:
        return f"{name}: no ratio whose predecessors are known"
    worst = max(found, key=lambda one: abs(one.effect_pct))
    settled = sum(one.source == headline.SETTLED for one in found)
    return (
        f"{name}: {len(found)} headline ratios, {settled} of them settled; predecessors shift one by "
        f"{abs(worst.effect_pct):.2f} % at most (its interval: {worst.room_pct:.2f} %, p {worst.p:.3f}); "
        f"p below 5 %: {sum(one.p < RARE for one in found)}, by chance {RARE * len(found):.0f}; "
        f"beyond its interval: {sum(one in bad for one in found)}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command; gives its exit code.  Raises `ResultsError`."""
    parser = argparse.ArgumentParser(
        prog="python -m harness predecessors",
        description="A permutation test of whether the preceding contestant changes a headline ratio of these runs.",
        epilog="example: python -m harness predecessors results/<gpu>/<campaign>/<run>; exit code: 0 none, 1 one does, "
        "2 a folder that cannot be used",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run's folder")
    seen = {run: effects(run) for run in map(load_run, parser.parse_args(argv).runs)}
    everything = [one for found in seen.values() for one in found]
    bad = faults(everything)
    for run, found in seen.items():
        print(report(run.run_id, found, bad))
        for one in (one for one in found if one in bad):
            ours, other = (run.by_case[case] for case in (one.case_id, one.baseline_case_id))
            pair = f"{Contestant.of_row(ours)} over {Contestant.of_row(other)}, {ours['problem']}"
            print(f"  {pair}, {one.source}: {one.effect_pct:+.2f} %, interval {one.room_pct:.2f} %, p {one.p:.1e}")
    print(report(f"all {len(seen)} runs", everything, bad))
    return int(bool(bad))
