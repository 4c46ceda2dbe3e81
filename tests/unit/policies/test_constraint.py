"""Policy constraint: started jobs, reported starts, and the objective of the plan."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from unit.policies.snapshots import (
    S,
    caps_w,
    faults,
    held,
    job,
    node,
    reasons,
    sizes,
    snapshot,
    starts_s,
)

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import BudgetAhead, JobView, Plan, Policy, Snapshot
from wattfold.coordinator.core.model.queue import Waits
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.backfill.promises import LAG_NS
from wattfold.coordinator.policies.constraint.policy import Constraint
from wattfold.coordinator.policies.constraint.search import PLANNED
from wattfold.coordinator.policies.constraint.settings import ListSettings
from wattfold.coordinator.policies.driver.rounds import Rounds
from wattfold.coordinator.solvers.lists.planner import PlannerEffort
from wattfold.coordinator.solvers.lists.problem import ObjectiveWeights

LAG = LAG_NS / S
RIGID: dict[str, Any] = {"kind": JobKind.RIGID}


def units(name: str, count: int, unit_cores: int, time_s: float = 100, **fields: Any) -> JobView:
    waits = fields.pop("waits", Waits())
    view = job(name, count, count, time_s=time_s, unit=SizeUnit.UNITS, **RIGID, **fields)
    return replace(view, spec=replace(view.spec, unit_cores=unit_cores), waits=waits)


def whole(name: str, nodes: int, time_s: float = 100, **fields: Any) -> JobView:
    return job(name, nodes, nodes, time_s=time_s, unit=SizeUnit.NODES, **RIGID, **fields)


def plan(seen: Snapshot, policy: Constraint | None = None) -> Plan:
    found = (policy or Constraint()).propose(seen, seen.now_ns, 1.0)
    assert faults(found, seen) == []
    return found


def started(found: Plan, seen: Snapshot) -> set[str]:
    had = {view.job_id for view in seen.jobs if view.current is not None}
    return {a.job_id for a in found.assignments} - had


def places(found: Plan, name: str) -> dict[str, int]:
    (given,) = (a for a in found.assignments if a.job_id == name)
    return {share.node_id: len(share.cpus) for share in given.shares}


def test_who_starts_now_does_and_all_others_are_told_when() -> None:
    runs = job("r", 4, 4, time_s=100, current=held("r", "n0:0-3"), started_s=0, **RIGID)
    waits = [whole("wide", 2, 50), units("small", 2, 2, 80), units("later", 4, 1, 500)]
    seen = snapshot([node("n0"), node("n1")], [runs, *waits])
    found = plan(seen)
    assert started(found, seen) == {"small"}
    assert starts_s(found) == {"wide": 100, "later": 150}
    assert reasons(found)["wide"] == PLANNED


def test_the_short_job_of_a_queue_that_waits_for_nothing_goes_first() -> None:
    """FIFO and shortest walltime first would both start the other job."""
    day, hour = Waits(86_400 * S, 86_400 * S), Waits(3600 * S, 3600 * S)
    long = units("a", 1, 4, 300, waits=day)
    urgent = units("b", 1, 4, 400, waits=hour, submitted_s=1)
    seen = snapshot([node("n0")], [long, urgent], now_s=2)
    assert started(plan(seen), seen) == {"b"}
    assert starts_s(plan(seen)) == {"a": 402}


def test_lateness_counts_beside_waiting() -> None:
    """By waiting times alone the two short jobs go first, and the long job is then late."""
    waits = Waits(1000 * S, 200 * S)
    jobs = [units("long", 1, 4, 210, waits=waits)]
    jobs += [units(f"s{i}", 1, 4, 100, waits=Waits(1000 * S, 0)) for i in range(2)]
    seen = snapshot([node("n0")], jobs, now_s=150)
    made = Constraint()
    lazy = replace(made, weights=replace(made.weights, lateness=0.0, late=0.0))
    strict = replace(made, weights=replace(made.weights, late=50.0))
    assert started(plan(seen, lazy), seen) < {"s0", "s1"}
    assert started(plan(seen, strict), seen) == {"long"}


@pytest.mark.parametrize(
    ("spread", "found"),
    [
        (Spread.ANY, {"n0": 4, "n1": 2}),
        (Spread.APART, {"n0": 2, "n1": 2, "n2": 2}),
        (Spread.TOGETHER, {"n2": 6}),
    ],
)
def test_units_go_where_they_may(spread: Spread, found: dict[str, int]) -> None:
    view = units("j", 3, 2)
    view = replace(view, spec=replace(view.spec, spread=spread))
    seen = snapshot([node("n0"), node("n1"), node("n2", 8, max_w=90)], [view])
    assert places(plan(seen), "j") == found or spread is Spread.ANY
    assert sum(places(plan(seen), "j").values()) == 6


def test_memory_and_gpus_of_every_unit_are_had() -> None:
    asks = {"memory_bytes": 4, "gpus": 1}
    nodes = [node("n0", 16, memory=8, gpus=3), node("n1", 16, memory=16, gpus=1)]
    seen = snapshot(nodes, [units("j", 3, 1, **asks), units("k", 1, 1, **asks)])
    found = plan(seen)
    assert len(started(found, seen)) == 1
    assert len(starts_s(found)) == 1


def test_who_needs_no_gpu_leaves_them_to_who_does() -> None:
    nodes = [node("gpu", gpus=1), node("plain")]
    seen = snapshot(nodes, [units("plain", 1, 4, 10), units("asks", 1, 4, 100, gpus=1)])
    assert places(plan(seen), "plain") == {"plain": 4}
    assert places(plan(seen), "asks") == {"gpu": 4}


def test_an_exclusive_job_of_units_has_its_nodes_alone() -> None:
    view = units("a", 3, 1, exclusive=True)
    seen = snapshot([node("n0"), node("n1")], [view, units("b", 1, 1), units("c", 3, 1, 50)])
    found = plan(seen)
    assert started(found, seen) == {"a", "b", "c"}
    (given,) = (a for a in found.assignments if a.job_id == "a")
    own = {share.node_id for share in given.shares}
    others = [a for a in found.assignments if a.job_id != "a"]
    assert not own & {share.node_id for a in others for share in a.shares}


def test_power_that_is_short_is_shared_by_lower_caps() -> None:
    """At full power one job runs at a time; at lower caps both run, and the waits are shorter."""
    nodes = [node("n0"), node("n1")]
    seen = snapshot(nodes, [whole("a", 1, 1000), whole("b", 1, 1000)], budget_w=52 + 36)
    assert sizes(plan(seen)) == {"a": 1, "b": 1}
    levels_w = list(caps_w(plan(seen)).values())
    assert all(16 < cap_w < 45 for cap_w in levels_w)
    one_cap = Constraint(ListSettings(caps=1))
    assert len(started(plan(seen, one_cap), seen)) == 1


def predicted(view: JobView, watts: float) -> JobView:
    return replace(view, spec=replace(view.spec, predicted_uw=round(watts * 1e6)))


def test_a_job_has_no_higher_cap_than_it_is_predicted_to_need() -> None:
    """A node draws at most 29 W above its floor of 16 W.

    The budget allows one such node and 13 W.
    """
    nodes = [node("n0"), node("n1")]
    jobs = [whole("a", 1, 1000), whole("b", 1, 1000)]
    one_cap = Constraint(ListSettings(caps=1))
    seen = snapshot(nodes, jobs, budget_w=52 + 42)
    assert len(started(plan(seen, one_cap), seen)) == 1
    modest = [jobs[0], predicted(jobs[1], 10)]
    seen = snapshot(nodes, modest, budget_w=52 + 42)
    # In sixteenths of the range: 7 sixteenths are above 11 W, 6 are above 10 W.
    assert caps_w(plan(seen, one_cap)) == {"a": 45, "b": 16 + 29 * 7 / 16}
    tight = Constraint(ListSettings(caps=1, power_margin=0.0))
    assert caps_w(plan(seen, tight)) == {"a": 45, "b": 16 + 29 * 6 / 16}
    # The job is expected to lose no time, and no job gets more than the maximum.
    assert {a.expected_total_s for a in plan(seen, one_cap).assignments} == {1000.0}
    greedy = snapshot(nodes, [predicted(jobs[0], 1000)], budget_w=52 + 42)
    assert caps_w(plan(greedy, one_cap)) == {"a": 45}


def test_units_share_what_is_predicted_of_the_job() -> None:
    """Three units of two cores draw 9 W, as much as half a node each that draws 6 W in all.

    The budget could never feed them at full power.
    """
    asks = predicted(units("a", 3, 2), 9)
    seen = snapshot([node("n0"), node("n1")], [asks], budget_w=52 + 40)
    tight = Constraint(ListSettings(caps=1, power_margin=0.0))
    assert caps_w(plan(seen, tight)) == {"a": 16 + 29 * 4 / 16}
    blind = plan(replace(seen, jobs=(units("a", 3, 2),)), tight)
    assert [one.never for one in blind.waiting] == [True]


def test_a_budget_that_is_announced_is_planned_with() -> None:
    """In 15 minutes the budget feeds only one node, so a longer job does not start on the other
    node.
    """
    nodes, jobs = [node("n0"), node("n1")], [whole("a", 1, 1000), whole("b", 1, 3000)]
    one_cap = Constraint(ListSettings(caps=1))
    seen = snapshot(nodes, [*jobs, whole("c", 1, 4000)], budget_w=52 + 60)
    assert sizes(plan(seen, one_cap)) == {"a": 1, "b": 1}
    falls = replace(seen, ahead=(BudgetAhead(900 * S, seen.budget_uw - 30 * 10**6),))
    found = plan(falls, one_cap)
    assert len(sizes(found)) == 1
    rises = BudgetAhead(2000 * S, seen.budget_uw)
    found = plan(replace(falls, ahead=(*falls.ahead, rises)), one_cap)
    assert len(sizes(found)) == 1
    # The start is planned for the rise of the budget, not for the end of the first job.
    assert 2000 in starts_s(found).values()


def test_who_runs_on_is_planned_around_and_jobs_on_their_way_out_are_nearly_gone() -> None:
    late = job("r", 4, 4, time_s=100, current=held("r", "n0:0-3"), started_s=0, **RIGID)
    seen = snapshot([node("n0")], [late, units("j", 1, 4)], now_s=110)
    (told,) = starts_s(plan(seen)).values()
    assert told == pytest.approx(110.0, abs=1e-6)
    leaving = Share(node_id=NodeId("n0"), cpus=CpuSet.parse("0-3"))
    gone = replace(node("n0", blocked="0-3"), leaving=(leaving,))
    seen = snapshot([gone], [units("j", 1, 4)], now_s=110)
    assert starts_s(plan(seen)) == {"j": 110 + LAG}


def test_a_window_is_planned_around() -> None:
    window = Reservation(
        name="w", nodes=(NodeId("n0"),), start_ns=50 * S, end_ns=200 * S, maintenance=True
    )
    seen = snapshot([node("n0")], [units("short", 1, 2, 50), units("long", 1, 2, 51)])
    found = plan(replace(seen, reservations=(window,)))
    assert sizes(found) == {"short": 1}
    assert starts_s(found) == {"long": 200}


def test_predictions_count_for_the_plan_or_only_for_the_order() -> None:
    """A job predicted to be short goes first.

    A setting decides whether planned starts use this too.
    """
    short = replace(units("a", 1, 4, 1000, submitted_s=1), planned_ns=10 * S)
    seen = snapshot([node("n0")], [units("b", 1, 4, 500), short], now_s=1)
    assert starts_s(plan(seen)) == {"b": 11}
    by_order = Constraint(ListSettings(ratios="order"))
    assert plan(seen, by_order).assignments[0].job_id in ("a", "b")


def test_the_plan_says_how_it_was_found() -> None:
    seen = snapshot([node("n0")], [units("a", 1, 4), units("b", 1, 4)])
    found = plan(seen)
    assert found.solver in ("list", "order-search")
    assert found.objective == pytest.approx(100 / 86_400)


def test_the_order_of_a_search_is_gone_on_from() -> None:
    """The search keeps its order between two rounds, and forgets it when the jobs are gone."""
    rounds = Rounds(Constraint().scheduler())
    jobs = [units(f"j{i}", 1 + i % 3, 1 + i % 2, 50 + 37 * (i % 5)) for i in range(12)]
    first = snapshot([node("n0"), node("n1", 8, max_w=80)], jobs)
    rounds.tell(first, first.jobs, ())
    before = rounds.plan(0)
    assert faults(before, first) == []
    # A checkpointed run resumes with this state.
    rounds = pickle.loads(pickle.dumps(rounds))
    second = replace(first, now_ns=S)
    rounds.tell(second, (), [view.job_id for view in jobs[:6]])
    again = rounds.plan(S)
    assert {w.job_id for w in again.waiting} <= {view.job_id for view in jobs[6:]}


def test_it_falls_back_on_lists_without_search_and_then_on_plain_rules() -> None:
    seen = snapshot([node("n0")], [units("a", 1, 4), units("b", 1, 4)])
    policy: Policy | None = Constraint()
    names = []
    while policy is not None:
        found = policy.propose(seen, seen.now_ns, 1.0)
        assert faults(found, seen) == []
        assert sizes(found) == {"a": 1}
        names.append((policy.name, found.solver))
        policy = policy.fallback()
    assert names[1:3] == [("constraint", "list"), ("pbs-walltime", "none")]
    assert names[3:] == [("pbs-fifo", "none"), ("in-turn", "none")]


def test_power_is_planned_for_as_the_applier_charges_it() -> None:
    """Charges of a share, and of two shares on a node, are rounded down: plans round up."""
    nodes, jobs = [node("n0", 3), node("n1")], [units(f"j{i}", 1, 1) for i in range(4)]
    for budget_w in range(52, 112, 7):
        seen = snapshot(nodes, jobs, budget_w=budget_w)
        assert plan(seen, Constraint(ListSettings(caps=1))).assignments or budget_w < 62
    full = snapshot(nodes[:1], jobs, budget_w=10 + 45)
    assert len(started(plan(full), full)) == 3


def test_settings_have_the_defaults_of_what_they_are_for() -> None:
    entry = registry.find("constraint")
    assert entry is not None
    made = entry.service({})
    assert isinstance(made, Constraint)
    assert (made.settings, made.weights) == (ListSettings(), ObjectiveWeights())
    said, own = made.effort, PlannerEffort()
    assert (said.depth, said.evaluations, said.seed) == (own.depth, own.evaluations, own.seed)
