"""Stored runs as one pandas table: a row a case, the keys of its problem as columns, its ratio joined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from harness.records import headline
from harness.records.errors import ResultsError
from harness.records.naming import Contestant, closest, parse_contestant, problem_keys
from harness.records.rows import Status
from harness.runs.stored import GROUP, MANIFEST, Run, load_campaign, load_run

_OF_THE_RUN = ("run_id", "campaign", "gpu", "git_commit")
_HEADLINE = ("headline_latency_us", "headline_tflops", "headline_source")
_RATIO = ("baseline", "ratio", "ratio_ci_low", "ratio_ci_high", "ratio_verdict", "ratio_source")
_IN_COMMAND = re.compile(r"(?<![\w.+])problem\.(\w+)=([^\s'\"]*)")


def frame(path: str | Path | Sequence[str | Path], *, against: str | None = None, newest: bool = True) -> pd.DataFrame:
    """The cases of a run folder, or of all runs of a campaign's folder, as one table; raises `ResultsError`.

    path: of several folders the runs are taken together, such as one campaign's on two GPUs; `gpu` tells them apart.
    against: the contestant that the ratios are over, such as `cublas` or `tk[stages=2]`. Without it each case is
        compared with the fastest contestant of another implementation that was timed in the same rounds.
    newest: of a case that several runs have, keep the newest row with a time, one a GPU and timer; with `against` the
        newest that has a ratio, if there is one. A case found wrong counts, too: older times of it, and older ratios
        over it, are passed over. Else all rows.

    A row a case. The columns, in order:

    | columns | type | what |
    |---|---|---|
    | `run_id`, `campaign`, `gpu`, `git_commit` | str | where the row is from; `gpu` is empty for a CPU |
    | `workload`, `direction` | str | `gemm`, `attention`, ...; `fwd` or `bwd` |
    | `M`, `N`, `K`, `causal`, ... | int64, Int64, float64 or str | the problem's keys, defaults filled in; <NA> (NaN, None) in the rows of other workloads |
    | `contestant` | str | `tk`, `cublas`, `tk[stages=2]` |
    | `headline_latency_us`, `headline_tflops` | float64 | of calls back to back where they were measured, else of the interleaved rounds |
    | `headline_source` | str | `settled` or `rounds`; empty without a time |
    | `baseline` | str | the contestant that the ratio is over; empty for none |
    | `ratio`, `ratio_ci_low`, `ratio_ci_high` | float64 | speed over the baseline's, above 1 is faster; its 95 % interval |
    | `ratio_verdict`, `ratio_source` | str | `SAME`, `FASTER`, `SLOWER` or `AMBIGUOUS`; `settled` or `rounds` |
    | all others | | the columns of `harness.records.rows.Measurement`, which describes them |
    """  # noqa: E501
    folders = [Path(path)] if isinstance(path, str | Path) else [Path(one) for one in path]
    runs = _runs(folders)
    rival = None if against is None else parse_contestant(against)
    cases = pd.concat([_cases(run) for run in runs], ignore_index=True)
    where = " and ".join(map(str, folders))
    known = sorted(set(cases["contestant"]))
    if rival is not None and str(rival) not in known:
        raise ResultsError(f"{where} has no case of {rival}; it has {', '.join(known)}{closest(str(rival), known)}")
    pairs = pd.concat([_ratios(run, rival) for run in runs], ignore_index=True)
    if newest:
        cases = _newest(cases, pairs if rival is not None else pairs[:0], rival)
    problems = _problem_columns(cases)
    taken = sorted(set(problems.columns) & set(cases.columns))
    if taken:
        raise ResultsError(f"{where}: the problem key {taken[0]} has the name of a column: read it with load_run")
    joined = cases.merge(pairs, on=["run_id", "case_id"], how="left")
    texts = ["baseline", "ratio_verdict", "ratio_source"]
    joined[texts] = joined[texts].astype(object).fillna("")
    first = [*_OF_THE_RUN, "workload", "direction", *problems.columns, "contestant", *_HEADLINE, *_RATIO]
    table = pd.concat([joined, problems], axis="columns")
    return table[[*first, *(name for name in table.columns if name not in first)]]


def _runs(folders: Sequence[Path]) -> list[Run]:
    """The runs of all folders, newest first; raises `ResultsError` for none, and for a run that is there twice."""
    if not folders:
        raise ResultsError("frame got no folder: give that of a run or of a campaign, results/<gpu>/<campaign>")
    runs: list[Run] = []
    for folder in folders:
        runs += [load_run(folder)] if (folder / MANIFEST).exists() else load_campaign(folder)
    names = [run.run_id for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ResultsError(f"{' and '.join(map(str, folders))}: run {twice} is in two of them: give each run once")
    return sorted(runs, key=lambda run: (str(run.manifest["started_utc"]), run.run_id), reverse=True)


def _cases(run: Run) -> pd.DataFrame:
    """The rows of a run, with what its manifest says and the headline of each."""
    table = run.measurements
    heads = [headline.of_case(row) for row in run.rows]
    return table.assign(
        campaign=run.manifest["campaign"],
        gpu=str((run.manifest["gpu"] or {}).get("name", "")),
        git_commit=run.manifest["git_commit"],
        contestant=[str(Contestant.of_row(row)) for row in run.rows],
        headline_latency_us=pd.array([one.latency_us for one in heads], dtype="float64"),
        headline_tflops=pd.array([one.tflops for one in heads], dtype="float64"),
        headline_source=["" if one.latency_us is None else one.source for one in heads],
    )


def _ratios(run: Run, rival: Contestant | None) -> pd.DataFrame:
    """One row a case of a run that has a ratio over the rival, or over the fastest of the others."""
    contestant = {case: Contestant.of_row(row) for case, row in run.by_case.items()}
    chosen: dict[str, tuple[Any, ...]] = {}
    for (case, baseline), row in run.ratio_rows.items():
        ours, other = contestant[case], contestant[baseline]
        if other != rival if rival is not None else other.implementation == ours.implementation:
            continue
        one = headline.of_ratio(row)
        if case not in chosen or one.value < chosen[case][1]:  # the fastest baseline leaves the smallest ratio
            chosen[case] = (str(other), one.value, one.low, one.high, str(one.verdict), one.source)
    rows = [(run.run_id, case, *cells) for case, cells in chosen.items()]
    numbers = dict.fromkeys(("ratio", "ratio_ci_low", "ratio_ci_high"), "float64")
    return pd.DataFrame(rows, columns=["run_id", "case_id", *_RATIO], dtype=object).astype(numbers)


def _newest(cases: pd.DataFrame, preferred: pd.DataFrame, rival: Contestant | None) -> pd.DataFrame:
    """Of each case on a GPU the newest row of each timer, or the one that found it wrong since, or the newest of none.

    The rows come newest run first. `preferred`: the runs and cases that go before newer ones, but for problems on which
    the rival was found wrong since.
    """
    timed, wrong = cases["n_samples"] > 0, cases["status"] == str(Status.FAILED_VERIFICATION)
    name = cases["gpu"] + "|" + cases["case_id"]
    wrong_since = wrong.groupby(name).cumsum() > wrong
    wanted = (timed & ~wrong_since) | (wrong & ~wrong_since & (timed.groupby(name).cumsum() == 0))
    wanted |= ~name.isin(name[timed | wrong])
    problem = cases["gpu"].str.cat([cases[column] for column in GROUP], sep="|")
    without = (wrong & (cases["contestant"] == str(rival))).groupby(problem).cumsum() > 0
    first, rows = (pd.MultiIndex.from_frame(one[["run_id", "case_id"]]) for one in (preferred, cases))
    ranked = cases.assign(_rank=~rows.isin(first) | without)[wanted].sort_values("_rank", kind="stable")
    kept = ranked.drop_duplicates(["gpu", "case_id", "timer"]).sort_index().reset_index(drop=True)
    return kept.drop(columns="_rank")


def _problem_columns(cases: pd.DataFrame) -> pd.DataFrame:
    """A column a problem key, numbers where all its values are.

    A problem's text leaves out an option at its default; the command that repeats the case names every key.
    """
    rows = [
        {**dict(_IN_COMMAND.findall(command)), **problem_keys(text)}
        for command, text in zip(cases["repro_command"], cases["problem"], strict=True)
    ]
    columns = {key: pd.Series([row.get(key) for row in rows], dtype=object) for row in rows for key in row}
    return pd.DataFrame({key: _typed(values) for key, values in columns.items()}, index=cases.index)


def _typed(values: pd.Series) -> pd.Series:
    """int64 (Int64 with gaps) or float64 where every value reads as one, else the texts."""
    present = values.dropna()
    if present.str.fullmatch(r"-?\d+").all():
        whole = values.astype("Int64")
        return whole if whole.isna().any() else whole.astype("int64")
    numbers = pd.to_numeric(values, errors="coerce")
    return values if numbers.isna().sum() > values.isna().sum() else numbers.astype("float64")
