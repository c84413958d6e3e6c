"""Traces one call of an implementation that records what its blocks do when, and stores it beside the campaign's runs:

    python -m harness trace workload=mla_decode 'implementations=[tk]' campaign=2026-11-paper

Arguments are those of `python -m harness`; of an experiment's problems the first is traced.  The file is
`<results_dir>/<gpu>/<campaign>/traces/<id>.json.gz`, a Chrome trace that ui.perfetto.dev opens.  It names commit, GPU,
libraries and kernel.  A call whose output is wrong leaves no file.
"""

from __future__ import annotations

import gzip
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from harness import workloads
from harness.command.cli import OBJECTIONS, sentence
from harness.measure.verification import check_outputs
from harness.plan.help import FLAGS
from harness.plan.implementations import load
from harness.plan.planning import make_plan
from harness.plan.seeds import derived
from harness.records import provenance
from harness.records.errors import HarnessError, one_line
from harness.records.naming import gpu_slug
from harness.records.places import CONFIGS
from harness.runs.store import run_folder

TRACES = "traces"
"""The folder of a campaign that holds them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 with the file's path printed; raises `HarnessError`, whose code is 2 for the user's mistake."""
    words = sys.argv[1:] if argv is None else argv
    if any(word in FLAGS for word in words):
        print(__doc__)
        return 0
    print(trace(words))
    return 0


def trace(words: Sequence[str]) -> Path:
    """Traces the first contestant on the first problem that these words choose; gives the file it wrote."""
    config = _config(words)
    plan = make_plan(config, words)
    group, contestant = plan.groups[0], plan.contestants[0]
    try:
        implementation, device = load(contestant), instantiate(dict(plan.device))
    except InstantiationException as error:  # Hydra wraps what the device's constructor raised
        raise HarnessError(one_line(error.__cause__ or error), exit_code=2) from None
    refusal = implementation.available() or implementation.supports(group.problem, device.kind)
    if refusal:
        raise HarnessError(f"{contestant}: {refusal}", exit_code=1)
    workload = workloads.load(group.workload)
    inputs = workload.make_inputs(group.problem, device.generator(derived(group.seed, "inputs")), group.distribution)
    started = provenance.utc_now()
    traced = implementation.trace(group.problem, inputs)
    if traced is None:
        raise HarnessError(
            f"{contestant} records nothing of {group.workload}: decode from paged caches does", exit_code=2
        )
    document, outputs = traced
    expected = workload.reference(group.problem, inputs, derived(group.seed, "reference"))
    check = check_outputs(workload, group.problem, outputs, expected, inputs)
    if not check.passed:
        raise HarnessError(f"{contestant}: the traced call is wrong: {check.reason}", exit_code=1)
    gpu, name = device.describe(), provenance.new_run_id()
    about = {
        "trace_id": name,
        "campaign": str(config["campaign"]),
        "workload": group.workload,
        "problem": group.problem.text,
        "dtype": group.problem.dtype,
        "direction": group.problem.direction,
        "contestant": str(contestant),
        "seed": group.seed,
        "rel_l2_error": check.rel_l2_error,
        **vars(provenance.source()),
        "command": shlex.join(["python", "-m", "harness", "trace", *words]),
        "gpu": gpu or None,
        "libraries": device.libraries(),
        "started_utc": started,
    }
    document = {**document, "otherData": {**document["otherData"], **about}}
    slug = gpu_slug(str(gpu["name"])) if gpu else device.kind
    folder = run_folder(config["results_dir"], slug, str(config["campaign"]), TRACES)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))
    return path


def _config(words: Sequence[str]) -> dict[str, Any]:
    """The configuration that Hydra composes from these words."""
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            composed = compose("config", list(words))
            return cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True))
    except OBJECTIONS as error:
        raise HarnessError(sentence(error), exit_code=2) from None
