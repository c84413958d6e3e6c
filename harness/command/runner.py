"""One job: makes the plan, has the worker measure its groups, and stores them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from harness.command.console import Screen
from harness.measure.messages import CaseOutcome, Machine
from harness.measure.supervisor import GroupResult
from harness.plan.planning import Group, Plan
from harness.plan.said import Inspected
from harness.plan.settings import differences, settings_of
from harness.records.errors import HarnessError
from harness.records.naming import build_keys, with_builds
from harness.records.rows import ProfileMetric, Status
from harness.runs import ncu
from harness.runs.assemble import assemble
from harness.runs.invocation import Invocation
from harness.runs.store import Store, StoredGroup, covers, newest_settings, undisturbed


def run_job(plan: Plan, config: Mapping[str, Any], invocation: Invocation, screen: Screen) -> None:
    """Verifies, times and stores every group of the plan that the run folder does not hold yet."""
    only_plan = config["plan"] is True
    screen.status("starting the worker")
    machine = invocation.machine(plan.device, roofs=0 if only_plan else plan.ranks)
    inspected = _inspect(plan, invocation)
    if only_plan:
        screen.plan(plan, machine, inspected)
        return
    if all(_stored_elsewhere(group, config, inspected, invocation) for group in plan.groups):
        invocation.ran += len(plan.groups)
        return
    store = invocation.open_store(plan, config, machine)
    store.update(roofs=store.manifest["roofs"] or machine.roofs)
    # Roofs are those of the run, also where a resumed invocation measured its own.
    machine = dataclasses.replace(machine, roofs=store.manifest["roofs"])
    invocation.last_config = config
    if store.manifest["git_commit"] == "unknown":
        store.note("the commit of the code is not known: there is no git, or no checkout, bundle or wheel around it")
    if plan.profile_metrics and not machine.timed:
        store.note("profile=ncu: nothing is profiled, this device verifies only")
    screen.begin(plan, machine, store, sum(not one.missing for one in inspected))
    due: list[Callable[[], None]] = []  # a group is stored while the worker measures the next one

    def store_due() -> None:
        while due:
            due.pop()()

    try:
        for number, group in enumerate(plan.groups):
            runnable = _runnable(group, inspected)
            settings = settings_of(config, group)
            then = newest_settings(store.manifest["groups"], runnable)
            if then and (different := differences(then, settings)):
                raise HarnessError(
                    f"{group.problem.title} is in this run already, and is asked for again with "
                    f"{', '.join(different)}: such settings are not part of a case's name; make it a run of its own"
                )
            if store.covered(runnable) or _stored_elsewhere(group, config, inspected, invocation):
                invocation.ran += 1
                screen.skip(number, group)
                continue
            screen.group(number, group)
            result = _measure(plan, group, invocation, store_due)
            due.append(partial(_keep, plan, group, result, settings, machine, invocation, store, screen))
            if plan.profile_metrics:  # a profiler needs the device, so nothing is measured meanwhile
                with invocation.ledger.during("store"):
                    store_due()
    finally:
        with invocation.ledger.during("store"):
            store_due()
    screen.notes(store)


def _stored_elsewhere(
    group: Group, config: Mapping[str, Any], inspected: list[Inspected], invocation: Invocation
) -> bool:
    """Whether another run of this multirun holds the group, measured under the same settings."""
    settings = settings_of(config, group)
    alike = [one for one in invocation.stored_elsewhere if not differences(one["settings"], settings)]
    return covers(alike, _runnable(group, inspected))


def _inspect(plan: Plan, invocation: Invocation) -> list[Inspected]:
    """What is known of the contestants before they run; raises for one that cannot be made as asked for."""
    problems = tuple(group.problem for group in plan.groups)
    with invocation.ledger.during("start"):
        inspected = invocation.supervisor(plan.device).inspect(plan.contestants, problems)
    wrong = next((one.mistake for one in inspected if one.mistake), None)
    if wrong is not None:
        raise HarnessError(wrong)
    return inspected


def _runnable(group: Group, inspected: list[Inspected]) -> list[str]:
    """Cases of the group that can run here: those that a finished group must hold as passes.

    Where none can, all of them, so that the rows that say why are written once more rather than never.
    """
    able = {str(one.contestant) for one in inspected if one.runs(group.problem.title)}
    return [group.case_id(c) for c in group.contestants if str(c) in able] or list(group.case_ids)


def builds_of(group: Group, outcomes: Sequence[CaseOutcome]) -> dict[str, dict[str, Any]]:
    """The build manifests of a group's kernels; a direction's is apart where it has a kernel of another name."""
    found = {}
    for one in outcomes:
        if not one.build:
            continue
        own, common = build_keys(group.contestants[one.index], group.problem.direction)
        apart = group.problem.direction != "fwd" and one.build.get("name", group.workload) != group.workload
        found[own if apart else common] = dict(one.build)
    return found


def _measure(plan: Plan, group: Group, invocation: Invocation, meanwhile: Callable[[], None]) -> GroupResult:
    """What the worker measured; `meanwhile` runs at the same time, and counts where it takes longer than the worker."""
    spent = 0.0

    def timed() -> None:
        nonlocal spent
        began = time.perf_counter()
        meanwhile()
        spent = time.perf_counter() - began

    with invocation.ledger.during("lost"):
        result = invocation.supervisor(plan.device).measure(group, plan.timer, plan.limits, timed)
    for activity, seconds in result.seconds.items():
        invocation.ledger.move("lost", activity, seconds)
    if result.seconds:  # else no worker came to the end, and what all of them took is lost
        invocation.ledger.move("lost", "store", max(0.0, spent - sum(result.seconds.values())))
    return result


def _keep(
    plan: Plan,
    group: Group,
    result: GroupResult,
    settings: Mapping[str, Any],
    machine: Machine,
    invocation: Invocation,
    store: Store,
    screen: Screen,
) -> None:
    """Stores a group and shows it; Ctrl-C waits until it is stored, but not for Nsight Compute."""
    with nullcontext() if plan.profile_metrics else undisturbed():
        stored = dataclasses.replace(assemble(plan, group, result, machine, store.run_id), settings=settings)
        builds = builds_of(group, result.outcomes)
        if plan.profile_metrics and machine.timed:
            with invocation.ledger.during("profile"):
                stored = _profiled(plan, group, result, stored, store, screen)
        known = store.manifest["kernel_builds"]
        store.manifest.update(kernel_builds=with_builds(known, builds), **invocation.account())
        store.append(stored)
    screen.result(plan, group, stored)
    invocation.count(stored.measurements)


def _profiled(
    plan: Plan, group: Group, result: GroupResult, stored: StoredGroup, store: Store, screen: Screen
) -> StoredGroup:
    """The group with the metrics of each case that passed."""
    metrics: list[ProfileMetric] = []
    for index, measurement in enumerate(stored.measurements):
        if measurement.status is not Status.PASSED:
            continue
        screen.status(f"Nsight Compute: {group.contestants[index]}")
        profiled = ncu.profile_case(plan, group, index, result.outcomes[index].kernel_names, store.run_id)
        metrics += profiled.metrics
        if profiled.note:
            store.note(profiled.note)
    return dataclasses.replace(stored, profile=tuple(metrics))
