"""The order of placement on heterogeneous nodes, in exact examples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.policies.snapshots import W, faults, held, job, node, sizes, snapshot

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.node import Curve, NodeSpec
from wattfold.coordinator.core.model.plan import NodeView, Plan, Policy, Snapshot
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.resources.estimates import estimate, node_curve, run_time_s
from wattfold.coordinator.policies.resources.room import Room

NODES = SizeUnit.NODES
SLOW = Curve(a=1.5, b=4.0, c=8.0, f_low_ghz=1.2, f_high_ghz=2.0)
FAST = Curve(a=1.5, b=4.0, c=8.0, f_low_ghz=1.2, f_high_ghz=3.0)


def found(shares: tuple[Share, ...] | None) -> list[str]:
    return [f"{share.node_id}:{share.cpus}" for share in shares or ()]


def where(plan: Plan) -> dict[str, list[str]]:
    return {a.job_id: [s.node_id for s in a.shares] for a in plan.assignments}


def planned(policy: Policy, seen: Snapshot) -> Plan:
    plan = policy.propose(seen, seen.now_ns, 10.0)
    assert faults(plan, seen) == []
    return plan


def with_curve(view: NodeView, curve: Curve) -> NodeView:
    spec = view.spec
    other = NodeSpec(
        node_id=spec.node_id,
        cpus=spec.cpus,
        zones=spec.zones,
        base_power_uw=spec.base_power_uw,
        curve=curve,
    )
    return NodeView(spec=other, fixed_uw=view.fixed_uw)


# One node: the fullest node that fits, then the first.


def test_of_the_nodes_with_room_the_one_filled_best_is_taken() -> None:
    room = Room([node("n0", 8), node("n1", 2), node("n2", 6), node("n3", 4)], 0)
    assert found(room.find(job("a").spec, 3)) == ["n3:0-2"]
    assert found(room.find(job("a").spec, 4)) == ["n3:0-3"], "exactly full is room"
    assert found(room.find(job("a").spec, 5)) == ["n2:0-4"]
    assert found(room.find(job("a").spec, 9)) == []


def test_of_nodes_filled_as_well_the_first_is_taken() -> None:
    room = Room([node("n2", 4), node("n0", 4), node("n1", 4)], 0)
    assert found(room.find(job("a").spec, 3)) == ["n2:0-2"]


def test_what_is_taken_counts_and_not_how_large_a_node_is() -> None:
    room = Room([node("n0", 8), node("n1", 4)], 0)
    room.take(held("r", "n0:0-4").shares, 0)
    assert found(room.find(job("a").spec, 3)) == ["n0:5-7"]


def test_an_exclusive_job_takes_the_best_filled_of_the_empty_nodes() -> None:
    spec = job("a", exclusive=True).spec
    room = Room([node("n0", 8), node("n1", 4), node("n2", 3)], 0)
    room.take(held("r", "n2:0").shares, 0)
    assert found(room.find(spec, 2)) == ["n1:0-1"]


def test_whole_nodes_are_the_first_empty_ones_in_their_order() -> None:
    room = Room([node("n3"), node("n1"), node("n0"), node("n2")], 0)
    room.take(held("r", "n1:0").shares, 0)
    spec = job("a", unit=NODES).spec
    assert found(room.find(spec, 2)) == ["n3:0-3", "n0:0-3"]
    assert found(room.find(spec, 3)) == ["n3:0-3", "n0:0-3", "n2:0-3"]
    assert found(room.find(spec, 4)) == []


def test_only_the_nodes_named_are_looked_at() -> None:
    room = Room([node("n0"), node("n1"), node("n2")], 0)
    few = [NodeId("n2"), NodeId("n1")]
    assert found(room.find(job("a").spec, 4, few)) == ["n2:0-3"]
    assert found(room.find(job("a", unit=NODES).spec, 2, few)) == ["n2:0-3", "n1:0-3"]


# Power: the first choice if the budget feeds it, else a node that needs less.


def frugal_machine() -> list[NodeView]:
    """At 60 W the nodes take 44, 14 and 24 W above their floors."""
    return [node("n0", max_w=60), node("n1", max_w=30), node("n2", max_w=40)]


@pytest.mark.parametrize(
    ("power_w", "place"), [(44, "n0"), (43, "n2"), (24, "n2"), (23, "n1"), (14, "n1"), (13, "")]
)
def test_cores_go_to_the_first_node_that_is_fed(power_w: int, place: str) -> None:
    nodes = [node("n0", max_w=60), node("n2", max_w=40), node("n1", max_w=30)]
    room = Room(nodes, power_w * W)
    shares = room.find_fed(job("a").spec, 4, 60 * W)
    assert [share.node_id for share in shares or ()] == [place][: bool(place)]


@pytest.mark.parametrize(
    ("power_w", "places"),
    [(44 + 14, ["n0", "n1"]), (57, ["n1", "n2"]), (38, ["n1", "n2"]), (37, [])],
)
def test_whole_nodes_are_those_that_take_least_where_the_first_take_too_much(
    power_w: int, places: list[str]
) -> None:
    room = Room(frugal_machine(), power_w * W)
    shares = room.find_fed(job("a", unit=NODES).spec, 2, 60 * W)
    assert [share.node_id for share in shares or ()] == places


# PARM: whole nodes before cores, large before small.


def test_whole_nodes_are_placed_before_cores_and_large_jobs_before_small() -> None:
    jobs = [
        job("one", 1, 1, kind=JobKind.RIGID),
        job("three", 3, 3, kind=JobKind.RIGID),
        job("node", 1, 1, unit=NODES, kind=JobKind.RIGID),
    ]
    plan = planned(Parm(), snapshot([node("n0"), node("n1")], jobs))
    assert where(plan) == {"node": ["n0"], "three": ["n1"], "one": ["n1"]}
    assert [a.job_id for a in plan.assignments] == ["node", "three", "one"]


def test_a_job_goes_to_nodes_of_the_kind_that_was_chosen_for_it() -> None:
    """The program gains from power up to 52 W, which one node of three takes."""
    profile = replace(APPLICATIONS["LeanMD"], app="app")
    for large_at in range(3):
        nodes = [node(f"n{i}", max_w=60 if i == large_at else 40) for i in range(3)]
        jobs = [job("a", 1, 1, unit=NODES, kind=JobKind.RIGID, profile=profile)]
        plan = planned(Parm(ParmSettings(gap=0.0)), snapshot(nodes, jobs))
        assert where(plan) == {"a": [f"n{large_at}"]}
        assert plan.assignments[0].cap_uw == 52 * W


@pytest.mark.parametrize(("policy", "level_w"), [(FifoEasy(), 60), (Parm(), 30)])
def test_a_job_larger_than_any_kind_gets_unlike_nodes_at_one_level(
    policy: Policy, level_w: int
) -> None:
    """The slowest node sets the time, so PARM gives the others no more than it can take."""
    nodes = [node("s0", max_w=30), node("s1", max_w=30), node("l0", max_w=60), node("l1", max_w=60)]
    jobs = [job("a", 3, 3, unit=NODES, kind=JobKind.RIGID)]
    plan = planned(policy, snapshot(nodes, jobs))
    (one,) = plan.assignments
    kinds = {share.node_id[0] for share in one.shares}
    assert (one.size, kinds) == (3, {"s", "l"})
    assert one.cap_uw == level_w * W
    seen = {view.spec.node_id: view.spec.kind for view in nodes}
    expected_s = run_time_s(jobs[0], [seen[s.node_id] for s in one.shares], 3, one.cap_uw)
    assert one.expected_total_s == pytest.approx(expected_s)


@pytest.mark.parametrize("policy", [FifoEasy(), Parm()], ids=lambda p: p.name)
def test_a_job_beside_others_fills_up_from_another_kind(policy: Policy) -> None:
    """Two large nodes and one small node are empty: three nodes for a job of three."""
    nodes = [node("s0", max_w=30), node("s1", max_w=30), node("l0", max_w=60), node("l1", max_w=60)]
    busy = job("r", 1, 1, unit=NODES, current=held("r", "s0", cap_w=30), started_s=0, time_s=100)
    waits = job("a", 3, 3, unit=NODES, kind=JobKind.RIGID)
    plan = planned(policy, snapshot(nodes, [busy, waits]))
    assert sorted(where(plan)["a"]) == ["l0", "l1", "s1"]


# The first of several heterogeneous nodes determines nothing.


def turned(nodes: list[NodeView]) -> list[list[NodeView]]:
    return [nodes[i:] + nodes[:i] for i in range(len(nodes))]


@pytest.mark.parametrize("policy", [FifoEasy(), Parm()], ids=lambda p: p.name)
def test_the_order_of_unlike_nodes_does_not_change_what_runs(policy: Policy) -> None:
    nodes = [node("a", 2, max_w=30), node("b", 8, floor_w=30, max_w=90), node("c", 4)]
    jobs = [job(f"j{i}", 1, 1, unit=NODES, kind=JobKind.RIGID) for i in range(3)]
    powers = set()
    for order in turned(nodes):
        plan = planned(policy, snapshot(order, jobs))
        assert len(plan.assignments) == 3
        powers.add(frozenset((a.shares[0].node_id, a.cap_uw) for a in plan.assignments))
    assert len(powers) == 1


def test_whole_nodes_are_counted_only_where_all_are_alike() -> None:
    """One of four nodes takes more: a count by the first node would starve jobs or exceed the
    budget.
    """
    for large_at in range(4):
        nodes = [node(f"n{i}", max_w=60 if i == large_at else 30) for i in range(4)]
        fixed_uw = sum(view.fixed_uw for view in nodes)
        budget_w = (fixed_uw + (44 + 3 * 14) * W) / W
        jobs = [job(f"j{i}", 1, 1, unit=NODES, time_s=10) for i in range(4)]
        plan = planned(FifoEasy(), snapshot(nodes, jobs, budget_w=budget_w))
        assert len(plan.assignments) == 4


def test_the_level_is_that_of_the_nodes_a_job_got() -> None:
    nodes = [node("s0", max_w=30), node("l0", max_w=60)]
    jobs = [job(f"j{i}", 1, 1, unit=NODES, time_s=10) for i in range(2)]
    plan = planned(FifoEasy(), snapshot(nodes, jobs))
    assert [(a.shares[0].node_id, a.cap_uw) for a in plan.assignments] == [
        ("s0", 30 * W),
        ("l0", 60 * W),
    ]


@pytest.mark.parametrize("policy", [FifoEasy(), Parm(ParmSettings(levels=1))], ids=lambda p: p.name)
def test_run_times_come_from_the_curve_of_the_node_a_job_got(policy: Policy) -> None:
    """At 20 W the slow node is closer to its full speed than the fast node."""
    plain = job("a", 1, 1, unit=NODES, kind=JobKind.RIGID, cap_uw=20 * W)
    for first, second in ((SLOW, FAST), (FAST, SLOW)):
        nodes = [with_curve(node("n0"), first), with_curve(node("n1"), second)]
        busy = job("r", 1, 1, unit=NODES, current=held("r", "n0"), started_s=0, movable=False)
        plan = planned(policy, snapshot(nodes, [busy, plain]))
        one = next(a for a in plan.assignments if a.job_id == "a")
        profile = estimate(plain, nodes[1].spec.kind).profile
        assert profile.curve == node_curve(nodes[1].spec)
        assert one.expected_total_s == pytest.approx(profile.time_s(1, 20))


def test_the_slowest_node_sets_the_time_whatever_the_order() -> None:
    view = job("a", 2, 2, unit=NODES)
    kinds = [with_curve(node("n0"), SLOW).spec.kind, with_curve(node("n1"), FAST).spec.kind]
    each = [run_time_s(view, [kind], 2, 20 * W) for kind in kinds]
    assert each[0] < each[1]
    assert run_time_s(view, kinds, 2, 20 * W) == each[1]
    assert run_time_s(view, kinds[::-1], 2, 20 * W) == each[1]


def test_a_level_above_a_node_is_as_slow_as_its_greatest() -> None:
    view = job("a", 1, 1, unit=NODES)
    small = node("n0", max_w=20).spec.kind
    assert run_time_s(view, [small], 1, 60 * W) == run_time_s(view, [small], 1, 20 * W)
    assert run_time_s(view, [small], 1, 60 * W) < run_time_s(view, [small], 1, 19 * W)


@pytest.mark.parametrize(
    ("place", "sizes_there", "most_w"), [("n0:0-1", {1, 2}, 30), ("n1:0-1", set(range(1, 9)), 44)]
)
def test_a_running_job_is_offered_what_its_own_node_can_take(
    place: str, sizes_there: set[int], most_w: int
) -> None:
    """Beyond 44.8 W, the top of their curve, no node is faster."""
    nodes = [node("n0", 2, max_w=30), node("n1", 8, max_w=90)]
    current = held("a", place, cap_w=20)
    seen = snapshot(nodes, [job("a", 1, 8, current=current, started_s=0)])
    (menu,) = Parm().menus(seen, 0)
    assert {option.size for option in menu.options} == sizes_there
    assert max(option.cap_uw for option in menu.options) // W == most_w
    assert sizes(planned(Parm(), seen)) == {"a": max(sizes_there)}
