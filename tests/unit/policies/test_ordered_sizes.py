"""Sizes ordered by users override the plan of every policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.policies import snapshots as snap
from unit.policies.snapshots import W, held, job, node, reasons, sizes, snapshot

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.model.plan import JobView, Plan
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.ordered_sizes import with_ordered_sizes

NODES = SizeUnit.NODES


def whole(name: str, size: int, *places: str, cap_w: float = 45, **fields: Any) -> JobView:
    """A job on whole nodes with an ordered size."""
    view = job(
        name,
        size,
        size,
        current=held(name, *places, cap_w=cap_w),
        unit=NODES,
        mode=ResizeMode.RESTART,
        **fields,
    )
    return replace(view, size_asked=size, nodes_may_change=view.movable)


def ordered(
    *views: JobView, starts: tuple[Assignment, ...] = (), nodes: int = 3, **fields: Any
) -> Plan:
    seen = snapshot([node(f"n{index}") for index in range(nodes)], list(views), **fields)
    kept = tuple(view.current for view in views if view.current is not None)
    plan = Plan(assignments=(*kept, *starts))
    return with_ordered_sizes(plan, replace(seen, jobs=()), views)


def test_it_gets_no_node_that_is_kept_for_others() -> None:
    kept = Reservation(name="r", nodes=(NodeId("n1"),), start_ns=0, end_ns=1 << 60)
    view = whole("a", 2, "n0")
    seen = replace(snapshot([node(f"n{at}") for at in range(3)], [view]), reservations=(kept,))
    assert view.current is not None
    plan = with_ordered_sizes(Plan(assignments=(view.current,)), replace(seen, jobs=()), [view])
    assert places(plan, "a") == ["n0", "n2"]
    seen = replace(seen, nodes=seen.nodes[:2])
    plan = with_ordered_sizes(Plan(assignments=(view.current,)), replace(seen, jobs=()), [view])
    assert reasons(plan) == {"a": "ordered size 2 nodes: too few are free"}


def places(plan: Plan, name: str) -> list[str]:
    (found,) = [one for one in plan.assignments if one.job_id == name]
    return [share.node_id for share in found.shares]


def test_a_plan_that_keeps_to_it_is_left_alone() -> None:
    view = whole("a", 2, "n0", "n1")
    plan = Plan(assignments=(view.current,))  # type: ignore[arg-type]
    assert with_ordered_sizes(plan, snapshot([node("n0")], []), [view]) is plan


def test_it_keeps_its_first_nodes_and_gets_free_ones() -> None:
    assert places(ordered(whole("a", 1, "n1", "n0")), "a") == ["n1"]
    assert places(ordered(whole("a", 3, "n1")), "a") == ["n1", "n0", "n2"]


def test_without_room_it_stays_and_says_why() -> None:
    other = job("b", 1, 1, current=held("b", "n1"), unit=NODES)
    plan = ordered(whole("a", 3, "n0"), other)
    assert sizes(plan) == {"b": 1}, "who is not named keeps what it has"
    assert reasons(plan) == {"a": "ordered size 3 nodes: too few are free"}


def test_what_is_given_up_by_one_is_taken_by_the_next() -> None:
    plan = ordered(whole("a", 1, "n0", "n1"), whole("b", 2, "n2"))
    assert (places(plan, "a"), places(plan, "b")) == (["n0"], ["n2", "n1"])


def test_it_comes_before_what_starts() -> None:
    waiting = [job(name, 1, 1, unit=NODES) for name in "bc"]
    starts = (held("b", "n1"), held("c", "n2"))
    plan = ordered(whole("a", 2, "n0"), *waiting, starts=starts)
    assert places(plan, "a") == ["n0", "n1"]
    assert sizes(plan) == {"a": 2, "c": 1}
    assert "that was resized with `wattfold resize`" in reasons(plan)["b"]


def test_the_level_is_what_the_power_left_feeds() -> None:
    # Base and floor of three nodes are 78 W. A node takes at most 29 W above its floor.
    plan = ordered(whole("a", 2, "n0"), budget_w=78 + 40)
    (given,) = plan.assignments
    assert given.cap_uw == 36 * W
    assert not reasons(plan)
    none = ordered(whole("a", 2, "n0", cap_w=30), budget_w=78)
    assert "0.00 W are available" in reasons(none)["a"]


def test_a_cap_of_its_own_is_not_lowered() -> None:
    plan = ordered(whole("a", 2, "n0", cap_uw=45 * W), budget_w=78 + 40)
    assert reasons(plan)["a"].startswith("ordered size 2 nodes: needs 58.00 W")


@pytest.mark.parametrize("movable", [True, False])
def test_a_job_on_cores_grows_in_place_or_goes_elsewhere(movable: bool) -> None:
    def view(mode: ResizeMode) -> JobView:
        one = job("a", 3, 3, current=held("a", "n0:0"), mode=mode, movable=movable)
        may_move = movable and mode is ResizeMode.RESTART
        return replace(one, size_asked=3, nodes_may_change=may_move)

    beside = job("b", 1, 1, current=held("b", "n0:2-3"))
    moved = ordered(view(ResizeMode.RESTART), beside)
    stuck = ordered(view(ResizeMode.MASK), beside)
    if movable:
        assert places(moved, "a") == ["n1"]
        assert places(ordered(view(ResizeMode.MASK)), "a") == ["n0"]
        assert "too few are free" in reasons(stuck)["a"]
    else:
        assert "do not answer" in reasons(moved)["a"]


def test_the_plan_stays_valid() -> None:
    views = [whole("a", 2, "n0"), job("b", 1, 1, unit=NODES)]
    seen = snapshot([node(f"n{index}") for index in range(3)], views, budget_w=150)
    plan = Plan(assignments=(held("a", "n0"), held("b", "n2")))
    plan = with_ordered_sizes(plan, seen, views)
    assert [fault for fault in snap.faults(plan, seen) if "moved" not in fault] == []
