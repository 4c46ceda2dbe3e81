"""EASY with one cap: hand-computed levels, heterogeneous nodes, cap updates, longer run times."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.policies.snapshots import S, W, caps_w, faults, held, job, node, sizes, snapshot

from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, NodeView, Plan, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform, uniform_uw
from wattfold.coordinator.policies.fifo.policy import FifoEasy

UNIFORM = EasyUniform()


def four() -> list[NodeView]:
    """Four nodes, each at 26 W idle and at 55 W at full power."""
    return [node(f"n{i}", base_w=10, floor_w=16, max_w=45) for i in range(4)]


def ones(count: int) -> list[JobView]:
    return [
        job(f"j{i}", 1, 1, unit=SizeUnit.NODES, kind=JobKind.RIGID, submitted_s=i, time_s=100)
        for i in range(count)
    ]


def plan(seen: Snapshot, policy: EasyUniform | FifoEasy = UNIFORM) -> Plan:
    out = policy.propose(seen, seen.now_ns, 1.0)
    assert faults(out, seen) == []
    return out


def test_all_nodes_are_fed_where_full_power_feeds_one() -> None:
    """40 W above the idle 104 W are 10 W per node: 26 W each. Full power takes 29 W more."""
    seen = snapshot(four(), ones(4), budget_w=4 * 26 + 40)
    assert caps_w(plan(seen)) == {"j0": 26, "j1": 26, "j2": 26, "j3": 26}
    assert caps_w(plan(seen, FifoEasy())) == {"j0": 45}


def test_the_cap_does_not_depend_on_who_runs() -> None:
    """Idle nodes count with their charge, and the power they could take stays reserved for them."""
    assert caps_w(plan(snapshot(four(), ones(1), budget_w=144))) == {"j0": 26}


def test_a_cap_is_a_multiple_of_an_eighth_of_a_watt() -> None:
    seen = snapshot(four(), ones(4), budget_w=104 + 40.9)
    assert uniform_uw(seen) == 26_125_000
    assert caps_w(plan(seen))["j0"] == 26.125


@pytest.mark.parametrize(("budget_w", "cap_w"), [(104, 16), (104 + 4 * 29, 45), (1000, 45)])
def test_the_cap_is_within_what_nodes_take(budget_w: float, cap_w: float) -> None:
    seen = snapshot(four(), ones(4), budget_w=budget_w)
    assert set(caps_w(plan(seen)).values()) == {cap_w}
    assert len(sizes(plan(seen))) == 4


def test_a_budget_below_the_floors_is_no_cap_below_them() -> None:
    seen = snapshot(four(), ones(4), budget_w=90)
    assert uniform_uw(seen) == 16 * W


def unlike() -> list[NodeView]:
    """Two nodes of 75..300 W and two nodes of 120..480 W."""
    small = [node(f"s{i}", base_w=0, floor_w=75, max_w=300) for i in range(2)]
    return [*small, *(node(f"l{i}", base_w=0, floor_w=120, max_w=480) for i in range(2))]


@pytest.mark.parametrize(
    ("above_w", "level_w", "small_w", "large_w"),
    [
        (210, 150, 150, 150),  # 2 * 75 + 2 * 30
        (60, 105, 105, 120),  # 2 * 30: the floors of the large nodes are above that
        (850, 320, 300, 320),  # 2 * 225, the maximum of the small nodes, + 2 * 200
        (1170, 480, 300, 480),
    ],
)
def test_unlike_nodes_have_one_cap_clipped_to_what_they_take(
    above_w: float, level_w: float, small_w: float, large_w: float
) -> None:
    seen = snapshot(unlike(), ones(4), budget_w=390 + above_w)
    assert uniform_uw(seen) == level_w * W
    out = plan(seen)
    on = {a.shares[0].node_id: a.cap_uw / W for a in out.assignments}
    assert on == {"s0": small_w, "s1": small_w, "l0": large_w, "l1": large_w}


def running(cap_w: float, **fields: object) -> JobView:
    first = replace(ones(1)[0], current=held("j0", "n0", cap_w=cap_w), started_ns=0)
    return replace(first, **fields)


def test_jobs_that_run_follow_the_cap() -> None:
    later = ones(3)[1:]
    for budget_w, cap_w in ((144, 26), (104 + 4 * 20, 36)):
        seen = snapshot(four(), [running(40), *later], budget_w=budget_w, now_s=10)
        assert caps_w(plan(seen)) == {"j0": cap_w, "j1": cap_w, "j2": cap_w}


def test_one_that_has_the_cap_is_left_as_it_is() -> None:
    view = running(26)
    seen = snapshot(four(), [view], budget_w=144, now_s=10)
    assert plan(seen).assignments == (view.current,)


def test_a_node_that_does_not_answer_keeps_its_watts_and_leaves_the_rest() -> None:
    """It holds 24 W of the 45 W above idle; 21 W are 7 W for each of the other three nodes."""
    seen = snapshot(four(), [running(40, movable=False), *ones(4)[1:]], budget_w=104 + 45, now_s=10)
    out = plan(seen)
    assert caps_w(out) == {"j0": 40, "j1": 23, "j2": 23, "j3": 23}
    assert out.revisit_ns == 15 * S, "it is to follow when it can"
    assert plan(replace(seen, jobs=seen.jobs[1:])).revisit_ns == 0


def test_a_job_may_have_a_cap_of_its_own() -> None:
    asked = replace(ones(1)[0], spec=replace(ones(1)[0].spec, cap_uw=20 * W))
    assert caps_w(plan(snapshot(four(), [asked], budget_w=144))) == {"j0": 20}


def test_a_lower_cap_takes_longer_and_is_expected_to() -> None:
    """The estimate of 100 s is for full power."""
    fast, slow = (
        plan(snapshot(four(), ones(1), budget_w=w)).assignments[0].expected_total_s
        for w in (1000, 144)
    )
    assert fast == pytest.approx(100)
    assert slow > 110


def test_the_queue_is_easy() -> None:
    """The wide job waits for both.

    A job passes it if it ends before the planned start, else it waits.
    """
    nodes = four()[:2]
    runs = replace(ones(1)[0], current=held("j0", "n0", cap_w=45), started_ns=0)
    wide = job("w", 2, 2, unit=SizeUnit.NODES, time_s=50, submitted_s=1)
    short = job("s", 1, 1, unit=SizeUnit.NODES, time_s=80, submitted_s=2)
    long = job("l", 1, 1, unit=SizeUnit.NODES, time_s=500, submitted_s=3)
    seen = snapshot(nodes, [runs, wide, long, short], now_s=10)
    assert set(sizes(plan(seen))) == {"j0", "s"}


def test_cores_of_a_node_are_at_the_cap_too() -> None:
    """A node of 4 cores at 26 W: 10 W above its floor, half of them for two cores."""
    seen = snapshot(four()[:1], [job("a", 2, 2), job("b", 2, 2)], budget_w=26 + 10)
    out = plan(seen)
    assert caps_w(out) == {"a": 26, "b": 26}


def test_a_high_floor_of_one_node_raises_no_other() -> None:
    """At a level of 16 W a node with a floor of 30 W stays there; the other node gets 16 W."""
    nodes = [node("a", base_w=0, floor_w=9), node("b", base_w=0, floor_w=30)]
    wide = job("w", 2, 2, unit=SizeUnit.NODES)
    for view in (wide, replace(wide, current=held("w", "a", "b", cap_w=20), started_ns=0)):
        seen = snapshot(nodes, [view], budget_w=39 + (11 if view.current else 7), now_s=10)
        assert caps_w(plan(seen)) == {"w": 20 if view.current else 16}
