"""Answers about the power of nodes in any order, for the state machine of all events."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from unit.core.stage import Stage, W

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.node_power import PowerState

NODES = [NodeId("n0"), NodeId("n1"), NodeId("n2")]


def check_power(stage: Stage) -> None:
    """Check that a node that may have power is charged with its boot, or with its caps.

    Only a node that was seen without power, and was not ordered to start since, is charged with
    less.
    """
    for node in stage.core.state.nodes.values():
        account = stage.core.state.ledger.accounts.get(node.node_id)
        if account is None:
            assert not node.dark
        elif node.power in (PowerState.ASLEEP, PowerState.CALLED):
            assert node.dark
            assert not node.reachable
        else:
            assert account.charge_uw >= (40 * W if node.dark else 20 * W)


class AnyPower:
    """Answers orders to suspend and to start nodes."""

    stage: Stage

    @rule(node=st.sampled_from(NODES), error=st.sampled_from(["", "", "no"]))
    def answer_power(self, node: NodeId, error: str) -> None:
        request = self.stage.core.state.nodes[node].power_request
        self.stage.send(reports.PowerAnswered(node_id=node, request_id=request, error=error))
        check_power(self.stage)
