"""Requests of operators about nodes, checked here and decided by the core."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.copies import site_messages
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.node import GIVEN_BACK, Node
from wattfold.coordinator.core.rules.nodes import decided_sleep, leave, node_orders
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

REASON_LENGTH_MAX = 200
_WORDS = {
    pb.FORGET_WORD_NO_POWER: NodeOrder.FORGET_UNPOWERED,
    pb.FORGET_WORD_OUTSIDE_BUDGET: NodeOrder.FORGET_OUTSIDE,
}


class NodeRequests(coordinator_pb2_grpc.CoordinatorServicer):
    """The part of the coordinator's service for nodes."""

    _service: Service
    _seen: Observations
    switches_power: bool = False
    """Whether the site has programs that switch nodes."""

    @property
    def _state(self) -> State:
        return self._service.core.state

    async def _request(self, event: ev.Event, context: Any) -> None:
        raise NotImplementedError

    async def DrainNode(self, request: pb.DrainNodeRequest, context: Any) -> pb.DrainNodeResponse:
        """Drain a node: start no new jobs on it."""
        node = await self._order(request.node_id, NodeOrder.DRAIN, request.reason, context)
        for job in leave.jobs_there(self._state, node) if request.cancel_jobs else ():
            await self._request(ev.JobCancelRequested(job_id=job.job_id), context)
        return pb.DrainNodeResponse(node=self._node_message(node))

    async def ResumeNode(
        self, request: pb.ResumeNodeRequest, context: Any
    ) -> pb.ResumeNodeResponse:
        """Return a node to service."""
        node = await self._order(request.node_id, NodeOrder.RESUME, request.reason, context)
        return pb.ResumeNodeResponse(node=self._node_message(node))

    async def LeaveNode(self, request: pb.LeaveNodeRequest, context: Any) -> pb.LeaveNodeResponse:
        """Restore the original limits of a node as soon as this is safe."""
        if request.at_once:
            node = await self._named(request.node_id, context)
            refused = node_orders.refusal(node, NodeOrder.LEAVE)
            if not refused and node.duty not in GIVEN_BACK:
                refused = leave.obstacle(self._state, node)
            if refused:
                await _refuse(context, f"node {node.node_id} cannot leave now: {refused}")
        node = await self._order(request.node_id, NodeOrder.LEAVE, request.reason, context)
        return pb.LeaveNodeResponse(node=self._node_message(node))

    async def ForgetNode(
        self, request: pb.ForgetNodeRequest, context: Any
    ) -> pb.ForgetNodeResponse:
        """Remove a node from the ledger on an operator's responsibility."""
        order = _WORDS.get(request.word)
        if order is None:
            text = (
                "state why the node is removed: it has no power (--no-power), or its power "
                "is outside this budget (--outside-budget)"
            )
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
            raise AssertionError("abort returned")
        node = await self._order(request.node_id, order, request.reason, context)
        answer = pb.ForgetNodeResponse(node=self._node_message(node))
        if last := self._seen.last.get(node.node_id):
            answer.last_power_uw = last.power_uw
            answer.last_heard_s = self._service.clock.wall_s(last.taken_ns)
        return answer

    async def SleepNode(self, request: pb.SleepNodeRequest, context: Any) -> pb.SleepNodeResponse:
        """Suspend a node as soon as no job is on it."""
        await self._check_switchable(context)
        node = await self._order(request.node_id, NodeOrder.SLEEP, "", context)
        return pb.SleepNodeResponse(node=self._node_message(node))

    async def WakeNode(self, request: pb.WakeNodeRequest, context: Any) -> pb.WakeNodeResponse:
        """Start a node as soon as its boot fits under the budget."""
        await self._check_switchable(context)
        node = await self._order(request.node_id, NodeOrder.WAKE, "", context)
        return pb.WakeNodeResponse(node=self._node_message(node))

    async def DecideNodeSleep(
        self, request: pb.DecideNodeSleepRequest, context: Any
    ) -> pb.DecideNodeSleepResponse:
        """Let plans decide again whether a node sleeps."""
        await self._check_decides(context)
        node = await self._order(request.node_id, NodeOrder.DECIDE, "", context)
        return pb.DecideNodeSleepResponse(node=self._node_message(node))

    async def KeepNodesAwake(
        self, request: pb.KeepNodesAwakeRequest, context: Any
    ) -> pb.KeepNodesAwakeResponse:
        """Keep a number of nodes without jobs awake."""
        await self._check_decides(context)
        await self._request(ev.SpareNodesKept(nodes=request.nodes), context)
        return pb.KeepNodesAwakeResponse(nodes=self._state.keep_awake)

    async def _check_decides(self, context: Any) -> None:
        await self._check_switchable(context)
        if not self._state.settings.sleep.decides:
            await _refuse(
                context,
                "plans do not decide which nodes sleep; set decide = true in the table [power] of "
                "the configuration of the coordinator",
            )

    async def _check_switchable(self, context: Any) -> None:
        if not self.switches_power:
            await _refuse(
                context,
                "this coordinator cannot switch nodes; set suspend and resume in the table [power] "
                "of its configuration",
            )

    async def _order(self, node_id: str, order: NodeOrder, reason: str, context: Any) -> Node:
        node = await self._named(node_id, context)
        refused = node_orders.refusal(node, order)
        refused = refused or node_orders.announced_conflict(self._state, node, order)
        if refused:
            await _refuse(context, f"node {node.node_id}: {refused}")
        text = " ".join(reason.split())
        if len(text) > REASON_LENGTH_MAX or not text.isprintable():
            wrong = f"a reason must be one line of at most {REASON_LENGTH_MAX} printable characters"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, wrong)
        await self._request(ev.NodeOrdered(node_id=node.node_id, order=order, reason=text), context)
        return node

    async def _named(self, node_id: str, context: Any) -> Node:
        node = self._state.nodes.get(NodeId(node_id))
        if node is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no node {node_id!r}")
            raise AssertionError("abort returned")
        return node

    def _node_message(self, node: Node) -> pb.Node:
        waiting = decided_sleep.waiting_for_boots(self._state)
        sample = self._seen.nodes.get(node.node_id)
        return site_messages.node_message(self._state, node, sample, waiting)


async def _refuse(context: Any, text: str) -> NoReturn:
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
    raise AssertionError("abort returned")
