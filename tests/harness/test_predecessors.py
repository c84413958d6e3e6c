"""The permutation test: whether who ran before decides a headline ratio."""

from dataclasses import replace

import numpy as np
import pytest
from harness_support import MANIFEST, ending, group
from test_memory import outcomes

from harness.between import predecessors
from harness.between.predecessors import Effect, effects, faults, report
from harness.devices import seats
from harness.records import stats
from harness.records.rows import SettledBlock
from harness.runs import assemble, load_run
from harness.runs.samples import Samples
from harness.runs.store import Store

main = ending(predecessors.main)
CASES = ("0", "1", "2")


def stored(folder, plain=False, blocks=(), **columns):
    """A run of three equal cases whose predecessor leaves 10 % behind; plain: compared whatever ran before."""
    seen = outcomes(3, 4)
    made = group(cases=CASES, n=len(seen["0"].latency_us), settled=tuple(blocks), **columns)
    per_round = {case: one.latency_us for case, one in seen.items()}
    estimates = stats.paired_ratios(per_round, seed=0) if plain else assemble._estimates(seen, 0)
    found = {pair: (one.value, one.interval.low, one.interval.high) for pair, one in estimates.items()}
    ratios = []
    for ratio in made.ratios:
        value, low, high = found[ratio.case_id, ratio.baseline_case_id]
        ratios.append(replace(ratio, ratio_p50=value, ci_low=low, ci_high=high))
    samples = {
        case: Samples(one.latency_us, one.rounds, one.positions, one.predecessors.astype(str).astype(object))
        for case, one in seen.items()
    }
    rows = []
    for row in made.measurements:
        p10, p50, p90 = (float(value) for value in np.quantile(seen[row.case_id].latency_us, [0.1, 0.5, 0.9]))
        rows.append(replace(row, latency_us_p10=p10, latency_us_p50=p50, latency_us_p90=p90))
    with Store.create(folder, MANIFEST) as store:
        store.append(replace(made, measurements=tuple(rows), ratios=tuple(ratios), samples=samples))
    return folder


def test_ratios_after_the_same_predecessors_have_no_effect_of_them(tmp_path, capsys):
    folder = stored(tmp_path / "run")
    assert main([str(folder)]) == 0
    assert "3 headline ratios, 0 of them settled" in capsys.readouterr().out


def test_several_runs_are_summed_up(tmp_path, capsys):
    folders = [str(stored(tmp_path / name)) for name in ("first", "second")]
    assert main(folders) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("all 2 runs: 6 headline ratios, 0 of them settled; predecessors shift one by ")
    assert line.endswith("p below 5 %: 0, by chance 0; beyond its interval: 0")


def lopsided(count, seed):
    """Orders in which contestant 1 mostly runs after contestant 0."""
    while True:
        yield from [(0, 1, 2)] * 3 + [(2, 1, 0), (1, 2, 0), (0, 2, 1)]


def test_a_ratio_that_its_predecessors_decided_is_found(tmp_path, capsys, monkeypatch):
    """Guard: the comparison with the interval and with the deals."""
    monkeypatch.setattr(seats, "orders", lopsided)
    folder = stored(tmp_path / "run", plain=True)
    assert main([str(folder)]) == 1
    assert "beyond its interval: " in capsys.readouterr().out


@pytest.mark.parametrize(("memory", "found"), [(0.0, False), (0.05, True)])
def test_settled_blocks_are_looked_at_too(tmp_path, memory, found):
    """Case 1 has case 0 before it more often than case 2 has, and what that leaves behind is in its ratio."""
    generator = np.random.default_rng(1)
    rows = [(0, 1, 2), (0, 1, 2), (2, 1, 0), (0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 1, 2), (1, 0, 2)]
    blocks, before = [], -1
    for place, index in enumerate(index for row in rows for index in row):
        own = 1 - memory * (before == 0) + 0.0005 * generator.standard_normal()
        blocks.append(
            SettledBlock(
                case_id=str(index), block=place // 3, position=place % 3, predecessor=str(before) if place else "",
                calls=9, seconds=0.3, latency_us=9.0 * own, sm_clock_mhz=None, power_w=None, energy_mj=None,
            )
        )  # fmt: skip
        before = index
    folder = stored(tmp_path / "run", blocks=blocks, settled_blocks=8, settled_latency_us=9.0, settled_tflops=1.0)
    run = load_run(folder)
    settled = run.ratios.assign(settled_ratio=1.0, settled_ci_low=0.999, settled_ci_high=1.001, settled_verdict="SAME")
    seen = effects(replace(run, ratios=settled))
    assert {one.source for one in seen} == {"settled"}
    assert bool(faults(seen)) is found


def test_runs_from_before_say_that_nothing_is_known(tmp_path):
    with Store.create(tmp_path / "run", MANIFEST) as store:
        store.append(group())
    run = load_run(tmp_path / "run")
    assert effects(run) == []
    assert report("one", [], []).endswith("no ratio whose predecessors are known")


def test_a_folder_that_is_no_run_is_said(tmp_path):
    assert main([str(tmp_path)]) == 2


@pytest.mark.parametrize(("others", "found"), [(0, 1), (9, 1), (99, 0)])
def test_many_ratios_are_many_chances(others, found):
    """Guard: `faults`; one of a hundred ratios has a p of 1 % where predecessors do nothing."""
    one, fine = Effect("a", "b", "rounds", 0.5, 0.2, 0.004), Effect("c", "d", "rounds", 0.5, 0.2, 0.6)
    assert faults([one, *[fine] * others]) == [one] * found
    assert faults([replace(one, room_pct=0.6)]) == [], "within its interval"


def test_short_calls_hold_the_ratio_after_the_same_predecessors():
    """Guard: `widened`.  A mixture's median is not the mean of its parts': one of three predecessors delays case 0."""
    blocks, before = np.repeat(np.arange(20), 3), np.tile(["0", "1", "2"], 20)
    noise = 0.01 * np.random.default_rng(0).standard_normal((2, 60))
    seated = {
        "0": stats.Seated(10 + 0.5 * (before == "1") + noise[0], blocks, before),
        "1": stats.Seated(10 + noise[1], blocks, before),
    }
    per_round = {case: one.latency_us for case, one in seated.items()}
    plain = stats.paired_ratios(per_round, seed=0)
    same = {pair: np.exp(log) for pair, log in stats.same_predecessor_logs(seated).items()}
    assert plain["1", "0"].interval.high < same["1", "0"]
    wide = stats.widened(plain, seated)
    for pair, one in wide.items():
        assert one.value == plain[pair].value
        assert one.interval.low <= same[pair] <= one.interval.high
        assert one.interval.low <= plain[pair].interval.low <= plain[pair].interval.high <= one.interval.high
