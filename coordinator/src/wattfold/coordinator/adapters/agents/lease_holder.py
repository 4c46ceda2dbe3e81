"""Renewal of the leases of a killed coordinator until its successor has contacted the nodes.

Renewal begins before the replay of the journal, with the leases that `running_leases` finds there,
in the epoch of the killed coordinator. An agent that has received a command of the new epoch
refuses them. After the start of the new epoch, renewal continues for nodes without contact as long
as the core permits it (`core.rules.held_leases`). It is an optimisation: if it fails, caps fall to
their floors.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable

import grpc
import grpc.aio

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.journal.running_leases import RunningLeases
from wattfold.coordinator.core.rules.nodes import held_leases
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb

log = logging.getLogger("wattfold.coordinator")

AT_ONCE = 32
ROUNDS_A_LEASE = 3
FIRST_ROUND_S = 3.0
"""Maximum wait for the first round, because the replay after it leaves few turns for renewal."""


class LeaseHolder:
    """Renews leases. ``held`` are the nodes that have renewed a lease."""

    def __init__(self, token: str, coordinator_id: str) -> None:
        self.held: set[NodeId] = set()
        self._metadata = channels.metadata(token)
        self._coordinator_id = coordinator_id
        self._name = uuid.uuid4().hex
        self._requests = 0
        self._leases: RunningLeases | None = None
        self._addresses: dict[NodeId, str] = {}
        self._may_renew: Callable[[NodeId], bool] = lambda _: True
        self._channels: dict[NodeId, grpc.aio.Channel] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._first_round = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def begin(self, leases: RunningLeases | None) -> None:
        """Begin to renew the leases, if any, and wait up to `FIRST_ROUND_S` for the first round."""
        if leases is None:
            return
        self._leases, self._addresses = leases, dict(leases.addresses)
        self._running = asyncio.create_task(self._run(leases))
        self._running.add_done_callback(_log_defect)
        first = asyncio.create_task(self._first_round.wait())
        ends = asyncio.FIRST_COMPLETED
        await asyncio.wait([self._running, first], timeout=FIRST_ROUND_S, return_when=ends)
        first.cancel()
        known = len(leases.addresses)
        log.info(line("leases_held", nodes=len(self.held), of=known, epoch=leases.epoch))

    async def after_replay(self, state: State, now_ns: int) -> None:
        """Begin with the leases that the ledger permits, unless the journal alone had some."""
        known = [] if self._leases else held_leases.holdable(state, now_ns)
        leases = RunningLeases(
            epoch=state.epoch,
            lease_ns=state.lease_ns,
            command_timeout_ns=state.command_timeout_ns,
            addresses={node_id: state.nodes[node_id].address for node_id in known},
        )
        await self.begin(leases if known else None)

    def holdable(self, state: State, now_ns: int) -> list[NodeId]:
        """Return the nodes that have renewed a lease and whose renewal the ledger permits."""
        known = held_leases.holdable(state, now_ns) if self.held else []
        return [node_id for node_id in known if node_id in self.held]

    def restrict(self, may_renew: Callable[[NodeId], bool]) -> None:
        """Renew only the nodes that ``may_renew`` permits. It is called before every renewal."""
        self._may_renew = may_renew

    async def close(self) -> None:
        """End the renewal. Pending calls get no answer."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        for node_id in list(self._channels):
            await self._drop(node_id)

    async def _run(self, leases: RunningLeases) -> None:
        pause_s = leases.lease_ns / ROUNDS_A_LEASE / 1e9
        while self._addresses:
            began_s = time.monotonic()
            nodes = list(self._addresses)
            await asyncio.gather(*(self._renew_or_drop(node_id, leases) for node_id in nodes))
            self._first_round.set()
            await asyncio.sleep(max(began_s + pause_s - time.monotonic(), 0))

    async def _renew_or_drop(self, node_id: NodeId, leases: RunningLeases) -> None:
        async with self._turns:
            if self._may_renew(node_id):
                await self._renew(node_id, leases)
            else:
                await self._drop(node_id)

    async def _renew(self, node_id: NodeId, leases: RunningLeases) -> None:
        channel = self._channels.get(node_id)
        if channel is None:
            channel = channels.open_channel(self._addresses[node_id])
            self._channels[node_id] = channel
        self._requests += 1
        request = pb.RenewLeaseRequest(
            header=common_pb2.CommandHeader(
                epoch=leases.epoch,
                coordinator_id=self._coordinator_id,
                request_id=f"held-{self._name}-{self._requests}",
                cause="restart",
            ),
            duration_ns=leases.lease_ns,
        )
        stub = channels.agent_stub(channel)
        timeout_s = leases.command_timeout_ns / 1e9
        try:
            channels.readable(
                await stub.RenewLease(request, timeout=timeout_s, metadata=self._metadata)
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.ABORTED:
                # It obeys another coordinator, or the next epoch of this one.
                await self._drop(node_id)
            return
        self.held.add(node_id)

    async def _drop(self, node_id: NodeId) -> None:
        self._addresses.pop(node_id, None)
        channel = self._channels.pop(node_id, None)
        if channel is not None:
            await channel.close()


def _log_defect(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(line("lease_holder_failed", reason=repr(error)), exc_info=error)
