"""Nodes and power are held for a job that has waited too long, in every policy with patience.

The stream of narrow jobs that starves a wide job is in `contract/policies/test_every_policy.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.policies.test_policy_properties import random_snapshot
from unit.policies.snapshots import S, faults, held, job, node, reasons, snapshot
from unit.pool.pools import MACHINE, table

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, Plan, Snapshot
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.driver.impatience import Impatient
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.port import Scheduled
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.papers.equipartition.measure import PUBLISHED as EQUIPARTITION
from wattfold.simulator.papers.parm.measure import PUBLISHED as PARM

PATIENT = [
    entry
    for entry in registry.entries()
    if entry.family.setting("patience") is not None and not entry.variant.starves_nobody
]
EVERY = pytest.mark.parametrize("entry", PATIENT, ids=lambda entry: entry.variant.name)


def planned(entry: registry.RegisteredPolicy, seen: Snapshot, patience: float = 1.0) -> Plan:
    policy = entry.service({**entry.family.without_memory, "patience": patience})
    return policy.propose(seen, seen.now_ns, 5.0)


def whole(name: str, nodes: int, time_s: float, **fields: object) -> JobView:
    return job(name, nodes, nodes, time_s=time_s, unit=SizeUnit.NODES, kind=JobKind.RIGID, **fields)


def started(plan: Plan, seen: Snapshot) -> set[str]:
    runs = {view.job_id for view in seen.jobs if view.current is not None}
    return {one.job_id for one in plan.assignments} - runs


def site(*others: JobView, now_s: float = 200) -> Snapshot:
    """n0 is busy for 100 s more, and n1 is idle.

    A job that needs both has waited since the beginning.
    """
    busy = whole(
        "busy", 1, 200, current=held("busy", "n0", total_s=200), started_s=100, submitted_s=99
    )
    jobs = [busy, whole("wide", 2, 180, submitted_s=0), *others]
    return snapshot([node("n0"), node("n1")], jobs, now_s=now_s)


@EVERY
def test_what_would_keep_its_nodes_waits_and_says_for_whom(
    entry: registry.RegisteredPolicy,
) -> None:
    """A job that ends before the other jobs do starts anyway, as under EASY."""
    seen = site(whole("short", 1, 90, submitted_s=180))
    assert started(planned(entry, seen), seen) == {"short"}
    seen = site(whole("long", 1, 150, submitted_s=180))
    plan = planned(entry, seen)
    assert started(plan, seen) == set()
    assert "held for job wide" in reasons(plan)["long"]
    assert "are held for it" in reasons(plan)["wide"]
    (wide,) = (one for one in plan.waiting if one.job_id == "wide")
    assert wide.start_ns == 300 * S
    assert started(planned(entry, seen, patience=0), seen) == {"long"}
    assert started(planned(entry, seen, patience=10), seen) == {"long"}, "its time has not come"


@EVERY
def test_it_starts_before_others_when_it_fits(entry: registry.RegisteredPolicy) -> None:
    """Three jobs that are worth more together wait for the same two nodes."""
    small = [whole(f"s{i}", 1, 60, submitted_s=150, priority=50.0) for i in range(3)]
    jobs = [whole("wide", 2, 60, submitted_s=0), *small]
    seen = snapshot([node("n0"), node("n1")], jobs, now_s=200)
    assert started(planned(entry, seen, patience=0), seen) == {"s0", "s1"}
    plan = planned(entry, seen)
    assert started(plan, seen) == {"wide"}
    assert faults(plan, seen) == []


@EVERY
def test_a_plan_is_asked_for_when_a_job_has_waited_too_long(
    entry: registry.RegisteredPolicy,
) -> None:
    seen = site(now_s=110)
    assert planned(entry, seen, patience=2).revisit_ns == 2 * 180 * S
    assert planned(entry, seen, patience=0).revisit_ns == 0


@EVERY
@settings(max_examples=examples(24))
@given(seed=st.integers(0, 10**9))
def test_plans_stay_valid(entry: registry.RegisteredPolicy, seed: int) -> None:
    """On heterogeneous nodes, with blocked cores, units, GPUs, and little power."""
    seen = random_snapshot(seed)
    seen = replace(seen, now_ns=seen.now_ns + 10_000 * S)
    plan = planned(entry, seen, patience=0.01)
    assert faults(plan, seen) == []
    named = [one.job_id for one in plan.assignments] + [one.job_id for one in plan.waiting]
    assert len(named) == len(set(named))
    assert set(named) == {view.job_id for view in seen.jobs}


@EVERY
def test_it_does_not_start_where_a_reservation_keeps_it_out(
    entry: registry.RegisteredPolicy,
) -> None:
    seen = snapshot([node("n0"), node("n1")], [whole("wide", 2, 600, submitted_s=0)], now_s=9000)
    window = Reservation(
        name="r",
        nodes=(NodeId("n0"),),
        start_ns=9100 * S,
        end_ns=9900 * S,
        maintenance=True,
    )
    plan = planned(entry, replace(seen, reservations=(window,)))
    assert started(plan, seen) == set()
    assert started(planned(entry, seen), seen) == {"wide"}


def test_a_malleable_job_does_not_grow_into_the_nodes_held() -> None:
    """Two cores are free, and a third core in 50 s.

    Under PARM the malleable job would take them.
    """
    soon = job("b", 1, 1, kind=JobKind.RIGID, current=held("b", "n0:0"), started_s=650, time_s=100)
    runs = job("m", 1, 4, current=held("m", "n0:1", total_s=900), started_s=100, done=0.1)
    waits = job("w", 3, 3, kind=JobKind.RIGID, time_s=60)
    seen = snapshot([node("n0")], [soon, runs, waits], now_s=700)
    sizes = {}
    for patience in (0.0, 1.0):
        plan = Parm(ParmSettings(solver="greedy", patience=patience)).propose(
            seen, seen.now_ns, 5.0
        )
        sizes[patience] = {one.job_id: one.size for one in plan.assignments}
    assert sizes == {0.0: {"b": 1, "m": 3}, 1.0: {"b": 1, "m": 1}}


@pytest.mark.parametrize("name", ["parm-wse", "equipartition"])
def test_counted_nodes_are_held_as_named_ones_are(name: str) -> None:
    """A stream of jobs on 5 of 10 nodes, and a job on all ten nodes."""
    rows = [(50 * i, 5, 100) for i in range(60)]
    rows.insert(1, (10, 10, 150))
    jobs = table(*rows, estimates=[float(run_s) for *_, run_s in rows])
    flat = replace(APPLICATIONS["LeanMD"], t1_s=100.0, beta=0.0, average_parallelism=1.0001)
    jobs = replace(jobs, profiles=(flat,) * len(rows))
    starts_s = {}
    for patience in (0.0, 2.0):
        entry = registry.find(name)
        assert entry is not None
        policy = entry.service({"patience": patience})
        assert isinstance(policy, Scheduled)
        record = simulate(
            jobs, MACHINE, policy.scheduler(), BudgetSchedule.constant(MACHINE.full_uw)
        )
        starts_s[patience] = record.columns.start_ns[1] / S
    assert starts_s[0.0] > 2000
    assert 299 <= starts_s[2.0] <= 600


def test_the_oldest_that_waits_too_long_comes_first() -> None:
    waits = {1, 2, 3}
    jobs = Impatient(2.0)
    for number, submitted_s, estimate_s in ((1, 30, 100), (2, 10, 300), (3, 20, 1)):
        jobs.add(number, (submitted_s * S, str(number)), estimate_s * S)
    assert (jobs.first(waits.__contains__, 100 * S), jobs.next_ns(100 * S)) == ([], 140 * S)
    assert jobs.first(waits.__contains__, 230 * S) == [3, 1]
    waits.discard(3)
    assert jobs.first(waits.__contains__, 610 * S) == [2, 1]
    jobs.add(2, (10 * S, "2"), 900 * S)
    assert jobs.first(waits.__contains__, 620 * S) == [1], "its estimate grew"
    assert jobs.next_ns(620 * S) == 1810 * S


def test_a_minute_is_the_least_estimate_that_counts() -> None:
    jobs = Impatient(10.0)
    jobs.add(1, (0, "1"), S)
    assert jobs.first({1}.__contains__, 599 * S) == []
    assert jobs.first({1}.__contains__, 600 * S) == [1]


def test_the_default_of_every_policy_is_the_same_and_published_settings_hold_nothing() -> None:
    defaults = {float(entry.family.defaults()["patience"]) for entry in PATIENT}
    assert len(defaults) == 1
    assert EQUIPARTITION.patience == PARM.patience == 0


def test_every_policy_starves_nobody_or_is_patient_or_plans_trainings_alone() -> None:
    """Training jobs are ordered by due dates and weights; other jobs start as under EASY."""
    for entry in registry.entries():
        patience = entry.family.setting("patience")
        assert entry.variant.starves_nobody or patience is not None or entry.variant.trains
        assert patience is None or float(patience.default) > 0
