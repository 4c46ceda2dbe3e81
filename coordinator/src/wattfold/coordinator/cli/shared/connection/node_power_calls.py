"""Calls about nodes that sleep."""

from __future__ import annotations

from typing import Any

from wattfold.v1 import coordinator_pb2 as pb


class NodePowerCalls:
    """The part of the client that orders nodes to sleep and to wake."""

    _stub: Any

    def _call(self, method: Any, request: Any, timeout_s: float = 0.0) -> Any:
        raise NotImplementedError

    def sleep_node(self, node_id: str) -> pb.Node:
        """Suspend a node as soon as no job is on it."""
        answer: pb.SleepNodeResponse = self._call(
            self._stub.SleepNode, pb.SleepNodeRequest(node_id=node_id)
        )
        return answer.node

    def wake_node(self, node_id: str) -> pb.Node:
        """Start a node as soon as its boot fits under the budget."""
        answer: pb.WakeNodeResponse = self._call(
            self._stub.WakeNode, pb.WakeNodeRequest(node_id=node_id)
        )
        return answer.node

    def decide_node_sleep(self, node_id: str) -> pb.Node:
        """Let plans decide again whether a node sleeps."""
        answer: pb.DecideNodeSleepResponse = self._call(
            self._stub.DecideNodeSleep, pb.DecideNodeSleepRequest(node_id=node_id)
        )
        return answer.node

    def keep_nodes_awake(self, nodes: int) -> pb.KeepNodesAwakeResponse:
        """Keep a number of nodes without jobs awake."""
        answer: pb.KeepNodesAwakeResponse = self._call(
            self._stub.KeepNodesAwake, pb.KeepNodesAwakeRequest(nodes=nodes)
        )
        return answer
