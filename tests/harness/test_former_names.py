"""Implementations that were recorded under another name."""

from __future__ import annotations

import pandas as pd
import pytest
import yaml
from harness_support import MANIFEST, ROOT, group

from harness.records import former_names
from harness.runs import load_run
from harness.runs.store import Store


@pytest.mark.parametrize(("workload", "former"), former_names.TODAY)
def test_a_former_name_is_nobodys_name_today(workload, former):
    entries = yaml.safe_load((ROOT / "configs" / "workload" / f"{workload}.yaml").read_text())["workload"]
    assert former not in entries["implementations"]
    assert former_names.TODAY[workload, former] in entries["implementations"]


def test_only_the_name_changes_and_only_in_its_workload():
    table = pd.DataFrame(
        {"workload": ["attention", "gemm"], "implementation": ["torch_compile", "torch_compile"], "case_id": ["a", "b"]}
    )
    assert former_names.today(table).to_dict("list") == {
        "workload": ["attention", "gemm"],
        "implementation": ["torch_unfused", "torch_compile"],
        "case_id": ["a", "b"],
    }


def test_a_recorded_run_is_read_with_the_names_of_today_and_its_own_case_ids(folder, monkeypatch):
    with Store.create(folder, MANIFEST) as made:
        made.append(group())
    before = load_run(folder).measurements
    first = before.iloc[0]
    monkeypatch.setitem(former_names.TODAY, (first["workload"], first["implementation"]), "named_well")
    after = load_run(folder).measurements
    assert after.iloc[0]["implementation"] == "named_well"
    assert after["case_id"].tolist() == before["case_id"].tolist()
