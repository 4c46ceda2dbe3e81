"""While committed power exceeds the limit, no charge becomes a real limit of a node."""

from __future__ import annotations

from unit.core.stage import LEASE_NS, PACKAGE, TIMEOUT_NS, Stage, W, leave

from wattfold.contract.ids import Epoch, NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev

NAMES = ("n0", "n1", "n2")


def in_doubt(stage: Stage) -> None:
    """Start again as a copy that took over: each node may hold its maximum, and n0 has answered."""
    nodes = tuple(map(NodeId, NAMES))
    stage.send(
        ev.CoordinatorStarted(
            epoch=Epoch(2), lease_ns=LEASE_NS, command_timeout_ns=TIMEOUT_NS, doubted=nodes
        )
    )


def test_a_doubted_node_gets_its_original_limits_back_only_within_the_limit() -> None:
    stage = Stage(100)
    stage.up(*NAMES)
    in_doubt(stage)
    ledger = stage.core.state.ledger
    assert ledger.room_uw < 0
    stage.order("n0", ev.NodeOrder.LEAVE)
    # Its charge contains its original limits already, so the order would need no power.
    assert leave("n0") not in stage.connect("n0")
    assert leave("n0") not in stage.leased("n0")
    if ledger.room_uw < 0:
        assert leave("n0") not in stage.after(1)
    sent: list[act.Action] = []
    for name in ("n1", "n2"):
        sent += stage.connect(name)
        sent += stage.leased(name)
    for _ in range(5):
        sent += stage.after(1)
    assert leave("n0") in sent
    assert ledger.room_uw >= 0


def test_a_doubted_zone_is_not_raised_to_what_it_may_hold() -> None:
    stage = Stage(100)
    stage.up(*NAMES)
    in_doubt(stage)
    ledger, node = stage.core.state.ledger, NodeId("n0")
    raised = {PACKAGE: 50 * W}
    assert ledger.increase_uw(node, raised) == 0
    assert not ledger.may_raise(node, raised)
