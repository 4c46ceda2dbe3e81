"""The copy of the state in a worker knows which nodes change their power."""

from __future__ import annotations

import copy

from unit.core.test_core_sleep import Nodes

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.copies.replica import Replica, Update
from wattfold.coordinator.adapters.copies.replica_feed import _rest
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.node_power import PowerState
from wattfold.coordinator.core.rules.nodes import sleep


def update(stage: Nodes, number: int) -> Update:
    """All nodes of a stage, as objects of their own."""
    state = stage.core.state
    nodes = copy.deepcopy(list(state.nodes.values()))
    return Update(
        number=number,
        rest=_rest(state),
        fixed_uw=state.index.fixed_uw,
        nodes=tuple((node, state.ledger.accounts.get(node.node_id)) for node in nodes),
        node_specs={node.node_id: node.spec for node in nodes},
    )


def test_a_node_that_was_called_reserves_its_boot_in_the_copy() -> None:
    stage = Nodes(90, "n0", "n1")
    stage.asleep("n1")
    stage.run_job("a", "n0:0-3")
    replica = Replica()
    replica.take(update(stage, 0))
    stage.order("n1", NodeOrder.WAKE)
    assert stage.power("n1") is PowerState.CALLED
    replica.take(update(stage, 1))
    copied = replica.state.nodes[NodeId("n1")]
    known = stage.core.state
    assert replica.state.index.switching == {NodeId("n1"): copied}
    assert sleep.reserve_uw(replica.state, copied) == sleep.reserve_uw(known, stage.node("n1"))
    stage.order("n1", NodeOrder.SLEEP)
    replica.take(update(stage, 2))
    assert not replica.state.index.switching
