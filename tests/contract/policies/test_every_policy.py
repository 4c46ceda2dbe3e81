"""Requirements of the service and the simulator on every registered policy.

A policy is tested here because it is in the registry; nothing in this file names a policy.
"""

from __future__ import annotations

import math
import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.policies.test_policy_properties import random_snapshot
from unit.policies.snapshots import S, W, faults, held, job, node, snapshot
from unit.workloads import swf_files as swf

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import BudgetAhead, JobView, Plan, Policy, Snapshot
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import (
    PolicySetting,
    SettingError,
    SettingScope,
    Value,
)
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, WorkloadSource
from wattfold.simulator.runs.execute import execute

DEADLINE_S = 10.0
ENTRIES = list(registry.entries())
SERVICE = [entry for entry in ENTRIES if entry.variant.service is not None]
SETTINGS = [
    (entry, setting, value)
    for entry in SERVICE
    for setting in entry.family.settings_in(SettingScope.SERVICE)
    for value in (setting.choices or (setting.low, setting.high))
    if isinstance(value, str) or math.isfinite(value)
]


def named(one: object) -> str:
    return one.variant.name if isinstance(one, registry.RegisteredPolicy) else ""


every_policy = pytest.mark.parametrize("entry", SERVICE, ids=named)
every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=named)


def proposed(policy: Policy, seen: Snapshot) -> Plan:
    return policy.propose(seen, seen.now_ns, DEADLINE_S)


@every_policy
def test_it_says_whether_it_plans_with_budgets_to_come(entry: registry.RegisteredPolicy) -> None:
    """A job that an announced lower budget cannot feed may start or not.

    A shorter job always starts.
    """
    policy = entry.service({})
    for time_s, may_start in ((1000, not entry.variant.looks_ahead), (100, True)):
        asked = job("a", 1, 1, time_s=time_s, unit=SizeUnit.NODES, kind=JobKind.RIGID)
        asked = replace(asked, spec=replace(asked.spec, cap_uw=45 * W))
        seen = snapshot([node("n0")], [asked], budget_w=100)
        falls = (BudgetAhead(500 * S, 27 * W),)
        plan = proposed(policy, replace(seen, ahead=falls))
        assert bool(plan.assignments) == may_start, plan


def dropped(plan: Plan, seen: Snapshot) -> list[str]:
    """Return running jobs that are missing in the plan or planned on other nodes."""
    kept = {a.job_id: {share.node_id for share in a.shares} for a in plan.assignments}
    return [
        view.job_id
        for view in seen.jobs
        if view.current is not None
        and kept.get(view.job_id) != {share.node_id for share in view.current.shares}
    ]


# ---- its description ---------------------------------------------------------------------------


def test_no_name_is_given_twice() -> None:
    names = [name for entry in ENTRIES for name in entry.variant.names]
    assert len(names) == len(set(names))
    tables = [family.name for family in registry.DESCRIPTIONS]
    assert len(tables) == len(set(tables))


@every_entry
def test_it_says_what_it_is_for_whom_and_from_where(entry: registry.RegisteredPolicy) -> None:
    family = entry.family
    assert all((entry.variant.title, family.title, family.audience, family.citation))
    for setting in family.settings:
        assert setting.help
        assert setting.parse(str(setting.default)) == setting.default


@every_policy
def test_it_goes_by_its_name(entry: registry.RegisteredPolicy) -> None:
    assert entry.service({}).name == entry.variant.name


@pytest.mark.parametrize(
    ("entry", "setting", "value"), SETTINGS, ids=lambda one: getattr(one, "key", None) or named(one)
)
def test_it_plans_at_the_ends_of_all_its_settings(
    entry: registry.RegisteredPolicy, setting: PolicySetting, value: Value
) -> None:
    policy = entry.service({setting.key: setting.kind(value)})
    if setting.default != value:
        assert policy != entry.service({}), "the setting makes no difference"
    seen = random_snapshot(7)
    assert faults(proposed(policy, seen), seen) == []
    with pytest.raises(SettingError):
        setting.parse("none" if setting.choices else str(setting.high + 1))


# ---- plans -------------------------------------------------------------------------------------


@every_policy
@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9))
def test_budget_capacity_and_least_sizes_are_kept(
    entry: registry.RegisteredPolicy, seed: int
) -> None:
    """On heterogeneous nodes, with running jobs, blocked cores and unreachable nodes."""
    seen = random_snapshot(seed)
    plan = proposed(entry.service({}), seen)
    assert faults(plan, seen) == []
    assert dropped(plan, seen) == []
    least = {view.job_id: view.spec.min_size for view in seen.jobs}
    assert all(a.size >= least[a.job_id] for a in plan.assignments)
    assert all(waiting.reason for waiting in plan.waiting)


@every_policy
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 10**9))
def test_the_same_snapshot_gives_the_same_plan(entry: registry.RegisteredPolicy, seed: int) -> None:
    seen = random_snapshot(seed)
    policy = entry.service({})
    first = proposed(policy, seen)
    sent = pickle.loads(pickle.dumps(policy))
    assert proposed(policy, seen) == first
    assert proposed(sent, pickle.loads(pickle.dumps(seen))) == first


@every_policy
def test_with_all_the_power_unlike_nodes_all_have_a_job(entry: registry.RegisteredPolicy) -> None:
    nodes = [node(f"s{i}", base_w=40, floor_w=75, max_w=300) for i in range(3)]
    nodes += [node(f"l{i}", base_w=40, floor_w=120, max_w=480) for i in range(3)]
    jobs = [job(f"j{i}", 1, 1, unit=SizeUnit.NODES, kind=JobKind.RIGID) for i in range(6)]
    seen = snapshot(nodes, jobs, budget_w=3 * 340 + 3 * 520)
    plan = proposed(entry.service({}), seen)
    assert faults(plan, seen) == []
    assert len(plan.assignments) == 6


@every_policy
@pytest.mark.parametrize(
    ("spread", "size", "nodes"),
    [(Spread.ANY, 5, 3), (Spread.ANY, 2, 1), (Spread.TOGETHER, 2, 1), (Spread.APART, 3, 3)],
)
def test_units_start_on_parts_of_nodes_as_they_are_spread(
    entry: registry.RegisteredPolicy, spread: Spread, size: int, nodes: int
) -> None:
    """A job on one core of each node leaves room for two units on each node."""
    machine = [node(f"n{i}", 5, memory=8, gpus=3) for i in range(3)]
    small = [
        job(f"s{i}", 1, 1, kind=JobKind.RIGID, current=held(f"s{i}", f"n{i}:0"), started_s=0)
        for i in range(3)
    ]
    units = job(
        "u",
        size,
        size,
        kind=JobKind.RIGID,
        unit=SizeUnit.UNITS,
        unit_cores=2,
        spread=spread,
        memory_bytes=3,
        gpus=1,
    )
    seen = snapshot(machine, [*small, units], now_s=1)
    plan = proposed(entry.service({}), seen)
    assert faults(plan, seen) == []
    given_to = {a.job_id: a for a in plan.assignments}
    assert set(given_to) == {"s0", "s1", "s2", "u"}
    assert len(given_to["u"].shares) == nodes


@every_policy
def test_units_wait_where_what_is_free_is_not_as_they_are_asked_for(
    entry: registry.RegisteredPolicy,
) -> None:
    machine = [node("n0", 5), node("n1", 5)]
    runs = job("r", 1, 1, kind=JobKind.RIGID, current=held("r", "n0:0"), started_s=0, time_s=50)
    for fields in (
        {"spread": Spread.TOGETHER, "size": 3},
        {"spread": Spread.APART, "size": 3},
        {"spread": Spread.ANY, "size": 5},
        {"spread": Spread.ANY, "size": 2, "unit_cores": 5},
    ):
        chosen: dict[str, Any] = {"unit_cores": 2, **fields}
        size = chosen.pop("size")
        units = job("u", size, size, kind=JobKind.RIGID, unit=SizeUnit.UNITS, **chosen)
        seen = snapshot(machine, [runs, units], now_s=1)
        plan = proposed(entry.service({}), seen)
        assert faults(plan, seen) == []
        assert [waiting.job_id for waiting in plan.waiting] == ["u"]


@every_policy
def test_jobs_that_run_go_on_where_no_node_is_in_reach(entry: registry.RegisteredPolicy) -> None:
    runs = job("a", current=held("a", "n0:0-1"), started_s=0, movable=False)
    plan = proposed(entry.service({}), snapshot([], [runs, job("b")], now_s=5))
    assert [a.job_id for a in plan.assignments] == ["a"]
    assert plan.assignments[0] == runs.current
    assert [w.job_id for w in plan.waiting] == ["b"]


# ---- a sequence of rounds ----------------------------------------------------------------------


class Course:
    """Rounds on two nodes in which jobs arrive, start as planned, and end when expected."""

    def __init__(self, jobs: list[JobView]) -> None:
        self.jobs = {view.job_id: view for view in jobs}
        self.ends_ns: dict[str, int] = {}
        self.started_ns: dict[str, int] = {}

    def at(self, now_ns: int) -> Snapshot:
        for job_id in [j for j, end in self.ends_ns.items() if end <= now_ns]:
            del self.ends_ns[job_id], self.jobs[job_id]
        seen = [view for view in self.jobs.values() if view.submitted_ns <= now_ns]
        made = snapshot([node("n0"), node("n1")], seen, budget_w=2 * 55)
        return replace(made, now_ns=now_ns)

    def take(self, plan: Plan, now_ns: int) -> None:
        for assignment in plan.assignments:
            view = self.jobs[assignment.job_id]
            if view.current is None:
                self.started_ns[view.job_id] = now_ns
                self.ends_ns[view.job_id] = now_ns + round(assignment.expected_total_s * S)
                view = replace(view, started_ns=now_ns)
            self.jobs[view.job_id] = replace(view, current=assignment)

    def start_ns(self, job_id: str, policy: Policy, until_s: int) -> int:
        """When a job starts if a policy plans every 10 s; very late if not until then."""
        for now_ns in range(0, until_s * S, 10 * S):
            if job_id in self.started_ns:
                break
            self.take(proposed(policy, self.at(now_ns)), now_ns)
        return self.started_ns.get(job_id, 10**18)


def stream(wide_at_s: int) -> list[JobView]:
    """An endless stream of small jobs and a job that needs both nodes."""
    small = [
        job(f"s{i}", 1, 1, unit=SizeUnit.NODES, kind=JobKind.RIGID, time_s=100, submitted_s=50 * i)
        for i in range(40)
    ]
    wide = job(
        "w", 2, 2, unit=SizeUnit.NODES, kind=JobKind.RIGID, time_s=150, submitted_s=wide_at_s
    )
    return [*small, wide]


@every_policy
def test_one_made_anew_each_round_plans_as_one_that_goes_on(
    entry: registry.RegisteredPolicy,
) -> None:
    course, policy = Course(stream(10)), entry.service({})
    for now_s in range(0, 1000, 25):
        seen = course.at(now_s * S)
        plan = proposed(policy, seen)
        assert proposed(entry.service({}), seen) == plan
        course.take(plan, now_s * S)
    assert course.started_ns


@pytest.mark.parametrize("entry", [e for e in SERVICE if e.variant.starves_nobody], ids=named)
def test_a_wide_job_starts_in_a_stream_of_small_ones(entry: registry.RegisteredPolicy) -> None:
    # No later than the end of the two jobs before it.
    assert Course(stream(10)).start_ns("w", entry.service({}), 2000) <= 200 * S


PATIENT = [
    entry
    for entry in SERVICE
    if entry.family.setting("patience") is not None and not entry.variant.starves_nobody
]


@pytest.mark.parametrize("entry", PATIENT, ids=named)
def test_nodes_are_held_for_a_wide_job_that_has_waited_too_long(
    entry: registry.RegisteredPolicy,
) -> None:
    """Without patience narrow jobs always overtake it, and with patience for 150 s."""
    starts_s = {}
    for patience in (1.0, 0.0):
        policy = entry.service({"patience": patience})
        starts_s[patience] = Course(stream(10)).start_ns("w", policy, 800) / S
    # After the end of the two jobs before it, which is 100 s later at most.
    assert 10 + 150 <= starts_s[1.0] <= 10 + 150 + 110
    assert starts_s[0.0] > 800, "there is no need to hold anything"


# ---- reservations ------------------------------------------------------------------------------


def with_reservations(seed: int) -> Snapshot:
    """A site with past, current and future reservations, and jobs with and without access."""
    rng, seen = random.Random(seed), random_snapshot(seed)
    names = [view.spec.node_id for view in seen.nodes]
    made = tuple(
        Reservation(
            name=f"r{number}",
            nodes=tuple(rng.sample(names, rng.randint(1, len(names)))),
            start_ns=(start_ns := max(seen.now_ns + rng.choice([-500, 0, 1, 60, 900]) * S, 0)),
            end_ns=max(start_ns + rng.choice([30, 600, 90_000]) * S, seen.now_ns + 1),
            queue=rng.choice(["", "blue"]),
            maintenance=rng.random() < 0.4,
        )
        for number in range(rng.randint(1, 3))
    )
    jobs = []
    for view in seen.jobs:
        limit_ns = rng.choice([0, 0, 20, 700, 100_000]) * S
        spec = replace(
            view.spec,
            queue=rng.choice(["", "blue"]),
            reservation=rng.choice(["", "", "", "r0", "gone"]),
            limit_ns=max(limit_ns, view.spec.time_ns) if limit_ns else 0,
        )
        jobs.append(replace(view, spec=spec))
    return replace(seen, reservations=made, jobs=tuple(jobs))


def trespasses(plan: Plan, seen: Snapshot) -> list[str]:
    """Return jobs that start on nodes they may not use until their expected ends."""
    views = {view.job_id: view for view in seen.jobs}
    found = []
    for assignment in plan.assignments:
        view = views[assignment.job_id]
        if view.current is not None:
            continue
        spec, nodes = view.spec, {share.node_id for share in assignment.shares}
        end_ns = seen.now_ns + (spec.limit_ns or round(assignment.expected_total_s * S))
        for one in seen.reservations:
            own = spec.reservation == one.name if spec.reservation else spec.queue == one.queue
            if nodes.isdisjoint(one.nodes) or (own and not one.maintenance and one.queue):
                continue
            if own and not one.maintenance and spec.reservation:
                continue
            if seen.now_ns < one.end_ns and one.start_ns < end_ns:
                found.append(f"{view.job_id} is on a node of {one.name}")
        inside = [
            one
            for one in seen.reservations
            if one.name == spec.reservation
            and nodes <= {*one.nodes}
            and one.start_ns <= seen.now_ns < one.end_ns
        ]
        if spec.reservation and not inside:
            found.append(f"{view.job_id} is outside {spec.reservation}")
    return found


@every_policy
@settings(max_examples=examples(80))
@given(seed=st.integers(0, 10**9))
def test_no_job_is_where_a_reservation_keeps_it_from(
    entry: registry.RegisteredPolicy, seed: int
) -> None:
    seen = with_reservations(seed)
    plan = proposed(entry.service({}), seen)
    assert faults(plan, seen) == []
    assert dropped(plan, seen) == []
    assert trespasses(plan, seen) == []


def reserved(now_s: float, *jobs: JobView, **fields: Any) -> Snapshot:
    """Two nodes, one of them reserved from 1000 s to 2000 s."""
    one = Reservation(
        name="r", nodes=(NodeId("n0"),), start_ns=1000 * S, end_ns=2000 * S, when="soon", **fields
    )
    nodes = [node("n0"), node("n1", blocked="0-3")]
    return replace(snapshot(nodes, list(jobs), now_s=now_s), reservations=(one,))


def alone(name: str, **fields: Any) -> JobView:
    return job(name, 1, 1, unit=SizeUnit.NODES, kind=JobKind.RIGID, **fields)


def limited(name: str, limit_s: float, **fields: Any) -> JobView:
    return alone(name, time_s=limit_s, limit_ns=round(limit_s * S), **fields)


@every_policy
def test_a_short_job_goes_before_the_window_and_a_long_one_after_it(
    entry: registry.RegisteredPolicy,
) -> None:
    policy = entry.service({})
    for fields in ({"maintenance": True}, {"users": ("ann",)}):
        assert proposed(policy, reserved(500, limited("j", 501), **fields)).assignments == ()
        assert len(proposed(policy, reserved(500, limited("j", 500), **fields)).assignments) == 1
        assert proposed(policy, reserved(1000, limited("j", 1), **fields)).assignments == ()
        (late,) = proposed(policy, reserved(2000, limited("j", 9999), **fields)).assignments
        assert late.job_id == "j"


@every_policy
def test_who_waits_for_a_window_is_told_so(entry: registry.RegisteredPolicy) -> None:
    seen = reserved(500, limited("j", 600), maintenance=True)
    (waiting,) = proposed(entry.service({}), seen).waiting
    assert waiting.reason == "node n0 is reserved for maintenance (r) soon"


@every_policy
def test_a_job_of_a_reservation_runs_in_it_and_nowhere_else(
    entry: registry.RegisteredPolicy,
) -> None:
    policy = entry.service({})
    named = limited("j", 1000, reservation="r")
    assert proposed(policy, reserved(999, named)).assignments == ()
    other = limited("o", 10)
    (given_to,) = proposed(policy, reserved(1000, other, named)).assignments
    assert given_to.job_id == "j"
    assert proposed(policy, reserved(2000, named)).assignments == ()
    (waiting,) = proposed(policy, snapshot([node("n0")], [named])).waiting
    assert waiting.reason == "reservation r is over or was cancelled"


@every_policy
def test_jobs_of_its_queue_need_not_name_it(entry: registry.RegisteredPolicy) -> None:
    policy = entry.service({})
    ours, others = limited("b", 10, queue="blue"), limited("o", 10)
    assert len(proposed(policy, reserved(1500, ours, queue="blue")).assignments) == 1
    assert proposed(policy, reserved(1500, others, queue="blue")).assignments == ()


# ---- the simulator -----------------------------------------------------------------------------

MACHINE = Machine.of_watts(16)
LIGHT: dict[str, Value] = {"evaluations": 4, "repair": "never", "jobs": 4}
"""Bounds of a search, for policies that have them: a pool run searches about a hundred times."""


def simulated(
    entry: registry.RegisteredPolicy, source: WorkloadSource, budget: BudgetSchedule
) -> RunRecord:
    light = tuple((key, value) for key, value in LIGHT.items() if entry.family.setting(key))
    case = SimulationCase(
        source=source,
        machine=MACHINE,
        budget=budget,
        policy=PolicyChoice(name=entry.variant.simulator_name, settings=light),
        seed=3,
    )
    record = execute(case).record
    assert record is not None
    return record


@every_entry
@pytest.mark.parametrize("profiles", [True, False], ids=["profiles", "logged"])
def test_a_pool_keeps_its_budget_and_ends_all_jobs(
    entry: registry.RegisteredPolicy, profiles: bool
) -> None:
    """The tests of result files (``unit/runs``) check that a second run is identical."""
    if entry.family.needs_profiles and not profiles:
        pytest.skip("it needs profiles")
    jobs = WorkloadSource(model="poisson", jobs=40, load=1.5, profiles=profiles, cut_sizes=True)
    budget = BudgetSchedule.constant((MACHINE.full_uw + MACHINE.idle_total_uw) // 2)
    first = simulated(entry, jobs, budget)
    assert (first.policy, first.over_budget_ns) == (entry.variant.simulator_name, 0)
    assert (first.series.committed_uw <= first.series.budget_uw).all()
    assert (first.series.nodes_busy <= MACHINE.nodes).all()
    assert (first.columns.end_ns > 0).all()
    assert (first.columns.first_size >= first.jobs.size_min).all()
    assert first.peak_committed_uw > MACHINE.idle_total_uw


@every_entry
def test_a_pool_under_a_budget_that_falls(entry: registry.RegisteredPolicy) -> None:
    steps = [(0, 100), (1800, 80), (5400, 100)]
    budget = BudgetSchedule(
        steps=tuple(
            BudgetStep(at_ns=at_s * S, budget_uw=MACHINE.full_uw * share // 100)
            for at_s, share in steps
        )
    )
    jobs = WorkloadSource(model="poisson", jobs=30, load=1.5, profiles=True, cut_sizes=True)
    record = simulated(entry, jobs, budget)
    assert (record.series.committed_uw <= record.series.budget_uw).all()
    assert (record.columns.end_ns > 0).all()
    assert record.peak_committed_uw > MACHINE.full_uw * 60 // 100, "power should be used"


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.variant.starves_nobody], ids=named)
def test_a_wide_job_starts_in_a_pool_full_of_smaller_ones(
    entry: registry.RegisteredPolicy, tmp_path: Path
) -> None:
    rows = [swf.job(i + 1, 50 * i, f4=100, f5=8, f8=8, f9=100) for i in range(40)]
    rows.insert(1, swf.job(99, 10, f4=150, f5=16, f8=16, f9=150))
    source = WorkloadSource(log=swf.log(tmp_path, *rows))
    record = simulated(entry, source, BudgetSchedule.constant(MACHINE.full_uw))
    assert record.jobs.size_max[1] == 16
    # No later than the end of the two jobs before it.
    assert record.columns.start_ns[1] <= 200 * S


def test_watts_of_the_stream_feed_both_nodes() -> None:
    """The sequence above tests the order, not power."""
    assert Course([]).at(0).spendable_uw == 2 * (45 - 16) * W
