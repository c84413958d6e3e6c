"""The headline of a case and of a pair, in what is shown and what is stored."""

import math
from dataclasses import replace

import numpy as np
import pytest
from harness_support import MANIFEST, TIMED, edit, group
from pydantic import ValidationError

from harness.command.console import _speed_cells
from harness.records import headline
from harness.records.rows import Ratio, SettledBlock, Verdict
from harness.runs import ResultsError, load_run
from harness.runs.store import Store

SETTLED = replace(TIMED, settled_latency_us=12.5, settled_tflops=560.0, settled_blocks=4)
ROUNDS = Ratio(
    run_id="r", case_id="a", baseline_case_id="b", ratio_p50=1.05, ci_low=1.04, ci_high=1.06, verdict=Verdict.FASTER
)
BOTH = replace(ROUNDS, settled_ratio=0.99, settled_ci_low=0.985, settled_ci_high=0.995, settled_verdict=Verdict.SLOWER)


@pytest.mark.parametrize("empty", [None, math.nan])
def test_the_settled_number_is_the_headline_where_there_is_one(empty):
    assert headline.of_case(SETTLED) == headline.RateHeadline(12.5, 560.0, "settled")
    assert headline.of_case(TIMED) == headline.RateHeadline(10.0, 700.0, "rounds")
    assert headline.of_case({"latency_us_p50": 1.0, "tflops": empty, "settled_tflops": empty}).source == "rounds"
    assert headline.of_ratio(BOTH) == headline.RatioHeadline(0.99, 0.985, 0.995, Verdict.SLOWER, "settled")
    assert headline.of_ratio(ROUNDS) == headline.RatioHeadline(1.05, 1.04, 1.06, Verdict.FASTER, "rounds")
    before = {key: value for key, value in vars(ROUNDS).items() if not key.startswith("settled")}
    assert headline.of_ratio(before).source == "rounds"
    assert headline.of_ratio(before | {"settled_ratio": empty, "settled_verdict": ""}).source == "rounds"


def test_a_ratio_is_settled_wholly_or_not_at_all():
    with pytest.raises(ValidationError, match="some of its settled columns are empty"):
        replace(ROUNDS, settled_ratio=1.0)


def test_the_table_says_where_its_numbers_come_from():
    assert _speed_cells(SETTLED, BOTH, True)[4:] == ["settled", "0.990 (0.985 to 0.995)", "SLOWER"]
    assert _speed_cells(SETTLED, ROUNDS, True)[4] == "settled, rounds"
    assert _speed_cells(TIMED, ROUNDS, False)[4] == "1.050 (1.040 to 1.060)"


def blocks(case, latency_us=12.5):
    return tuple(
        SettledBlock(
            case_id=case,
            block=number,
            position=0,
            predecessor="",
            calls=9,
            seconds=0.35,
            latency_us=latency_us,
            sm_clock_mhz=1500.0,
            power_w=690.0,
            energy_mj=None,
        )
        for number in range(4)
    )


COLUMNS = {"settled_latency_us": 12.5, "settled_tflops": 560.0, "settled_blocks": 4}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / MANIFEST["run_id"]
    with Store.create(folder, MANIFEST) as store:
        store.append(group(settled=blocks("a") + blocks("b"), **COLUMNS))
        store.append(group("M=2;N=2;K=3", cases=("c", "d")))
    return folder


def test_blocks_are_stored_and_read(folder):
    run = load_run(folder)
    assert run.settled["case_id"].tolist() == ["a"] * 4 + ["b"] * 4
    assert run.settled["energy_mj"].isna().all()
    assert sorted(path.name for path in folder.glob(".*")) == []


def test_blocks_of_a_group_that_is_timed_again_are_replaced(folder):
    with Store.reopen(folder) as store:
        store.append(group(settled=blocks("a", 11.0) + blocks("b"), **COLUMNS))
    assert sorted(set(load_run(folder).settled["latency_us"])) == [11.0, 12.5]
    assert len(load_run(folder).settled) == 8


def test_blocks_that_are_not_there_are_missed(folder):
    """Guard: `_consistent` of a stored group."""
    edit(folder / "group-0001.json.gz", lambda held: held["settled"].clear())
    with pytest.raises(ResultsError, match="case a has 0 settled blocks, its row says 4"):
        load_run(folder)


def test_blocks_with_other_columns_are_refused(folder):
    edit(folder / "group-0001.json.gz", lambda held: held["settled"][0].update(x=1))
    with pytest.raises(ResultsError, match=r"settled.0.x is unknown"):
        load_run(folder)


def test_a_full_disk_takes_the_blocks_back(folder, monkeypatch):
    from harness.runs import store as module

    def full(*_):
        raise OSError(28, "No space left on device")

    with Store.reopen(folder) as store:
        monkeypatch.setattr(module.os, "write", full)
        with pytest.raises(module.StoreError):
            store.append(group("M=3;N=2;K=3", cases=("x", "y"), settled=blocks("x") + blocks("y"), **COLUMNS))
    assert sorted(path.name for path in folder.glob(".*")) == []
    assert "x" not in set(load_run(folder).settled["case_id"])
    assert np.isfinite(load_run(folder).samples("a")).all()
