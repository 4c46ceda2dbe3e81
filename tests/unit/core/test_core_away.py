"""Snapshots for policies with nodes that are temporarily unreachable."""

from __future__ import annotations

import pytest
from unit.core.stage import BASE_W, FLOOR_W, Stage, W

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.node import NodeState


def test_a_silent_node_is_away_with_what_its_jobs_hold_until_its_lease_is_over() -> None:
    stage = Stage(200)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-1", cap_w=40)
    stage.submit("b")
    seen = stage.core.snapshot(stage.now_ns)
    assert (seen.away, seen.away_uw, seen.away_held_uw) == ((), 0, 0)
    stage.silent("n0")
    seen = stage.core.snapshot(stage.now_ns)
    assert [view.spec.node_id for view in seen.nodes] == ["n1"]
    (away,) = seen.away
    # Half of the 30 W above the floor belongs to the job; nothing is free until the node is back.
    assert (seen.away_uw, seen.away_held_uw) == (35_000_000, 15_000_000)
    assert away.fixed_uw == 20_000_000
    assert seen.reserved_uw == seen.away_uw
    assert str(away.blocked) == "2-3"
    assert [str(share.cpus) for share in away.leaving] == ["2-3"]
    stage.after(60)
    assert stage.core.snapshot(stage.now_ns).away == ()


def test_what_stays_held_on_a_silent_node_is_not_free_when_it_is_back() -> None:
    stage = Stage(200)
    stage.up("n0")
    stage.run_job("a", "n0:0-1")
    stage.submit("b")
    stage.send(ev.JobSuspendRequested(job_id="a"))
    stage.silent("n0")
    (away,) = stage.core.snapshot(stage.now_ns).away
    assert str(away.blocked) == "0-3"
    assert [str(share.cpus) for share in away.leaving] == ["2-3"]


@pytest.mark.parametrize("order", [ev.NodeOrder.DRAIN, ev.NodeOrder.LEAVE])
def test_a_node_that_is_to_go_is_not_expected_back(order: ev.NodeOrder) -> None:
    stage = Stage(200)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-1")
    stage.submit("b")
    stage.order("n0", order)
    stage.silent("n0")
    assert stage.core.snapshot(stage.now_ns).away == ()


def test_all_nodes_are_away_after_a_start_until_they_are_heard_of() -> None:
    stage = Stage(200)
    stage.up("n0", "n1")
    stage.submit("b")
    stage.start(epoch=2)
    assert len(stage.core.snapshot(stage.now_ns).away) == 2
    stage.connect("n0")
    stage.leased("n0")
    seen = stage.core.snapshot(stage.now_ns)
    assert [view.spec.node_id for view in seen.away] == ["n1"]


def test_the_plan_after_a_lost_node_has_the_power_that_its_caps_free() -> None:
    stage = Stage(100)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=50)
    stage.silent("n0")
    state = stage.core.state
    while state.nodes[NodeId("n0")].state is not NodeState.DOWN:
        stage.after(1)
    assert stage.charge_w("n0") == BASE_W + 50, "its caps still count for an averaging window"
    assert stage.core.snapshot(stage.now_ns).reserved_uw == (BASE_W + FLOOR_W) * W
