"""Whether a starting coordinator may command its nodes: no other one knows more than its journal.

A journal can be an old copy: a cloned machine, a folder that was copied to a new head node, a
snapshot. The copy looks like the original, but agents remember the coordinator that they obey: its
highest epoch, its instance, and the number of the last event that it had on disk. So the agents are
asked before any command. After the start of the new epoch, a few agents are taken over one after
the other, in the order of their names. If two coordinators start at once, the first agent that both
reach refuses one of them, before any cap has changed. A node that did not answer before the start
is asked at its first contact, because the network may have been in two parts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from wattfold.contract.ids import EPOCH_MAX, Epoch, NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.agents.calls import FencedError
from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logging.getLogger("wattfold.coordinator")

AT_ONCE = 64
ASK_S = 5.0
"""Maximum wait for all answers, in seconds. A later node refuses the first command instead."""
TAKEN_FIRST = 3
"""More than one, because two coordinators may not reach the same nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The coordinator that a node obeys; epoch 0 = none yet."""

    node_id: NodeId
    epoch: int
    instance: str = ""
    journal_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWriter:
    """The last coordinator that wrote the journal, and its last event."""

    epoch: int
    instance: str
    last_number: int


class AgentContacts:
    """Access of a starting coordinator to the agents."""

    def __init__(self, addresses: Mapping[NodeId, str], token: str, timeout_s: float) -> None:
        self._addresses = addresses
        self._metadata = channels.metadata(token)
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def ask(self) -> list[Told]:
        """Return the answers that arrive in time, sorted by node name."""
        asking = [asyncio.create_task(self._ask(node_id)) for node_id in sorted(self._addresses)]
        if not asking:
            return []
        done, late = await asyncio.wait(asking, timeout=ASK_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        found = [task.result() for task in asking if task in done]
        return [told for told in found if told is not None]

    async def take_first(self, told: list[Told], header: common_pb2.CommandHeader) -> None:
        """Take command of some of the nodes that answered. Raises FencedError if a node refuses."""
        for node in told[:TAKEN_FIRST]:
            try:
                await self._inventory(node.node_id, pb.GetInventoryRequest(header=header))
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.ABORTED:
                    raise FencedError(
                        f"agent {node.node_id} obeys another coordinator that has just started: "
                        f"{error.details()}"
                    ) from error
                log.info(line("node_not_taken", node=node.node_id, reason=error.details()))

    async def _ask(self, node_id: NodeId) -> Told | None:
        async with self._turns:
            try:
                found = await self._inventory(node_id, pb.GetInventoryRequest())
            except grpc.aio.AioRpcError:
                return None  # Its link reports the failure, repeatedly.
        if found.epoch > EPOCH_MAX:
            return None  # The same: no coordinator has begun it.
        return _told(node_id, found)

    async def _inventory(self, node_id: NodeId, request: pb.GetInventoryRequest) -> pb.Inventory:
        async with _stub(self._addresses[node_id]) as stub:
            found: pb.Inventory = channels.readable(
                await stub.GetInventory(request, timeout=self._timeout_s, metadata=self._metadata)
            )
        return found


class Unasked:
    """Nodes of the journal that have not said yet whether it lacks something that they know."""

    def __init__(
        self, known: LastWriter, nodes: Collection[NodeId], told: Collection[Told]
    ) -> None:
        self._known = known
        self._left = set(nodes) - {node.node_id for node in told}

    async def ask(self, node_id: NodeId, inventory: Callable[[], Awaitable[pb.Inventory]]) -> None:
        """Ask a node at its first contact, before it obeys. Raises FencedError, AioRpcError."""
        if node_id not in self._left:
            return
        found = await inventory()
        if found.epoch > EPOCH_MAX:
            return  # No coordinator has begun it; the contact will refuse this node.
        if reason := lacking(self._known, [_told(node_id, found)]):
            raise refusal(reason)
        self._left.discard(node_id)


def _told(node_id: NodeId, found: pb.Inventory) -> Told:
    return Told(
        node_id=node_id,
        epoch=found.epoch,
        instance=found.coordinator_id,
        journal_number=found.journal_number,
    )


@asynccontextmanager
async def _stub(address: str) -> AsyncIterator[Any]:
    channel = channels.open_channel(address)
    try:
        yield channels.agent_stub(channel)
    finally:
        await channel.close()


def lacking(known: LastWriter, told: list[Told]) -> str:
    """What nodes know of a coordinator and the journal does not; empty = nothing."""
    if not told:
        return ""
    most = max(told, key=lambda node: (node.epoch, node.journal_number))
    if most.epoch > known.epoch:
        return (
            f"agent {most.node_id} obeys another coordinator with epoch {most.epoch}, and the "
            f"last epoch of this journal is {known.epoch}"
        )
    same = [node for node in told if node.epoch == known.epoch and node.epoch]
    if others := [node for node in same if node.instance not in ("", known.instance)]:
        return (
            f"agent {others[0].node_id} obeys another coordinator with epoch {known.epoch}, the "
            "last of this journal"
        )
    if most.epoch == known.epoch and most.journal_number > known.last_number:
        return (
            f"agent {most.node_id} was commanded after event {most.journal_number}, and the last "
            f"event of this journal is {known.last_number}"
        )
    return ""


def refusal(reason: str) -> FencedError:
    """Return the error of a refused start. It explains what an operator can do."""
    return FencedError(
        f"{reason}. So this state folder is an older copy, or another coordinator commands these "
        "nodes. Start the coordinator whose folder is newer. If that one is gone for good, start "
        "this one with --moved: it then takes command, and holds the waiting jobs, which may have "
        "run since"
    )


def unanswered(nodes: Collection[NodeId], told: Collection[Told]) -> str:
    """Why a coordinator that replaces another one counts as late: some nodes did not answer."""
    left = sorted(set(nodes) - {node.node_id for node in told})
    more = f" and {len(left) - 5} more" if len(left) > 5 else ""
    return f"{', '.join(left[:5])}{more} did not answer" if left else ""


def next_epoch(told: list[Told], first_epoch: int) -> Epoch:
    """Return the smallest epoch for a start: higher than every epoch that the nodes know."""
    return Epoch(max([first_epoch, *(node.epoch + 1 for node in told)]))
